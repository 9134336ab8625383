"""Rounds that time the finalists in turns, in a new process."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_pool import Worker
from autotune.measure.pool.worker_slot import killed_from_outside
from autotune.measure.result import MeasureInput, MeasureResult
from autotune.measure.scheduler import BuildJob, Scheduler
from search_spaces import Config

_log = logging.getLogger(__name__)

KEPT = 64  # Trials whose machine code is kept for the rounds: the fastest.

LONGER = 4.0  # A round is given up after this many times the seconds that it should take.


class Rounds:
    """Builds finalists once, and has them timed in turns.

    scheduler: whose builders and runner do the work.
    timeout_s: seconds a candidate may take to build, and again for its first calls.
    """

    def __init__(self, scheduler: Scheduler, timeout_s: float) -> None:
        self._scheduler = scheduler
        self._timeout_s = timeout_s
        self._jobs: dict[int, BuildJob] = {}
        self._costs_s: dict[int, float] = {}  # of the jobs that were trials
        self._entered: dict[int, float | None] = {}
        self._runner: Worker | None = None

    def forget(self) -> None:
        """Drop the built code."""
        self._jobs, self._costs_s, self._entered, self._runner = {}, {}, {}, None

    @property
    def built(self) -> Collection[int]:
        """Configurations that need not be built again."""
        return self._jobs.keys()

    def keep(self, job: BuildJob, cost_s: float) -> None:
        """Keep the code built for a trial, if the trial is one of the fastest."""
        number = job.candidate.config.index
        self._jobs[number], self._costs_s[number] = job, cost_s
        if len(self._costs_s) > KEPT:
            slowest = max(self._costs_s, key=self._costs_s.__getitem__)
            del self._jobs[slowest], self._costs_s[slowest]

    def give(self, job: BuildJob) -> None:
        """Take code that was built elsewhere, unless it is known."""
        self._jobs.setdefault(job.candidate.config.index, job)

    def compare(
        self, configs: Sequence[Config], seconds: float, seed: int, fresh: bool, check: bool
    ) -> dict[int, MeasureResult]:
        """Time candidates in turns, as `SupportsComparison` says."""
        jobs = [
            self._jobs.setdefault(config.index, BuildJob(MeasureInput(config), remeasure=True))
            for config in configs
        ]
        if unbuilt := [job for job in jobs if job.response is None]:
            self._scheduler.build(unbuilt)
        # A new process would compile callables anew, which may take longer than a round.
        if fresh and not any(job.compiles_late for job in jobs):
            self._scheduler.replace_runner(check)
            self._runner = None
        results: dict[int, MeasureResult] = {}
        for job in jobs:
            failure, void = self._enter(job)
            if void:
                return {}
            if failure is not None:
                results[job.candidate.config.index] = failure
        numbers = [c.index for c in configs if c.index not in results]
        return results | self._round(numbers, seconds, seed) if numbers else results

    def _enter(self, job: BuildJob) -> tuple[MeasureResult | None, bool]:
        """Let a candidate be loaded and called, unless it is; return how it failed, if it did.

        The second is whether it is not known whose fault a failure is.
        """
        assert job.response is not None
        number = job.candidate.config.index
        failure = job.response.error(self._timeout_s)
        if failure is not None:
            return MeasureResult(error=failure), False
        if self._runner is not None and self._runner is not self._scheduler.runner:
            self._runner = None  # it has died
        if self._runner is None:
            self._entered = {}
        elif number in self._entered:
            return None, False
        response = self._scheduler.load_for_round(job)
        if killed_from_outside(response.outcome):
            return None, True
        failure = response.error(self._timeout_s)
        if not isinstance(response.outcome, Message):
            return MeasureResult(error=failure), False
        self._runner = self._scheduler.runner
        max_error = response.outcome.body["max_error"]
        if failure is not None:
            return MeasureResult(error=failure, max_error=max_error), False
        self._entered[number] = max_error
        return None, False

    def _round(self, numbers: list[int], seconds: float, seed: int) -> dict[int, MeasureResult]:
        if set(numbers) - self._entered.keys():
            return {}  # a candidate has ended the process into which others had been loaded
        timeout_s = LONGER * seconds + self._timeout_s
        request = {"numbers": numbers, "seconds": seconds, "seed": seed}
        response = self._scheduler.ask_alone("round", timeout_s, request)
        failure = response.error(timeout_s)
        if failure is not None:
            self._runner = None
            _log.warning("a round of the final comparison is lost: %s", failure.message)
            return {}
        assert isinstance(response.outcome, Message)
        answer = response.outcome.body
        return {
            number: MeasureResult(
                costs_s=(cost_s,),
                max_error=self._entered[number],
                noise=answer["noise"],
                clocks=answer["clocks"],
                run_span=response.span,
                **self._jobs[number].facts,
            )
            for number, cost_s in zip(numbers, answer["costs_s"], strict=True)
        }
