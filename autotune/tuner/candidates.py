"""Which candidates of a space are judged: all of a small one, a well-chosen part of a large one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource, IndexVector
from autotune.tuner.moves import one_knob_changes
from autotune.tuner.ranking import RankingSettings, SpaceRanker
from search_spaces.errors import SpaceError
from search_spaces.space import ENUMERABLE, Space


@dataclass(frozen=True)
class CandidateSettings:
    """How many candidates are judged.

    Attributes
    ----------
    whole : int
        A space of at most so many feasible candidates is judged whole.
    random : int
        Random candidates of a larger one.
    incumbents : int
        The one-knob changes of the best so many candidates are judged, too.
    ranking : RankingSettings
        Of the cost models, whose best candidates are judged, too.
    """

    whole: int = 30_000
    random: int = 4096
    incumbents: int = 8
    ranking: RankingSettings = field(default_factory=RankingSettings)


class Candidates:
    """Chooses the candidates of a space that are judged.

    Parameters
    ----------
    space : Space
    features : FeatureSource
        What the cost models read.
    settings : CandidateSettings
    """

    def __init__(
        self, space: Space, features: FeatureSource, settings: CandidateSettings | None = None
    ) -> None:
        self._space = space
        self._settings = settings or CandidateSettings()
        self._ranker = SpaceRanker(space, features, self._settings.ranking)

    def whole(self) -> IndexVector | None:
        """Return all feasible candidates, ascending; None if they are too many."""
        try:
            feasible = self._space.feasible_indices(ENUMERABLE)
        except SpaceError:
            return None
        return feasible if len(feasible) <= self._settings.whole else None

    def some(
        self,
        best: Sequence[int],
        models: Sequence[CostModel],
        seen: IndexVector,
        known: int,
        rng: np.random.Generator,
    ) -> IndexVector:
        """Return some unseen candidates, ascending: random ones, and those that look good.

        Parameters
        ----------
        best : sequence of int
            The fastest candidates measured, best first.
        models : sequence of CostModel
            Trained models, the one that is to score every candidate first; or none.
        seen : int64 (k,)
        known : int
            Number of measurements the models learned from.
        rng : numpy.random.Generator
        """
        settings = self._settings
        parts = [self._space.sample(settings.random, rng, exclude=seen)]
        if models:
            parts.append(self._ranker.best(models, seen, known, rng))
        parts += [one_knob_changes(self._space, i) for i in best[: settings.incumbents]]
        return np.setdiff1d(np.concatenate(parts), seen)

    def around(self, candidates: IndexVector, seen: IndexVector) -> IndexVector:
        """Return the unseen candidates one knob away from these, and these, ascending."""
        parts = [candidates, *(one_knob_changes(self._space, int(i)) for i in candidates)]
        return np.setdiff1d(np.concatenate(parts), seen)
