"""The interface of cost models: they learn from measured candidates to rank others.

A model sees feature rows and throughputs only, never a space, a template or a device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatMatrix = npt.NDArray[np.float32]
FloatVector = npt.NDArray[np.float64]
IndexVector = npt.NDArray[np.int64]


class FeatureSource(Protocol):
    """Provides the feature rows of a space's candidates."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""

    def prepare(self, n: int) -> None:
        """Prepare to compute the features of `n` candidates, which takes long if they are many.

        It does not change any feature.
        """

    def matrix(self, indices: IndexVector, names: Sequence[str] | None = None) -> FloatMatrix:
        """Return the features of the candidates at `indices`, float32 (n, len(names)).

        All columns, or only those in `names`, in that order.
        """

    def preparations(self) -> Iterator[None]:
        """Do slow work ahead, a piece at each step; the rest is done when it is needed."""


class CostModel(ABC):
    """Orders candidates by predicted throughput.

    A score has no unit: only the order of scores, and differences of scores of one fitted model,
    are meaningful. Training is deterministic: the same rows in the same order give the same model.
    """

    # Indices of the columns that scores depend on, ascending; None for possibly all. The values of
    # other columns are not used.
    columns: IndexVector | None = None

    @abstractmethod
    def fit(self, features: FloatMatrix, throughput: FloatVector) -> None:
        """Learn from measured candidates only; earlier data is dropped.

        features: float32 (n, width); one row per measured candidate, n >= 1. NaN stands for a
            missing value.
        throughput: float64 (n,); work per second in any fixed unit, for instance 1 / seconds. 0 for
            a failure.

        ValueError if shapes disagree, or a throughput is negative or not finite.
        """

    def prepare(self) -> None:  # noqa: B027, most have nothing to prepare
        """Load the libraries that the first fit needs."""

    @abstractmethod
    def predict(self, features: FloatMatrix) -> FloatVector:
        """Return one score per row, shape (n,); higher is faster.

        RuntimeError if the model has not been fitted.
        """


def check_training_data(features: FloatMatrix, throughput: FloatVector) -> None:
    """Raise ValueError if rows and throughputs do not match or are invalid."""
    if features.ndim != 2 or throughput.shape != (features.shape[0],) or throughput.size == 0:
        raise ValueError(
            f"a cost model is fitted on features (n, width) and throughput (n,) with n >= 1, "
            f"got {features.shape} and {throughput.shape}"
        )
    if not np.isfinite(throughput).all() or (throughput < 0).any():
        raise ValueError("throughput must be finite and >= 0; a failure has throughput 0")
