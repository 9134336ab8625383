"""Runs a tuner on recorded measurements: no device, no log, only the sequence that it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.base import FloatVector
from autotune.errors import UsageError
from autotune.measure.recorded_measurer import Recording, ReplayMeasurer
from autotune.measure.result import MeasureInput, MeasureResult
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.run.limits import Patience

# Candidates asked for at once: there is no building ahead that a batch would serve.
REPLAY_BATCH = 1


@dataclass(frozen=True)
class Trace:
    """The measurements of a tuner, in order."""

    indices: tuple[int, ...]  # Candidates, by index in the recording's space.
    costs_s: FloatVector  # float64 (n,): Recorded times in seconds; NaN for failures.
    # float64 (n,): Recorded seconds of building and running, summed up to and with each
    # measurement.
    seconds: FloatVector
    thinking_s: float  # Seconds the tuner itself took.
    ended: str  # Why no more was measured, in words.

    @property
    def best_s(self) -> FloatVector:
        """Least time so far after each measurement, infinite before the first that worked."""
        best: FloatVector = np.fmin.accumulate(np.nan_to_num(self.costs_s, nan=math.inf))
        return best


def replay(
    recording: Recording,
    tuner: Tuner,
    budget: int,
    batch: int = REPLAY_BATCH,
    patience: float | None = None,
) -> Trace:
    """Let a tuner search a recording.

    tuner: a new one, over the recording's space.
    budget: measurements at most.
    batch: candidates asked for at once.
    patience: stop when the tuner expects less than this share of gain from all further
        measurements.

    UsageError if `budget` or `batch` is less than 1, or `patience` is asked of a tuner that cannot
    tell.
    """
    if budget < 1 or batch < 1:
        raise UsageError(f"budget and batch must be at least 1, not {budget} and {batch}")
    rule = None if patience is None else Patience(tuner, patience)
    measurer = ReplayMeasurer(recording)
    indices: list[int] = []
    results: list[MeasureResult] = []
    thinking, ended = 0.0, f"the budget of {budget} is spent"
    while len(indices) < budget:
        begin = time.perf_counter()
        if rule is not None and (why := rule.reason_to_stop(tuner.expected_gain())):
            ended = why
            break
        asked = tuner.ask(min(batch, budget - len(indices)))
        thinking += time.perf_counter() - begin
        if not asked:
            ended = "the space is exhausted" if indices else "the space has no configuration"
            break
        inputs = [MeasureInput(recording.space.config(index)) for index in asked]
        answers = [measurer.run(candidate) for candidate in inputs]
        tuner.tell(observation_of(i, a) for i, a in zip(asked, answers, strict=True))
        indices += asked
        results += answers
    return trace_of(indices, results, thinking, ended)


def trace_of(
    indices: Sequence[int], results: Sequence[MeasureResult], thinking_s: float, ended: str
) -> Trace:
    """Return the trace of some measurements, in order."""
    costs = np.array([math.nan if r.cost_s is None else r.cost_s for r in results])
    seconds = np.cumsum([(r.build_s or 0.0) + (r.run_s or 0.0) for r in results])
    return Trace(tuple(indices), costs, seconds, thinking_s, ended)


def observation_of(index: int, result: MeasureResult) -> Observation:
    """Return the observation that a tuner gets of a result."""
    if result.error is not None:
        return Observation(index, None, str(result.error.code))
    return Observation(index, result.cost_s)
