"""Tuners of users: what is passed on to them, and what is said of those that are faulty."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.installed import install

from autotune.errors import AutotuneError, UsageError
from autotune.testing.tuner_suite import SumFeature, TunerSuite, mixed_space, works
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.factory import check_tuner, estimates_gain, make_tuner
from search_spaces import Space


class Ordered:
    """Proposes the feasible candidates in order: the least that a tuner has to have."""

    def __init__(self, space: Space, seed: int) -> None:
        self.left = space.feasible_indices().tolist()

    def ask(self, n: int) -> Any:
        return self.left[:n]

    def tell(self, observations: Iterable[Observation]) -> None:
        for told in observations:
            if told.index in self.left:
                self.left.remove(told.index)


class Shuffled(Tuner):
    """A subclass, with what else a tuner may have."""

    estimates_gain = True

    def _propose(self, n: int) -> list[int]:
        return self._sample(n, self._generator())

    def expected_gain(self) -> float | None:
        return 0.25


class TestATunerOfAUser(TunerSuite):
    tuner = Shuffled


def asking(answer: Callable[[int], Any]) -> type:
    return type("Faulty", (Ordered,), {"ask": lambda self, n: answer(n)})


def test_two_methods_are_enough() -> None:
    tuner = make_tuner(Ordered, mixed_space())
    feasible = mixed_space().feasible_indices().tolist()
    assert tuner.ask(3) == feasible[:3]
    tuner.tell(map(works, feasible[:3]))
    assert tuner.ask(2) == feasible[3:5]
    assert tuner.best == min(map(works, feasible[:3]), key=lambda o: o.order)
    assert (tuner.expected_gain(), list(tuner.preparations()), tuner.think()) == (None, [], None)


def test_features_go_to_a_tuner_that_has_a_parameter_for_them() -> None:
    features, got = SumFeature(mixed_space()), []

    def make(space: Space, seed: int, features: Any) -> Ordered:
        got.append((space, seed, features))
        return Ordered(space, seed)

    space = mixed_space()
    make_tuner(make, space, 7, features)
    assert got == [(space, 7, features)]


def test_what_a_tuner_may_have_is_used() -> None:
    tuner = make_tuner(Shuffled, mixed_space())
    assert tuner.expected_gain() == 0.25
    assert tuner.estimates_gain
    assert estimates_gain(Shuffled)
    assert not estimates_gain(Ordered)
    with pytest.raises(UsageError, match=":Shuffled' cannot learn from other logs"):
        check_tuner(Shuffled, prior=True)
    with pytest.raises(UsageError, match=":Shuffled' does not use a storage"):
        check_tuner(Shuffled, storage=True)


def test_candidates_may_be_numbers_of_numpy() -> None:
    found = make_tuner(asking(lambda n: np.arange(n)), mixed_space()).ask(3)
    assert found == [0, 1, 2]
    assert all(type(index) is int for index in found)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda n: None, "returned None, not a list of candidates"),
        (lambda n: range(n + 1), "returned more candidates than the 2 it was asked for"),
        (lambda n: itertools.count(), "returned more candidates than the 2 it was asked for"),
        (lambda n: [120], "proposed 120: candidates are indices from 0 to 119"),
        (lambda n: [-1], "proposed -1: candidates are indices from 0 to 119"),
        (lambda n: [1.5], "proposed 1.5: candidates are indices"),
        (lambda n: "ab", "proposed 'a': candidates are indices"),
        (lambda n: [4, 4], "proposed candidate 4 again: each may be proposed once"),
        (lambda n: [1 // 0], "fails at ask: ZeroDivisionError: "),
        (lambda n: (1 // 0 for _ in range(n)), "fails at ask: ZeroDivisionError: "),
    ],
)
def test_nonsense_is_one_line_with_the_name_of_the_tuner(
    answer: Callable[[int], Any], said: str
) -> None:
    with pytest.raises(AutotuneError) as caught:
        make_tuner(asking(answer), mixed_space()).ask(2)
    assert re.match(r"tuner '\S*:Faulty' ", str(caught.value))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_candidate_is_not_proposed_twice_in_two_batches_either() -> None:
    tuner = make_tuner(asking(lambda n: [5]), mixed_space())
    assert tuner.ask(1) == [5]
    with pytest.raises(AutotuneError, match="proposed candidate 5 again"):
        tuner.ask(1)


def test_an_object_without_the_methods_is_no_tuner() -> None:
    with pytest.raises(UsageError, match="makes an object without the method 'ask'"):
        make_tuner(lambda space, seed: object(), mixed_space())
    with pytest.raises(AutotuneError, match=r"cannot be made: TypeError: "):
        make_tuner(lambda: Ordered, mixed_space())


def test_installed_tuners_are_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"shuffled": f"{__name__}:Shuffled", "broken": "no_such_module:A"}
    install(tmp_path, monkeypatch, {"autotune.tuners": points})
    assert len(make_tuner("shuffled", mixed_space()).ask(4)) == 4
    with pytest.raises(UsageError, match="tuner 'broken': no_such_module:A cannot be loaded"):
        make_tuner("broken", mixed_space())
    with pytest.raises(UsageError, match="unknown tuner 'shufled': did you mean 'shuffled'"):
        make_tuner("shufled", mixed_space())
    assert len(make_tuner("random", mixed_space()).ask(4)) == 4
