"""NVIDIA GPUs as a kind of device; see `autotune.runtime.device.Backend`.

To compile needs NVRTC, and neither a driver nor a GPU. What writes code and what
runs it is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.errors import UsageError
from autotune.ir.stmt import PrimFunc
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.device.device_properties import gpu_facts
from autotune.runtime.cuda.gpu_arrays import device_of, stream_beside
from autotune.runtime.cuda.gpu_function import GpuConstants, GPUFunction
from autotune.runtime.cuda.gpu_program import GpuProgram, arch_for
from autotune.runtime.device import Host, Loop
from autotune.target import Target

if TYPE_CHECKING:
    from autotune.lowering.lift_constants import PreparedFunction
    from autotune.runtime.cuda.device.cuda_device import CudaDevice


def preload() -> None:
    """Import the modules that the other functions import late."""
    from autotune.runtime.cuda import gpu_source
    from autotune.runtime.cuda.device import cuda_device

    _ = gpu_source, cuda_device


def facts(target: Target) -> dict[str, Any]:
    """Describe the GPU that a target names, as a child process finds it out; asked once."""
    return gpu_facts(target)


def compile_binary(function: PrimFunc, target: Target, arch: str | None = None) -> GpuProgram:
    """Compile a function in final form with NVRTC, by default for the target's architecture."""
    from autotune.runtime.cuda.gpu_source import gpu_source

    return gpu_source(function).compiled(arch or arch_for(target))


def build_function(
    function: PreparedFunction, target: Target, constants: Sequence[Host]
) -> GPUFunction:
    """Return a function in final form, which prepares its constants at its first call on a GPU."""
    from autotune.runtime.cuda.gpu_source import gpu_source

    main, *prepare = map(gpu_source, function.functions)
    if main.copied or main.scratch:
        raise UsageError(
            f"{main.signature.name}: a kernel as text that changes its inputs is measured, and not "
            "built: launch it with autotune.rtc.launch"
        )
    if not function.constants:
        return GPUFunction(main, target)
    places = tuple(function.constants.index(position) for position in function.kept)
    given = GpuConstants(tuple(constants), places, prepare[0] if prepare else None)
    return GPUFunction(main, target, given)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], beside: Sequence[Any]) -> Any:
    """Return a new array of CuPy on the GPU of other arrays, without any on the first."""
    return cupy_driver.empty(shape, dtype, device_of(beside[0]) if beside else 0)


def loop(arrays: Sequence[Any]) -> Loop:
    """Return what times calls by events on the stream that arrays are used on."""
    from autotune.runtime.cuda.device.cuda_device import Stopwatch

    device = device_of(arrays[0]) if arrays else 0
    with cupy_driver.cupy().cuda.Device(device):
        stream = cupy_driver.stream_of(stream_beside(arrays), device)
        l2_bytes = cupy_driver.facts_of(device)["l2_bytes"]
        return Stopwatch(cupy_driver.cupy(), stream, l2_bytes).seconds


def contiguous(array: Any) -> Any:
    """Return an array C-contiguous: a copy by CuPy, if it says that it is not yet."""
    is_so = getattr(getattr(array, "flags", None), "c_contiguous", True)
    return array if is_so else cupy_driver.contiguous(array)


def take_device(target: Target) -> CudaDevice:
    """Make a GPU this process's own: with a context, and a stream that none shares."""
    from autotune.runtime.cuda.device.cuda_device import CudaDevice

    return CudaDevice(target)
