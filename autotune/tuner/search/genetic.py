"""A genetic algorithm: mixtures of good candidates, slightly changed, replace bad ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autotune.tuner.base import Tuner
from autotune.tuner.encoding import KnobDistances
from autotune.tuner.search.k_nearest import KNearestSettings, KNearestSurrogate
from autotune.tuner.search.mutations import crossover, mutated, unseen
from search_spaces.space import Space

TRIES = 64  # Attempts at a new child, before a random candidate takes its place.


@dataclass(frozen=True)
class GeneticSettings:
    """Settings of the genetic algorithm."""

    start: int = 16  # Candidates measured before any are bred.
    population: int = 16  # The best so many of all measured are parents.
    tournament: int = 3  # A parent is the best of so many drawn from the population.
    mutations: float = 0.8  # Mean number of mutated knobs of a child.
    # Offspring per measurement: the most promising one of these children is measured.
    offspring: int = 4
    # How children are judged.
    surrogate: KNearestSettings = field(default_factory=KNearestSettings)


class GeneticTuner(Tuner):
    """Breeds from the best candidates measured so far, steadily, and never the same child twice.

    The first candidates spread over the space. A child that breaks a constraint or was seen is
    bred again; where that fails for long, a random candidate takes its place.
    """

    def __init__(self, space: Space, seed: int, settings: GeneticSettings | None = None) -> None:
        super().__init__(space, seed)
        self._settings = settings or GeneticSettings()
        self._knobs = KnobDistances(space)

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        settings = self._settings
        working = self.working
        if len(self._seen) < settings.start or len(working) < 2:
            return self._spread(self._knobs, n, 16 * n, rng)
        parents = [o.index for o in working[: settings.population]]
        surrogate = KNearestSurrogate(self._knobs, self.observations, settings.surrogate)
        picked: list[int] = []
        while len(picked) < n:
            offspring = self._offspring(parents, self._seen.union(picked), rng)
            if not offspring:
                return picked + self._sample(n - len(picked), rng, exclude=picked)
            picked.append(surrogate.best(offspring))
        return picked

    def _offspring(
        self, parents: list[int], excluded: set[int], rng: np.random.Generator
    ) -> list[int]:
        """Return up to `offspring` different new children; fewer where most are known."""
        settings = self._settings
        drawn = rng.integers(len(parents), size=(2, TRIES, settings.tournament)).min(axis=2)
        rows = self.space.positions(parents)
        mixed = crossover(rows[drawn[0]], rows[drawn[1]], rng)
        varying = sum(len(knob) > 1 for knob in self.space.knobs)
        knobs = rng.binomial(varying, settings.mutations / max(varying, 1), size=TRIES)
        return unseen(self.space, mutated(self.space, mixed, knobs, rng), excluded)[
            : settings.offspring
        ]
