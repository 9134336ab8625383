"""The model tuner: learns to rank the space, then proposes from the top, diversely.

A batch is made of three parts: the best of the whole space by the model, the best neighbours
of what was measured fastest, and a share of exploration. Before the model knows enough, it
spreads out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource, FloatVector, IndexVector
from autotune.cost_model.xgb import XGBCostModel
from autotune.tuner.base import Tuner
from autotune.tuner.diversity import Geometry, pick_unlike, spread_out
from autotune.tuner.knob_features import KnobFeatures
from autotune.tuner.ranking import RankingSettings, SpaceRanker
from search_spaces.errors import SpaceError
from search_spaces.space import Space

FRONT = 64
"""Candidates looked at, from the front of the ranking, for each one picked."""


@dataclass(frozen=True)
class ModelSettings:
    """What a batch is made of.

    Attributes
    ----------
    start : int
        Measurements before the model is used at all.
    start_valid : int
        Working candidates before the model is used at all.
    explore_share, neighbor_share : float
        Shares of all proposals that explore, and that are neighbours of incumbents.
    incumbents : int
        How many of the fastest candidates count as incumbents.
    kappa : float
        Weight of the ensemble's spread beside its mean: larger is more curious.
    start_pool : int
        Random candidates looked at for each one picked when spreading out.
    ranking : RankingSettings
    """

    start: int = 8
    start_valid: int = 3
    explore_share: float = 0.05
    neighbor_share: float = 0.25
    incumbents: int = 3
    kappa: float = 1.0
    start_pool: int = 32
    ranking: RankingSettings = field(default_factory=RankingSettings)


class ModelTuner(Tuner):
    """Ranks the whole feasible space by a cost model and proposes diverse batches from its top.

    Parameters
    ----------
    space : Space
    seed : int
    features : FeatureSource, optional
        What the model reads of a candidate; the knobs themselves by default.
    make_model : callable
        Makes an untrained model from a seed.
    settings : ModelSettings
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        features: FeatureSource | None = None,
        make_model: Callable[[int], CostModel] = XGBCostModel,
        settings: ModelSettings | None = None,
    ) -> None:
        super().__init__(space, seed)
        self._features = features or KnobFeatures(space)
        self._settings = settings or ModelSettings()
        self._model = make_model(seed)
        self._ranker = SpaceRanker(space, self._features, self._settings.ranking)
        self._geometry = Geometry(space)

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        free = n - self._quota(self._settings.explore_share, n)
        picked = self._model_picks(free, rng) if self._informed() else self._default(free)
        return picked + self._spread(n - len(picked), picked, rng)

    def _quota(self, share: float, n: int) -> int:
        """Return how many of the next ``n`` proposals belong to a share of all proposals."""
        before = len(self._seen)
        return int(share * (before + n)) - int(share * before)

    def _informed(self) -> bool:
        """Whether enough was measured, and with different outcomes, for a model to learn from."""
        speeds = [o.throughput for o in self._told.values()]
        working = sum(speed > 0.0 for speed in speeds)
        settings = self._settings
        enough = len(speeds) >= settings.start and working >= settings.start_valid
        return enough and len(set(speeds)) > 1

    def _default(self, n: int) -> list[int]:
        """Return the space's default configuration if it is still to be measured."""
        if n < 1 or self._seen:
            return []
        try:
            return [self.space.default_index]
        except SpaceError:  # nothing is feasible, and an empty answer says just that
            return []

    def _spread(self, n: int, picked: list[int], rng: np.random.Generator) -> list[int]:
        """Return up to ``n`` random candidates, unlike what was picked or seen."""
        if n < 1:
            return []
        sample = self._sample(n * self._settings.start_pool, rng, exclude=picked)
        return spread_out(self._geometry, sample, [*self.seen.tolist(), *picked], n)

    def _model_picks(self, n: int, rng: np.random.Generator) -> list[int]:
        """Return up to ``n`` candidates the model likes: of the whole space, and near the best."""
        if n < 1:
            return []
        told = self.observations
        indices = np.array([o.index for o in told], dtype=np.int64)
        throughput = np.array([o.throughput for o in told])
        self._model.fit(self._features.matrix(indices), throughput)
        pool = self._ranker.best(self._model, self.seen, len(told), rng)
        near = self._neighbors()
        candidates = np.union1d(pool, near)
        if not len(candidates):
            return []
        members = self._model.predict_members(self._features.matrix(candidates))
        order = np.argsort(-self._acquisition(members), kind="stable")
        ranked, scores = candidates[order], members[:, order]
        neighbors = min(self._quota(self._settings.neighbor_share, n), n - 1)
        front = slice(0, FRONT * n)
        picked = pick_unlike(self._geometry, ranked[front], scores[:, front], n - neighbors)
        nearby: IndexVector = ranked[np.isin(ranked, near) & ~np.isin(ranked, picked)]
        return picked + [int(index) for index in nearby[: n - len(picked)]]

    def _acquisition(self, members: FloatVector) -> FloatVector:
        spread: FloatVector = members.std(axis=0)
        mean: FloatVector = members.mean(axis=0)
        return mean + self._settings.kappa * spread

    def _neighbors(self) -> IndexVector:
        """Return the unseen neighbours of the fastest candidates, ascending."""
        working = sorted((o for o in self._told.values() if o.ok), key=lambda o: o.order)
        fastest = working[: self._settings.incumbents]
        around = {index for o in fastest for index in self.space.neighbors(o.index)}
        return np.array(sorted(around - self._seen), dtype=np.int64)
