"""Moves of model-free search, and how the nearest measurements judge them."""

import numpy as np
import pytest

from autotune.tuner.base import Observation
from autotune.tuner.encoding import KnobDistances
from autotune.tuner.factory import make_tuner
from autotune.tuner.search.k_nearest import KNearestSurrogate
from autotune.tuner.search.mutations import crossover, mutated, unseen
from search_spaces import AnnotateKnob, ChoiceKnob, Constraint, Space


@pytest.fixture
def space() -> Space:
    """Return 8 x 1 x 8 configurations of which every other one is feasible."""
    knobs = [ChoiceKnob("a", [2**i for i in range(8)]), ChoiceKnob("one", [7])]
    rule = Constraint("even", lambda c: (np.log2(c["a"]) + np.log2(c["b"])) % 2 == 0)
    return Space([*knobs, ChoiceKnob("b", [2**i for i in range(8)])], [rule])


def test_as_many_knobs_change_as_asked_for_and_never_one_that_cannot(space: Space):
    rows = np.array([[i % 8, 0, (3 * i) % 8] for i in range(64)])
    knobs = np.arange(64) % 4
    moved = mutated(space, rows, knobs, np.random.default_rng(0))
    assert ((moved != rows).sum(axis=1) == np.minimum(knobs, 2)).all()
    assert (moved >= 0).all()
    assert (moved < [8, 1, 8]).all()


def test_a_changed_knob_takes_any_other_value_and_neighbors_more_often(space: Space):
    rows = np.tile([3, 0, 3], (2000, 1))
    moved = mutated(space, rows, np.ones(2000, dtype=np.int64), np.random.default_rng(0))
    counts = np.bincount(moved[moved[:, 0] != 3, 0], minlength=8)
    assert counts[3] == 0
    assert (np.delete(counts, 3) > 0).all()
    assert counts[[2, 4]].min() > 2 * counts[[0, 1, 5, 6, 7]].max()


def test_a_mixture_has_each_knob_from_either():
    some, others = np.zeros((100, 4), dtype=np.int64), np.full((100, 4), 5)
    mixed = crossover(some, others, np.random.default_rng(0))
    assert set(mixed.ravel().tolist()) == {0, 5}
    assert 0.4 < (mixed == 5).mean() < 0.6


def test_new_ones_are_feasible_distinct_and_not_barred(space: Space):
    rows = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 1], [0, 0, 2], [1, 0, 1]])
    first, _, second, third, _ = space.indices_of(rows).tolist()
    assert unseen(space, rows, {third}) == [first, second]


def hearsay(space: Space, told: dict[int, float | None], novelty: float = 0.0) -> KNearestSurrogate:
    observations = [Observation(i, cost) for i, cost in sorted(told.items())]
    return KNearestSurrogate(KnobDistances(space), observations, novelty)


class TestHearsay:
    line = Space([ChoiceKnob("k", [2**i for i in range(16)])])

    def test_what_lies_near_fast_ones_promises_most(self):
        judge = hearsay(self.line, {0: 3.0, 4: 2.0, 12: 1.0})
        assert judge.best([1, 5, 13]) == 13
        expected = judge.predict_ranks([1, 5, 13])
        assert expected[2] < expected[1] < expected[0]

    def test_a_failure_ranks_behind_the_slowest(self):
        judge = hearsay(self.line, {2: None, 13: 9.0})
        assert judge.best([1, 14]) == 14

    def test_how_slow_is_of_no_account(self):
        slow, slower = ({0: 1.0, 7: 2.0, 15: cost} for cost in (3.0, 3000.0))
        few = [1, 5, 9, 14]
        np.testing.assert_array_equal(
            hearsay(self.line, slow).predict_ranks(few),
            hearsay(self.line, slower).predict_ranks(few),
        )

    def test_what_is_far_from_everything_counts_as_better(self):
        told = {0: 1.0, 1: 1.1, 15: 1.2}
        assert hearsay(self.line, told).best([2, 8]) == 2
        assert hearsay(self.line, told, novelty=5.0).best([2, 8]) == 8

    def test_categories_differ_by_one_whatever_they_are(self):
        space = Space([AnnotateKnob("unroll", ["i", "j"], ["none", "unroll", "vectorize"])])
        judge = hearsay(space, {0: 1.0})
        assert np.ptp(judge.predict_ranks([1, 2, 3])) == 0.0


@pytest.mark.parametrize("name", ["local", "genetic"])
def test_few_measurements_find_a_narrow_optimum(name: str):
    """Of 10,000 configurations 1 is the best and 40 lie within 20 % of it."""
    space = Space([ChoiceKnob(f"k{i}", [2**j for j in range(10)]) for i in range(4)])

    def cost(index: int) -> float:
        away = np.abs(space.positions([index])[0] - [7, 2, 5, 8])
        return float(1.0 + 0.15 * away.sum())

    tuner = make_tuner(name, space, seed=0)
    for _ in range(120):
        tuner.tell(Observation(index, cost(index)) for index in tuner.ask(1))
    assert tuner.best is not None
    assert tuner.best.cost_s is not None
    assert tuner.best.cost_s <= 1.15
