"""The tuning loop for one workload, as one call."""

from __future__ import annotations

from autotune.measure.measurer import Measurer
from autotune.task.task import Task
from autotune.tuner.base import Tuner
from autotune.tuner.run.events import EventCallback, TuneSummary, ignore_event
from autotune.tuner.run.limits import BATCH, Deadline, Goal, Limits
from autotune.tuner.run.parallel.parallel_session import new_session
from autotune.tuner.run.portfolio import Portfolio
from records import RecordStore


def tune(
    task: Task,
    measurer: Measurer,
    tuner: Tuner,
    store: RecordStore,
    trials: int | None,
    seed: int,
    on_event: EventCallback = ignore_event,
    batch: int = BATCH,
    patience: float | None = None,
    goal: Goal | None = None,
    time_s: float | None = None,
) -> TuneSummary:
    """Measure until the log holds `trials` records of this workload and target, or it is enough.

    At the end the finalists are compared with the default (`final_comparison.py`), if there is
    time for it: at most 15 % of the whole.

    Each measurement is appended to the log before the next one begins, so that a run that is
    interrupted or killed loses at most the candidate it was at. What other runs append to the log
    meanwhile counts, too, and what they are measuring is left to them.

    `measurer`: measures candidates of this task; the caller closes it.
    `tuner`: a new one, over the task's space.
    `store`: earlier records of the workload on this device count as trials, failures included, and
    are never repeated, unless an earlier version of the template made them.
    `trials`: records wanted in all; None for as many as there is time for.
    `seed`: recorded with each measurement.
    `on_event`: called with what happens, for display; see :mod:`autotune.tuner.run.events`.
    `batch`: candidates asked for at once.
    `patience`: stop when the tuner expects less than this share of gain from all further
    measurements.
    `goal`: stop when the best time reaches it.
    `time_s`: end after so many seconds; of these the last 15 % are for the final comparison.

    Raises UsageError if `trials` is negative or `batch` less than 1, the template cannot be
    measured, or `patience` is asked of a tuner that cannot tell.
    """
    deadline = Deadline(time_s)
    session = new_session(task, measurer, tuner, store, seed, Limits(trials, goal, patience, batch))
    (summary,) = Portfolio([session], on_event, deadline).run()
    return summary
