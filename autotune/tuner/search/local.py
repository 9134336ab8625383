"""Local search: small changes and mixtures of the best, chosen by what was measured near them."""

from __future__ import annotations

import numpy as np

from autotune.cost_model.base import IndexVector
from autotune.tuner.base import Tuner
from autotune.tuner.encoding import KnobDistances
from autotune.tuner.search.k_nearest import KNearestSurrogate
from autotune.tuner.search.mutations import crossover, mutated, one_knob_neighbors, unseen
from search_spaces.space import Space

START = 8  # Candidates measured before it moves, the default one first.
CLIMBERS = 8  # Moves start from the best so many candidates.
DECAY = 0.7  # The k-th best of them is chosen with a weight of DECAY^k.
POOL = 32  # The best of so many moves is made.
CROSS_SHARE = 0.25  # Share of moves that mix two of the best candidates.
LEAP_SHARE = 0.2  # Share of moves that change two knobs; the others change one.
BLIND_SHARE = 0.1  # Share of proposals that are any move.


class LocalTuner(Tuner):
    """Moves from the best candidates to what their measured surroundings speak for.

    What lies far from all measurements counts as better than it looks, so that the search leaves
    a neighbourhood before it has exhausted it, and finds its way back.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._knobs = KnobDistances(space)

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        working = self.working
        if len(self._seen) < START or not working:
            return self._spread(self._knobs, n, 16 * n, rng)
        best = [o.index for o in working[:CLIMBERS]]
        surrogate = KNearestSurrogate(self._knobs, self.observations)
        picked: list[int] = []
        while len(picked) < n:
            moves = self._moves(best, self._seen.union(picked), rng)
            if not moves:
                return picked + self._sample(n - len(picked), rng, exclude=picked)
            blind = rng.random() < BLIND_SHARE
            picked.append(moves[0] if blind else surrogate.best(moves))
        return picked

    def _moves(self, best: list[int], excluded: set[int], rng: np.random.Generator) -> list[int]:
        """Return up to `POOL` moves at random; where there are none, changes of one knob."""
        moves = unseen(self.space, self._drawn(best, rng), excluded)[:POOL]
        if moves:
            return moves
        for index in best:
            near = one_knob_neighbors(self.space, [index]).tolist()
            moves = [i for i in near if i not in excluded]
            if moves:
                break
        return moves

    def _drawn(self, best: list[int], rng: np.random.Generator) -> IndexVector:
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
