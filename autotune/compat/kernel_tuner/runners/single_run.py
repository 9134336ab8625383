"""One call of a kernel in this process; and what is known of the device that it runs on."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.problem import Array, Problem, flat
from autotune.errors import TargetError, UsageError
from autotune.runtime.cpu.c_compiler import (
    LoadedObject,
    PreprocessedSource,
    compile_shared,
    version_of,
)
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.device.device_properties import gpu_facts
from autotune.runtime.cuda.gpu_source import raw_source
from autotune.runtime.cuda.loaded_program import LoadedProgram
from autotune.system.host import processor_name
from autotune.target import Target


def device_facts(problem: Problem, target: Target) -> dict[str, Any]:
    """Return what an environment says of the device and the compiler.

    Raises TargetError if it is a GPU that cannot be used, or the compiler does not start.
    UsageError if there is no such compiler.
    """
    if problem.is_cuda:
        return _gpu_facts(target)
    if shutil.which(problem.compiler) is None:
        raise UsageError(f"compiler: there is no {problem.compiler!r} on this machine's path")
    return {"device_name": processor_name(), "CC Version": version_of(problem.compiler)}


def _gpu_facts(target: Target) -> dict[str, Any]:
    try:
        found = gpu_facts(target)
    except TargetError as error:
        why = str(error).partition(" cannot be measured here: ")[2].partition("; with -on=cpu")[0]
        raise TargetError(
            f"a kernel in CUDA C++ needs a GPU, and none can be used: {why or error}"
        ) from error
    return {
        "device_name": found["device"]["name"],
        "compute_capability": found["arch"].removeprefix("sm_"),
        "cuda_version": found["versions"]["cuda_driver"],
        "nvrtc_version": found["versions"]["nvrtc"],
    }


def run(
    problem: Problem, values: Mapping[str, Any], arguments: Sequence[Any], target: Target
) -> list[Any]:
    """Return what the arguments of a kernel are after one call; those given are not changed."""
    device_facts(problem, target)
    inputs = [flat(arguments[n]) for n in problem.arrays]
    outputs = (_on_gpu if problem.is_cuda else _on_cpu)(problem, values, inputs, target)
    found = dict(zip(problem.arrays, outputs, strict=True))
    return [
        found[n].reshape(np.shape(given)) if n in found else given
        for n, given in enumerate(arguments)
    ]


def _on_cpu(
    problem: Problem, values: Mapping[str, Any], inputs: list[Array], target: Target
) -> list[Array]:
    function = problem.kernel(values, times_itself=False).lowered(problem.name)
    loaded = LoadedObject(compile_shared(PreprocessedSource.of(function), target))
    outputs = list(map(np.empty_like, inputs))
    loaded(*inputs, *outputs)
    return outputs


def _on_gpu(
    problem: Problem, values: Mapping[str, Any], inputs: list[Array], target: Target
) -> list[Array]:
    device = target.device
    source = raw_source(problem.kernel(values, times_itself=False).lowered(problem.name))
    program = source.compiled(cupy_driver.arch_of(device))
    arrays = cupy_driver.copied(inputs, device)
    pointers = [int(array.data.ptr) for array in arrays]
    with cupy_driver.cupy().cuda.Device(device) as used:
        stream = cupy_driver.stream_handle(None, device)
        # A kernel changes its arrays in place: inputs and outputs are the same ones.
        LoadedProgram(program, device).bind([*pointers, *pointers], stream)()
        used.synchronize()
        # The arrays there have the bits alone.
        found = zip(arrays, inputs, strict=True)
        return [array.get().view(given.dtype) for array, given in found]
