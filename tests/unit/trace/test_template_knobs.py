import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune.errors import UsageError
from autotune.target import Target
from autotune.trace.template_knobs import Knobs
from autotune.trace.value_sources import KnobTable, PlainValues
from search_spaces import AnnotateKnob, ChoiceKnob, ReorderKnob, SpaceError, SplitKnob


def values_of(knob):
    return [knob.value(i) for i in range(len(knob))]


def test_split_by_factors_lists_every_ordered_factorisation_once():
    knob = SplitKnob("tile", 12, 3)
    brute = [t for t in itertools.product(range(1, 13), repeat=3) if math.prod(t) == 12]
    assert values_of(knob) == brute


def test_split_of_extent_1_and_into_1_have_one_value():
    assert values_of(SplitKnob("t", 1, 3)) == [(1, 1, 1)]
    assert values_of(SplitKnob("t", 30, 1)) == [(30,)]
    assert values_of(SplitKnob("t", 30, 1, policy="power2")) == [(30,)]


@pytest.mark.parametrize("extent", [1, 7, 8, 100])
def test_split_by_powers_of_two_keeps_what_autotvm_keeps(extent):
    powers = [2**k for k in range(extent.bit_length())]
    brute = [(-(-extent // (a * b)), a, b) for a in powers for b in powers if a * b <= extent]
    assert values_of(SplitKnob("t", extent, 3, policy="power2")) == brute


def test_split_candidates_resolve_minus_one_to_what_is_left():
    knob = SplitKnob("t", 100, 2, policy="candidates", candidates=[[-1, 8], (25, 4)])
    assert values_of(knob) == [(13, 8), (25, 4)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"extent": 0, "num_outputs": 2}, "extent must be an int >= 1, not 0"),
        ({"extent": 8, "num_outputs": True}, "num_outputs must be an int >= 1, not True"),
        ({"extent": 8, "num_outputs": 2, "policy": "primes"}, "unknown policy 'primes'"),
        ({"extent": 8, "num_outputs": 2, "policy": "candidates"}, "go together"),
        ({"extent": 8, "num_outputs": 2, "candidates": [(2, 4)]}, "go together"),
        (
            {"extent": 8, "num_outputs": 2, "policy": "candidates", "candidates": [(2, 2)]},
            "outermost size must be 4",
        ),
        (
            {"extent": 8, "num_outputs": 2, "policy": "candidates", "candidates": [(2, 2, 2)]},
            "is not 2 sizes >= 1",
        ),
        (
            {"extent": 8, "num_outputs": 2, "policy": "candidates", "candidates": [(2.0, 4)]},
            "is not a tuple of ints",
        ),
        ({"extent": 8, "num_outputs": 2, "filter": lambda t: False}, "has no values"),
        ({"extent": 2**20, "num_outputs": 9}, "more than 1048576 values"),
    ],
)
def test_split_mistakes_are_one_line_naming_the_knob(arguments, said):
    with pytest.raises(SpaceError, match=said) as caught:
        SplitKnob("tile_x", **arguments)
    assert "tile_x" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_split_filter_decides_which_values_there_are():
    knob = SplitKnob("t", 64, 2, filter=lambda sizes: sizes[1] in (2, 16))
    assert values_of(knob) == [(4, 16), (32, 2)]


def test_split_neighbors_move_one_prime_factor():
    knob = SplitKnob("t", 12, 2)
    near = {knob.value(j) for j in knob.neighbors(knob.index_of((3, 4)))}
    assert near == {(6, 2), (1, 12)}


def test_split_by_powers_of_two_moves_a_factor_2_between_inner_sizes():
    knob = SplitKnob("t", 100, 3, policy="power2")
    near = {knob.value(j)[1:] for j in knob.neighbors(knob.index_of((13, 4, 2)))}
    assert near == {(8, 2), (4, 4), (2, 2), (4, 1), (8, 1), (2, 4)}


def test_filtered_split_has_no_value_out_of_reach():
    knob = SplitKnob("t", 64, 3, filter=lambda sizes: sizes[1] in (1, 64) or sizes[2] == 16)
    assert knob.steps_from(0).max() < len(knob)


def test_split_default_has_small_inner_sizes():
    def default(*args, **kwargs):
        knob = SplitKnob("t", *args, **kwargs)
        return knob.value(knob.default)

    assert default(1024, 2) == (256, 4)
    assert default(512, 4) == (8, 4, 4, 4)
    assert default(100, 2, policy="power2") == (25, 4)
    assert default(8, 3) == (2, 2, 2)
    assert default(7, 2) == (7, 1)


