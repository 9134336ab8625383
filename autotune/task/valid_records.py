"""Which records are valid for a task: those of the present template and its present knob values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from autotune.system.words import counted
from autotune.task.task import Task
from autotune.task.workload import Workload
from records import Record, select
from search_spaces import SpaceError

_log = logging.getLogger(__name__)

_NAMED = 3  # Other workloads that are named, at most.


def valid_records(
    task: Task, records: Iterable[Record], notify: Callable[[str], object] = _log.warning
) -> list[tuple[int, Record]]:
    """Return the records of a task's workload and target that hold, with their configurations.

    Records are matched by the knobs' values, so that a space that has grown since still finds them:
    each comes with the index of its configuration in today's space. The others, made by an earlier
    version of the template, are counted in one line that is told, by default as a logged warning.
    """
    workload = task.workload
    target = task.target.recorded
    own = select(records, workload.template, workload.args, target, workload.constant)
    found = [(index, record) for record in own if (index := _index(task, record)) is not None]
    if len(found) < len(own):
        count = len(own) - len(found)
        was = "record of {} was" if count == 1 else "records of {} were"
        notify(
            f"{count} {was.format(workload)} measured with an earlier version of this template and "
            f"{'is' if count == 1 else 'are'} not used"
        )
    return found


def _index(task: Task, record: Record) -> int | None:
    """Return a record's configuration in today's space; None if the record does not hold."""
    try:
        index = task.space.index_of(record.config["values"])
    except SpaceError:
        return None
    made_by = (record.fingerprints or {}).get("template")
    now = task.fingerprints_of(index)["template"]
    return index if made_by is None or made_by == now else None


def why_unused(task: Task, records: Sequence[Record]) -> str:
    """Return what records are of, if none of them can be used for a task, in some words."""
    workload, target = task.workload, task.target.recorded
    own = select(records, workload.template, workload.args, target, workload.constant)
    failed = sum(not record.ok for record in own)
    if own:
        held = "none of them holds" if failed < len(own) else "all of them failed"
        return f"{counted(len(own), 'record')} of it, {held}"
    alike = [r for r in select(records, workload.template) if r.args == workload.args]
    for one, several, found in (
        (
            "another target",
            "other targets",
            {r.target for r in alike if r.constant == workload.constant},
        ),
        (
            "the same workload with another set of constant inputs",
            "the same workload with other sets of constant inputs",
            {str(list(r.constant)) for r in alike if r.target == target},
        ),
        (
            "another workload",
            "other workloads",
            {
                str(Workload(r.template, r.args, r.constant))
                for r in select(records, workload.template)
            },
        ),
        ("another template", "other templates", {record.template for record in records}),
    ):
        if found:
            named = sorted(found)
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            other = one if len(found) == 1 else several
            return f"the records are of {other}: {', '.join(named[:_NAMED])}{more}"
    return "there are no records"
