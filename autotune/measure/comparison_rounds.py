"""Rounds in which finalists are timed in turns, in a process that has run nothing before them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_failures import ended
from autotune.measure.pool.worker_pool import Worker
from autotune.measure.pool.worker_slot import Told, killed_from_outside
from autotune.measure.result import MeasureError, MeasureInput, MeasureResult
from autotune.measure.scheduler import Job, Workshop
from search_spaces import Config

_log = logging.getLogger(__name__)

LONGER = 4.0
"""A round has so many times the seconds that it should take, before it is given up."""


class Rounds:
    """Builds finalists once, and has them timed in turns.

    Parameters
    ----------
    workshop : Workshop
        Whose builders and runner do the work.
    timeout_s : float
        Seconds a candidate may take to build, and again for its first calls.
    """

    def __init__(self, workshop: Workshop, timeout_s: float) -> None:
        self._workshop = workshop
        self._timeout_s = timeout_s
        self._jobs: dict[int, Job] = {}
        self._entered: dict[int, float | None] = {}
        self._runner: Worker | None = None

    def forget(self) -> None:
        """Drop what was built."""
        self._jobs, self._entered, self._runner = {}, {}, None

    def compare(
        self, configs: Sequence[Config], seconds: float, seed: int, fresh: bool, check: bool
    ) -> dict[int, MeasureResult]:
        """Time candidates in turns, as `autotune.measure.result.Comparing` says."""
        jobs = [self._job(config) for config in configs]
        if any(job.told is None for job in jobs):
            self._workshop.build(jobs)
        if fresh:
            self._workshop.renew_runner(check)
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

    def _job(self, config: Config) -> Job:
        return self._jobs.setdefault(config.index, Job(MeasureInput(config), again=True))

    def _enter(self, job: Job) -> tuple[MeasureResult | None, bool]:
        """Let a candidate be loaded and called, unless it is; return how it failed, if it did.

        The second is whether it is not known whose fault a failure is.
        """
        assert job.told is not None
        number = job.candidate.config.index
        failure = _failure(job.told, self._timeout_s)
        if failure is not None:
            return MeasureResult(error=failure), False
        if self._runner is not None and self._runner is not self._workshop.runner:
            self._runner = None  # it has died
        if self._runner is None:
            self._entered = {}
        elif number in self._entered:
            return None, False
        told = self._workshop.enter(job)
        if killed_from_outside(told.outcome):
            return None, True
        failure = _failure(told, self._timeout_s)
        if not isinstance(told.outcome, Message):
            return MeasureResult(error=failure), False
        self._runner = self._workshop.runner
        max_error = told.outcome.body["max_error"]
        if failure is not None:
            return MeasureResult(error=failure, max_error=max_error), False
        self._entered[number] = max_error
        return None, False

    def _round(self, numbers: list[int], seconds: float, seed: int) -> dict[int, MeasureResult]:
        if set(numbers) - self._entered.keys():
            return {}  # a candidate has taken with it a process that others had entered
        timeout_s = LONGER * seconds + self._timeout_s
        told = self._workshop.round(
            {"numbers": numbers, "seconds": seconds, "seed": seed}, timeout_s
        )
        failure = _failure(told, timeout_s)
        if failure is not None:
            self._runner = None
            _log.warning("a round of the final comparison is lost: %s", failure.message)
            return {}
        assert isinstance(told.outcome, Message)
        answer = told.outcome.body
        return {
            number: MeasureResult(
                costs_s=(cost_s,),
                code_hash=self._built(number)["code_hash"],
                max_error=self._entered[number],
                noise=answer["noise"],
                clocks=answer["clocks"],
                kernels=self._kernels(number),
                run_span=told.span,
            )
            for number, cost_s in zip(numbers, answer["costs_s"], strict=True)
        }

    def _kernels(self, number: int) -> tuple[dict[str, Any], ...] | None:
        kernels = self._built(number)["kernels"]
        return None if kernels is None else tuple(kernels)

    def _built(self, number: int) -> dict[str, Any]:
        """Return what the builder said of a candidate."""
        told = self._jobs[number].told
        assert told is not None
        assert isinstance(told.outcome, Message)
        return told.outcome.body


def _failure(told: Told, timeout_s: float) -> MeasureError | None:
    """Return how something that a worker was asked has failed, None if it has not."""
    if not isinstance(told.outcome, Message):
        return ended(told, timeout_s).error
    error = told.outcome.body.get("error")
    return None if error is None else MeasureError.from_json(error)
