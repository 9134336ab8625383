"""Cost models and feature extractors that users write: what they return is checked."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from autotune.cost_model.base import (
    CostModel,
    FloatMatrix,
    FloatVector,
    IndexVector,
    check_training_data,
)
from autotune.errors import AutotuneError, UsageError
from autotune.system.plugins import errors_of, make_object


class CustomCostModel(CostModel):
    """Fits and asks an object of a user.

    make: called with the seed; returns an object with the methods `fit` and `predict` of a
        `CostModel`, as regressors of scikit-learn have them.
    name: what messages call it.

    UsageError if the object lacks a method; AutotuneError, here and later, if its code fails, or
    it does not return a finite score for each row.
    """

    def __init__(self, make: Callable[..., Any], name: str, seed: int) -> None:
        self._name = f"cost model {name!r}"
        self._mean = 0.0
        self._spread: float | None = None
        self._own = make_object(make, self._name, seed)
        for method in ("fit", "predict"):
            if not callable(getattr(self._own, method, None)):
                raise UsageError(f"{self._name} makes an object without the method {method!r}")

    def prepare(self) -> None:
        """Let it load what it needs, if it does."""
        with errors_of(f"{self._name} fails at prepare"):
            getattr(self._own, "prepare", lambda: None)()

    def fit(self, features: FloatMatrix, throughput: FloatVector) -> None:
        """Learn from measured candidates; see :meth:`CostModel.fit`."""
        check_training_data(features, throughput)
        with errors_of(f"{self._name} fails at fit"):
            self._own.fit(features, throughput)
        self.columns = self._checked_columns(features.shape[1])
        scores = self._scores(features)
        # A trend needs scores of about this size, whatever the unit of the model's own ones is.
        self._mean, spread = float(scores.mean()), float(scores.std())
        self._spread = spread if spread > 1e-9 * abs(self._mean) else 1.0

    def _checked_columns(self, width: int) -> IndexVector | None:
        """Return its attribute `columns`, checked; None if it has none."""
        told = getattr(self._own, "columns", None)
        if told is None:
            return None
        found = np.asarray(told)
        ascending = found.ndim == 1 and found.dtype.kind in "iu" and (np.diff(found) > 0).all()
        if not ascending or (found.size and not 0 <= found[0] <= found[-1] < width):
            raise AutotuneError(
                f"{self._name}: its attribute columns must be ascending numbers below {width}, "
                f"of the columns that it reads, or None; it is {reprlib.repr(told)}"
            )
        return found.astype(np.int64)

    def predict(self, features: FloatMatrix) -> FloatVector:
        """Return one score per row, float64 (n,), standardised over the rows of the fit.

        RuntimeError if the model has not been fitted.
        """
        if self._spread is None:
            raise RuntimeError("the cost model is asked to predict before it was fitted")
        scores: FloatVector = (self._scores(features) - self._mean) / self._spread
        return scores

    def _scores(self, features: FloatMatrix) -> FloatVector:
        """Return its own scores, checked."""
        with errors_of(f"{self._name} fails at predict"):
            scores = np.asarray(self._own.predict(features), dtype=np.float64)
        if scores.shape != (len(features),):
            raise AutotuneError(
                f"{self._name} predicts scores of shape {scores.shape} for {len(features)} rows"
            )
        if not np.isfinite(scores).all():
            raise AutotuneError(f"{self._name} predicts scores that are not finite")
        return scores


class CustomFeatures:
    """A `FeatureSource` that is an object of a user; it is made when it is first needed.

    make: called with `of`; returns an object with the `names` and the `matrix` of a
        `FeatureSource`, which may lack the argument `names`.
    name: what messages call it.
    of: the task whose candidates it describes.

    AutotuneError if its code fails, or its rows do not have one number for each name.
    """

    def __init__(self, make: Callable[..., Any], name: str, of: object) -> None:
        self._name = f"feature extractor {name!r}"
        self._make = make
        self._of = of

    @cached_property
    def _own(self) -> Any:
        return make_object(self._make, self._name, self._of)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        with errors_of(f"{self._name} has no names"):
            return tuple(map(str, self._own.names))

    def prepare(self, n: int) -> None:
        """Let it prepare for `n` candidates, if it does."""
        with errors_of(f"{self._name} fails at prepare"):
            getattr(self._own, "prepare", lambda n: None)(n)

    def preparations(self) -> Iterator[None]:
        """Let it prepare a part at each step, if it does."""
        with errors_of(f"{self._name} fails at preparations"):
            yield from getattr(self._own, "preparations", lambda: ())()

    def matrix(self, indices: IndexVector, names: Sequence[str] | None = None) -> FloatMatrix:
        """Return the features of the candidates at `indices`, float32 (n, len(names))."""
        if not len(indices):
            return np.zeros((0, len(self.names if names is None else names)), np.float32)
        with errors_of(f"{self._name} fails at matrix"):
            rows = np.asarray(self._own.matrix(indices), dtype=np.float32)
        if rows.shape != (len(indices), len(self.names)):
            raise AutotuneError(
                f"{self._name} returns features of shape {rows.shape} for {len(indices)} "
                f"candidates and {len(self.names)} names"
            )
        if names is None:
            return rows
        columns: FloatMatrix = rows[:, [self.names.index(name) for name in names]]
        return columns
