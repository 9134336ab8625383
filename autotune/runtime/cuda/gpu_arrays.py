"""Arrays in a GPU's memory, of any library, as an address with shape and type; never copied."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.errors import ArgumentError
from autotune.ir import dtypes
from autotune.runtime.cuda.cupy_driver import device_of_address
from autotune.runtime.foreign_arrays import library_of, open_dlpack, refusals

_CUDA_DEVICES = (2, 13)  # DLPack's numbers for CUDA's own and managed memory.


@dataclass(frozen=True)
class GpuArray:
    """An array in a GPU's memory."""

    #: Of its first element.
    address: int
    shape: tuple[int, ...]
    #: Type of its elements, as in `autotune.ir.dtypes`.
    dtype: str
    #: Number of the GPU.
    device: int
    writeable: bool
    #: What keeps the memory alive.
    owner: object
    #: By how many elements its dimensions lie apart; None if it is C-contiguous.
    strides: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.size * dtypes.itemsize(self.dtype)


def is_array(value: object) -> bool:
    """Whether a value offers memory, of a GPU or the CPU, and so is no number."""
    protocols = ("__cuda_array_interface__", "__dlpack__", "__array_interface__")
    return isinstance(value, GpuArray) or (
        not isinstance(value, np.generic) and any(hasattr(value, name) for name in protocols)
    )


def device_of(array: Any) -> int:
    """Return the number of the GPU that an array is on; 0 if it is on none."""
    if isinstance(array, GpuArray):
        return array.device
    if hasattr(array, "__dlpack_device__"):
        where, number = array.__dlpack_device__()
        return int(number) if int(where) in _CUDA_DEVICES else 0
    interface = getattr(array, "__cuda_array_interface__", None)
    found = device_of_address(interface["data"][0]) if interface else None
    return found or 0


def stream_beside(arrays: Sequence[Any]) -> Any:
    """Return the stream that kernels on some arrays belong on; None is CuPy's current one.

    It is PyTorch's current one if the first array is a tensor: what PyTorch does with the outputs
    comes after the kernels then, and what it did before.
    """
    if not arrays or library_of(arrays[0]) != "torch":
        return None
    return sys.modules["torch"].cuda.current_stream(arrays[0].device)


def gpu_array(array: Any, device: int, stream: int, strided: bool = False) -> GpuArray:
    """Return any array in a GPU's memory as an address on the same memory.

    `array`: has ``__dlpack__`` or ``__cuda_array_interface__``, or is a `GpuArray`.
    `device`: the GPU it must be on.
    `stream`: handle of the stream that will use it.
    `strided`: whether it need not be C-contiguous.

    Raises ArgumentError if it is no such array, is elsewhere, or is not C-contiguous; without the
    argument's name.
    """
    kind = type(array).__name__
    found: GpuArray | None = None
    with refusals(array):
        if isinstance(array, GpuArray):
            found = array
        elif hasattr(array, "__dlpack_device__"):
            found = _from_dlpack(array, stream)
        elif hasattr(array, "__cuda_array_interface__"):
            found = _from_interface(array, device)
    if found is None:
        raise ArgumentError(
            f"must be in the memory of cuda:{device}, got {kind} in the CPU's: cupy.asarray "
            "copies it to the GPU"
        )
    if found.device != device:
        raise ArgumentError(
            f"must be in the memory of cuda:{device}, got {kind} on cuda:{found.device}: copy it, "
            f"or get the kernel for that device"
        )
    if found.strides is not None and not strided:
        raise ArgumentError(
            f"must be C-contiguous, got strides of {found.strides} elements for shape "
            f"{found.shape}: cupy.ascontiguousarray makes a copy that is"
        )
    return found


def named_array(
    label: str, array: Any, device: int, stream: int, strided: bool = False
) -> GpuArray:
    """As `gpu_array`, with the argument's name in messages."""
    try:
        return gpu_array(array, device, stream, strided)
    except ArgumentError as error:
        raise ArgumentError(f"{label} {error}") from None


def _from_dlpack(array: Any, stream: int) -> GpuArray | None:
    where, number = (int(part) for part in array.__dlpack_device__())
    if where not in _CUDA_DEVICES:
        return None
    # DLPack calls the default stream 1, as 0 could mean others.
    owner, tensor, read_only = open_dlpack(array, stream=stream or 1)
    dtype = _known(tensor.dtype)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    given = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    strides = _unless_contiguous(shape, given)
    return GpuArray(address, shape, dtype, number, not read_only, (array, owner), strides)


def _from_interface(array: Any, wanted: int) -> GpuArray | None:
    """Read version 3 of the interface, and earlier ones, which have no streams."""
    interface = array.__cuda_array_interface__
    address, read_only = interface["data"]
    shape = tuple(interface["shape"])
    dtype = _known(np.dtype(interface["typestr"]).name)
    itemsize = dtypes.itemsize(dtype)
    strides = interface.get("strides")
    if strides is not None:
        strides = _unless_contiguous(shape, tuple(stride // itemsize for stride in strides))
    device = device_of_address(address)
    if device is None and math.prod(shape):
        return None
    device = wanted if device is None else device  # an empty array has no memory
    return GpuArray(address, shape, dtype, device, not read_only, array, strides)


def _known(dtype: str) -> str:
    if dtype not in dtypes.ALL:
        raise ArgumentError(f"must have a dtype of {', '.join(dtypes.ALL)}, got {dtype}")
    return dtype


def _unless_contiguous(
    shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Return strides, in elements; None if the array is contiguous."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides or ()), strict=False):
        if extent > 1 and stride != expected and 0 not in shape:
            return strides
        expected *= extent
    return None
