"""Trends: scores of boosted trees, as basis functions of the Gaussian process of times.

In: features and measured candidates. Out: one score per candidate; candidates that were measured
get theirs from a model that has not learned from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource, FloatMatrix, FloatVector, IndexVector
from autotune.system.available_cpus import run_in_threads
from autotune.tuner.base import Observation
from autotune.tuner.model.ranking import distinct, score, without

FOLDS = 3  # A measured candidate is judged by a model that learned from the other folds.

# Least number of measurements, with as many different times, to learn from.
LEAST, MIN_DISTINCT = 24, 3

GROWTH = 1.3  # The models are trained again when the observations have grown by this factor.
MAX_KEPT_BYTES = 1 << 26  # Size up to which the features of candidates are kept.
THREADS = 2  # Models trained at a time.


class ValueCache:
    """Keeps the values of all candidates that were asked for.

    compute: returns the values of some candidates, float64 (n,).
    """

    def __init__(self, compute: Callable[[IndexVector], FloatVector]) -> None:
        self._compute = compute
        self._indices = np.zeros(0, dtype=np.int64)  # ascending
        self._values = np.zeros(0)

    def __call__(self, indices: IndexVector) -> FloatVector:
        """Return the values of candidates, computed if they are not kept."""
        new = indices
        if len(self._indices):
            new = distinct(without(indices, self._indices))
        if len(new):
            values = self._compute(new)
            order = np.argsort(new, kind="stable")
            at = np.searchsorted(self._indices, new[order])
            self._indices = np.insert(self._indices, at, new[order])
            self._values = np.insert(self._values, at, values[order])
        out: FloatVector = self._values[np.searchsorted(self._indices, indices)]
        return out


class TreeTrend:
    """The scores of a cost model, from the features of candidates.

    make_model: makes an untrained model from a seed.
    """

    def __init__(
        self, features: FeatureSource, make_model: Callable[[int], CostModel], seed: int
    ) -> None:
        self._features = features
        self._make_model = make_model
        self._seed = seed
        # The model trained on all observations, then the models of the folds; none at first.
        self.models: tuple[CostModel, ...] = ()
        self._judged: dict[int, float] = {}
        self._learned = 0
        self._kept = ValueCache(self._scores)
        self._rows: tuple[IndexVector, FloatMatrix] | None = None

    def preparations(self, indices: IndexVector | None = None) -> Iterator[None]:
        """Load the library of the models; work out the features, and those of candidates if given.

        A piece at each step. The candidates' features are kept for when the array is asked for as
        it is.
        """
        self._make_model(self._seed).prepare()
        yield
        yield from self._features.preparations()
        if indices is not None:
            matrix = self._features.matrix(indices)
            if matrix.nbytes <= MAX_KEPT_BYTES:
                self._rows = indices, matrix
            yield

    def due(self, told: Sequence[Observation]) -> bool:
        """Whether there are measurements enough, and many of them new."""
        if len(told) < max(LEAST, GROWTH * self._learned):
            return False
        return len({o.throughput for o in told}) >= MIN_DISTINCT

    def learn(self, told: Sequence[Observation]) -> None:
        """Train on all observations, and on all but a fold for each fold, if many are new."""
        if not self.due(told):
            return
        throughput = np.array([o.throughput for o in told])
        indices = np.array([o.index for o in told], dtype=np.int64)
        self._learned = len(told)
        self._kept = ValueCache(self._scores)
        matrix = self._features.matrix(indices)
        fold = np.random.default_rng([self._seed, len(told)]).permutation(len(told)) % FOLDS
        parts = [np.ones(len(told), dtype=bool), *(fold != number for number in range(FOLDS))]

        def fit(number: int) -> CostModel | None:
            """Return a model that has learned from a part; None if that is all the same."""
            part = parts[number]
            if len(set(throughput[part].tolist())) < 2:
                return None
            model = self._make_model(self._seed + number)
            model.fit(matrix[part], throughput[part])
            return model

        models = run_in_threads([partial(fit, number) for number in range(len(parts))], THREADS)
        self.models = tuple(model for model in models if model is not None)
        self._judged = {}
        for part, model in zip(parts[1:], models[1:], strict=True):
            if model is not None:
                scores = -model.predict(matrix[~part])
                self._judged.update(zip(indices[~part].tolist(), scores.tolist(), strict=True))

    def fitted(self, indices: IndexVector) -> FloatVector:
        """Return the scores of the models that did not learn from these candidates."""
        values = self.at(indices)
        judged = [self._judged.get(index) for index in indices.tolist()]
        own = [v if j is None else j for v, j in zip(values.tolist(), judged, strict=True)]
        return np.array(own)

    def at(self, indices: IndexVector) -> FloatVector:
        """Return the scores of candidates; 0 before the model has learned."""
        return self._kept(indices)

    def _scores(self, indices: IndexVector) -> FloatVector:
        if not self.models:
            return np.zeros(len(indices))
        if self._rows is not None and self._rows[0] is indices:
            out: FloatVector = -self.models[0].predict(self._rows[1])
        else:
            out = -score(self.models[:1], self._features, indices)[0]
        return out
