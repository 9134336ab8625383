"""Records of a task as a run here would make them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autotune.runtime import environment
from autotune.task.task import Task
from records import Record


def measured(task: Task, index: int, cost_s: float | None = 1e-3, **changes: Any) -> Record:
    """Return a record of one configuration; one without a cost has failed.

    `changes`: other values of its fields.
    """
    failure = {"code": "COMPILE_HOST", "stage": "compile", "message": "no"}
    record = Record(
        workload=task.workload.to_json(),
        target=task.target.recorded,
        config=task.space.config(index).to_json(),
        costs_s=None if cost_s is None else (cost_s,),
        error=failure if cost_s is None else None,
        device=environment.device(task.target),
        seed=0,
        timestamp=1.0,
        fingerprints=task.fingerprints_of(index),
        steps=task.steps_of(index),
    )
    return replace(record, **changes)
