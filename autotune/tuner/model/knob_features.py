"""The feature source that needs no template: the knobs of a space themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from autotune.cost_model.base import FloatMatrix, IndexVector
from features.knob_columns import knob_matrix
from search_spaces.space import Space


class KnobFeatures:
    """Knob values as features: what a tuner reads when it is given no other source."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._categories = space.categories
        self.names: tuple[str, ...] = tuple(self._named_matrix(np.zeros(0, dtype=np.int64))[0])

    def prepare(self, n: int) -> None:
        """Do nothing."""

    def matrix(self, indices: IndexVector, names: Sequence[str] | None = None) -> FloatMatrix:
        """Return the features of the candidates at ``indices``, float32 (n, len(names))."""
        matrix = self._named_matrix(indices)[1]
        return matrix if names is None else matrix[:, [self.names.index(name) for name in names]]

    def preparations(self) -> Iterator[None]:
        """Do nothing ahead: there is nothing that takes long."""
        return iter(())

    def _named_matrix(self, indices: IndexVector) -> tuple[list[str], FloatMatrix]:
        columns = self._space.columns(indices)
        return knob_matrix(columns, len(indices), self._categories, order="C")
