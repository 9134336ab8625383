"""Which records count as trials of a task: of its device, template and present knob values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from autotune.reuse.grades import Grade, device_grade, named_devices, present_device, same_schedules
from autotune.system.words import counted
from autotune.task.task import Task
from records import Record, select
from search_spaces import SpaceError

_log = logging.getLogger(__name__)


def valid_records(
    task: Task,
    records: Iterable[Record],
    notify: Callable[[str], object] = _log.warning,
    any_device: bool = False,
) -> list[tuple[int, Record]]:
    """Return the records of a task's workload and target that hold, with their configurations.

    Records are matched by the knobs' values, so that a space that has grown since still finds them:
    each comes with the index of its configuration in today's space. Those from other devices
    (unless `any_device`) and those of an earlier version of the template are counted, in a line
    each that is told, by default as a logged warning.
    """
    workload = task.workload
    target = task.target.recorded
    own = select(records, workload.template, workload.args, target, workload.constant)
    here = present_device(task)
    measured = [r for r in own if any_device or device_grade(here, r.device)[0] is Grade.EXACT]
    if len(measured) < len(own):
        known = {id(record) for record in measured}
        others = [record.device for record in own if id(record) not in known]
        notify(
            f"{counted(len(others), 'record')} of {workload} from other devices "
            f"({named_devices(others, here)}) {'does' if len(others) == 1 else 'do'} not count"
        )
    found = [
        (index, record)
        for record in measured
        if (index := current_index(task, record, same_schedules(here, record.device))) is not None
    ]
    if len(found) < len(measured):
        count = len(measured) - len(found)
        was = "record of {} was" if count == 1 else "records of {} were"
        notify(
            f"{count} {was.format(workload)} measured with an earlier version of this template and "
            f"{'is' if count == 1 else 'are'} not used"
        )
    return found


def current_index(task: Task, record: Record, same_schedules: bool = True) -> int | None:
    """Return a record's configuration in today's space; None if today's template made it not.

    `task`: the workload of the record.
    `same_schedules`: see `grades.same_schedules`; if not, any version counts.
    """
    try:
        index = task.space.index_of(record.config["values"])
    except SpaceError:
        return None
    if not same_schedules:
        return index
    made_by = record.fingerprint
    return index if made_by == task.fingerprints_of(index)["template"] else None
