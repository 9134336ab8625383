"""A k-nearest-neighbour surrogate, and the search that measures its best predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from autotune.cost_model.base import FloatVector
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.encoding import KnobDistances

NEAREST = 5  # Number of nearest measurements (k) for each candidate.
DISTANCE_POWER = 2.0  # A measurement counts in inverse proportion to this power of its distance.

# What a distance of 1 from the nearest measurement is worth in ranks, where 1 leads from the best
# to the worst.
NOVELTY = 0.4


class KNearestSurrogate:
    """Predicts the rank of candidates from the ranks of their nearest measured neighbours.

    Two configurations are as far apart as knobs differ, and as these differ in size, half and
    half. Failures rank last.

    knobs: of the space.
    told: what was measured; at least one.
    novelty: as `NOVELTY`.
    """

    def __init__(
        self, knobs: KnobDistances, told: Sequence[Observation], novelty: float = NOVELTY
    ) -> None:
        self._knobs = knobs
        self._novelty = novelty
        self._known = knobs.positions([o.index for o in told])
        order = sorted(range(len(told)), key=lambda row: told[row].order)
        self._ranks = np.empty(len(told))
        self._ranks[order] = np.arange(len(told)) / len(told)
        self._ranks[[not o.ok for o in told]] = 1.0

    def best(self, candidates: Sequence[int]) -> int:
        """Return the candidate that promises most; the first one of equals."""
        return int(candidates[int(np.argmin(self.predict_ranks(candidates)))])

    def predict_ranks(self, candidates: Sequence[int]) -> FloatVector:
        """Return the expected rank of each candidate minus its bonus for novelty, (n,)."""
        positions = self._knobs.positions(candidates)
        changed = (positions[:, None, :] != self._known).sum(axis=2)
        apart = 0.5 * self._knobs.distances(positions, self._known) + 0.5 * changed
        count = min(NEAREST, apart.shape[1])
        nearest = np.argsort(apart, axis=1, kind="stable")[:, :count]
        distance = np.maximum(np.take_along_axis(apart, nearest, axis=1), 1e-9)
        weight = distance**-DISTANCE_POWER
        expected = (weight * self._ranks[nearest]).sum(axis=1) / weight.sum(axis=1)
        out: FloatVector = expected - self._novelty * distance[:, 0]
        return out


class NeighbourTuner(Tuner):
    """Draws candidates near the best measured ones; measures the ones with the best neighbours."""

    START: ClassVar[int]
    """Candidates measured before any are drawn, the default first: they spread over the space."""
    PARENTS: ClassVar[int]
    """Candidates are drawn from the best so many of all measured."""
    BLIND_SHARE: ClassVar[float] = 0.0
    """Share of proposals that are any of the drawn."""

    @abstractmethod
    def _drawn(self, best: list[int], seen: set[int], rng: np.random.Generator) -> list[int]:
        """Return candidates that are not among those seen; none where there seem to be none."""

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        best = [o.index for o in self.working[: self.PARENTS]]
        if len(self._seen) < self.START or not best:
            return self._spread(n, 16 * n, rng)
        surrogate = KNearestSurrogate(self._knobs, self.observations)
        picked: list[int] = []
        while len(picked) < n:
            drawn = self._drawn(best, self._seen.union(picked), rng)
            if not drawn:
                return picked + self._sample(n - len(picked), rng, exclude=picked)
            is_blind = self.BLIND_SHARE and rng.random() < self.BLIND_SHARE
            picked.append(drawn[0] if is_blind else surrogate.best(drawn))
        return picked
