"""Cost models and feature extractors of users: what is passed on, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune.cost_model.custom_cost_model import CustomFeatures
from autotune.cost_model.find_cost_model import find_cost_model
from autotune.errors import AutotuneError, UsageError
from autotune.testing.cost_model_suite import CostModelSuite, problem


class Nearest:
    """Predicts a billion times the throughput of the nearest row."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, features: np.ndarray, throughput: np.ndarray) -> None:
        self.columns = np.arange(features.shape[1] - 1)
        self.rows, self.throughput = np.nan_to_num(features[:, :-1]), throughput

    def predict(self, features: np.ndarray) -> np.ndarray:
        rows = np.nan_to_num(features[:, :-1])
        distances = ((rows[:, None, :] - self.rows[None]) ** 2).sum(axis=2)
        return 1e9 * self.throughput[distances.argmin(axis=1)]


class TestACostModelOfAUser(CostModelSuite):
    cost_model = Nearest


def predicting(answer: Callable[[np.ndarray], Any]) -> type:
    return type("Faulty", (Nearest,), {"predict": lambda self, features: answer(features)})


def test_scores_are_standardised_and_the_columns_that_are_read_are_known() -> None:
    features, throughput = problem(100)
    model = find_cost_model(Nearest)(3)
    assert model.columns is None
    model.fit(features, throughput)
    scores = model.predict(features)
    assert (scores.mean(), scores.std()) == pytest.approx((0.0, 1.0))
    assert model.columns is not None
    assert model.columns.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("columns", [["a", "b"], [2, 1], [0, 99], [[0, 1]], [-1, 2], 3])
def test_columns_that_are_none_are_one_line(columns: Any) -> None:
    own = property(lambda self: columns, lambda *_: None)
    faulty = type("Faulty", (Nearest,), {"columns": own})
    with pytest.raises(AutotuneError, match="columns must be ascending numbers below 6") as caught:
        find_cost_model(faulty)(0).fit(*problem(8))
    assert "\n" not in str(caught.value)


def test_predicting_before_fitting_is_refused() -> None:
    with pytest.raises(RuntimeError, match="before it was fitted"):
        find_cost_model(Nearest)(0).predict(problem(3)[0])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda rows: rows, r"Faulty' predicts scores of shape \(8, 6\) for 8 rows$"),
        (lambda rows: rows[:, 0] * np.nan, "Faulty' predicts scores that are not finite$"),
        (lambda rows: "fast", "Faulty' fails at predict: ValueError: could not convert"),
        (lambda rows: 1 // 0, "Faulty' fails at predict: ZeroDivisionError: "),
    ],
)
def test_scores_that_are_none_are_one_line(answer: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(AutotuneError, match=said) as caught:
        find_cost_model(predicting(answer))(0).fit(*problem(8))
    assert "\n" not in str(caught.value)


def test_an_object_without_the_methods_is_no_cost_model() -> None:
    with pytest.raises(UsageError, match="makes an object without the method 'fit'"):
        find_cost_model(lambda seed: seed)(0)


def test_an_extractor_is_made_when_it_is_needed_and_may_be_asked_for_columns() -> None:
    made = []

    class Squares:
        names = ("one", "square")

        def __init__(self, task: str) -> None:
            made.append(task)

        def matrix(self, indices: np.ndarray) -> list[list[int]]:
            return [[i, i * i] for i in indices.tolist()]

    source = CustomFeatures(Squares, "squares", "a task")
    assert made == []
    indices = np.array([3, 1])
    assert source.matrix(indices).tolist() == [[3.0, 9.0], [1.0, 1.0]]
    assert source.matrix(indices, ["square", "one"]).tolist() == [[9.0, 3.0], [1.0, 1.0]]
    assert (source.names, list(source.preparations()), made) == (Squares.names, [], ["a task"])
    assert source.matrix(indices[:0]).shape == (0, 2)
    assert source.matrix(indices[:0], ["square"]).shape == (0, 1)