def test_split_columns_hold_the_sizes_outermost_first():
    knob = SplitKnob("t", 12, 2)
    assert knob.numeric
    assert knob.column_names == ("t.0", "t.1")
    ends = [0, len(knob) - 1]
    assert knob.tables["t.0"][ends].tolist() == [1, 12]
    assert knob.tables["t.1"][ends].tolist() == [12, 1]
    assert knob.tables["t.0"].dtype == np.int64


def test_choice_of_numbers_is_numeric_and_its_column_holds_the_values():
    whole = ChoiceKnob("nt", [64, 32, 128])
    assert whole.numeric
    assert whole.tables["nt"].tolist() == [64, 32, 128]
    assert whole.tables["nt"].dtype == np.int64
    mixed = ChoiceKnob("x", [1, 0.5])
    assert mixed.tables["x"].tolist() == [1.0, 0.5]
    assert mixed.tables["x"].dtype == np.float64


def test_numeric_choice_neighbors_are_next_by_value_not_by_place():
    knob = ChoiceKnob("nt", [64, 32, 256, 128])
    near = {v: {knob.value(j) for j in knob.neighbors(knob.index_of(v))} for v in knob.values}
    assert near == {32: {64}, 64: {32, 128}, 128: {64, 256}, 256: {128}}


@pytest.mark.parametrize(
    "values", [[True, False], ["a", "b", "c"], [1, "a"], [(1, 2), (2, 1)], [("x",), ("y", "z")]]
)
def test_other_choices_are_categorical_with_every_other_value_near(values):
    knob = ChoiceKnob("c", values)
    assert not knob.numeric
    assert knob.neighbors(0) == list(range(1, len(values)))
    assert knob.tables["c"].tolist() == list(range(len(values)))
    assert values_of(knob) == values


def test_choice_takes_numpy_scalars_and_lists_for_what_they_stand_for():
    knob = ChoiceKnob("n", np.array([8, 16]))
    assert values_of(knob) == [8, 16]
    assert knob.index_of(np.int32(16)) == 1
    assert ChoiceKnob("t", [[1, 2], [3, 4]]).index_of([3, 4]) == 1


def test_a_flag_is_not_a_number():
    with pytest.raises(SpaceError, match="does not take True"):
        ChoiceKnob("n", [0, 1]).index_of(True)
    with pytest.raises(SpaceError, match="does not take 1"):
        ChoiceKnob("f", [False, True]).index_of(1)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "no values"),
        ([4, 8, 4], "the value 4 twice"),
        ([1, True], "True twice"),
        ([float("nan")], "finite number"),
        ([2**63], "64 bits"),
        ([None], "None is not"),
        ([(1, "a")], "tuple of ints or of strings"),
        ("abc", "must be a list"),
        (3, "must be a list"),
    ],
)
def test_choice_mistakes_are_one_line_naming_the_knob(values, said):
    with pytest.raises(SpaceError, match=said) as caught:
        ChoiceKnob("unroll", values)
    assert "unroll" in str(caught.value)


def test_unknown_value_is_answered_with_the_values_there_are():
    knob = ChoiceKnob("nt", list(range(100)))
    with pytest.raises(SpaceError, match=r"'nt' does not take 200; its values are 0, 1, .*100 in"):
        knob.index_of(200)
    with pytest.raises(SpaceError, match=r"does not take \{\}"):
        knob.index_of({})


@pytest.mark.parametrize("i", [-1, 3])
def test_positions_outside_a_knob_are_refused(i):
    with pytest.raises(SpaceError, match=f"positions 0 to 2, not {i}"):
        ChoiceKnob("n", [1, 2, 3]).value(i)


def test_reorder_lists_all_permutations_with_the_given_order_first():
    knob = ReorderKnob("order", ["i", "j", "k"])
    assert values_of(knob) == list(itertools.permutations(range(3)))
    assert knob.value(knob.default) == (0, 1, 2)
    assert not knob.numeric
    assert knob.column_names == ("order",)


def test_reorder_neighbors_swap_adjacent_axes():
    knob = ReorderKnob("order", ["i", "j", "k"])
    assert {knob.value(j) for j in knob.neighbors(knob.index_of((2, 0, 1)))} == {
        (0, 2, 1),
        (2, 1, 0),
    }


def test_reorder_candidates_are_the_only_orders():
    knob = ReorderKnob("o", ["i", "j"], policy="candidates", candidates=[[1, 0], [0, 1]])
    assert values_of(knob) == [(1, 0), (0, 1)]
    assert knob.neighbors(0) == [1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"axes": []}, "list of names"),
        ({"axes": "ij"}, "list of names"),
        ({"axes": ["i", "i"]}, "twice"),
        ({"axes": ["i", "j"], "policy": "some"}, "unknown policy 'some'; expected one of all"),
        (
            {"axes": ["i", "j"], "policy": "candidates", "candidates": [[0, 0]]},
            "not a permutation of 0 to 1",
        ),
        ({"axes": list("abcdefghij")}, "list candidates instead"),
    ],
)
def test_reorder_mistakes_are_one_line(arguments, said):
    with pytest.raises(SpaceError, match=said):
        ReorderKnob("o", **arguments)


