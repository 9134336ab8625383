"""Local search: climbs from the best by one knob at a time, mixes in crossings, and restarts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.tuner.base import Tuner
from autotune.tuner.diversity import Geometry, spread_out
from autotune.tuner.moves import (
    TRIES,
    crossed,
    first_new,
    mutated,
    one_knob_changes,
    two_knobs_changed,
)
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
    leap_share : float
        Share of proposals that change two knobs of one of the best candidates to any value.
    decay : float
        The k-th best candidate is chosen with a weight of decay^k.
    patience : int
        A climb that proposed so many candidates in vain ends, and another one starts elsewhere.
    """

    start: int = 12
    climbers: int = 8
    cross_share: float = 0.25
    leap_share: float = 0.2
    decay: float = 0.5
    patience: int = 50


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
        self._climb: set[int] = set()
        self._top: int | None = None
        self._since = 0
        self._restarted = False

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        working = self._climbing()
        if len(self._climb) < self._settings.start or not working:
            sample = self._sample(16 * n, rng)
            picked = spread_out(self._geometry, sample, self.seen.tolist(), n)
        else:
            picked = self._moves(working, n, rng)
        self._climb.update(picked)
        return picked

    def _climbing(self) -> list[int]:
        """Return what worked of this climb, the fastest first; begin another one if it is stale."""
        told = [o for o in self._told.values() if o.index in self._climb or not self._restarted]
        working = sorted((o for o in told if o.ok), key=lambda o: o.order)
        if working and working[0].index != self._top:
            self._top, self._since = working[0].index, len(self._climb)
        if working and len(self._climb) - self._since >= self._settings.patience:
            self._climb, self._top, self._since, self._restarted = set(), None, 0, True
            return []
        return [o.index for o in working[: self._settings.climbers]]

    def _moves(self, best: list[int], n: int, rng: np.random.Generator) -> list[int]:
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
        lot = float(rng.random())
        if lot < self._settings.cross_share + self._settings.leap_share:
            rows = self.space.positions([best[number] for number in order[:2]])
            if lot < self._settings.cross_share and len(rows) > 1:
                rows = mutated(self.space, crossed(rows[0], rows[1], TRIES, rng), 0.05, rng)
            else:
                rows = two_knobs_changed(self.space, rows[0], TRIES, rng)
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
