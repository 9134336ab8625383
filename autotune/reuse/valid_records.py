"""Selects the records that count as trials of a task.

In: a task and records. Out: those of its device kind and present template that are plausible.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autotune.errors import AutotuneError
from autotune.reuse.grades import Grade, device_grade, named_devices, present_device
from autotune.reuse.problems import Problem, least_cost_s, record_problem
from autotune.reuse.task_finder import TaskFinder
from autotune.system.words import counted
from autotune.task.task import Task
from autotune.task.workload import Workload
from records import Record, select

_log = logging.getLogger(__name__)


def valid_records(
    task: Task,
    records: Iterable[Record],
    notify: Callable[[str], object] = _log.warning,
    any_device: bool = False,
    device: Mapping[str, Any] | None = None,
    beside: Sequence[Mapping[str, Any]] = (),
) -> list[tuple[int, Record]]:
    """Return the valid records of a task's workload and target, with their configurations.

    Records are matched by the knobs' values, so that a space that has grown since still finds them:
    each comes with the index of its configuration in the present space. Records from other devices
    (unless `any_device`) and records with a problem (`record_problem`) are left out. Their number
    is reported to `notify`, a line for each reason; by default that logs a warning.

    device: where the task is measured, in the form of `Record.device`; by default where its target
        runs.
    beside: other devices, whose records are left out without a line.
    """
    workload = task.workload
    target = task.target.recorded
    own = select(records, workload.template, workload.args, target, workload.constant)
    here = present_device(task) if device is None else device
    measured = [r for r in own if any_device or device_grade(here, r.device)[0] is Grade.EXACT]
    known = {id(record) for record in measured}
    others = [record.device for record in own if id(record) not in known]
    others = [each for each in others if not _is_one_of(each, beside)]
    if others:
        notify(
            f"{counted(len(others), 'record')} of {workload} from other devices "
            f"({named_devices(others, here)}) {'does' if len(others) == 1 else 'do'} not count"
        )
    found, passed = [], Counter[Problem]()
    for record in measured:
        problem = record_problem(task, record, here)
        if problem is None:
            found.append((task.space.index_of(record.config["values"]), record))
        else:
            passed[problem] += 1
    for problem, count in passed.items():
        verb = "does" if count == 1 else "do"
        notify(f"{counted(count, 'record')} of {workload} {verb} not count: {problem.text}")
    return found


def _is_one_of(device: Mapping[str, Any], known: Iterable[Mapping[str, Any]]) -> bool:
    return any(device_grade(each, device)[0] is Grade.EXACT for each in known)


def least_costs(task: Task) -> Callable[[Record], float]:
    """Return a function from a record to a lower bound of its time, in seconds.

    The bound follows from what the template of the record computes. For a template that is neither
    `task`'s nor found by name it is 0.
    """
    finder, here = TaskFinder(), present_device(task)

    def least_s(record: Record) -> float:
        made_by = Workload(record.template, record.args, record.constant)
        try:
            if record.template == task.workload.template:
                found: Task | str = task.with_args(record.args)
            else:
                found = finder.find(made_by, record.target)
            return 0.0 if isinstance(found, str) else least_cost_s(found, record.device, here)
        except AutotuneError as error:
            _log.info("%s: %s", made_by, error)
            return 0.0

    return least_s
