"""Constant inputs of a function on a GPU, and what is computed once from them alone.

See `autotune.lowering.split_constants`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.ir import dtypes
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_program import GpuSource
from autotune.runtime.cuda.loaded_program import LoadedProgram
from autotune.runtime.device import DeviceArray, Host
from autotune.runtime.signature import ArrayParameter


@dataclass(frozen=True)
class GpuConstants:
    """The constant inputs of a function."""

    #: All of them, in order.
    arrays: tuple[Host, ...]
    #: Those that the function itself takes.
    kept: tuple[int, ...]
    #: Computes from them the arrays that the function takes after these.
    prepare: GpuSource | None

    @property
    def count(self) -> int:
        """Number of arrays that the function takes after those of its calls."""
        outputs = () if self.prepare is None else self.prepare.signature.parameters
        return len(self.kept) + sum(p.is_output for p in outputs)

    def on(self, device: int, arch: str) -> list[DeviceArray]:
        """Return these arrays in the memory of a GPU; waits until they are computed.

        Raises CompileError or LaunchError or TargetError as `GpuSource.compiled`, and if the launch
        fails.
        """
        arrays, made = cupy_driver.copied(self.arrays, device), list[DeviceArray]()
        with cupy_driver.cupy().cuda.Device(device) as used:
            if self.prepare is not None:
                made = [_new(p, device) for p in self.prepare.signature.parameters[len(arrays) :]]
                addresses = [int(array.data.ptr) for array in (*arrays, *made)]
                program = LoadedProgram(self.prepare.compiled(arch), device)
                program.bind(addresses, cupy_driver.stream_handle(None, device))()
            used.synchronize()
        return [*(arrays[number] for number in self.kept), *made]


def _new(parameter: ArrayParameter, device: int) -> DeviceArray:
    count = math.prod(parameter.fixed or ()) * dtypes.itemsize(parameter.dtype)
    return cupy_driver.empty((count,), "uint8", device)
