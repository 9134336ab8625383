"""Finds out why a record must not be used.

In: a task and a record. Out: a `Problem` (the present template no longer makes the record, or the
record is not plausible), or None. Builds, runs and the tools for logs all use these functions, so
that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from autotune.errors import InstantiationError
from autotune.reuse.grades import Grade, device_grade, same_schedules
from autotune.reuse.plausibility import has_other_steps, least_seconds
from autotune.reuse.task_finder import NOT_IN_SPACE, TEMPLATE_CHANGED
from autotune.task.task import Task
from records import Record
from search_spaces import SpaceError

NO_VERSION = "no_version"
NOT_ALLOWED = "not_allowed"
DOUBTED = "doubted"


class Problem(NamedTuple):
    """Why a record is not used: `kind` is one of the names above, `text` says it in words."""

    kind: str
    text: str


_NO_CONFIG = Problem(NOT_IN_SPACE, "the configuration is not in today's space")
_UNMARKED = Problem(NO_VERSION, "without the version of its template")
_OLD = Problem(TEMPLATE_CHANGED, "measured with an earlier version of this template")
_OTHER_STEPS = Problem(DOUBTED, "the schedule steps are not those of the template")
TOO_FAST = Problem(DOUBTED, "the time is less than any such device needs")


def record_problem(task: Task, record: Record, here: Mapping[str, Any]) -> Problem | None:
    """Return what is wrong with a record of a task's workload; None if it counts.

    `here`: the device that the task's target runs on.
    """
    problem = version_problem(task, record, same_schedules(here, record.device))
    return problem or (doubt_problem(task, record, here) if record.ok else None)


def version_problem(task: Task, record: Record, same_schedules: bool = True) -> Problem | None:
    """Return why today's template does not make a record of a task's workload; None if it does.

    `same_schedules`: see `grades.same_schedules`; if not, any version of the template will do.
    """
    try:
        index = task.space.index_of(record.config["values"])
    except SpaceError:
        return _NO_CONFIG
    if not same_schedules:
        return None
    made_by = record.fingerprint
    if made_by is None:
        return _UNMARKED
    return None if made_by == task.fingerprints_of(index)["template"] else _OLD


def doubt_problem(task: Task, record: Record, here: Mapping[str, Any]) -> Problem | None:
    """Return why a successful record of a task's workload is not believed; None if it is."""
    if record.cost_s < least_cost_s(task, record.device, here):
        return TOO_FAST
    # Of another version of the template, the schedule steps may be others.
    if version_problem(task, record) is None and has_other_steps(task, record):
        return _OTHER_STEPS
    return None


def least_cost_s(task: Task, device: Mapping[str, Any], here: Mapping[str, Any]) -> float:
    """Return a time that no device like that of a record can go below, in seconds."""
    # On this kind of device, facts that the record lacks are taken from the device here.
    known = {} if device_grade(here, device)[0] is Grade.ANY else here
    return least_seconds(task, {**known, **device})


def refusal_problem(task: Task, record: Record) -> Problem | None:
    """Return why a task is not built with a record's knob values; None if it is.

    The record may be of another shape. This takes some milliseconds.
    """
    try:
        refused = task.refusal(task.space.index_of(record.config["values"]))
    except SpaceError:
        return _NO_CONFIG
    except InstantiationError as error:
        return Problem(NOT_ALLOWED, str(error))
    if refused:
        return Problem(NOT_ALLOWED, f"the configuration is no longer allowed: {refused}")
    return None