def test_annotate_combines_annotations_and_starts_with_none():
    knob = AnnotateKnob("ann", ["i", "j"], ["none", "unroll"])
    assert values_of(knob) == [
        ("none", "none"),
        ("none", "unroll"),
        ("unroll", "none"),
        ("unroll", "unroll"),
    ]
    assert knob.default == 0
    assert not knob.numeric


def test_annotate_neighbors_change_one_axis():
    knob = AnnotateKnob("ann", ["i", "j"], ("none", "unroll", "vectorize"))
    near = {knob.value(j) for j in knob.neighbors(knob.index_of(("unroll", "none")))}
    assert near == {
        ("none", "none"),
        ("vectorize", "none"),
        ("unroll", "unroll"),
        ("unroll", "vectorize"),
    }


@pytest.mark.parametrize(
    "pair",
    [
        (SplitKnob("t", 8, 2), SplitKnob("t", 8, 3)),
        (SplitKnob("t", 8, 2), SplitKnob("t", 8, 2, policy="power2")),
        (SplitKnob("t", 8, 2), SplitKnob("t", 8, 2, filter=lambda s: s[1] > 1)),
        (ChoiceKnob("c", [1, 2]), ChoiceKnob("c", [2, 1])),
        (ReorderKnob("o", ["i", "j"]), ReorderKnob("o", ["j", "i"])),
        (AnnotateKnob("a", ["i"]), AnnotateKnob("a", ["i"], ["none"])),
    ],
)
def test_specs_tell_knobs_with_different_values_apart(pair):
    assert pair[0].spec() != pair[1].spec()


def test_a_knob_needs_a_name():
    with pytest.raises(SpaceError, match="non-empty string"):
        ChoiceKnob("", [1])


def test_a_default_may_be_named_and_does_not_change_what_the_knob_is() -> None:
    plain, named = ChoiceKnob("nt", [32, 64, 128]), ChoiceKnob("nt", [32, 64, 128], 64)
    assert (plain.default, named.default) == (0, 1)
    assert plain.spec() == named.spec()
    with pytest.raises(SpaceError, match="does not take 48"):
        ChoiceKnob("nt", [32, 64], 48)


def test_a_split_has_a_named_default_and_stays_what_it_is() -> None:
    plain, named = SplitKnob("t", 64, 2), SplitKnob("t", 64, 2, preferred=(-1, 32))
    assert named.value(named.default) == (2, 32)
    assert plain.spec() == named.spec()
    for preferred, said in [
        ((-1, 48), "does not take"),
        ((2, 2, 2), "is not 2 sizes"),
        ((4, 32), "its outermost size must be 2"),
        (("a", 2), "is not a tuple of ints"),
    ]:
        with pytest.raises(SpaceError, match=said):
            SplitKnob("t", 64, 2, preferred=preferred)


def defined(define: Callable[[Knobs], object]) -> KnobTable:
    """Return the knobs that a function defines."""
    table = KnobTable("t")
    define(Knobs(PlainValues(table, {}), Target("llvm")))
    return table


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ((1, 4), [1, 2, 3, 4]),
        ((0, 10, 4), [0, 4, 8]),
        ((-3, -3), [-3]),
        ((1, 40, None, True), [1, 2, 4, 8, 16, 32]),
        ((3, 100, 5, True), [3, 15, 75]),
    ],
)
def test_a_range_has_integers_by_steps_or_factors(arguments: Any, values: list[int]) -> None:
    table = defined(lambda cfg: cfg.define_range("r", *arguments))
    assert values_of(table.knobs["r"]) == values


def test_a_range_may_name_its_default() -> None:
    knob = defined(lambda cfg: cfg.define_range("r", 1, 64, log=True, default=16)).knobs["r"]
    assert knob.value(knob.default) == 16


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((5, 4), "low 5 is larger than high 4"),
        ((0, 10**15), "1000000000000001 values are more than 1048576; take a larger step"),
        ((1, 4, 0), "needs step >= 1, got low 1 and step 0"),
        ((0, 8, 2, True), "needs low >= 1 and step >= 2, got low 0"),
        ((1, 8, 1, True), "needs low >= 1 and step >= 2, got low 1 and step 1"),
        ((1, 2.5), "must be integers, got 1, 2.5"),
    ],
)
def test_ranges_without_values_are_refused(arguments: Any, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        defined(lambda cfg: cfg.define_range("r", *arguments))
