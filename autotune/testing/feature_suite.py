"""Tests that every feature extractor must pass, whatever it reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from autotune.cost_model.base import FeatureSource, IndexVector
from autotune.task.task import Task
from autotune.tuner.run.task_features import FeaturesChoice, find_features


class FeatureSuite:
    """What every feature extractor promises: a subclass says which one, as ``features``.

    It takes what `autotune.tune` takes as features.
    """

    features: FeaturesChoice
    #: What candidates are of.
    template = "matmul"
    args: Mapping[str, Any] = {"m": 16, "n": 16, "k": 16}
    target = "llvm"

    @cached_property
    def task(self) -> Task:
        """The task whose candidates have features."""
        return Task.from_reference(self.template, self.args, self.target)

    def make(self) -> FeatureSource:
        """Return a new extractor for the task."""
        return find_features(self.features)(self.task)

    @cached_property
    def indices(self) -> IndexVector:
        """Some candidates, in no order."""
        return self.task.space.sample(40, np.random.default_rng(0))

    def test_there_is_a_row_for_each_candidate_and_a_column_for_each_name(self) -> None:
        source = self.make()
        rows = source.matrix(self.indices)
        assert rows.dtype == np.float32
        assert rows.shape == (len(self.indices), len(source.names))
        assert len(set(source.names)) == len(source.names) > 0

    def test_the_features_of_a_candidate_depend_on_no_other(self) -> None:
        source = self.make()
        rows = source.matrix(self.indices)
        alone = np.concatenate([source.matrix(self.indices[i : i + 1]) for i in range(8)])
        np.testing.assert_array_equal(alone, rows[:8])

    def test_a_new_extractor_that_was_prepared_gives_the_same(self) -> None:
        rows = self.make().matrix(self.indices)
        again = self.make()
        again.prepare(len(self.indices))
        for _ in again.preparations():
            pass
        np.testing.assert_array_equal(again.matrix(self.indices), rows)

    def test_columns_can_be_asked_for_by_name(self) -> None:
        source = self.make()
        wanted = [source.names[-1], source.names[0]]
        found = source.matrix(self.indices, wanted)
        np.testing.assert_array_equal(found, source.matrix(self.indices)[:, [-1, 0]])

    def test_they_tell_candidates_apart(self) -> None:
        rows = np.nan_to_num(self.make().matrix(self.indices))
        assert len(np.unique(rows, axis=0)) > 1
