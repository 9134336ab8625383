"""Tunes a workload that has no record, for a build that asks for it."""

from __future__ import annotations

from autotune.extract.space_features import TaskFeatures
from autotune.measure.local_measurer import LocalMeasurer
from autotune.operators.template_lookup import text_of
from autotune.task.task import Task
from autotune.tuner.factory import make_tuner
from autotune.tuner.run.events import TuneSummary
from autotune.tuner.run.tuning_loop import tune
from records import RecordStore

TRIALS = 64


def tune_missing(
    task: Task, store: RecordStore, trials: int = TRIALS, seed: int = 0
) -> TuneSummary:
    """Tune a task as `autotune run` does, and append the measurements to a log.

    UsageError if the template cannot be measured; RecordError if the log cannot be written.
    """
    tuner = make_tuner("model", task.space, seed, TaskFeatures(task))
    with LocalMeasurer(
        task.template_ref,
        task.args,
        task.target,
        seed=seed,
        text=text_of(task.template),
        constant=task.constant,
    ) as measurer:
        return tune(task, measurer, tuner, store, trials, seed)
