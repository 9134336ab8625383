"""Measures given configurations as trials of a log; results that the log holds are reused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureInput
from autotune.task.task import Task
from autotune.tuner.run.trials import Trials
from records import Record, RecordStore


@dataclass(frozen=True)
class MeasuredConfigs:
    """The results of given configurations."""

    # By configuration; those that another process is measuring just now are missing.
    records: dict[int, Record]
    refused: dict[int, str]  # The rule that rejects a configuration, which was not built.
    measured: int  # How many of the records were made now.
    best: Record | None  # The fastest of all records of the workload, chosen or not.
    # How many of the records are of another device, other versions, or timed otherwise.
    foreign: int


def measure_configs(
    task: Task,
    measurer: Measurer,
    store: RecordStore,
    seed: int,
    indices: Iterable[int],
    notify: Callable[[Record], object] = lambda record: None,
) -> MeasuredConfigs:
    """Measure the configurations that the log does not know; append them to it.

    measurer: measures candidates of this task; the caller closes it.
    seed: recorded with each measurement.
    indices: configurations; one that comes twice counts once.
    notify: is told each new record.

    AutotuneError if the workload cannot be measured at all.
    """
    wanted = list(dict.fromkeys(indices))
    refused = {index: rule for index in wanted if (rule := task.refusal(index))}
    trials = Trials(task, store, measurer.policy, seed)
    measured = 0
    try:
        trials.new_records()
        left = [i for i in wanted if i not in refused and i not in trials.by_index]
        results = measurer.measure(_claimed(task, trials, left))
        for candidate, result in results:
            record = trials.add(candidate.config.index, result)
            if record is not None:
                measured += 1
                notify(record)
        trials.new_records()  # what others have measured meanwhile
    finally:
        trials.close()
    known = {index: trials.by_index[index] for index in wanted if index in trials.by_index}
    foreign = sum(not trials.comparable(record) for record in known.values())
    return MeasuredConfigs(known, refused, measured, trials.best, foreign)


def _claimed(task: Task, trials: Trials, indices: Iterable[int]) -> Iterator[MeasureInput]:
    """Yield the candidates that nobody else has measured or is measuring."""
    for index in indices:
        if trials.claim(index):
            yield MeasureInput(task.space.config(index))
