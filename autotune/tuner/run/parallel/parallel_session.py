"""Tunes one workload on several devices: proposals are asked for as results come.

So many candidates are in flight that no device waits. Each result is recorded and learned as it
comes, and the tuner chooses the next ones knowing what is still in flight.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from autotune.errors import AutotuneError
from autotune.measure.measurer import Measurer, SupportsParallelRuns
from autotune.measure.result import MeasureInput
from autotune.task.task import Task
from autotune.tuner.base import Tuner
from autotune.tuner.run.limits import Limits
from autotune.tuner.run.parallel.candidates_in_flight import CandidatesInFlight
from autotune.tuner.run.session import MAX_REFUSED, Session
from records import RecordStore

_log = logging.getLogger(__name__)


class ParallelSession(Session):
    """Tunes one workload on the devices of a measurer that `SupportsParallelRuns`.

    A turn ends after some results, and candidates stay in flight for the next one. They stay
    claimed, too, and are lost if the run is interrupted. A limit that is reached ends the
    submitting: what no device has begun is taken back, and what runs is waited for and recorded.
    """

    @cached_property
    def _flight(self) -> CandidatesInFlight:
        assert isinstance(self.measurer, SupportsParallelRuns)
        return CandidatesInFlight(self.measurer)

    def begin(self) -> None:
        """Submit the first candidates of the next turn, while those of another workload end."""
        if self.stop.end(self.learner.gain) is None:
            self._fill()

    def settle(self) -> None:
        """Take back what no device has begun, and record the rest as it ends."""
        for index in self._flight.withdraw():
            self.trials.release(index)
            self._batches.cut_off.append(index)
        try:
            while self._flight:
                self._take_result()
        except AutotuneError as error:
            if self.ended is None:
                raise
            self._forget()
            _log.warning("%s: what was still measured is lost: %s", self.task.workload, error)
        self._learn()

    def fail(self, error: AutotuneError) -> None:
        """Give up: the workload cannot be measured; what is in flight is lost."""
        self._forget()
        super().fail(error)

    # -- the loop --------------------------------------------------------------------------

    def _measure_batch(self) -> None:
        """Do a turn: as many results as a batch has, or at least one of each device."""
        known = len(self.trials)
        for _ in range(max(self.limits.batch, self._width)):
            thinks = self._fill()
            if not self._flight or self.stop.limit is not None:
                break
            with self.learner.beside_builds(len(self._flight)) as background:
                if thinks:
                    background.start()
                self._take_result()
        self._learn()
        self._end_if_exhausted(known)

    def _fill(self) -> bool:
        """Submit candidates until enough are in flight; return whether there were any.

        The tuner learns first what has come since it was last asked.
        """
        self._exhausted, before = False, len(self._flight)
        while self._refused_since < MAX_REFUSED and (missing := self._missing()):
            self.learner.learn(goes_on=False)
            batch = self._batches.next_batch(missing)
            if not batch:
                self._exhausted = True
                if not self._flight:  # at last those that other runs had claimed
                    batch, self._deferred = list(dict.fromkeys(self._deferred)), []
            self._submit(batch)
            if self._exhausted:
                break
        return len(self._flight) > before

    def _missing(self) -> int:
        """Return how many candidates to submit now, 0 at a limit."""
        self._recall()
        if self.stop.limit is not None:
            return 0
        # What is queued begins when a device is free: nothing is, shortly before the time is over.
        return self._flight.missing(min(self._batches.left, max(self._width, self._trials_left())))

    def _submit(self, indices: Sequence[int]) -> None:
        """Submit those that may be built, and that nobody measures or has measured."""
        for index in indices:
            if index in self._flight or index in self.trials.by_index:
                continue  # the default, which the tuner may propose, too
            if self._draft(index) and self._claim(index):
                self.stop.measure_machine()
                config = self.task.space.config(index)
                self._flight.submit(MeasureInput(config, self.trials.best_s))

    def _take_result(self) -> None:
        """Wait for a result and record it."""
        candidate, result = self._flight.next_result()
        self._record(candidate, result)
        self.trials.release(candidate.config.index)

    def _end_if_exhausted(self, known: int) -> None:
        """End when nothing is in flight, and a turn has added nothing; see `Session`."""
        if not self._flight:
            super()._end_if_exhausted(known)
        elif len(self.trials) > known:
            self._refused_since = 0

    def _forget(self) -> None:
        """Let others measure what was in flight, because here it has no result."""
        for index in self._flight.forget():
            self.trials.release(index)

    @property
    def _width(self) -> int:
        assert isinstance(self.measurer, SupportsParallelRuns)
        return self.measurer.width


def new_session(
    task: Task,
    measurer: Measurer,
    tuner: Tuner,
    store: RecordStore,
    seed: int,
    limits: Limits,
    **options: Any,
) -> Session:
    """Return the session that tunes a workload on one device, or on several; see `Session`."""
    tuner.asynchronous = isinstance(measurer, SupportsParallelRuns)
    kind = ParallelSession if tuner.asynchronous else Session
    return kind(task, measurer, tuner, store, seed, limits, **options)
