"""Tests that every cost model must pass, however it learns."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.cost_model.base import CostModel, FloatMatrix, FloatVector
from autotune.cost_model.find_cost_model import CostModelChoice, find_cost_model
from autotune.cost_model.ranking_metrics import rank_correlation


def problem(n: int, width: int = 6, seed: int = 0) -> tuple[FloatMatrix, FloatVector]:
    """Return rows whose throughput peaks in column 0, falls with column 1, fails by column 2."""
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 16, size=(n, width)).astype(np.float32)
    cost = 1.0 + (features[:, 0] - 7.0) ** 2 + 3.0 * features[:, 1]
    return features, np.where(features[:, 2] >= 12.0, 0.0, 1.0 / cost)


class CostModelSuite:
    """What every cost model promises: a subclass says which one, as ``cost_model``.

    It takes what `autotune.tune` takes as a cost model.
    """

    cost_model: CostModelChoice
    #: Least rank correlation of scores and throughputs of 2,000 rows, after 300 others.
    least_correlation = 0.5

    def make(self, seed: int = 0) -> CostModel:
        """Return an untrained model."""
        return find_cost_model(self.cost_model)(seed)

    def fitted(self, n: int = 300, seed: int = 0) -> CostModel:
        """Return a model that has learned."""
        model = self.make(seed)
        model.fit(*problem(n))
        return model

    def test_unmeasured_candidates_are_ordered_by_throughput(self) -> None:
        features, throughput = problem(2000, seed=1)
        scores = self.fitted().predict(features)
        assert scores.shape == (2000,)
        working = throughput > 0.0
        assert rank_correlation(scores[working], throughput[working]) > self.least_correlation

    def test_the_same_rows_and_seed_give_the_same_scores(self) -> None:
        rows = problem(50, seed=1)[0]
        first, second = (self.fitted(80, seed=5).predict(rows).tolist() for _ in range(2))
        assert first == second

    def test_a_new_fit_forgets_the_last(self) -> None:
        features, throughput = problem(60)
        used, fresh = self.make(), self.make()
        used.fit(features, throughput[::-1].copy())
        used.fit(features, throughput)
        fresh.fit(features, throughput)
        assert used.predict(features).tolist() == fresh.predict(features).tolist()

    @pytest.mark.parametrize("value", [0.0, 2.5])
    def test_equal_throughputs_teach_nothing_and_do_no_harm(self, value: float) -> None:
        features, _ = problem(20)
        model = self.make()
        model.fit(features, np.full(20, value))
        assert np.ptp(model.predict(features)) < 1e-6

    def test_one_row_is_enough_to_fit(self) -> None:
        features, throughput = problem(5)
        model = self.make()
        model.fit(features[:1], throughput[:1])
        assert np.isfinite(model.predict(features)).all()

    def test_missing_values_are_taken(self) -> None:
        features, throughput = problem(60)
        features[::3, 4] = np.nan
        model = self.make()
        model.fit(features, throughput)
        assert np.isfinite(model.predict(features)).all()

    def test_columns_that_are_not_read_change_no_score(self) -> None:
        model, rows = self.fitted(), problem(50, seed=1)[0]
        read = np.arange(rows.shape[1]) if model.columns is None else model.columns
        others = np.setdiff1d(np.arange(rows.shape[1]), read)
        changed = rows.copy()
        changed[:, others] = 0.0
        assert model.predict(changed).tolist() == model.predict(rows).tolist()

    @pytest.mark.parametrize(
        ("rows", "throughput"),
        [(3, [1.0, 2.0]), (0, []), (2, [1.0, -1.0]), (2, [1.0, np.nan]), (2, [1.0, np.inf])],
    )
    def test_training_data_that_makes_no_sense_is_refused(
        self, rows: int, throughput: list[float]
    ) -> None:
        with pytest.raises(ValueError, match="throughput"):
            self.make().fit(np.zeros((rows, 2), np.float32), np.array(throughput))
