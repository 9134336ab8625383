"""Local search: climbs from the best by one knob at a time, mixes in crossings, and restarts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.tuner.base import Tuner
from autotune.tuner.diversity import Geometry, spread_out
from autotune.tuner.moves import TRIES, crossed, first_new, mutated, one_knob_changes
from search_spaces.space import Space


@dataclass(frozen=True)
class LocalSettings:
    """How the search moves.

    Attributes
    ----------
    start : int
        Candidates measured before it climbs.
    climbers : int
        The neighbourhoods of the best so many candidates are searched.
    cross_share : float
        Share of proposals that mix two of the best candidates instead.
    decay : float
        The k-th best candidate is chosen with a weight of decay^k.
    """

    start: int = 12
    climbers: int = 8
    cross_share: float = 0.25
    decay: float = 0.5


class LocalTuner(Tuner):
    """Searches the one-knob neighbourhoods of the best candidates, the best one's most.

    A climb ends by itself when a neighbourhood is exhausted; the next best candidate's is then
    searched, and what was seen is never proposed again, so that no climb turns back.

    Parameters
    ----------
    space : Space
    seed : int
    settings : LocalSettings
    """

    def __init__(self, space: Space, seed: int, settings: LocalSettings | None = None) -> None:
        super().__init__(space, seed)
        self._settings = settings or LocalSettings()
        self._geometry = Geometry(space)

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        working = sorted((o for o in self._told.values() if o.ok), key=lambda o: o.order)
        if len(self._seen) < self._settings.start or not working:
            sample = self._sample(16 * n, rng)
            return spread_out(self._geometry, sample, self.seen.tolist(), n)
        best = [o.index for o in working[: self._settings.climbers]]
        picked: list[int] = []
        while len(picked) < n:
            found = self._move(best, self._seen.union(picked), rng)
            if found is None:
                return picked + self._sample(n - len(picked), rng, exclude=picked)
            picked.append(found)
        return picked

    def _move(self, best: list[int], barred: set[int], rng: np.random.Generator) -> int | None:
        weights = self._settings.decay ** np.arange(len(best))
        order = rng.choice(len(best), size=len(best), replace=False, p=weights / weights.sum())
        if len(best) > 1 and rng.random() < self._settings.cross_share:
            one, other = self.space.positions([best[order[0]], best[order[1]]])
            rows = mutated(self.space, crossed(one, other, TRIES, rng), 0.05, rng)
            found = first_new(self.space, rows, barred)
            if found is not None:
                return found
        for number in order.tolist():
            found = self._neighbor(best[number], barred, rng)
            if found is not None:
                return found
        return None

    def _neighbor(self, index: int, barred: set[int], rng: np.random.Generator) -> int | None:
        """Return an unseen neighbour: one step of a knob rather than a leap."""
        for around in (self.space.neighbors(index), one_knob_changes(self.space, index)):
            free = [i for i in around.tolist() if i not in barred]
            if free:
                return int(free[int(rng.integers(len(free)))])
        return None
