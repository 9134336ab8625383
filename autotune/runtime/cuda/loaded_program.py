"""A compiled function in the memory of one GPU, launched on addresses; see `GPUFunction`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autotune.errors import ArgumentError, TargetError
from autotune.ir import dtypes
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_arrays import gpu_array, is_array
from autotune.runtime.cuda.gpu_program import GpuProgram
from autotune.runtime.cuda.launch_limits import LaunchSizes, check_launch
from autotune.runtime.signature import extent_value


def check_arch(name: str, arch: str, device: int) -> None:
    """Raise TargetError if a GPU does not run the code of an architecture."""
    there = cupy_driver.arch_of(device)
    if not cupy_driver.runs_on(arch, there):
        raise TargetError(
            f"{name} was built for {arch}, and cuda:{device} is {there}: build it for -arch={there}"
        )


def bind_kernel(
    kernel: cupy_driver.LoadedKernel,
    name: str,
    sizes: LaunchSizes,
    args: Sequence[Any],
    stream: int,
) -> Callable[[], None]:
    """Return a launch of a kernel, once its sizes and arguments are checked.

    Its GPU must be the current one, now and then.

    `name`: for messages.
    `args`: as of `packed_arguments`.
    `stream`: handle of the stream.

    Raises LaunchError if the device does not allow the launch. Raises ArgumentError if the kernel
    does not take these arguments.
    """
    device = kernel.device
    where = f"cuda:{device} ({cupy_driver.arch_of(device)})"
    check_launch(name, sizes, kernel.usage, cupy_driver.limits_of(device), where)
    values = packed_arguments(name, kernel.usage.parameter_bytes, args, device, stream)
    return kernel.bound(sizes, stream, values)


def packed_arguments(
    kernel: str, parameter_bytes: Sequence[int], args: Sequence[Any], device: int, stream: int
) -> list[ctypes.Array[ctypes.c_uint8]]:
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


def _by_value(dtype: str, value: int | float) -> np.generic:
    number: np.generic = np.dtype(dtype).type(value)
    return number


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


class LoadedProgram:
    """A compiled function on one GPU.

    `device`: number of the GPU.

    `copied`: arrays that its kernels change in place, as of `CallForm`.
    `scratch_inputs`: inputs that they may overwrite, which the caller gives copies of.

    Raises LaunchError if the driver refuses the code. Raises TargetError if the GPU is another than
    it was compiled for, or not there.
    """

    def __init__(self, program: GpuProgram, device: int) -> None:
        check_arch(program.signature.name, program.cubin.arch, device)
        self._program = program
        self._device = device
        self.copied, self.scratch_inputs = program.copied, program.scratch
        self._kernels = [
            cupy_driver.LoadedKernel(program.cubin, launch.symbol, device)
            for launch in program.launches
        ]

    def bind(
        self, addresses: Sequence[int], stream: int, sizes: Mapping[str, int] | None = None
    ) -> Callable[[], None]:
        """Return a call that launches all its kernels and waits for none.

        The GPU must be the current one, now and then. Arrays that kernels hand on are made here;
        CuPy gives freed memory to later work of the same stream only.

        `addresses`: of its arrays, inputs then outputs.
        `stream`: handle of the stream.
        `sizes`: what calls read off the arrays; none for a function of fixed sizes.

        Raises LaunchError if the device does not allow a launch. Raises ArgumentError if a kernel
        does not take these arrays and sizes.
        """
        sizes, device = sizes or {}, self._device
        memory = []
        for parameter in self._program.workspace:
            shape = (extent_value(extent, sizes) for extent in parameter.shape)
            count = math.prod(shape) * dtypes.itemsize(parameter.dtype)
            memory.append(cupy_driver.empty((count,), "uint8", device))
        pointers = [*addresses, *(int(array.data.ptr) for array in memory)]
        calls = []
        for kernel, launch in zip(self._kernels, self._program.launches, strict=True):
            at = launch.at(sizes)
            if at is not None:
                given = [
                    np.uint64(pointers[one]) if isinstance(one, int) else _by_value(*one)
                    for one in launch.arguments
                ]
                given += [np.int64(sizes[name]) for name in launch.sizes]
                calls.append(bind_kernel(kernel, launch.symbol, at, given, stream))
        if len(calls) == 1 and not memory:
            return calls[0]

        def call(_held: object = memory) -> None:
            for launch in calls:
                launch()

        return call
