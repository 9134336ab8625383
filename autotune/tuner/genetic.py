"""A genetic algorithm: mixtures of good candidates, slightly changed, replace bad ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.tuner.base import Observation, Tuner
from autotune.tuner.diversity import Geometry, spread_out
from autotune.tuner.moves import TRIES, crossed, first_new, mutated
from search_spaces.space import Space


@dataclass(frozen=True)
class GeneticSettings:
    """How the population lives.

    Attributes
    ----------
    start : int
        Candidates measured before any are bred.
    population : int
        The best so many of all measured are parents.
    tournament : int
        A parent is the best of so many drawn from the population.
    mutations : float
        Mean number of knobs of a child that change by themselves.
    """

    start: int = 16
    population: int = 12
    tournament: int = 3
    mutations: float = 0.8


class GeneticTuner(Tuner):
    """Breeds from the best candidates measured so far, steadily, and never the same child twice.

    The first candidates spread over the space. A child that breaks a constraint or was seen is
    bred again; where that fails for long, a random candidate takes its place.

    Parameters
    ----------
    space : Space
    seed : int
    settings : GeneticSettings
    """

    def __init__(self, space: Space, seed: int, settings: GeneticSettings | None = None) -> None:
        super().__init__(space, seed)
        self._settings = settings or GeneticSettings()
        self._geometry = Geometry(space)

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        settings = self._settings
        working = sorted((o for o in self._told.values() if o.ok), key=lambda o: o.order)
        if len(self._seen) < settings.start or len(working) < 2:
            sample = self._sample(16 * n, rng)
            return spread_out(self._geometry, sample, self.seen.tolist(), n)
        parents = working[: settings.population]
        picked: list[int] = []
        while len(picked) < n:
            child = self._child(parents, self._seen.union(picked), rng)
            if child is None:
                return picked + self._sample(n - len(picked), rng, exclude=picked)
            picked.append(child)
        return picked

    def _child(
        self, parents: list[Observation], barred: set[int], rng: np.random.Generator
    ) -> int | None:
        rate = self._settings.mutations / max(1, len(self._varying))
        for _ in range(8):
            pair = [self._parent(parents, rng), self._parent(parents, rng)]
            one, other = self.space.positions(pair)
            children = mutated(
                self.space, crossed(one, other, TRIES // 8, rng), rate, rng
            )
            found = first_new(self.space, children, barred)
            if found is not None:
                return found
        return None

    def _parent(self, parents: list[Observation], rng: np.random.Generator) -> int:
        drawn = rng.integers(len(parents), size=self._settings.tournament)
        return parents[int(drawn.min())].index  # they are sorted

    @property
    def _varying(self) -> list[int]:
        return [number for number, knob in enumerate(self.space.knobs) if len(knob) > 1]
