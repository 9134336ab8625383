"""Local search: small changes and mixtures of the best, chosen by measurements near them."""

from __future__ import annotations

import numpy as np

from autotune.cost_model.base import IndexVector
from autotune.tuner.search.k_nearest import NeighbourTuner
from autotune.tuner.search.mutations import crossover, mutated, one_knob_neighbors, unseen

DECAY = 0.7  # The k-th best of them is chosen with a weight of DECAY^k.
POOL = 32  # The best of this number of moves is made.
CROSS_SHARE = 0.25  # Share of moves that mix two of the best candidates.
LEAP_SHARE = 0.2  # Share of moves that change two knobs; the others change one.


class LocalTuner(NeighbourTuner):
    """Moves from the best candidates to neighbours with good measurements around them.

    Candidates far from all measurements get a bonus, so that the search leaves a neighbourhood
    before it has tried all of it, and can return later.
    """

    START = 8
    PARENTS = 8
    BLIND_SHARE = 0.1

    def _drawn(self, best: list[int], seen: set[int], rng: np.random.Generator) -> list[int]:
        moves = unseen(self.space, self._moved(best, rng), seen)[:POOL]
        if moves:
            return moves
        near = (one_knob_neighbors(self.space, [index]).tolist() for index in best)
        unknown = ([i for i in some if i not in seen] for some in near)
        return next(filter(None, unknown), [])

    def _moved(self, best: list[int], rng: np.random.Generator) -> IndexVector:
        """Return rows of knob positions, not all feasible: the best, mixed or changed a little."""
        rows = self.space.positions(best)
        weights = DECAY ** np.arange(len(best))
        some, others = rng.choice(len(best), size=(2, 2 * POOL), p=weights / weights.sum())
        lot = rng.random(2 * POOL)
        crossing = lot < CROSS_SHARE
        leaping = ~crossing & (lot < CROSS_SHARE + LEAP_SHARE)
        mixed = crossover(rows[some], rows[others], rng)
        start = np.where(crossing[:, None], mixed, rows[some])
        knobs = np.where(crossing, 0, np.where(leaping, 2, 1))
        return mutated(self.space, start, knobs, rng)
