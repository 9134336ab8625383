"""Finds the record that `build` uses: opens the given logs, and applies the reuse policy.

In: a task, records or paths of logs, and a `ReusePolicy`. Out: a `Choice`, or None for the default
configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from os import PathLike
from os.path import lexists
from typing import Any

from autotune.errors import NoRecordError, UsageError
from autotune.reuse import Choice, Grade, choose, why_nothing
from autotune.reuse.policy import ReusePolicy
from autotune.task.task import Task
from records import Record, RecordStore, RecordWarning
from records.caller_warnings import warn
from records.groups import RecordList, RecordSource
from records.log_set import PRETUNED, log_to_append, open_logs

_log = logging.getLogger(__name__)

# Where to look for measurements: paths of logs, a log, or records themselves.
RecordsGiven = str | PathLike[str] | RecordStore | Iterable[str | PathLike[str] | Record] | None


def record_source(
    records: Any, must_exist: bool = True, caller: str = "build"
) -> tuple[RecordSource | None, RecordStore | None]:
    """Return where to look up what `build` was given, and the log that it may append to.

    `must_exist`: whether the logs have to be there; otherwise the first one may be made.
    `caller`: the function that the user called, for messages.
    """
    if records is None:
        return None, None
    if isinstance(records, RecordStore):
        there = lexists(records.path)
        return open_logs(records.path) if there else RecordList([]), records
    given = [records] if isinstance(records, (str, PathLike)) else records
    if isinstance(given, Iterable) and not isinstance(given, bytes):
        found = list(given)
        if all(isinstance(record, Record) for record in found):
            return RecordList(found), None
        if all(isinstance(log, (str, PathLike)) for log in found):
            if must_exist:
                return open_logs(found), None
            store = log_to_append(found[0])
            return open_logs(log for log in found if log == PRETUNED or lexists(log)), store
    raise UsageError(
        f"{caller}: records must be paths of logs, a RecordStore or records, got {records!r}"
    )


def choose_record(
    task: Task, records: RecordSource | None, policy: ReusePolicy, store: RecordStore | None
) -> Choice | None:
    """Return what to build by; None for the default configuration.

    `store`: the log that ``missing="tune"`` appends to.

    NoRecordError with ``missing="error"``, if there is no record to build by.
    """
    source = RecordList([]) if records is None else records
    told: list[str] = []
    choice = choose(task, source, policy.reuse, policy.any_device, told.append)
    if choice is None and policy.missing == "nearest":
        told.clear()  # what was not admitted now is
        choice = choose(task, source, Grade.ANY, notify=told.append)
    for why in told:
        _tell(why)
    if choice is None and policy.missing == "tune":
        if store is None:
            raise UsageError(
                "build: missing='tune' appends its measurements to a log: give records= as the "
                "path of one"
            )
        from autotune.tuner.run import tuning_job  # slow import

        tuning_job.tune_requests([tuning_job.TuningRequest(task, store)])
        choice = choose(task, store.load(), notify=_log.info)
    if choice is None:
        _without_record(task, records, policy)
        return None
    if choice.text:
        _log.info("%s: %s", task.workload, choice.text)
    if policy.guard:
        from autotune.tuner.run.compare_with_default import compare_with_default  # slow import

        found = compare_with_default(task, choice.config)
        if not found.keeps:
            why = found.why or f"it is {found.over_default:.2f} times as fast"
            _tell(
                f"{task.workload}: the default configuration is built instead of the recorded "
                f"one: {why}"
            )
            return None
    return choice


def _without_record(task: Task, records: RecordSource | None, policy: ReusePolicy) -> None:
    """Say that the default is built, as no record can be used, or raise an error."""
    _ = task.default_values  # a template may refuse its arguments or constant inputs
    given = "no records given" if records is None else "no record that can be used"
    reason = "" if records is None else f" ({why_nothing(task, records)})"
    what = f"{given} for {task.workload} on {task.target}{reason}"
    if policy.missing == "error":
        raise NoRecordError(f"{what}; `autotune run` makes some")
    warn(f"{what}: building the default configuration; `autotune run` tunes it")


def _tell(why: str) -> None:
    """Tell programs of records, and the logging, which commands print."""
    _log.warning(why)
    warn(why, RecordWarning)
