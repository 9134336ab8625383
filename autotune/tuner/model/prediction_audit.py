"""The online audit: compares a model's predictions with the measurements that follow.

A model fits its own training data even if it is bad, so only predictions made before count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.ranking_metrics import rank_correlation
from autotune.tuner.base import Observation

LATEST = 32  # Number of latest measurements that an audit uses.


@dataclass(frozen=True)
class AuditResult:
    """How good the latest predictions were."""

    outcomes: int  # Number of guesses whose candidates worked.
    rank_correlation: float  # Of guesses with times: 1 where the order is right, 0 for chance.


class Audit:
    """Keeps predictions and compares them with the measurements."""

    def __init__(self) -> None:
        self._guesses: dict[int, float] = {}

    def expect(self, guesses: Mapping[int, float]) -> None:
        """Keep predictions of logarithmic times, by candidate, before these are measured."""
        self._guesses.update(guesses)

    def result(self, told: Mapping[int, Observation]) -> AuditResult:
        """Compare the latest guesses with the observations."""
        pairs = list(self._pairs(told))[-LATEST:]
        if len(pairs) < 2:
            return AuditResult(len(pairs), 0.0)
        guessed, speed = -np.array([g for g, _ in pairs]), np.array([s for _, s in pairs])
        return AuditResult(len(pairs), rank_correlation(guessed, speed))

    def _pairs(self, told: Mapping[int, Observation]) -> Iterable[tuple[float, float]]:
        """Yield (guess, logarithm of the speed) of what worked, in the order of the guesses."""
        for index, guess in self._guesses.items():
            observation = told.get(index)
            if observation is not None and observation.ok:
                yield guess, math.log(observation.throughput)
