"""Which records still hold for a task: made by the template as it is, at knob values it has."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from autotune.task import Task
from records import Record, select
from search_spaces import SpaceError

_log = logging.getLogger(__name__)


def valid_records(task: Task, records: Iterable[Record]) -> list[tuple[int, Record]]:
    """Return the records of a task's workload and target that hold, with their configurations.

    Records are matched by the knobs' values, so that a space that has grown since still finds
    them. The others, made by an earlier version of the template, are counted in one warning.

    Returns
    -------
    list of (int, Record)
        Each with the index of its configuration in today's space, in the order of `records`.
    """
    workload = task.workload
    own = select(records, workload.template, workload.args, task.target.recorded)
    found = [(index, record) for record in own if (index := _index(task, record)) is not None]
    if len(found) < len(own):
        count = len(own) - len(found)
        _log.warning(
            "%d record%s of %s measured with an earlier version of this template and %s not used",
            count,
            "" if count == 1 else "s",
            f"{workload} {'was' if count == 1 else 'were'}",
            "is" if count == 1 else "are",
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
