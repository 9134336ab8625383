"""The measuring of a call: by `tune`, in a folder, with the results written to a cache.

Or a kernel runs once in this process; and what is known of the device that it runs on.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.cache import Cache
from autotune.compat.kernel_tuner.problem import VERIFY_FAILS, Array, Problem, flat
from autotune.compat.kernel_tuner.restrictions import RestrictedTemplate, Restriction, is_legal
from autotune.compat.kernel_tuner.results import Result, results_of
from autotune.errors import TargetError, UsageError
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.cpu.c_compiler import LoadedObject, PreprocessedSource, compile_shared
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.device.device_properties import gpu_facts
from autotune.runtime.cuda.gpu_source import raw_source
from autotune.runtime.cuda.loaded_program import LoadedProgram
from autotune.system.host import processor_name
from autotune.target import Target
from autotune.tuner.run.events import Event, Measured
from autotune.tuning import tune
from records.caller_warnings import warn
from records.storage.append_only_log import RecordStore

LOG = "log.jsonl"

_FOREVER_MS = 1e9


def measured(
    problem: Problem,
    rules: Sequence[Restriction],
    place: Path,
    known: Cache | None,
    options: Mapping[str, Any] | None,
) -> dict[str, Result]:
    """Measure configurations, and return their results, which a cache gets as they come.

    `place`: the folder of the problem; its log may have some of them.
    `options`: of `tune`; None if there is nothing to measure.
    """
    log = place / LOG

    def on_event(event: Event) -> None:
        if known is not None and isinstance(event, Measured):
            known.add(results_of([event.record]))

    try:
        if options is not None:
            template = RestrictedTemplate.of(problem, rules)
            tune(template, {"problem": str(place)}, log=log, callbacks=[on_event], **options)
        trials = [r for r in RecordStore(log).load() if is_legal(rules, r.config["values"])]
        found = results_of(trials)
        if known is not None:
            known.add(found)
    finally:
        if known is not None:
            known.flush()
    return found


def policy_of(iterations: int) -> TimingPolicy:
    """Return how each configuration is timed: one call for each of the times."""
    return TimingPolicy(repeats=iterations, min_repeat_ms=0.0, budget_ms=_FOREVER_MS, race=0.0)


@contextlib.contextmanager
def folder_of(given: str | os.PathLike[str] | None, cache: Cache | None) -> Iterator[Path]:
    """Give a folder to measure in: that given, or a temporary one.

    If a function of the user fails after something was measured, a temporary one is kept, and the
    error says where it is, unless a cache has the results.
    """
    if given is not None:
        yield Path(given).absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="kernel_tuner-"))
    keep = False
    try:
        yield folder
    except UsageError as error:
        keep = any(folder.glob(f"*/{LOG}"))
        if not keep:
            raise
        if cache is not None:
            keep = False
            raise UsageError(f"{error}; the measurements are kept in the cache") from error
        raise UsageError(
            f"{error}; the measurements are kept: folder={str(folder)!r} continues from them"
        ) from error
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def check_verified(results: Sequence[Result]) -> None:
    """Warn if the user's comparison failed for some results; UsageError if for all."""
    said = [(result.get("error") or {}).get("message", "") for result in results]
    failed = [words for words in said if words.startswith(VERIFY_FAILS) and " fails: " in words]
    if failed and len(failed) == len(results):
        raise UsageError(failed[0])
    if failed:
        warn(f"{failed[0]}, and so for {len(failed)} of {len(results)} configurations")


def device_facts(target: Target) -> dict[str, Any]:
    """Return what an environment says of the device.

    Raises TargetError if it is a GPU that cannot be used.
    """
    if target.kind != "cuda":
        return {"device_name": processor_name()}
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
    if problem.is_cuda:
        device_facts(target)
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
