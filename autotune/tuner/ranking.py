"""Ranks a whole space by a model: every feasible candidate, or samples of a huge space."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.base import (
    CostModel,
    FeatureSource,
    FloatMatrix,
    FloatVector,
    IndexVector,
)
from search_spaces.space import Space


@dataclass(frozen=True)
class RankingSettings:
    """How much of a space is looked at, and how often.

    Attributes
    ----------
    whole_limit : int
        A space of at most this many configurations is ranked whole, a larger one by samples.
    sample_rows : int
        Size of a sample of a larger space, fresh at every ranking.
    pool_share, pool_min, pool_max : float, int, int
        The best share of what was ranked, within these bounds, goes to the ensemble.
    always_rows : int
        At most this many feasible candidates are all ranked every time. More are ranked
        again when ``growth`` times as many measurements are known; until then the last pool
        is ranked.
    growth : float
    chunk_rows : int
        Rows per call of the feature source and the model.
    cache_bytes : int
        The feature matrix of a whole space is kept if it is no larger than this.
    """

    whole_limit: int = 10_000_000
    sample_rows: int = 100_000
    pool_share: float = 0.02
    pool_min: int = 256
    pool_max: int = 20_000
    always_rows: int = 100_000
    growth: float = 2.0
    chunk_rows: int = 16_384
    cache_bytes: int = 1 << 28


class SpaceRanker:
    """Finds the unseen candidates that a model scores highest.

    Parameters
    ----------
    space : Space
    features : FeatureSource
        Gives the rows the model reads.
    settings : RankingSettings
    """

    def __init__(
        self, space: Space, features: FeatureSource, settings: RankingSettings | None = None
    ) -> None:
        self._space = space
        self._features = features
        self._settings = settings or RankingSettings()
        self._pool = np.zeros(0, dtype=np.int64)
        self._known = 0
        self._cached: list[FloatMatrix] = []

    def best(
        self, model: CostModel, seen: IndexVector, known: int, rng: np.random.Generator
    ) -> IndexVector:
        """Return the best scored unseen candidates, ascending by index, int64 (m,).

        Parameters
        ----------
        seen : int64 (k,)
            Candidates not to return.
        known : int
            Number of measurements the model was fitted on.
        rng : numpy.random.Generator
            Samples a huge space, and chooses among equal scores at the edge of the pool.
        """
        if not self._due(known):
            return self._pool[~np.isin(self._pool, seen)]
        rows, whole = self._rows(rng)
        scores = self._scores(model, rows, keep=whole)
        unseen = ~np.isin(rows, seen)
        rows, scores = rows[unseen], scores[unseen]
        settings = self._settings
        share = math.ceil(settings.pool_share * len(rows))
        size = min(max(share, settings.pool_min), settings.pool_max)
        self._pool, self._known = rows[_highest(scores, size, rng)], known
        return self._pool

    def _due(self, known: int) -> bool:
        """Whether the last pool is too old to serve again."""
        settings = self._settings
        if not self._known or len(self._space) > settings.whole_limit:
            return True
        small = len(self._space.feasible_indices(settings.whole_limit)) <= settings.always_rows
        return small or known >= settings.growth * self._known

    def _rows(self, rng: np.random.Generator) -> tuple[IndexVector, bool]:
        """Return what to rank, and whether that is the whole space."""
        settings = self._settings
        if len(self._space) <= settings.whole_limit:
            return self._space.feasible_indices(settings.whole_limit), True
        sampled = self._space.sample(settings.sample_rows, rng)
        return np.union1d(np.asarray(sampled, dtype=np.int64), self._pool), False

    def _scores(self, model: CostModel, rows: IndexVector, keep: bool) -> FloatVector:
        settings = self._settings
        size = len(rows) * len(self._features.names) * 4
        keep = keep and size <= settings.cache_bytes
        scores = np.empty(len(rows))
        for number, start in enumerate(range(0, len(rows), settings.chunk_rows)):
            part = slice(start, start + settings.chunk_rows)
            if keep and number < len(self._cached):
                matrix = self._cached[number]
            else:
                matrix = self._features.matrix(rows[part])
            if keep and number == len(self._cached):
                self._cached.append(matrix)
            scores[part] = model.predict(matrix)
        return scores


def _highest(scores: FloatVector, size: int, rng: np.random.Generator) -> IndexVector:
    """Return the rows of the ``size`` highest scores, ascending; ties at the edge by lot."""
    if len(scores) <= size:
        return np.arange(len(scores), dtype=np.int64)
    edge = np.partition(scores, len(scores) - size)[len(scores) - size]
    above = np.flatnonzero(scores > edge)
    tied = rng.choice(np.flatnonzero(scores == edge), size - len(above), replace=False)
    return np.sort(np.concatenate([above, tied]))
