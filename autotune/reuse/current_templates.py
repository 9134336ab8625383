"""Compares records with the templates that are installed now.

In: a record. Out: why a build here would not use it: its template is gone or has changed, its
configuration is no longer allowed, or its time is not plausible.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from autotune.errors import AutotuneError
from autotune.reuse.grades import Grade, device_grade, present_device
from autotune.reuse.problems import (
    DOUBTED,
    NO_VERSION,
    NOT_ALLOWED,
    record_problem,
    refusal_problem,
)
from autotune.reuse.task_finder import NO_TEMPLATE, REASONS, TEMPLATE_FAILS, TaskFinder
from autotune.task.task import Task
from autotune.task.workload import Workload
from records import Record

ELSEWHERE = "elsewhere"

# Why a build here does not use a record, whatever other records there are.
PROBLEMS = {
    **REASONS,
    NO_VERSION: "no fingerprint of the template that made it",
    NOT_ALLOWED: "the configuration is no longer allowed",
    DOUBTED: "what it claims is not to be believed",
    ELSEWHERE: "measured on another device, where templates may have other configurations",
}

# The problems of records that today's templates would not make again.
OUTDATED = frozenset(REASONS) - {NO_TEMPLATE}

_TASKS = 64  # Tasks that are kept: logs have records of a workload next to each other.


class CurrentTemplates:
    """The templates that are here now, asked about records.

    references: templates without a name of their own, as ``path/to/file.py:function`` or
        ``path/to/file.tile``.

    UsageError if one of them is not there.
    """

    def __init__(self, references: Sequence[str] = ()) -> None:
        self._finder = TaskFinder(references)
        self._task = lru_cache(maxsize=_TASKS)(self._find)
        self._known: dict[tuple[str, str], bool] = {}

    def is_gone(self, template: str, target: str) -> bool:
        """Whether no template of this name is here for this kind of target."""
        key = (template, next(iter(target.split()), ""))
        if key not in self._known:
            self._known[key] = self._finder.has(*key)
        return not self._known[key]

    def problem(self, record: Record) -> str:
        """Return one of `PROBLEMS`; empty if a build of its workload here may use the record.

        Records from other devices are not judged beyond their arguments. A failed record is asked
        for its configuration only.
        """
        width = record.device.get("vector_bytes")
        workload = json.dumps(record.workload)
        task = self._task(workload, record.target, width if isinstance(width, int) else None)
        if isinstance(task, str):
            return task
        here = present_device(task)
        if device_grade(here, record.device)[0] not in (Grade.EXACT, Grade.KIND):
            return ELSEWHERE
        try:
            problem = record_problem(task, record, here)
            if problem is None and record.ok:
                problem = refusal_problem(task, record)
        except AutotuneError:
            return TEMPLATE_FAILS
        return "" if problem is None else problem.kind

    def _find(self, workload: str, target: str, vector_bytes: int | None) -> Task | str:
        data = json.loads(workload)
        constant = tuple(data.get("constant", ()))
        made = Workload(data["template"], data["args"], constant)
        return self._finder.find(made, target, vector_bytes)
