"""The measuring of a call: by `tune`, in a folder, with the results written to a cache."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.compat.kernel_tuner.cache import Cache
from autotune.compat.kernel_tuner.problem import VERIFY_FAILS, Problem
from autotune.compat.kernel_tuner.restrictions import RestrictedTemplate, Restriction, is_legal
from autotune.compat.kernel_tuner.results import Result, results_of
from autotune.errors import UsageError
from autotune.measure.timing_policy import TimingPolicy
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
