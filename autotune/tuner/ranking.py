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
        that evolves at every ranking.
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
    """

    whole: int = ENUMERABLE
    population: PopulationSettings = field(default_factory=PopulationSettings)
    pool_share: float = 0.02
    pool_min: int = 256
    kept: int = 4096
    always: int = 1_000_000
    growth: float = 2.0


class SpaceRanker:
    """Keeps the candidates that models score highest.

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
        self._scores = np.zeros(0)
        self._models: tuple[CostModel, ...] = ()
        self._known = 0

    def rank(
        self, models: Sequence[CostModel], measured: IndexVector, rng: np.random.Generator
    ) -> None:
        """Score the space, as far as anything is new.

        Parameters
        ----------
        models : sequence of CostModel
            The first one scores every candidate; the mean of all their scores counts for the best
            of those. Others are taken for new models.
        measured : int64 (k,)
            Candidates not to keep, ascending.
        rng : numpy.random.Generator
            Breeds a population, and chooses among equal scores.
        """
        new = tuple(models) != self._models
        if self._due(new, len(measured)):
            self._pool = self._best_share(models[0], measured, rng)
            self._known, new = len(measured), True
        if new:
            self._models = tuple(models)
            self._scores = score(models, self._features, self._pool).mean(axis=0)

    def best(self, seen: IndexVector) -> IndexVector:
        """Return the candidates ranked highest that are not among the `seen`, int64 (m,)."""
        unseen = np.isin(self._pool, seen, invert=True)
        pool, scores = self._pool[unseen], self._scores[unseen]
        return pool[np.sort(np.argsort(-scores, kind="stable")[: self._settings.kept])]

    def _due(self, new: bool, known: int) -> bool:
        """Whether more than the pool has to be scored."""
        settings = self._settings
        if not self._models or len(self._space) > settings.whole:
            return True
        often = len(self._space) <= settings.always
        return new and (often or known >= settings.growth * self._known)

    def _best_share(
        self, model: CostModel, measured: IndexVector, rng: np.random.Generator
    ) -> IndexVector:
        """Return the best of all candidates that were not measured, or of a population."""
        settings = self._settings

        def scored(indices: IndexVector) -> FloatVector:
            out: FloatVector = score([model], self._features, indices)[0]
            return out

        if len(self._space) <= settings.whole:
            rows = without(self._space.feasible_indices(settings.whole), measured)
            scores = scored(rows)
        else:
            rows, scores = evolve(self._space, self._pool, scored, rng, settings.population)
            unseen = np.isin(rows, measured, invert=True)
            rows, scores = rows[unseen], scores[unseen]
        size = max(math.ceil(settings.pool_share * len(rows)), settings.pool_min)
        return rows[highest(scores, size, rng)]
