"""A compiled function in the memory of one GPU, launched on addresses; see `GPUFunction`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence

from autotune.errors import TargetError
from autotune.ir import dtypes
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_program import GpuProgram
from autotune.runtime.cuda.launch_limits import check_launch


class LoadedProgram:
    """A compiled function of arrays of fixed sizes, on one GPU.

    Parameters
    ----------
    program : GpuProgram
    device : int
        Number of the GPU, the current one.

    Raises
    ------
    LaunchError
        If the driver refuses the code.
    TargetError
        If the GPU is another than it was compiled for, or not there.
    """

    def __init__(self, program: GpuProgram, device: int) -> None:
        there = cupy_driver.arch_of(device)
        if not cupy_driver.runs_on(program.cubin.arch, there):
            raise TargetError(
                f"{program.signature.name} was built for {program.cubin.arch}, and cuda:{device} "
                f"is {there}: build it for -arch={there}"
            )
        self._program = program
        self._device = device
        self._kernels = [
            cupy_driver.LoadedKernel(program.cubin, launch.symbol, device)
            for launch in program.launches
        ]

    def bind(self, addresses: Sequence[int], stream: int) -> Callable[[], None]:
        """Return a call that launches all its kernels and waits for none.

        Parameters
        ----------
        addresses : sequence of int
            Of its arrays, inputs then outputs.
        stream : int
            Handle of the stream.

        Raises
        ------
        LaunchError
            If the device does not allow a launch.
        """
        sizes = [
            math.prod(p.fixed or ()) * dtypes.itemsize(p.dtype) for p in self._program.workspace
        ]
        memory = [cupy_driver.empty((size,), "uint8", self._device) for size in sizes]
        pointers = [*addresses, *(int(array.data.ptr) for array in memory)]
        limits = cupy_driver.limits_of(self._device)
        where = f"cuda:{self._device} ({cupy_driver.arch_of(self._device)})"
        calls = []
        for kernel, launch in zip(self._kernels, self._program.launches, strict=True):
            at = launch.at({})
            if at is None:
                continue
            check_launch(launch.symbol, at, kernel.usage, limits, where)
            values = [ctypes.c_uint64(pointers[number]) for number in launch.arrays]
            calls.append(kernel.bound(at.grid, at.block, at.shared_bytes, stream, values))
        if len(calls) == 1 and not memory:
            return calls[0]

        def call(_held: object = memory) -> None:
            for launch in calls:
                launch()

        return call
