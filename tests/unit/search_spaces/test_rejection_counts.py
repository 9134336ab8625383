"""What the rules of a space reject, counted: one by one, by groups of knobs, and by a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rejections import rejections

from search_spaces import ChoiceKnob, Constraint, ListedSpace, Space, SpaceError, sampling
from search_spaces.constraints import evaluated


def sum_below(names: tuple[str, ...], limit: int) -> Constraint:
    return Constraint(
        f"{'+'.join(names)} < {limit}",
        lambda c: sum(c[name] for name in names) < limit,
        reads=names,
    )


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Small spaces whose rules read some of the knobs each."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    knobs = [ChoiceKnob(f"k{i}", list(range(size))) for i, size in enumerate(sizes)]
    names = st.lists(st.sampled_from([k.name for k in knobs]), unique=True, max_size=2)
    rules = draw(st.lists(st.tuples(names, st.integers(0, 8)), max_size=4, unique_by=str))
    return Space(knobs, [sum_below(tuple(n), limit) for n, limit in rules if n])


def one_by_one(space: Space) -> tuple[int, list[int], list[int]]:
    """Return what is feasible, and what each rule rejects first and in all, in plain Python."""
    first, total = [0] * len(space.constraints), [0] * len(space.constraints)
    feasible = 0
    for index in range(len(space)):
        columns: Any = {k: int(v[0]) for k, v in space.columns([index]).items()}
        broken = [n for n, r in enumerate(space.constraints) if not r.predicate(columns)]
        for number in broken:
            total[number] += 1
        if broken:
            first[broken[0]] += 1
        feasible += not broken
    return feasible, first, total


@given(spaces())
@settings(max_examples=60, deadline=None)
def test_counts_by_groups_of_knobs_are_those_of_going_through_all(space: Space) -> None:
    counts = space.tally()
    feasible, first, total = one_by_one(space)
    assert (counts.size, counts.exact, counts.feasible) == (len(space), True, feasible)
    assert [rule.first for rule in counts.rules] == first
    assert [rule.total for rule in counts.rules] == total
    assert rejections(space) == {rule.name: rule.first for rule in counts.rules}


def test_a_huge_space_is_counted_exactly_where_rules_tie_few_knobs_together() -> None:
    knobs = [ChoiceKnob(f"k{i}", list(range(1, 101))) for i in range(6)]
    rules = [sum_below(("k0", "k1"), 4), sum_below(("k4",), 11), sum_below(("k1",), 2)]
    counts = Space(knobs, rules).tally(most=10_000)
    assert counts.exact
    assert counts.size == 10**12
    assert counts.feasible == 2 * 10 * 100**3  # k0 is 1 or 2, and k1 is 1
    assert [r.total for r in counts.rules] == [9_997 * 100**4, 90 * 100**5, 99 * 100**5]
    assert [r.first for r in counts.rules] == [9_997 * 100**4, 3 * 90 * 100**3, 1 * 10 * 100**3]


def test_a_rule_that_ties_too_many_knobs_is_counted_in_a_sample_that_is_always_the_same() -> None:
    knobs = [ChoiceKnob(f"k{i}", list(range(100))) for i in range(6)]
    space = Space(knobs, [Constraint("half", lambda c: c["k5"] < 50)])
    counts = space.tally(sample=4000)
    assert (counts.exact, counts.size, counts.counted) == (False, 10**12, 4000)
    assert counts.feasible == pytest.approx(2000, abs=200)
    assert counts == space.tally(sample=4000)


def test_a_rule_without_meaning_where_others_reject_is_counted_where_it_has_one() -> None:
    def whole(columns: Any) -> Any:
        if (columns["k"] == 0).any():
            raise ZeroDivisionError("k")
        return 12 % columns["k"] == 0

    rules = [Constraint("nonzero", lambda c: c["k"] != 0), Constraint("divides", whole)]
    counts = Space([ChoiceKnob("k", list(range(6)))], rules).tally()
    assert [(r.first, r.total) for r in counts.rules] == [(1, 1), (1, None)]
    assert counts.feasible == 4
    with pytest.raises(SpaceError, match="'divides' failed: ZeroDivisionError: k"):
        Space([ChoiceKnob("k", [0, 1])], rules[1:]).tally()


def test_a_list_of_configurations_counts_its_members() -> None:
    space = ListedSpace([ChoiceKnob("a", [1, 2, 3]), ChoiceKnob("b", [1, 2])], [[0, 0], [2, 1]])
    counts = space.tally()
    assert (counts.size, counts.feasible, counts.rules[0].first) == (6, 2, 4)


def test_an_empty_space_names_what_breaks_the_fewest_rules_and_by_how_much() -> None:
    def detail(columns: Any) -> str:
        return f"{columns['a'][0]} > 0"

    rules = [
        Constraint("a is 0", lambda c: c["a"] <= 0, detail=detail),
        Constraint("b is odd", lambda c: c["b"] % 2 == 1),
    ]
    space = Space([ChoiceKnob("a", [2, 1]), ChoiceKnob("b", [2, 3])], rules)
    assert space.explain_empty() == (
        "none of 4 configurations feasible: a is 0 rejects 4; "
        "nearest is a=2, b=3, stopped by a is 0 (2 > 0)"
    )


def test_of_what_breaks_as_few_rules_the_smallest_miss_comes_nearest() -> None:
    def rule(name: str, most: int) -> Constraint:
        return Constraint(
            name, lambda c: c[name] <= most, miss=lambda c, n: (c[name] - most) / most
        )

    knobs = [ChoiceKnob("a", [300, 220, 150]), ChoiceKnob("b", [13, 9, 14])]
    space = Space(knobs, [rule("a", 100), rule("b", 10)])
    assert "nearest is a=150, b=9, stopped by a" in space.explain_empty()
    space = Space(knobs, [rule("a", 200), rule("b", 8)])
    assert "nearest is a=150, b=9, stopped by b" in space.explain_empty()


def test_rules_are_evaluated_once_on_all_rows() -> None:
    calls: list[int] = []

    def rule(columns: Any) -> Any:
        calls.append(len(columns["a"]))
        return columns["a"] > 0

    space = Space([ChoiceKnob("a", [0, 1, 2])], [Constraint("r", rule), Constraint("s", rule)])
    columns: Any = space.columns([0, 1, 2])
    masks = [holds.tolist() for holds, _ in evaluated(space.constraints, columns, 3)]
    assert (masks, calls) == ([[False, True, True]] * 2, [3, 3])
    assert np.count_nonzero(masks) == 4


def test_a_huge_space_with_hardly_anything_legal_is_sampled_from_the_default_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "MAX_REJECTED_DRAWS", 1 << 14)
    knobs = [ChoiceKnob(f"k{i}", list(range(1000))) for i in range(5)]
    space = Space(knobs, [Constraint("few", lambda c: sum(c[k.name] for k in knobs) < 3)])
    legal = 1 + 5 + 15  # nothing, one step, or two
    found = space.sample(100, np.random.default_rng(0))
    assert len(set(found.tolist())) == len(found) == legal
    assert space.feasible(found).all()
    rest = space.sample(100, np.random.default_rng(1), exclude=found[:20].tolist())
    assert rest.tolist() == found[20:].tolist()
