"""A compiled function in the memory of one GPU, launched on addresses; see `GPUFunction`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autotune.errors import TargetError
from autotune.ir import dtypes
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_program import GpuProgram
from autotune.runtime.cuda.kernel_arguments import packed_arguments
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


class LoadedProgram:
    """A compiled function on one GPU.

    `device`: number of the GPU.

    Raises LaunchError if the driver refuses the code. Raises TargetError if the GPU is another than
    it was compiled for, or not there.
    """

    def __init__(self, program: GpuProgram, device: int) -> None:
        check_arch(program.signature.name, program.cubin.arch, device)
        self._program = program
        self._device = device
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
                given: list[np.generic] = [np.uint64(pointers[n]) for n in launch.arrays]
                given += [np.int64(sizes[name]) for name in launch.sizes]
                calls.append(bind_kernel(kernel, launch.symbol, at, given, stream))
        if len(calls) == 1 and not memory:
            return calls[0]

        def call(_held: object = memory) -> None:
            for launch in calls:
                launch()

        return call
