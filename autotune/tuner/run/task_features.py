"""The features of candidates that a model reads: of their loops, or of a user's extractor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from autotune.cost_model.base import FeatureSource, FloatMatrix, IndexVector
from autotune.cost_model.custom_cost_model import CustomFeatures
from autotune.system.plugins import find_maker, name_of
from autotune.task.task import Task

if TYPE_CHECKING:
    from autotune.feature import TaskFeatures

LOOPS = "loops"  # Name of the features of loops.

#: A name, ``module:name``, ``path/to/file.py:name``, or what makes one of a task.
FeaturesChoice = str | Callable[..., Any]


def find_features(features: FeaturesChoice) -> Callable[[Task], FeatureSource]:
    """Return what makes a `FeatureSource` of a task; UsageError if there is none."""
    found = find_maker("feature extractor", features, {LOOPS: LazyFeatures})
    return found if found is LazyFeatures else partial(CustomFeatures, found, name_of(features))


class LazyFeatures:
    """A `FeatureSource`: `TaskFeatures` of a task, built when a tuner first needs them."""

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
        """Prepare to compute the features of `n` candidates."""
        self._features.prepare(n)

    def preparations(self) -> Iterator[None]:
        """Do slow preparations, a part at each step."""
        return self._features.preparations()

    def matrix(self, indices: IndexVector, names: Sequence[str] | None = None) -> FloatMatrix:
        """Return the features of the candidates at `indices`, float32 (n, len(names))."""
        return self._features.matrix(indices, names)
