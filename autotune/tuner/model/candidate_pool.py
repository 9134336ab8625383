"""Chooses which candidates the model scores: all of a small space, a part of a large one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.cost_model.base import FeatureSource, IndexVector
from autotune.tuner.model.ranking import RankingSettings, SpaceRanker
from autotune.tuner.search.mutations import one_knob_neighbors
from search_spaces.space import ENUMERABLE, Space
from search_spaces.space_errors import SpaceError


@dataclass(frozen=True)
class CandidateSettings:
    """How many candidates are judged."""

    whole: int = 30_000  # A space of at most so many feasible candidates is judged whole.
    random: int = 4096  # Random candidates of a larger one.
    incumbents: int = 8  # The one-knob changes of the best so many candidates are judged, too.
    # Of the cost models, whose best candidates are judged, too.
    ranking: RankingSettings = field(default_factory=RankingSettings)


class Candidates:
    """Chooses the candidates of a space that are judged.

    features: what the cost models read.
    """

    def __init__(
        self, space: Space, features: FeatureSource, settings: CandidateSettings | None = None
    ) -> None:
        self._space = space
        self._settings = settings or CandidateSettings()
        self.ranker = SpaceRanker(space, features, self._settings.ranking)  # of a large space

    def whole(self) -> IndexVector | None:
        """Return all feasible candidates, ascending; None if they are too many."""
        try:
            feasible = self._space.feasible_indices(ENUMERABLE)
        except SpaceError:
            return None
        return feasible if len(feasible) <= self._settings.whole else None

    def prepare(self) -> None:
        """Make ready for ranking a large space."""
        if self.whole() is None:
            self.ranker.prepare()

    def some(self, best: Sequence[int], seen: IndexVector, rng: np.random.Generator) -> IndexVector:
        """Return some unseen candidates, ascending: random ones, and those that look good.

        best: the fastest candidates measured, best first.
        seen: int64 (k,).
        """
        settings = self._settings
        parts = [self._space.sample(settings.random, rng, exclude=seen), self.ranker.best(seen)]
        parts.append(one_knob_neighbors(self._space, best[: settings.incumbents]))
        return np.setdiff1d(np.concatenate(parts), seen)

    def around(self, candidates: IndexVector, seen: IndexVector) -> IndexVector:
        """Return the unseen candidates one knob away from these, and these, ascending."""
        near = one_knob_neighbors(self._space, candidates)
        return np.setdiff1d(np.concatenate([candidates, near]), seen)
