"""A genetic algorithm: mixtures of good candidates, slightly changed, replace bad ones."""

from __future__ import annotations

import numpy as np

from autotune.tuner.base import Tuner
from autotune.tuner.encoding import KnobDistances
from autotune.tuner.search.k_nearest import KNearestSurrogate
from autotune.tuner.search.mutations import crossover, mutated, unseen
from search_spaces.space import Space

START = 16  # Candidates measured before any are bred.
POPULATION = 16  # The best so many of all measured are parents.
TOURNAMENT = 3  # A parent is the best of so many drawn from the population.
MUTATIONS = 0.8  # Mean number of mutated knobs of a child.
OFFSPRING = 4  # Children per measurement, of which the most promising one is measured.
TRIES = 64  # Attempts at a new child, before a random candidate takes its place.


class GeneticTuner(Tuner):
    """Breeds from the best candidates measured so far, steadily, and never the same child twice.

    The first candidates spread over the space. A child that breaks a constraint or was seen is
    bred again; where that fails for long, a random candidate takes its place.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._knobs = KnobDistances(space)

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        working = self.working
        if len(self._seen) < START or len(working) < 2:
            return self._spread(self._knobs, n, 16 * n, rng)
        parents = [o.index for o in working[:POPULATION]]
        surrogate = KNearestSurrogate(self._knobs, self.observations)
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
        """Return up to `OFFSPRING` different new children; fewer where most are known."""
        drawn = rng.integers(len(parents), size=(2, TRIES, TOURNAMENT)).min(axis=2)
        rows = self.space.positions(parents)
        mixed = crossover(rows[drawn[0]], rows[drawn[1]], rng)
        varying = sum(len(knob) > 1 for knob in self.space.knobs)
        knobs = rng.binomial(varying, MUTATIONS / max(varying, 1), size=TRIES)
        return unseen(self.space, mutated(self.space, mixed, knobs, rng), excluded)[:OFFSPRING]
