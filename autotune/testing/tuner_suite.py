"""Tests that every tuner must pass, whatever its strategy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from autotune.cost_model.base import FeatureSource, FloatMatrix, IndexVector
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.encoding import KnobFeatures
from autotune.tuner.factory import TunerChoice, make_tuner
from search_spaces import AnnotateKnob, ChoiceKnob, Constraint, Space, SplitKnob

Measure = Callable[[int], Observation]

FAILURES: dict[str, tuple[float | None, str | None]] = {
    "error": (None, "compile"),
    "nan": (math.nan, None),
    "inf": (math.inf, None),
    "zero": (0.0, None),
    "negative": (-1.0, None),
    "fast but wrong": (1e-6, "wrong_answer"),
}


def mixed_space() -> Space:
    """Return 120 configurations of three kinds of knobs, of which a rule keeps some."""
    knobs = [
        SplitKnob("tile", 12, 2),
        ChoiceKnob("nt", [32, 64, 128, 256, 512]),
        AnnotateKnob("unroll", ["i", "j"], ["none", "unroll"]),
    ]
    rule = Constraint("threads", lambda c: c["nt"] * c["tile.1"] <= 1024)
    return Space(knobs, [rule])


def works(index: int) -> Observation:
    """Return the result of a candidate that works."""
    return Observation(index, cost_s=1e-3 * (1 + (index * 7919) % 101))


def run(tuner: Tuner, measure: Measure, batch: int = 8, budget: int = 10_000) -> list[int]:
    """Ask and tell until nothing comes any more, or ``budget`` candidates were proposed."""
    proposed: list[int] = []
    while len(proposed) < budget:
        asked = tuner.ask(min(batch, budget - len(proposed)))
        if not asked:
            break
        proposed += asked
        tuner.tell(measure(index) for index in asked)
    return proposed


class TunerSuite:
    """What every tuner promises: a subclass says which one, as ``tuner``.

    It takes what `autotune.tune` takes as a tuner.
    """

    tuner: TunerChoice

    def make(self, space: Space, seed: int, features: FeatureSource | None = None) -> Tuner:
        """Return a new tuner.

        features: what a model may read of candidates.
        """
        return make_tuner(self.tuner, space, seed, features)

    @pytest.mark.parametrize("batch", [1, 7, 1000])
    def test_a_space_is_exhausted_each_feasible_candidate_once(self, batch: int) -> None:
        space = mixed_space()
        feasible = space.feasible_indices().tolist()
        assert 0 < len(feasible) < len(space)
        tuner = self.make(space, seed=1)
        budget = 25 if batch == 1 else 10_000
        proposed = run(tuner, works, batch, budget)
        assert len(set(proposed)) == len(proposed) == min(budget, len(feasible))
        assert set(proposed) <= set(feasible)
        if budget > len(feasible):
            assert tuner.ask(8) == []

    def test_no_more_than_asked_for(self) -> None:
        tuner = self.make(mixed_space(), seed=1)
        for n in (1, 2, 3, 5, 8, 13):
            asked = tuner.ask(n)
            assert len(asked) == n
            assert all(type(index) is int for index in asked)
            tuner.tell(map(works, asked))

    def test_asking_again_before_telling_proposes_others(self) -> None:
        tuner = self.make(mixed_space(), seed=1)
        run(tuner, works, budget=16)
        first, second = tuner.ask(8), tuner.ask(8)
        assert len({*first, *second}) == 16

    def test_a_space_of_one(self) -> None:
        tuner = self.make(Space([ChoiceKnob("only", [4])]), seed=0)
        assert run(tuner, works) == [0]

    def test_a_space_without_knobs_has_one_configuration(self) -> None:
        assert run(self.make(Space([]), seed=0), works) == [0]

    def test_nothing_feasible(self) -> None:
        space = Space([ChoiceKnob("k", [1, 2, 3])], [Constraint("never", lambda c: c["k"] > 9)])
        tuner = self.make(space, seed=0)
        assert tuner.ask(4) == []
        assert tuner.best is None

    def test_all_failing(self) -> None:
        self.all_fail(list(FAILURES))

    def all_fail(self, failures: list[str]) -> None:
        """Check a search in which all fails, in these ways in turns."""
        space = mixed_space()
        tuner = self.make(space, seed=2)
        kinds = itertools.cycle(failures)
        proposed = run(tuner, lambda i: Observation(i, *FAILURES[next(kinds)]))
        assert len(proposed) == len(space.feasible_indices())
        assert tuner.best is None

    def test_all_equally_fast(self) -> None:
        space = mixed_space()
        tuner = self.make(space, seed=2)
        assert len(run(tuner, lambda i: Observation(i, 0.5))) == len(space.feasible_indices())
        assert tuner.best == Observation(int(space.feasible_indices()[0]), 0.5)

    def test_some_failing(self) -> None:
        space = mixed_space()

        def measure(index: int) -> Observation:
            return Observation(index, math.nan) if index % 3 else works(index)

        tuner = self.make(space, seed=2)
        run(tuner, measure)
        expected = min(
            map(works, (i for i in space.feasible_indices().tolist() if not i % 3)),
            key=lambda o: o.order,
        )
        assert tuner.best == expected

    def test_what_a_log_told_is_not_proposed_again(self) -> None:
        space = mixed_space()
        old = space.feasible_indices()[::2].tolist()
        tuner = self.make(space, seed=3)
        tuner.tell(map(works, old))
        proposed = run(tuner, works)
        assert sorted([*old, *proposed]) == space.feasible_indices().tolist()

    def test_the_order_within_a_batch_does_not_matter(self) -> None:
        def proposals(shuffled: bool) -> list[int]:
            tuner = self.make(mixed_space(), seed=4)
            proposed: list[int] = []
            while len(proposed) < 32:
                asked = tuner.ask(8)
                proposed += asked
                tuner.tell(map(works, reversed(asked) if shuffled else asked))
            return proposed

        assert proposals(shuffled=False) == proposals(shuffled=True)

    @pytest.mark.parametrize("held_back", [0, 1])
    def test_thinking_beside_the_measurements_changes_no_proposal(self, held_back: int) -> None:
        def proposals(think: Callable[[Tuner], object]) -> list[int]:
            tuner = self.make(mixed_space(), seed=4, features=KnobFeatures(mixed_space()))
            proposed: list[int] = []
            held: list[int] = []
            while len(proposed) < 64:
                found = held + tuner.ask(8 + held_back - len(held))
                asked, held = found[:8], found[8:]
                proposed += asked
                think(tuner)
                tuner.tell(Observation(i, math.nan) if i % 5 == 0 else works(i) for i in asked)
                if think is not nothing:
                    tuner.expected_gain()
            return proposed

        def nothing(_: Tuner) -> None:
            pass

        def in_a_thread(tuner: Tuner) -> None:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(tuner.think).result()

        assert proposals(in_a_thread) == proposals(nothing)

    def test_a_space_of_10_to_the_12_is_searched_at_once(self) -> None:
        knobs = [ChoiceKnob(f"k{i}", list(range(1, 11))) for i in range(12)]
        space = Space(knobs, [Constraint("even", lambda c: c["k11"] % 2 == 0)])
        tuner = self.make(space, seed=5, features=SumFeature(space))
        proposed = run(tuner, works, budget=24)
        assert len(set(proposed)) == 24
        assert space.feasible(proposed).all()


class SumFeature:
    """One cheap column, so that a large space does not cost the tests time."""

    names = ("sum",)

    def __init__(self, space: Space) -> None:
        self._space = space

    def prepare(self, n: int) -> None:
        """Do nothing."""

    def preparations(self) -> Iterator[None]:
        """Do nothing."""
        return iter(())

    def matrix(self, indices: IndexVector, names: Sequence[str] | None = None) -> FloatMatrix:
        """Return the sums of the knobs' positions, float32 (n, 1)."""
        rows: FloatMatrix = self._space.positions(indices).sum(axis=1, keepdims=True).astype("f4")
        return rows
