"""The gradient-boosted ranking model: the one home of XGBoost.

XGBoost is loaded by the first fit, and used through ``DMatrix``, ``train``, ``get_score`` and
``inplace_predict`` only. Versions 3.2 to 3.4 are supported.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.cost_model.base import (
    CostModel,
    FloatMatrix,
    FloatVector,
    IndexVector,
    check_training_data,
)


def load_alone() -> None:
    """Load XGBoost without scikit-learn: for a process in which nobody else uses it.

    XGBoost imports it where it is installed, for estimators that are not used here, which takes
    several times as long as all the rest.
    """
    if "xgboost" in sys.modules or "sklearn" in sys.modules:
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    try:
        import xgboost  # noqa: F401
    finally:
        del sys.modules["sklearn"]


@dataclass(frozen=True)
class XGBSettings:
    """How the trees are grown.

    Attributes
    ----------
    members : int
        Size of the ensemble. The first member sees every row; each other one a bootstrap
        sample of them and half as many columns.
    trees, depth, learning_rate, bins : int, int, float, int
        Boosting rounds, greatest depth, shrinkage, histogram bins per column.
    top_pairs : int
        Pairs are formed with the candidates that currently rank this high, so that trees
        are spent on the order at the top.
    columns_per_tree : int
        Wide rows are thinned to about this many random columns per tree.
    threads : int
        Members trained at a time, and threads of a prediction. Results do not depend on it.
    """

    members: int = 4
    trees: int = 40
    depth: int = 6
    learning_rate: float = 0.2
    bins: int = 32
    top_pairs: int = 16
    columns_per_tree: int = 100
    threads: int = 2


class XGBCostModel(CostModel):
    """An ensemble of boosted trees trained to order candidates by throughput.

    Parameters
    ----------
    seed : int
        Seed of the column and bootstrap samples.
    settings : XGBSettings
        Size and shape of the ensemble.

    Notes
    -----
    The loss is LambdaMART's pairwise one (Burges, "From RankNet to LambdaRank to
    LambdaMART", MSR-TR-2010-82) over one query that holds all rows. A failure, with
    throughput 0, loses every pair against what works, and two failures form no pair.
    """

    def __init__(self, seed: int = 0, settings: XGBSettings | None = None) -> None:
        self.seed = seed
        self.settings = settings or XGBSettings()
        self._members: list[_Member] = []

    def prepare(self) -> None:
        """Load XGBoost."""
        import xgboost  # noqa: F401

    def fit(self, features: FloatMatrix, throughput: FloatVector) -> None:
        """Train every member on the measured rows; see :meth:`CostModel.fit`."""
        check_training_data(features, throughput)

        def train(number: int) -> _Member:
            return _Member.train(self.settings, self.seed, number, features, throughput)

        # Members side by side, one thread each, beat the threads within one so small a training.
        with ThreadPoolExecutor(self.settings.threads) as pool:
            self._members = list(pool.map(train, range(self.settings.members)))

    @property
    def columns(self) -> IndexVector | None:
        """Places of the columns that the trees split on; None before they are grown."""
        if not self._members:
            return None
        return np.unique(np.concatenate([member.columns for member in self._members]))

    def predict(self, features: FloatMatrix) -> FloatVector:
        """Return the first member's score per row, shape (n,); higher is faster."""
        if not self._members:
            raise RuntimeError("the cost model is asked to predict before it was fitted")
        return self._members[0].score(features)

    def predict_members(self, features: FloatMatrix) -> FloatVector:
        """Return every member's score per row, shape (members, n)."""
        first = self.predict(features)
        return np.stack([first, *(member.score(features) for member in self._members[1:])])


@dataclass(frozen=True)
class _Member:
    """One booster and what it splits on; its scores are standardised over all training rows."""

    booster: Any
    columns: IndexVector
    mean: float
    std: float

    @classmethod
    def train(
        cls,
        settings: XGBSettings,
        seed: int,
        number: int,
        features: FloatMatrix,
        throughput: FloatVector,
    ) -> _Member:
        import xgboost

        count, width = features.shape
        share = min(1.0, settings.columns_per_tree / max(width, 1))
        rows = np.arange(count)
        if number > 0:
            generator = np.random.default_rng([seed, number])
            rows = np.sort(generator.integers(0, count, size=count))
            share *= 0.5
        params = {
            "objective": "rank:pairwise",
            "lambdarank_pair_method": "topk",
            "lambdarank_num_pair_per_sample": settings.top_pairs,
            "tree_method": "hist",
            "max_depth": settings.depth,
            "eta": settings.learning_rate,
            "max_bin": settings.bins,
            # The pairwise loss has small second derivatives: a weight limit would stop growth.
            "min_child_weight": 0.0,
            "colsample_bytree": share,
            "seed": (seed + number) % 2**31,
            "nthread": 1,
            "verbosity": 0,
        }
        relative = throughput[rows] / (throughput.max() or 1.0)
        data = xgboost.DMatrix(features[rows], label=relative, group=[count], nthread=1)
        booster = xgboost.train(params, data, num_boost_round=settings.trees)
        booster.set_param({"nthread": settings.threads})
        scores = booster.inplace_predict(features).astype(np.float64)
        splits = booster.get_score(importance_type="weight")  # by default names: f0, f1, ...
        columns = np.array(sorted(int(name[1:]) for name in splits), dtype=np.int64)
        return cls(booster, columns, float(scores.mean()), float(scores.std()) or 1.0)

    def score(self, features: FloatMatrix) -> FloatVector:
        raw = self.booster.inplace_predict(features).astype(np.float64)
        scores: FloatVector = (raw - self.mean) / self.std
        return scores
