"""Ranks a space by models: one scores every candidate, the others the best of those."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource, FloatVector, IndexVector
from autotune.tuner.population import PopulationSettings, evolve
from autotune.tuner.scoring import highest, score, without
from search_spaces.space import ENUMERABLE, Space


@dataclass(frozen=True)
class RankingSettings:
    """How much of a space is scored, and how often.

    Attributes
    ----------
    whole : int
        A space of at most so many configurations is scored whole, of a larger one a population
        that evolves.
    population : PopulationSettings
    pool_share, pool_min : float, int
        The best share of what was scored, and no fewer than so many, are scored by all models.
    kept : int
        So many of these are returned.
    always : int
        A space of at most so many configurations is scored by each new model. A larger one is
        scored again once ``growth`` times as many measurements are known; until then the
        candidates that all models score stay the same.
    growth : float
    optimism : float
        Deviations among the models' scores that count for a candidate.
    """

    whole: int = ENUMERABLE
    population: PopulationSettings = field(default_factory=PopulationSettings)
    pool_share: float = 0.02
    pool_min: int = 256
    kept: int = 4096
    always: int = 1_000_000
    growth: float = 2.0
    optimism: float = 1.0


class SpaceRanker:
    """Finds the unseen candidates that models score highest.

    Parameters
    ----------
    space : Space
    features : FeatureSource
        Gives the rows that the models read.
    settings : RankingSettings
    """

    def __init__(
        self, space: Space, features: FeatureSource, settings: RankingSettings | None = None
    ) -> None:
        self._space = space
        self._features = features
        self._settings = settings or RankingSettings()
        self._pool = np.zeros(0, dtype=np.int64)
        self._models: tuple[CostModel, ...] = ()
        self._known = 0
        self._scores = np.zeros(0)

    def best(
        self,
        models: Sequence[CostModel],
        seen: IndexVector,
        known: int,
        rng: np.random.Generator,
    ) -> IndexVector:
        """Return the unseen candidates that are scored highest, ascending, int64 (m,).

        Parameters
        ----------
        models : sequence of CostModel
            The first one scores every candidate; all of them the best of those, by the mean of
            their scores and how far these lie apart. Others are taken for new models.
        seen : int64 (k,)
            Candidates not to return, ascending.
        known : int
            Number of measurements that the models were fitted to.
        rng : numpy.random.Generator
            Breeds a population, and chooses among equal scores.
        """
        new = tuple(models) != self._models
        if self._due(new, known):
            self._pool, self._known = self._best_share(models[0], seen, rng), known
            new = True
        if new:
            self._models = tuple(models)
            self._scores = self._by_all(self._pool)
        unseen = np.isin(self._pool, seen, invert=True)
        pool, scores = self._pool[unseen], self._scores[unseen]
        return pool[highest(scores, self._settings.kept, rng)]

    def _due(self, new: bool, known: int) -> bool:
        """Whether more than the pool has to be scored."""
        settings = self._settings
        if not self._models or len(self._space) > settings.whole:
            return True
        often = len(self._space) <= settings.always
        return new and (often or known >= settings.growth * self._known)

    def _best_share(
        self, model: CostModel, seen: IndexVector, rng: np.random.Generator
    ) -> IndexVector:
        """Return the best of all unseen candidates, or of a population."""
        settings = self._settings

        def scored(indices: IndexVector) -> FloatVector:
            out: FloatVector = score([model], self._features, indices)[0]
            return out

        if len(self._space) <= settings.whole:
            rows = without(self._space.feasible_indices(settings.whole), seen)
            scores = scored(rows)
        else:
            rows, scores = evolve(self._space, self._pool, scored, rng, settings.population)
            unseen = np.isin(rows, seen, invert=True)
            rows, scores = rows[unseen], scores[unseen]
        size = max(math.ceil(settings.pool_share * len(rows)), settings.pool_min)
        return rows[highest(scores, size, rng)]

    def _by_all(self, pool: IndexVector) -> FloatVector:
        """Return the scores of candidates by all models together."""
        scores = score(self._models, self._features, pool)
        total: FloatVector = scores.mean(axis=0) + self._settings.optimism * scores.std(axis=0)
        return total
