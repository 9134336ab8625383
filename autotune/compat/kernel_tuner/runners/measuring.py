"""The measuring of a call: by `tune`, in a folder, with the results written to a cache."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.compat.kernel_tuner.cache import Cache
from autotune.compat.kernel_tuner.kernels import any_left
from autotune.compat.kernel_tuner.problem import VERIFY_FAILS, Problem
from autotune.compat.kernel_tuner.restrictions import (
    RestrictedTemplate,
    Restriction,
    is_legal,
    unknown,
)
from autotune.compat.kernel_tuner.results import Result, has_time, results_of
from autotune.errors import UsageError
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.workload import Workload
from autotune.tuner.run.events import Event, Measured
from autotune.tuning import tune
from records.caller_warnings import warn
from records.storage.append_only_log import RecordStore

LOG = "log.jsonl"

_FOREVER_MS = 1e9

#: Is told of a result that has a time.
Look = Callable[[Result], object]


def results_by_key(
    problem: Problem,
    rules: Sequence[Restriction],
    place: Path,
    cache: Cache | None,
    options: Mapping[str, Any],
    look: Look,
) -> dict[str, Result]:
    """Return the results of a cache, and then those of what it lacks, which are measured now.

    `place`: the folder of the problem.
    `options`: of `tune`.
    `look`: is told of the first result with a time; what it raises ends the call.
    """
    results = {} if cache is None else cache.results(rules)
    known = list(filter(has_time, results.values()))
    if known:
        look(dict(known[0]))
        look = _nothing
    is_any_left = not results or any_left(problem, rules, results)
    left = [*rules, unknown(problem.parameters, results.values())] if results else rules
    if is_any_left:
        _measure(problem, left, place, cache, options, look)
    trials = [r for r in RecordStore(place / LOG).load() if is_legal(left, r.config["values"])]
    found = results_of(trials)
    if cache is not None:
        cache.add(found)
        cache.flush()
    return {**results, **found}


def _measure(
    problem: Problem,
    rules: Sequence[Restriction],
    place: Path,
    cache: Cache | None,
    options: Mapping[str, Any],
    look: Look,
) -> None:
    """Measure configurations, until a limit is reached; a cache gets the results as they come."""
    looked = False

    def on_event(event: Event) -> None:
        nonlocal looked
        if not isinstance(event, Measured):
            return
        found = results_of([event.record])
        if cache is not None:
            cache.add(found)
        for result in filter(has_time, found.values()):
            if not looked:
                looked = True
                look(result)

    args = {"problem": str(place)}
    template = RestrictedTemplate.of(problem, rules)
    try:
        tune(template, args, log=place / LOG, callbacks=[on_event], **options)
    except UsageError as error:
        # The user knows of no template, and of no folder that is its argument.
        name = f"tune: {Workload(template.name, args)}: "
        if not str(error).startswith(name):
            raise
        raise UsageError(f"{problem.name}: {str(error).removeprefix(name)}") from error
    finally:
        if cache is not None:
            cache.flush()


def _nothing(result: Result) -> None:
    """Have seen one already."""


def policy_of(iterations: int) -> TimingPolicy:
    """Return how each configuration is timed: one call for each of the times."""
    return TimingPolicy(repeats=iterations, min_repeat_ms=0.0, budget_ms=_FOREVER_MS, race=0.0)


@contextlib.contextmanager
def folder_of(given: str | os.PathLike[str] | None, cache: Cache | None) -> Iterator[Path]:
    """Give a folder to measure in: that given, or a temporary one.

    If the call ends early, after something was measured, a temporary one is kept, unless a cache
    has the results. A mistake of the user, or a line on stderr, says how to go on.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="kernel_tuner-") if given is None else given)
    except OSError as error:
        raise UsageError(f"folder: cannot make a temporary one: {error.strerror}") from error
    is_kept = given is not None
    try:
        yield folder.absolute()
    except BaseException as error:
        is_measured = any(folder.glob(f"*/{LOG}"))
        is_cached = cache is not None and cache.is_written
        is_kept |= is_measured and not is_cached
        if not is_measured:
            raise
        where = "the measurements are kept in the cache"
        if not is_cached:
            where = (
                f"the measurements are kept: folder={str(folder)!r} continues from them, as long "
                "as the arguments are the same"
            )
        if isinstance(error, UsageError) and given is None:
            raise UsageError(f"{error}; {where}") from error
        if not isinstance(error, UsageError):
            print(f"tune_kernel: {where}", file=sys.stderr)
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def check_verified(results: Sequence[Result]) -> None:
    """Warn if the user's comparison failed for some results; UsageError if for all."""
    said = [(result.get("error") or {}).get("message", "") for result in results]
    failed = [words for words in said if words.startswith(VERIFY_FAILS) and " fails: " in words]
    if failed and len(failed) == len(results):
        raise UsageError(failed[0])
    if failed:
        warn(f"{failed[0]}, and so for {len(failed)} of {len(results)} configurations")
