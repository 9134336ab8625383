"""Arguments of a GPU kernel as the bytes that its parameters take."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.errors import ArgumentError
from autotune.runtime.cuda.gpu_arrays import gpu_array, is_array

Bytes = ctypes.Array[ctypes.c_uint8]


def packed_arguments(
    kernel: str, parameter_bytes: Sequence[int], args: Sequence[Any], device: int, stream: int
) -> list[Bytes]:
    """Return the bytes of each argument.

    `kernel`: the kernel's name, for messages.
    `parameter_bytes`: sizes of its parameters.
    `args`: arrays of the GPU, NumPy numbers, ctypes data, bytes, and Python's whole numbers.
    `device`, `stream`: number of the GPU, and handle of the stream, that the kernel runs on.

    Raises ArgumentError if their number or a size does not fit, or one cannot be handed over.
    """
    if len(args) != len(parameter_bytes):
        raise ArgumentError(
            f"{kernel}: the kernel has {len(parameter_bytes)} parameters, got {len(args)} arguments"
        )
    packed = []
    for number, (value, size) in enumerate(zip(args, parameter_bytes, strict=True), start=1):
        try:
            data = _packed(value, size, device, stream)
            if len(data) != size:
                raise ArgumentError(
                    f"must have the {size} bytes of the kernel's parameter, got {value!r} "
                    f"of {len(data)}"
                )
        except ArgumentError as error:
            raise ArgumentError(f"{kernel}: argument {number} {error}") from None
        packed.append((ctypes.c_uint8 * size).from_buffer_copy(data))
    return packed


def _packed(value: Any, size: int, device: int, stream: int) -> bytes:
    if is_array(value):
        return np.uint64(gpu_array(value, device, stream).address).tobytes()
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, (bytes, ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
        return bytes(value)
    if isinstance(value, int):
        try:
            return value.to_bytes(size, "little", signed=True)
        except OverflowError:
            raise ArgumentError(
                f"must fit in the {size} bytes of the kernel's parameter, got {value}: use "
                "numpy.uint32 or numpy.uint64 for one without a sign"
            ) from None
    if isinstance(value, float):
        raise ArgumentError(f"must say its type, got {value!r}: use numpy.float32 or numpy.float64")
    raise ArgumentError(
        f"must be an array, a NumPy number, a whole number, bytes or ctypes data, got {value!r}"
    )
