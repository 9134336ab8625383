"""Tunes one workload: `Session._measure_batch` is the loop propose, build, run, record, learn.

The tuner proposes a batch and learns the results; the measurer's builders build, and its runner
checks each answer and times it. The log is the only memory between runs: its records count as
trials, and the tuner learns them.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from autotune.errors import AutotuneError
from autotune.measure.measurer import Measurer, SupportsComparison
from autotune.measure.recorded_measurer import result_of
from autotune.measure.result import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.measure.timing.noise_monitor import NOISY
from autotune.task.copies import Copies
from autotune.task.task import Task
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.run import events
from autotune.tuner.run.batching import BatchProposer
from autotune.tuner.run.final_comparison import SHARE, FinalComparison
from autotune.tuner.run.learner import Learner
from autotune.tuner.run.limits import Limits, TrialPace
from autotune.tuner.run.stop_conditions import StopConditions
from autotune.tuner.run.trials import Trials
from records import Record, RecordStore

AT_A_TIME = 16  # Candidates that are claimed and built before the first of them runs, at most.

# Candidates left of a batch when the next one is asked for, if the next can be built meanwhile.
LATE = 4

USUAL_PACE_S = 0.2  # Assumed seconds of a trial, as long as none was measured.
MAX_REFUSED = 1000  # Proposals refused in a row after which no legal one is expected any more.

_log = logging.getLogger(__name__)


class Session:
    """Tunes one workload: `open`, then `step` until it has `ended`.

    The first candidate is the default configuration, whatever the tuner: the baseline that the
    result is compared with.

    measurer: measures candidates of this task; the caller closes it.
    tuner: a new one, over the task's space.
    store: earlier records of the workload on this device count as trials, failures included, and
        are never repeated, unless an earlier version of the template made them.
    seed: recorded with each measurement.
    job: what events call this workload.
    weight: weight of its time against those of other workloads, > 0.
    clock: returns monotonic seconds.
    any_device: whether records from other devices count as trials, too.

    UsageError if the tuner has no estimate for patience, or the goal does not apply to the
    workload.
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
        any_device: bool = False,
    ) -> None:
        self.task = task
        self.measurer = measurer
        where = measurer.device, measurer.versions
        self.trials = Trials(task, store, measurer.policy, seed, any_device, *where)
        self.limits = limits
        self.job = job
        self.weight = weight
        share = 1.0 - SHARE if isinstance(measurer, SupportsComparison) else 1.0
        # When to end; its deadline may be set before opening.
        self.stop = StopConditions(
            task, measurer, tuner, self.trials, limits, share, self._announce_machine
        )
        self.learner = Learner(tuner, self._trials_left, limits.patience is not None)
        self.on_event: events.EventCallback = events.ignore_event  # told what happens
        self.ended: events.End | None = None  # why it is over; None before
        self.summary: events.TuneSummary | None = None  # what was achieved, once it is over
        self.error: AutotuneError | None = None  # why it could not be measured, if it `FAILED`
        # Proposals that were not built, each with the rule that rejects it.
        self.refused: dict[int, str] = {}
        self._refused_since = 0
        self._clock = clock
        self._begin = clock()
        self._paces = TrialPace(clock)
        self._measured = 0
        self._spent_s = 0.0
        self._no_finals = ""
        self._exhausted = False
        self._deferred: list[int] = []
        # Copies: proposals that were not built because another one has the same program; and the
        # copies that wait for the result of an original, by its index.
        self._aside: set[int] = set()
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)
        self._copies = Copies(task) if measurer.reuses_code else None
        self._batches = BatchProposer(task, measurer, tuner, self.trials, limits, self._copies)
        self._noisy = False
        self._why_no_more = tuner.why_no_more

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
        """Read the log."""
        if self._copies is not None and self.trials.default is not None:
            self._copies.original_of(self.trials.default)  # it is measured, whatever the log has
        self._recall()
        default = self.trials.default_record
        default_s = default.cost_s if default is not None and default.ok else None
        trials, recorded, best = self.limits.trials, len(self.trials), self.trials.best
        self.on_event(events.Started(trials, recorded, best, self.job, default_s))
        self._learn()

    def begin(self) -> None:  # several devices only
        """Let the devices begin with the next turn, while those of another workload end."""

    def settle(self) -> None:  # several devices only
        """Let no candidate be in flight: another workload is next."""

    def step(self) -> None:
        """Measure one batch, or find that it is over and sum up.

        Each measurement is in the log before the next one begins, or on a GPU before it ends, so
        that a run that is interrupted or killed loses at most the candidates it was at.

        AutotuneError if the workload cannot be measured at all.
        """
        begin = self._clock()
        self.ended = self.stop.end(self.learner.gain)
        if self.ended is None:
            with self._paces.batch():
                self._measure_batch()
        self._spent_s += self._clock() - begin
        if self.ended is not None:
            self.settle()
            self._finish()

    def fail(self, error: AutotuneError) -> None:
        """Give up: the workload cannot be measured."""
        self.ended, self.error, self.stop.why = events.End.FAILED, error, str(error)
        self._sum_up()

    def close(self) -> None:
        """Release the claimed configurations, so that other runs may measure them."""
        self.trials.close()

    # -- the loop --------------------------------------------------------------------------

    def _measure_batch(self) -> None:
        """Do one turn of the loop: each phase is a method."""
        known = len(self.trials)
        batch = self._propose()
        for start in range(0, len(batch), AT_A_TIME):
            left = len(batch) - start
            with self.trials.claims(), self.learner.beside_builds(left):
                candidates = self._build(batch[start : start + AT_A_TIME])
                to_run = len(candidates) + max(0, left - AT_A_TIME)
                for done, (candidate, result) in enumerate(self._run_and_check(candidates), 1):
                    self._record(candidate, result)
                    self._propose_ahead(to_run - done, to_run)
        self._requeue(batch)
        self._learn()
        self._end_if_exhausted(known)

    def _propose(self) -> list[int]:
        """Return the next batch; without one, configurations that other runs have claimed."""
        batch = self._batches.next_batch()
        self._exhausted = not batch
        if self._exhausted:
            batch, self._deferred = list(dict.fromkeys(self._deferred)), []
        return batch

    def _build(self, indices: Sequence[int]) -> list[MeasureInput]:
        """Claim configurations and build them; leave out those that another run measures.

        The tuner works beside the builds. It starts after the last candidate is traced, because
        only one thread at a time may trace. Without `overlap` it ends before a candidate runs.
        """
        claimed = []
        for index in indices:
            if self.stop.limit is not None:
                break
            if self._draft(index) and self._claim(index):
                candidate = MeasureInput(self.task.space.config(index), self.trials.best_s)
                self.measurer.build([candidate])
                claimed.append(candidate)
        if claimed:
            self.learner.background.start()
            self.measurer.await_builds()
        if not self._batches.overlap:
            if self.learner.background.is_running and self.stop.limit is None:
                self._batches.prebuild_held_back()
            self.learner.background.wait()
        return claimed

    def _run_and_check(
        self, candidates: Sequence[MeasureInput]
    ) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        """Run candidates one after the other, until a limit is reached.

        The runner checks each answer before and after it takes the time.
        """
        if candidates:
            self.stop.measure_machine()
        for number, candidate in enumerate(candidates, 1):
            self._recall()
            if self._is_wanted(candidate):
                result = self.measurer.run(candidate)
                following = next(filter(self._is_wanted, candidates[number:]), None)
                if following is not None:
                    self.measurer.run_ahead(following)
                yield candidate, result

    def _record(self, candidate: MeasureInput, result: MeasureResult) -> None:
        """Append a result to the log, unless somebody else has logged that configuration."""
        self._recall()
        record = self.trials.add(candidate.config.index, result)
        if record is not None:
            self._measured += 1
            self._paces.count()
            self._tell(candidate.config.index, record)
            self._announce(record, result)

    def _learn(self) -> None:
        """Give the tuner the new results."""
        self.learner.learn(goes_on=self.stop.limit is None)

    # -- what the phases need --------------------------------------------------------------

    def _propose_ahead(self, left: int, part: int) -> None:
        """With `overlap`, ask for the next batch while the last of this one still have to run."""
        due = left == min(LATE, part // 2) and not self._batches.next
        if self._batches.overlap and due and self._batches.left > left and self.stop.limit is None:
            self.learner.background.wait()  # the tuner does one thing at a time
            self._learn()
            self._batches.propose_ahead(left)

    def _end_if_exhausted(self, known: int) -> None:
        """End when a batch has added nothing to the trials known before, and no other will."""
        if len(self.trials) > known:
            self._refused_since = 0
        elif self._exhausted or self._refused_since >= MAX_REFUSED:
            self.ended = events.End.EXHAUSTED
            refused = f"{self._refused_since} proposals in a row were refused or copies of others"
            self.stop.why = self._why_no_more if self._exhausted else refused

    def _requeue(self, batch: Sequence[int]) -> None:
        """Put the unmeasured candidates of this batch first in the next one."""
        done = {*self.trials.by_index, *self._deferred, *self.refused, *self._aside}
        self._batches.cut_off = [index for index in batch if index not in done]

    def _trials_left(self) -> float:
        """Return how many trials there may still be, at this pace."""
        left_s = self.stop.search_left_s
        in_time = math.inf if left_s is None else left_s / (self.pace_s or USUAL_PACE_S)
        return min(self._batches.left, in_time)

    def _is_wanted(self, candidate: MeasureInput) -> bool:
        return self.stop.limit is None and candidate.config.index not in self.trials.by_index

    def _claim(self, index: int) -> bool:
        """Claim a configuration; if another run measures it, keep it for the end."""
        claimed = self.trials.claim(index)
        if not claimed and index not in self.trials.by_index:
            self._deferred.append(index)
        return claimed

    def _draft(self, index: int) -> bool:
        """Draft the record of a configuration; return False if it is not to be measured.

        The template may refuse it, which is not always known before the configuration is traced, or
        it is the program of an earlier one. The tuner is told of both; they are no trials.
        """
        rule = self.task.refusal(index)
        original = None if rule or self._copies is None else self._copies.original_of(index)
        if rule:
            _log.debug("%s: candidate %s: refused: %s", self.task.workload, index, rule)
            self.refused[index] = rule
            self.learner.add(Observation(index, None, MeasureErrorNo.INSTANTIATION_ERROR))
        elif original is not None:
            _log.debug("%s: candidate %s: a copy of %s", self.task.workload, index, original)
            self._aside.add(index)
            if original in self.trials.by_index:
                self.learner.add(_observation(index, self.trials.by_index[original]))
            else:
                self._waiting[original].append(index)
        else:
            self.trials.draft(index)
            return True
        self._refused_since += 1
        return False

    def _tell(self, index: int, record: Record) -> None:
        """Let the tuner learn the result of a configuration, and of copies that wait for it."""
        for each in (index, *self._waiting.pop(index, ())):
            self.learner.add(_observation(each, record))

    def _recall(self) -> None:
        """Read what other runs have logged; tell the measurer of comparable measurements.

        This waits while the tuner works beside the builds: a new record may have to be traced.
        """
        if self.learner.background.is_running:
            return
        for index, record in self.trials.new_records():
            if self._copies is not None:
                self._copies.add_measured(index)
            self._tell(index, record)
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
        gain = self.learner.gain
        self.on_event(events.Measured(trial, wanted, record, result, best, self.job, gain))
        noise = result.noise or 0.0
        if noise > NOISY and not self._noisy:
            self.on_event(events.Noisy(noise, self.job))
        self._noisy = noise > NOISY

    def _announce_machine(self, machine: Ceiling) -> None:
        self.on_event(events.MachineKnown(machine, self.stop.ceiling_s, self.job))

    # -- the end ---------------------------------------------------------------------------

    def _finish(self) -> None:
        """Compare the finalists with the default if there is anything new; sum up."""
        if self._measured:
            budget_s = SHARE / (1.0 - SHARE) * self._spent_s
            left_s = self.stop.deadline.left_s
            finals = FinalComparison(
                self.task,
                self.measurer,
                self.trials,
                budget_s if left_s is None else min(budget_s, left_s),
                self.trials.seed,
                lambda found: self.on_event(events.Compared(found, self.job)),
                self._clock,
            )
            finals.run()
            self._no_finals = finals.why_not
            if self.ended is events.End.GOAL:
                self.stop.recheck_goal()
        self._sum_up()

    def _sum_up(self) -> None:
        """Report the result: the record that a build will use, and the default."""
        assert self.ended is not None
        best = self.trials.chosen
        default = self.trials.default_beside(best)
        self.summary = events.TuneSummary(
            trials=len(self.trials),
            measured=self._measured,
            failures=self.trials.failures,
            best=best,
            default_costs_s=None if default is None else default.costs_s,
            ended=self.ended,
            elapsed_s=self._clock() - self._begin,
            why=self.stop.why,
            ceiling_s=self.stop.ceiling_s,
            refused=dict(Counter(self.refused.values()).most_common()),
            copies=len(self._aside),
            no_finals=self._no_finals,
            default=default,
            first_error=self.trials.first_error,
        )
        self.on_event(events.Finished(self.summary, self.job))


def _observation(index: int, record: Record) -> Observation:
    if record.error is not None:
        return Observation(index, None, record.error["code"])
    return Observation(index, record.cost_s)
