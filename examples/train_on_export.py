"""Train models on a data set that `autotune features export` wrote, and see how well they rank.

Run it with `python examples/train_on_export.py DATA [K]`; DATA is a .parquet, .csv or .npz file.
Each block between lines of %% is a cell, for editors that run them one by one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
import xgboost

from autotune.cost_model.ranking_metrics import rank_correlation, recall_at_k
from autotune.dataset import load
from autotune.errors import UsageError
from records import RecordError

Matrix = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]
Split = npt.NDArray[np.str_]


class Model(Protocol):
    """What predicts the relative throughput of rows; higher is better."""

    def fit(self, x: Matrix, y: Vector) -> object:
        """Learn from rows and their relative throughputs."""

    def predict(self, x: Matrix) -> npt.NDArray[np.floating]:
        """Return a score for each row."""


# %% Which columns are features, and which rows are for what


def rows_with_features(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without those whose loops could not be had, if loops were asked for."""
    if all(name.startswith("knob.") for name in frame.columns if ":" in name):
        return frame
    return frame[frame["features_missing"].isna()].reset_index(drop=True)


def features_of(frame: pd.DataFrame) -> Matrix:
    """Return the columns that are features and vary, float32 (n, width)."""
    names = [name for name in frame.columns if ":" in name]
    matrix = frame[names].to_numpy(np.float32)
    varies = (matrix != matrix[:1]) & ~np.isnan(matrix)
    return np.asarray(matrix[:, varies.any(axis=0)])


def splits_of(frame: pd.DataFrame, share: float = 0.2) -> dict[str, Split]:
    """Return the split of each row by workload and, if there are several devices, by device.

    Where the workloads are so few that all train, or none, a fixed part of the rows is held out
    instead.
    """
    found = {}
    for name in ("split", "device_split"):
        if name in frame:
            found[name] = frame[name].astype(object).fillna("").to_numpy(np.str_)
    if len(set(found["split"])) == 1 or "train" not in found["split"]:
        held = np.random.default_rng(0).random(len(frame)) < share
        del found["split"]
        found["rows"] = np.where(held, "test", "train")
    return found


# %% Two models: what autotune ranks by, and a small one of scikit-learn


class Trees:
    """Boosted trees of XGBoost; NaN is a value to them."""

    def fit(self, x: Matrix, y: Vector) -> object:
        """Learn from rows and their relative throughputs."""
        options = {"max_depth": 4, "eta": 0.2, "nthread": 2, "verbosity": 0}
        self._booster = xgboost.train(options, xgboost.DMatrix(x, y), num_boost_round=60)
        return self

    def predict(self, x: Matrix) -> npt.NDArray[np.floating]:
        """Return a score for each row."""
        return np.asarray(self._booster.predict(xgboost.DMatrix(x)))


def ridge() -> Model:
    """Return a linear model over logarithms; UsageError where scikit-learn is missing."""
    try:
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, StandardScaler
    except ImportError as error:
        raise UsageError("scikit-learn is not installed: pip install scikit-learn") from error

    def logs(x: Matrix) -> Matrix:
        known = np.nan_to_num(x, nan=0.0)
        return np.asarray(np.sign(known) * np.log2(1 + np.abs(known)), np.float32)

    model: Model = make_pipeline(FunctionTransformer(logs), StandardScaler(), Ridge(alpha=1.0))
    return model


# %% How well they rank each workload's rows, split by split


def scores(
    frame: pd.DataFrame, split: Split, predicted: Vector, k: int
) -> list[tuple[str, int, float, float]]:
    """Return split, rows, and the mean over workloads of rank correlation and recall at k."""
    truth = frame["relative_throughput"].to_numpy(np.float64)
    group = frame.groupby(["workload", "target", "device"], observed=True, dropna=False).ngroup()
    found = []
    for name in ("train", "validation", "test"):
        own = [np.flatnonzero((split == name) & (group == g)) for g in sorted(set(group))]
        own = [rows for rows in own if len(rows) > 1]
        if own:
            correlation = [rank_correlation(predicted[rows], truth[rows]) for rows in own]
            recall = [recall_at_k(predicted[rows], truth[rows], k) for rows in own]
            n = sum(map(len, own))
            found.append((name, n, float(np.mean(correlation)), float(np.mean(recall))))
    return found


# %% All of it


def main(argv: Sequence[str] | None = None) -> None:
    """Load a data set, train the models on its training rows, print how well they rank."""
    words = sys.argv[1:] if argv is None else list(argv)
    if len(words) not in (1, 2) or not all(word.isdecimal() and int(word) for word in words[1:]):
        sys.exit("usage: train_on_export.py DATA [K], K at least 1")
    k = int(words[1]) if len(words) > 1 else 10
    try:
        frame = rows_with_features(load(words[0]))
    except (UsageError, RecordError) as error:
        sys.exit(str(error))
    x, y = features_of(frame), frame["relative_throughput"].to_numpy(np.float64)
    print(f"{len(frame)} rows, {x.shape[1]} features that vary")
    if not x.size:
        sys.exit("there is nothing to learn from: export with --layout knob, or see the data card")
    makers: dict[str, Callable[[], Model]] = {"XGBoost": Trees, "Ridge": ridge}
    try:
        ridge()
    except UsageError as error:
        print(error)
        del makers["Ridge"]
    print(f"{'held out by':13} {'model':8} {'part':10} {'rows':>6} {'rank corr.':>11} recall@{k}")
    for kind, split in splits_of(frame).items():
        train = split == "train"
        for name, make in makers.items():
            model = make()
            model.fit(x[train], y[train])
            predicted = np.asarray(model.predict(x), np.float64)
            for part, n, correlation, recall in scores(frame, split, predicted, k):
                print(f"{kind:13} {name:8} {part:10} {n:6} {correlation:11.3f} {recall:.3f}")


if __name__ == "__main__":
    main()
