"""Functions that times may follow: what boosted trees read from features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource, FloatVector, IndexVector
from autotune.tuner.base import Observation

FOLDS = 3
"""A measured candidate is judged by a model that learned from the other folds."""

LONG = 1000
"""Candidates of an array whose values are kept."""

GROWTH = 1.2
"""The models are trained again when so many times as much is known."""


class Kept:
    """Keeps what was computed for the last long array of candidates, which is asked for often."""

    def __init__(self) -> None:
        self._indices: IndexVector | None = None
        self._values = np.zeros(0)

    def get(self, indices: IndexVector, compute: Callable[[], FloatVector]) -> FloatVector:
        """Return what was kept for this very array, else compute it."""
        if indices is self._indices:
            return self._values
        values = compute()
        if len(indices) >= LONG:
            self._indices, self._values = indices, values
        return values


class TreeTrend:
    """The scores of a cost model, from the features of candidates.

    Parameters
    ----------
    features : FeatureSource
    make_model : callable
        Makes an untrained model from a seed.
    seed : int
    """

    def __init__(
        self, features: FeatureSource, make_model: Callable[[int], CostModel], seed: int
    ) -> None:
        self._features = features
        self._make_model = make_model
        self._seed = seed
        self._model: CostModel | None = None
        self._judged: dict[int, float] = {}
        self._learned = 0
        self._kept = Kept()

    @property
    def model(self) -> CostModel | None:
        """The model that learned from everything; None before it can learn anything."""
        return self._model

    def learn(self, told: Sequence[Observation]) -> None:
        """Train on all observations, and on all but a fold for each fold, if many are new."""
        throughput = np.array([o.throughput for o in told])
        indices = np.array([o.index for o in told], dtype=np.int64)
        few = len(told) < 4 * FOLDS or len(set(throughput.tolist())) < 3
        if few or len(told) < GROWTH * self._learned:
            return
        self._learned = len(told)
        self._kept = Kept()
        matrix = self._features.matrix(indices)
        self._model = self._make_model(self._seed)
        self._model.fit(matrix, throughput)
        fold = np.random.default_rng([self._seed, len(told)]).permutation(len(told)) % FOLDS
        self._judged = {}
        for number in range(FOLDS):
            rest = fold != number
            if len(set(throughput[rest].tolist())) < 2:
                continue
            model = self._make_model(self._seed + 1 + number)
            model.fit(matrix[rest], throughput[rest])
            scores = -model.predict(matrix[~rest])
            self._judged.update(zip(indices[~rest].tolist(), scores.tolist(), strict=True))

    def fitted(self, indices: IndexVector) -> FloatVector:
        """Return the scores of the models that did not learn from these candidates."""
        values = self.at(indices)
        judged = [self._judged.get(index) for index in indices.tolist()]
        own = [v if j is None else j for v, j in zip(values.tolist(), judged, strict=True)]
        return np.array(own)

    def at(self, indices: IndexVector) -> FloatVector:
        """Return the scores of candidates; 0 before the model has learned."""
        model = self._model
        if model is None:
            return np.zeros(len(indices))
        return self._kept.get(indices, lambda: -model.predict(self._features.matrix(indices)))
