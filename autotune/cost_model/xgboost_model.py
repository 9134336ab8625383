"""The gradient-boosted ranking model; only this file imports XGBoost.

XGBoost is loaded by the first fit, and used through ``DMatrix``, ``train``, ``get_score`` and
``inplace_predict`` only. Versions 3.2 to 3.4 are supported.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.cost_model.base import CostModel, FloatMatrix, FloatVector, check_training_data
from autotune.errors import AutotuneError


def _loaded() -> Any:
    """Return the library; AutotuneError if it is missing, or broken as one without OpenMP is."""
    try:
        import xgboost
    except Exception as error:  # XGBoost's own exception, if its library cannot be loaded
        raise _useless("cannot be loaded", error) from error
    return xgboost


@contextlib.contextmanager
def _telling(doing: str) -> Iterator[None]:
    """Raise a one-line AutotuneError if XGBoost fails."""
    try:
        yield
    except Exception as error:  # exceptions of XGBoost or of its library
        raise _useless(f"fails at {doing}", error) from error


def _useless(how: str, error: Exception) -> AutotuneError:
    why = " ".join(str(error).split()) or type(error).__name__
    return AutotuneError(
        f"the model tuner cannot rank: XGBoost {how} ({why[:200]}); reinstall it, or take another "
        "tuner, such as local"
    )


def load_alone() -> None:
    """Load XGBoost without scikit-learn, for a process that does not use it otherwise.

    XGBoost imports scikit-learn, if it is installed, for estimators that are not used here. That
    takes several times as long as everything else.
    """
    if "xgboost" in sys.modules or "sklearn" in sys.modules:
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    try:
        _loaded()
    finally:
        del sys.modules["sklearn"]


@dataclass(frozen=True)
class XGBSettings:
    """Settings of the trees."""

    # Boosting rounds, greatest depth, shrinkage, histogram bins per column.
    trees: int = 40
    depth: int = 6
    learning_rate: float = 0.2
    bins: int = 32
    # Pairs are formed with the candidates that currently rank this high, so that trees are spent on
    # the order at the top.
    top_pairs: int = 16
    columns_per_tree: int = 100  # Wide rows are thinned to about this many random columns per tree.
    # Threads of a prediction. Results do not depend on it; training is too small to gain from it.
    threads: int = 1


class XGBCostModel(CostModel):
    """Boosted trees trained to order candidates by throughput.

    The loss is LambdaMART's pairwise one (Burges, "From RankNet to LambdaRank to LambdaMART",
    MSR-TR-2010-82) over one query that holds all rows. A failure, with throughput 0, loses every
    pair against what works, and two failures form no pair.

    seed: seed of the column samples.
    settings: number and shape of the trees.
    """

    def __init__(self, seed: int = 0, settings: XGBSettings | None = None) -> None:
        self.seed = seed
        self.settings = settings or XGBSettings()
        self._booster: Any = None
        self._mean, self._std = 0.0, 1.0  # of its scores of the training rows

    def prepare(self) -> None:
        """Load XGBoost; AutotuneError if it cannot be loaded."""
        _loaded()

    def fit(self, features: FloatMatrix, throughput: FloatVector) -> None:
        """Grow trees on the measured rows; see :meth:`CostModel.fit`.

        AutotuneError if XGBoost cannot be loaded, or fails.
        """
        check_training_data(features, throughput)
        xgboost, settings = _loaded(), self.settings
        count, width = features.shape
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
            "colsample_bytree": min(1.0, settings.columns_per_tree / max(width, 1)),
            "seed": self.seed % 2**31,
            "nthread": 1,
            "verbosity": 0,
        }
        relative = throughput / (throughput.max() or 1.0)
        with _telling("training"):
            data = xgboost.DMatrix(features, label=relative, group=[count], nthread=1)
            booster = xgboost.train(params, data, num_boost_round=settings.trees)
            booster.set_param({"nthread": settings.threads})
            scores = booster.inplace_predict(features).astype(np.float64)
            splits = booster.get_score(importance_type="weight")  # by default names: f0, f1, ...
        self.columns = np.array(sorted(int(name[1:]) for name in splits), dtype=np.int64)
        self._booster = booster
        self._mean, self._std = float(scores.mean()), float(scores.std()) or 1.0

    def predict(self, features: FloatMatrix) -> FloatVector:
        """Return the score per row, shape (n,); higher is faster."""
        if self._booster is None:
            raise RuntimeError("the cost model is asked to predict before it was fitted")
        with _telling("predicting"):
            raw = self._booster.inplace_predict(features).astype(np.float64)
        scores: FloatVector = (raw - self._mean) / self._std
        return scores
