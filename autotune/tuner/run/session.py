"""Tunes one workload: proposes, measures and records batches, and tells the tuner the results.

The log is the only memory between runs: its records count as trials, and the tuner learns them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence

from autotune.errors import AutotuneError
from autotune.measure.noise_monitor import NOISY
from autotune.measure.recorded_measurer import result_of
from autotune.measure.result import (
    MeasureErrorNo,
    MeasureInput,
    Measurer,
    MeasureResult,
    SupportsComparison,
)
from autotune.measure.roofline import Ceiling
from autotune.task.task import Task
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.run.background import BackgroundTask
from autotune.tuner.run.batching import BatchProposer
from autotune.tuner.run.events import (
    Compared,
    End,
    EventCallback,
    Finished,
    MachineKnown,
    Measured,
    Noisy,
    Started,
    TuneSummary,
    ignore_event,
)
from autotune.tuner.run.final_comparison import SHARE, FinalComparison
from autotune.tuner.run.limits import Deadline, Limits, TrialPace
from autotune.tuner.run.roofline_goal import RooflineGoal
from autotune.tuner.run.stop_rule import Patience
from autotune.tuner.run.trials import Trials
from records import Record, RecordStore

AT_A_TIME = 16
"""Candidates that are claimed and built before the first of them runs, at most."""

LATE = 4
"""Candidates left of a batch when the next one is asked for, if the next can be built meanwhile."""

LONG_RUN = 24
"""With more trials a run is long: its tuner will need everything it has."""

USUAL_PACE_S = 0.2
"""Seconds that a trial is taken to need before there was one."""

MAX_REFUSED = 1000
"""Proposals refused in a row after which no legal one is expected any more."""

_log = logging.getLogger(__name__)


class Session:
    """Tunes one workload: `open`, then `step` until it has `ended`.

    The first candidate is the default configuration, whatever the tuner: the baseline that the
    result is compared with.

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
    seed : int
        Recorded with each measurement.
    limits : Limits
        When to end.
    job : str
        What events call this workload.
    weight : float
        How much its time matters beside that of other workloads, > 0.
    clock : callable
        Returns monotonic seconds.

    Attributes
    ----------
    deadline : Deadline
        When to end in any case; at first there is none. Set it before opening.
    on_event : callable
        Told what happens; nobody at first.
    trials : Trials
        What is measured so far.
    ended : End or None
        Why it is over; None before.
    gain : float or None
        By what share of the best time the tuner expects all further measurements to better it.
        It is estimated beside the builds of the batch that is proposed next.
    gain_at_once : bool
        Whether it is estimated before that, for a choice that depends on it; for patience it is
        in any case.
    summary : TuneSummary or None
        What was achieved, once it is over.
    error : AutotuneError or None
        Why the workload could not be measured, if it `FAILED`.
    refused : dict of int to str
        Proposals that were not built, each with the rule that rejects it.

    Raises
    ------
    UsageError
        If the tuner has no estimate for patience, or the workload cannot be held against its goal.
    """

    def __init__(
        self,
        task: Task,
        measurer: Measurer,
        tuner: Tuner,
        store: RecordStore,
        seed: int,
        limits: Limits,
        job: str = "",
        weight: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.task = task
        self.measurer = measurer
        self.trials = Trials(task, store, measurer.policy, seed)
        self.limits = limits
        self.job = job
        self.weight = weight
        self.deadline = Deadline()
        self.on_event: EventCallback = ignore_event
        self.ended: End | None = None
        self.gain: float | None = None
        self.gain_at_once = limits.patience is not None
        self.summary: TuneSummary | None = None
        self.error: AutotuneError | None = None
        self.refused: dict[int, str] = {}
        self._refused_since = 0
        self._tuner = tuner
        self._patience = None if limits.patience is None else Patience(tuner, limits.patience)
        self._clock = clock
        self._begin = clock()
        self._paces = TrialPace(clock)
        self._measured = 0
        self._spent_s = 0.0
        self._compares = isinstance(measurer, SupportsComparison)
        self._no_finals = ""
        self._untold: list[Observation] = []
        self._deferred: list[int] = []
        self._supply = BatchProposer(task, measurer, tuner, self.trials, limits)
        self._goal = RooflineGoal(task, limits.goal)
        self._why = ""
        self._noisy = False
        self._gain_due = True
        self._preparations = tuner.preparations()

    # -- what a scheduler asks -------------------------------------------------------------

    @property
    def pace_s(self) -> float | None:
        """Seconds per trial lately, all included; None before the first."""
        return self._paces.mean_s

    @property
    def left_s(self) -> float | None:
        """Seconds until all trials are done, at this pace; None if that is not known."""
        if self.ended is not None:
            return 0.0
        if self.limits.trials is None or self.pace_s is None:
            return None
        return self.pace_s * max(0, self.limits.trials - len(self.trials))

    # -- the course of it ------------------------------------------------------------------

    def open(self) -> None:
        """Take in what the log holds."""
        self._recall()
        self._learn()
        default = self.trials.default_record
        default_s = default.cost_s if default is not None and default.ok else None
        trials, recorded, best = self.limits.trials, len(self.trials), self.trials.best
        self.on_event(Started(trials, recorded, best, self.job, default_s))

    def step(self) -> None:
        """Measure one batch, or find that it is over and sum up.

        Each measurement is in the log before the next one begins, or on a GPU before it ends, so
        that a run that is interrupted or killed loses at most the candidates it was at.

        Raises
        ------
        AutotuneError
            If the workload cannot be measured at all.
        """
        begin = self._clock()
        if self._goal.needs_measurement:
            self._know_machine()
        self._remeasure_machine()
        self.ended = self._end()
        if self.ended is None:
            with self._paces.batch():
                self._measure_batch()
                self._learn()
        self._spent_s += self._clock() - begin
        if self.ended is not None:
            self._finish()

    def fail(self, error: AutotuneError) -> None:
        """Give up: the workload cannot be measured."""
        self.ended, self.error, self._why = End.FAILED, error, str(error)
        self._sum_up()

    def close(self) -> None:
        """Let others measure what was claimed here."""
        self.trials.close()

    def _end(self) -> End | None:
        """Return why to go on no further, if there is a reason now."""
        end = self._limit()
        if end is End.GOAL:
            self._why = f"the goal {self.limits.goal} is reached"
        if end is None and self._patience is not None:
            self._why = self._patience.reason_to_stop(self.gain) or ""
            end = End.PATIENCE if self._why else None
        return end

    def _limit(self) -> End | None:
        """Return which limit is reached, if one is, whatever is expected of going on."""
        best_s, goal_s = self.trials.best_s, self._goal.goal_s
        if goal_s is not None and best_s is not None and best_s <= goal_s:
            return End.GOAL
        if self.limits.trials is not None and len(self.trials) >= self.limits.trials:
            return End.TRIALS
        return End.TIME if self._search_time.over else None

    @property
    def _search_time(self) -> Deadline:
        """When no trial may begin any more: the rest is for the final comparison."""
        return self.deadline.part(1.0 - SHARE) if self._compares else self.deadline

    def _learn(self) -> None:
        """Tell the tuner what is new; ask for its estimate if that is of use now."""
        untold, self._untold = self._untold, []
        self._tuner.tell(untold)
        self._gain_due = True
        if self.gain_at_once and self._limit() is None:
            self._estimate()

    def _estimate(self) -> None:
        """Ask the tuner for the expected gain, once after each batch of results."""
        if self._gain_due:
            self._gain_due = False
            self.gain = self._tuner.expected_gain()

    # -- a batch ---------------------------------------------------------------------------

    def _measure_batch(self) -> None:
        indices, known = self._supply.next_batch(), len(self.trials)
        exhausted = not indices
        if exhausted:  # others may have given up what they were measuring
            indices, self._deferred = list(dict.fromkeys(self._deferred)), []
        self._measure(indices)
        if len(self.trials) > known:
            self._refused_since = 0
        elif exhausted or self._refused_since >= MAX_REFUSED:
            self.ended = End.EXHAUSTED

    @property
    def _expected_left(self) -> float:
        """How many trials there may still be, at this pace."""
        left_s = self._search_time.left_s
        in_time = math.inf if left_s is None else left_s / (self.pace_s or USUAL_PACE_S)
        return min(self._supply.left, in_time)

    def _prebuild_next(self, left: int, thinking: BackgroundTask) -> None:
        """Ask for the next batch while so many of this one are left, and have it built already."""
        if self._supply.left > left and self._limit() is None:
            thinking.wait()  # the tuner does one thing at a time
            self._learn()
            self._supply.propose_ahead(left)

    def _measure(self, indices: Sequence[int]) -> None:
        for start in range(0, len(indices), AT_A_TIME):
            if self._limit() is None:
                self._measure_some(indices[start : start + AT_A_TIME], len(indices) - start)
        done = {*self.trials.by_index, *self._deferred, *self.refused}
        self._supply.requeue([index for index in indices if index not in done])

    def _measure_some(self, indices: Sequence[int], rest: int) -> None:
        """Measure a few candidates, the first of those that are still to be measured now."""
        with (
            BackgroundTask(functools.partial(self._think, rest)) as thinking,
            contextlib.closing(self._results(indices, thinking)) as results,
        ):
            for done, (candidate, result) in enumerate(results, 1):
                self._recall(thinking)
                index = candidate.config.index
                record = self.trials.add(index, result)
                if record is not None:
                    self._measured += 1
                    self._paces.count()
                    self._untold.append(_observation(index, record))
                    self._announce(record, result)
                late = rest - done == min(LATE, rest // 2) and not self._supply.has_next
                if self._supply.overlap and late:
                    self._prebuild_next(rest - done, thinking)

    def _think(self, rest: int, waited_for: Callable[[], bool]) -> None:
        """Let the tuner do, beside the builds, what proposals after the rest will need."""
        self._estimate()
        if self._expected_left > rest:
            self._tuner.think()
        while self._expected_left > LONG_RUN and not waited_for():
            if next(self._preparations, self) is self:
                break

    def _results(
        self, indices: Sequence[int], thinking: BackgroundTask
    ) -> Generator[tuple[MeasureInput, MeasureResult], None, None]:
        """Measure; a generator whatever the measurer returns, so that it can be closed."""

        def still_wanted(candidate: MeasureInput) -> bool:
            if not self._supply.overlap:
                # They are built, and what is timed must not have neighbours.
                if thinking.is_running and self._limit() is None:
                    self._supply.prebuild_held_back()
                thinking.wait()
            self._know_machine()
            self._recall(thinking)
            return self._limit() is None and candidate.config.index not in self.trials.by_index

        try:
            yield from self.measurer.measure(self._claimed(indices, thinking), still_wanted)
        finally:
            self.trials.release()

    def _claimed(self, indices: Sequence[int], thinking: BackgroundTask) -> Iterator[MeasureInput]:
        """Yield the candidates that nobody else has measured or is measuring.

        Before the last one, thinking begins: until then they are traced one after the other, and
        that is for one thread at a time.
        """
        for index in indices:
            if self._limit() is not None:
                return
            drafted = self._drafts(index)
            if index == indices[-1]:
                thinking.start()
            if not drafted:
                continue
            if self.trials.claim(index):
                yield MeasureInput(self.task.space.config(index), self.trials.best_s)
            elif index not in self.trials.by_index:
                self._deferred.append(index)

    def _drafts(self, index: int) -> bool:
        """Draft the record of a configuration, unless the template refuses it; return whether.

        That is known of some only when they come: it is told to the tuner, and no trial.
        """
        rule = self.task.refusal(index)
        if rule:
            _log.debug("%s: candidate %s: refused: %s", self.task.workload, index, rule)
            self.refused[index] = rule
            self._refused_since += 1
            self._untold.append(Observation(index, None, MeasureErrorNo.INSTANTIATION_ERROR))
        else:
            self.trials.draft(index)
        return not rule

    def _recall(self, thinking: BackgroundTask | None = None) -> None:
        """Take in what others have logged; tell the measurer what was measured just as now.

        That is left for later while there is thinking: what is new may have to be traced.
        """
        if thinking is not None and thinking.is_running:
            return
        for index, record in self.trials.new_records():
            self._untold.append(_observation(index, record))
            if record.ok and self.trials.comparable(record):
                self.measurer.remember(result_of(record))

    def _announce(self, record: Record, result: MeasureResult) -> None:
        trial, wanted = len(self.trials), self.limits.trials
        if wanted is not None:
            wanted = max(wanted, trial)
        best = self.trials.best
        error = record.error
        told = f"{error['code']}: {error['message']}" if error else f"{record.cost_s} s"
        _log.debug("%s: candidate %s: %s", self.task.workload, record.index, told)
        self.on_event(Measured(trial, wanted, record, result, best, self.job, self.gain))
        noise = result.noise or 0.0
        if noise > NOISY and not self._noisy:
            self.on_event(Noisy(noise, self.job))
        self._noisy = noise > NOISY

    # -- the machine, and the end ----------------------------------------------------------

    def _know_machine(self) -> None:
        """Let the measurer find out what the machine can do, once."""
        if self._goal.is_measured:
            return
        self._tell_machine(self._goal.measure(self.measurer))

    def _remeasure_machine(self) -> None:
        """Measure the machine again before a time below the roofline is accepted."""
        best_s = self.trials.best_s
        self._tell_machine(self._goal.remeasure(self.measurer, best_s))

    def _tell_machine(self, ceiling: Ceiling | None) -> None:
        if ceiling is not None:
            peak, copy = ceiling.peak_flops, ceiling.copy_bytes_s
            ceiling_s, library_s = self._goal.ceiling_s, ceiling.library_s
            self.on_event(MachineKnown(peak, copy, ceiling_s, self.job, library_s))

    def _finish(self) -> None:
        """Compare the finalists with the default if there is anything new; sum up."""
        if self._measured:
            budget_s = SHARE / (1.0 - SHARE) * self._spent_s
            left_s = self.deadline.left_s
            finals = FinalComparison(
                self.task,
                self.measurer,
                self.trials,
                budget_s if left_s is None else min(budget_s, left_s),
                self.trials.seed,
                lambda found: self.on_event(Compared(found, self.job)),
                self._clock,
            )
            finals.run()
            self._no_finals = finals.why_not
            self._recheck_goal()
        self._sum_up()

    def _recheck_goal(self) -> None:
        """Say so if only a lucky trial has reached the goal."""
        chosen, goal_s = self.trials.chosen, self._goal.goal_s
        if self.ended is not End.GOAL or chosen is None or goal_s is None:
            return
        if chosen.cost_s > goal_s:
            goal = self.limits.goal
            self._why = f"a trial has reached the goal {goal}; the final comparison has not"

    def _sum_up(self) -> None:
        """Say what was achieved: what a build goes by, and the default beside it."""
        assert self.ended is not None
        best = self.trials.chosen
        default = self.trials.default_beside(best)
        self.summary = TuneSummary(
            trials=len(self.trials),
            measured=self._measured,
            failures=self.trials.failures,
            best=best,
            default_costs_s=None if default is None else default.costs_s,
            ended=self.ended,
            elapsed_s=self._clock() - self._begin,
            why=self._why,
            ceiling_s=self._goal.ceiling_s,
            refused=dict(Counter(self.refused.values()).most_common()),
            no_finals=self._no_finals,
        )
        self.on_event(Finished(self.summary, self.job))


def _observation(index: int, record: Record) -> Observation:
    if record.error is not None:
        return Observation(index, None, record.error["code"])
    return Observation(index, record.cost_s)
