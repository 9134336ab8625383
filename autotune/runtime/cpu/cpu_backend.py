"""The processor as a kind of device; see `autotune.runtime.device.Backend`.

What it needs is imported when it is used: LLVM is not, where nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.ir import dtypes
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import is_raw
from autotune.runtime.cpu.aligned_arrays import aligned_zeros
from autotune.runtime.cpu.compiled_kernel import CpuBinary
from autotune.runtime.device import Host
from autotune.system.available_cpus import available_cpus, thread_count
from autotune.system.host import max_mhz, processor_model, processor_name
from autotune.system.words import printable
from autotune.target import Target

if TYPE_CHECKING:
    from autotune.lowering.lift_constants import PreparedFunction
    from autotune.runtime.cpu.c_compiler import LoadedObject, SharedObject
    from autotune.runtime.cpu.cpu_device import CpuDevice
    from autotune.runtime.cpu.llvm_compiler import CompiledFunction


def preload() -> None:
    """Import the modules that the other functions import late."""
    from autotune.runtime.cpu import cpu_device

    _ = cpu_device


def facts(target: Target) -> dict[str, Any]:
    """Describe the processor and the parts of it that a target uses; versions need no query."""
    device = {
        "kind": "cpu",
        "name": printable(processor_name()),
        "cores": available_cpus(),
        "threads": thread_count(target.threads),
        "vector_bytes": target.host.vector_bytes,
        "model": processor_model(),
        "max_mhz": max_mhz(),
    }
    known = {key: value for key, value in device.items() if value is not None}
    return {"device": known, "arch": None, "versions": {}}


def compile_binary(
    function: PrimFunc, target: Target, _arch: str | None = None
) -> CpuBinary | SharedObject:
    """Compile a function in final form with LLVM, or a kernel in C with the system's compiler."""
    if is_raw(function):
        from autotune.runtime.cpu.c_compiler import PreprocessedSource, compile_shared

        return compile_shared(PreprocessedSource.of(function), target)
    from autotune.runtime.cpu.llvm_compiler import compile_binary

    return compile_binary(function, target)


def build_function(
    function: PreparedFunction, target: Target, constants: Sequence[Host]
) -> CompiledFunction | LoadedObject:
    """Compile a function in final form, and run the part that depends only on constants."""
    if is_raw(function.main):
        from autotune.runtime.cpu.c_compiler import LoadedObject, PreprocessedSource, compile_shared

        return LoadedObject(compile_shared(PreprocessedSource.of(function.main), target))
    from autotune.runtime.cpu.llvm_compiler import compile_function

    made: list[Host] = []
    if function.prepare is not None:
        prepare = compile_function(function.prepare, target)
        outputs = [p for p in prepare.signature.parameters if p.is_output]
        made = [aligned_zeros(p.fixed or (), dtypes.numpy_dtype(p.dtype)) for p in outputs]
        prepare(*constants, *made)
    kept = [constants[function.constants.index(position)] for position in function.kept]
    return compile_function(function.main, target).given([*kept, *made])


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], _beside: Sequence[Any]) -> Any:
    """Return a new array of NumPy."""
    return np.empty(shape, dtype)


def loop(_arrays: Sequence[Any]) -> None:
    """Return None: the processor's clock is exact."""


def contiguous(array: Any) -> Any:
    """Return an array of the CPU aligned and C-contiguous: a copy, if it is not yet."""
    if isinstance(array, np.generic | np.ndarray) or hasattr(array, "__array_interface__"):
        return np.require(array, requirements=["C", "A"])
    return array


def take_device(target: Target) -> CpuDevice:
    """Return the processor."""
    from autotune.runtime.cpu.cpu_device import CpuDevice

    return CpuDevice(target)
