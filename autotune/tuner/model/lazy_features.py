"""Features that are computed at the first use by a tuner: short runs never need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.cost_model.base import FloatMatrix, IndexVector
    from autotune.feature import TaskFeatures
    from autotune.task.task import Task


class LazyTaskFeatures:
    """A `FeatureSource`: `TaskFeatures` of a task, built at first use."""

    def __init__(self, task: Task) -> None:
        self._task = task

    @cached_property
    def _features(self) -> TaskFeatures:
        from autotune.feature import TaskFeatures

        return TaskFeatures(self._task)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._features.names

    def prepare(self, n: int) -> None:
        """Prepare for the features of so many candidates."""
        self._features.prepare(n)

    def preparations(self) -> Iterator[None]:
        """Do slow preparations, a part at each step."""
        return self._features.preparations()

    def matrix(self, indices: IndexVector, names: Sequence[str] | None = None) -> FloatMatrix:
        """Return the features of the candidates at `indices`, float32 (n, len(names))."""
        return self._features.matrix(indices, names)
