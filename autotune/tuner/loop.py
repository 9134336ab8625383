"""The tuning loop: asks the tuner, has candidates measured, records, tells the tuner; resumes.

The log is the only memory between runs: what it holds counts as trials and is told to the tuner.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

from autotune.errors import UsageError
from autotune.history import valid_records
from autotune.measure import environment
from autotune.measure.replay import result_of
from autotune.measure.result import MeasureInput, Measurer, MeasureResult
from autotune.task import Task
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.events import (
    End,
    Finished,
    Measured,
    Started,
    TuneSummary,
    Watcher,
    unwatched,
)
from autotune.tuner.patience import Patience
from records import Journal, Record, RecordStore
from search_spaces import SpaceError

BATCH = 8
"""Candidates asked for at once: the model learns after each batch."""


def tune(
    task: Task,
    measurer: Measurer,
    tuner: Tuner,
    store: RecordStore,
    trials: int,
    seed: int,
    on_event: Watcher | None = None,
    batch: int = BATCH,
    patience: float | None = None,
) -> TuneSummary:
    """Measure until the log holds `trials` records of this workload and target.

    Each measurement is appended to the log before the next one begins, so that a run that is
    interrupted or killed loses at most the candidate it was at. What other runs append to the log
    meanwhile counts, too, and is not measured again.

    Parameters
    ----------
    task : Task
    measurer : Measurer
        Measures candidates of this task; the caller closes it.
    tuner : Tuner
        A new one, over the task's space.
    store : RecordStore
        Earlier records of the workload count as trials, failures included, and are never repeated,
        unless an earlier version of the template made them.
    trials : int
        Records wanted in all.
    seed : int
        Recorded with each measurement.
    on_event : callable, optional
        Called with `Started`, `Measured` and `Finished` events, for display.
    batch : int
        Candidates asked for at once.
    patience : float, optional
        Stop when the tuner expects less than this share of gain from all further measurements.

    Raises
    ------
    UsageError
        If `trials` is negative or `batch` less than 1, the template cannot be measured, or
        `patience` is asked of a tuner that cannot tell.
    """
    if trials < 0 or batch < 1:
        raise UsageError(f"trials must be >= 0 and batch >= 1, not {trials} and {batch}")
    run = _Run(task, measurer, tuner, store, trials, seed, on_event or unwatched)
    return run.go(batch, None if patience is None else Patience(tuner, patience))


class _Run:
    """State of one call of `tune`."""

    def __init__(
        self,
        task: Task,
        measurer: Measurer,
        tuner: Tuner,
        store: RecordStore,
        trials: int,
        seed: int,
        on_event: Watcher,
    ) -> None:
        self.task = task
        self.measurer = measurer
        self.tuner = tuner
        self.journal = Journal(store)
        self.trials = trials
        self.seed = seed
        self.on_event = on_event
        self.begin = time.monotonic()
        self.common: dict[str, Any] = {
            "workload": task.workload.to_json(),
            "target": str(task.target),
            "policy": measurer.policy.to_json(),
            "device": environment.device(task.target),
            "versions": environment.versions(),
            "seed": seed,
        }
        self.records: list[Record] = []
        self.by_index: dict[int, Record] = {}
        self.best: Record | None = None
        self.measured = 0

    def go(self, batch: int, patience: Patience | None) -> TuneSummary:
        """Run to the end."""
        self.tuner.tell(self._recall())
        self.on_event(Started(self.trials, len(self.records), self.best))
        exhausted, stopped = False, None
        while len(self.records) < self.trials and not exhausted:
            if patience is not None and (stopped := patience.reason_to_stop()):
                break
            indices = self.tuner.ask(min(batch, self.trials - len(self.records)))
            exhausted = not indices
            self.tuner.tell(self._measure(indices))
        ended = End.EXHAUSTED if exhausted else End.PATIENCE if stopped else End.TRIALS
        summary = self._summary(ended, stopped or "")
        self.on_event(Finished(summary))
        return summary

    def _recall(self) -> list[Observation]:
        """Take in what others have logged; tell the measurer what was measured just as now."""
        observations = []
        for index, record in valid_records(self.task, self.journal.news()):
            observations.append(self._take(index, record))
            if record.ok and self._comparable(record):
                self.measurer.remember(result_of(record))
        return observations

    def _take(self, index: int, record: Record) -> Observation:
        """Count a record."""
        self.records.append(record)
        self.by_index.setdefault(index, record)
        if record.ok and (self.best is None or record.cost_s < self.best.cost_s):
            self.best = record
        return _observation(index, record)

    def _comparable(self, record: Record) -> bool:
        same = all(getattr(record, name) == self.common[name] for name in ("device", "versions"))
        return same and self.measurer.policy.comparable(record.policy)

    def _measure(self, indices: Sequence[int]) -> list[Observation]:
        observations = self._recall()
        with contextlib.closing(self._results(indices)) as results:
            for candidate, result in results:
                record = self._record(candidate, result)
                if self.journal.add(record):
                    self.measured += 1
                    observations.append(self._take(candidate.config.index, record))
                    self._announce(record, result)
                observations += self._recall()
        return observations

    def _results(
        self, indices: Sequence[int]
    ) -> Generator[tuple[MeasureInput, MeasureResult], None, None]:
        """Measure; a generator whatever the measurer returns, so that it can be closed."""
        inputs = (MeasureInput(self.task.space.config(index)) for index in indices)
        yield from self.measurer.measure(inputs, self._still_wanted)

    def _still_wanted(self, candidate: MeasureInput) -> bool:
        """Whether nobody has measured it, and trials are missing."""
        return (
            len(self.records) < self.trials and candidate.config.index not in self.by_index
        )

    def _record(self, candidate: MeasureInput, result: MeasureResult) -> Record:
        fingerprints = self.task.fingerprints_of(candidate.config.index)
        if result.code_hash is not None:
            fingerprints["code"] = result.code_hash
        return Record(
            **self.common,
            config=candidate.config.to_json(),
            costs_s=result.costs_s,
            error=None if result.error is None else result.error.to_json(),
            timestamp=result.timestamp,
            fingerprints=fingerprints,
            build_s=result.build_s,
            run_s=result.run_s,
            max_error=result.max_error,
            raced=result.raced,
            noise=result.noise,
            steps=self.task.steps_of(candidate.config.index),
        )

    def _announce(self, record: Record, result: MeasureResult) -> None:
        trial = len(self.records)
        self.on_event(Measured(trial, max(self.trials, trial), record, result, self.best))

    def _summary(self, ended: End, why: str) -> TuneSummary:
        failures = Counter(r.error["code"] for r in self.records if r.error is not None)
        return TuneSummary(
            trials=len(self.records),
            measured=self.measured,
            failures=dict(failures),
            best=self.best,
            default_costs_s=self._default_costs(),
            ended=ended,
            elapsed_s=time.monotonic() - self.begin,
            why=why,
        )

    def _default_costs(self) -> tuple[float, ...] | None:
        """Return the times of the default configuration: its record's, else measured now.

        None if it failed, or if this run measured nothing.

        A baseline that is measured here is no record: nobody proposed it.
        """
        try:
            default = self.task.default_index
        except SpaceError:  # no configuration is feasible
            return None
        record = self.by_index.get(default)
        if record is not None:
            return record.costs_s
        if not self.measured:
            return None
        ((_, result),) = self.measurer.measure([MeasureInput(self.task.space.config(default))])
        return result.costs_s


def _observation(index: int, record: Record) -> Observation:
    if record.error is not None:
        return Observation(index, None, record.error["code"])
    return Observation(index, record.cost_s)
