"""A genetic algorithm: mixtures of good candidates, slightly changed, replace bad ones."""

from __future__ import annotations

import numpy as np

from autotune.tuner.search.k_nearest import NeighbourTuner
from autotune.tuner.search.mutations import crossover, mutated, unseen

TOURNAMENT = 3  # A parent is the best of this number of candidates drawn from the population.
MUTATIONS = 0.8  # Mean number of mutated knobs of a child.
OFFSPRING = 4  # Children per measurement; the most promising of them is measured.
TRIES = 64  # Attempts at a new child, before a random candidate takes its place.


class GeneticTuner(NeighbourTuner):
    """Breeds from the best candidates measured so far, steadily, and never the same child twice.

    The first candidates spread over the space. A child that breaks a constraint or was seen is
    bred again; where that fails for long, a random candidate takes its place.
    """

    START = 16
    PARENTS = 16

    def _drawn(self, best: list[int], seen: set[int], rng: np.random.Generator) -> list[int]:
        picked = rng.integers(len(best), size=(2, TRIES, TOURNAMENT)).min(axis=2)
        rows = self.space.positions(best)
        mixed = crossover(rows[picked[0]], rows[picked[1]], rng)
        varying = sum(len(knob) > 1 for knob in self.space.knobs)
        knobs = rng.binomial(varying, MUTATIONS / max(varying, 1), size=TRIES)
        return unseen(self.space, mutated(self.space, mixed, knobs, rng), seen)[:OFFSPRING]
