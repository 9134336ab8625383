"""Laws that hold for every knob and every space, on random ones."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rejections import rejections

from search_spaces import AnnotateKnob, ChoiceKnob, Constraint, ReorderKnob, Space, SplitKnob

STEADY = settings(deadline=None, max_examples=30)  # a busy machine is no failure
NAMES = st.lists(st.sampled_from("ijkxyz"), min_size=1, max_size=3, unique=True)


def _odd_or_one(sizes):
    return sizes[-1] == 1 or sizes[-1] % 2 == 1


@st.composite
def splits(draw, name):
    policy = draw(st.sampled_from(["factors", "power2", "candidates"]))
    extent, parts = draw(st.integers(1, 60)), draw(st.integers(1, 3))
    listed = None
    if policy == "candidates":
        inner = st.tuples(*[st.integers(1, 9)] * (parts - 1))
        listed = [(-1, *t) for t in draw(st.lists(inner, min_size=1, max_size=6, unique=True))]
    keep = None if listed else draw(st.sampled_from([None, _odd_or_one])) if parts > 1 else None
    return SplitKnob(name, extent, parts, policy, listed, keep)


def choices(name):
    numbers = st.integers(-50, 50) | st.floats(-2, 2).filter(lambda x: x != int(x))
    lists = [numbers, st.text(max_size=3), st.booleans(), st.tuples(st.integers(0, 3))]
    values = st.one_of([st.lists(v, min_size=1, max_size=6, unique=True) for v in lists])
    return st.builds(ChoiceKnob, st.just(name), values)


def reorders(name):
    return st.builds(ReorderKnob, st.just(name), NAMES)


def annotates(name):
    words = st.lists(st.sampled_from(["none", "unroll", "vec"]), min_size=1, unique=True)
    return st.builds(AnnotateKnob, st.just(name), NAMES, words)


def knobs(name="k"):
    return st.one_of([kind(name) for kind in (splits, choices, reorders, annotates)])


@st.composite
def spaces(draw):
    found = [draw(knobs(f"k{i}")) for i in range(draw(st.integers(1, 4)))]
    modulus = draw(st.integers(1, 4))
    column = found[0].column_names[0]
    rules = [Constraint("mod", lambda c: np.floor(c[column]) % modulus == 0)]
    rules += [Constraint("sum", lambda c: sum(c.values()) % 3 != 1)]
    return Space(found, rules[: draw(st.integers(0, 2))])


@st.composite
def spaces_and_indices(draw):
    space = draw(spaces())
    some = st.lists(st.integers(0, len(space) - 1), min_size=1, max_size=20)
    return space, draw(some)


@STEADY
@given(knobs())
def test_position_and_value_round_trip(knob):
    for i in range(len(knob)):
        assert knob.index_of(knob.value(i)) == i


@STEADY
@given(knobs())
def test_neighbors_are_symmetric_other_positions_without_repetition(knob):
    near = [knob.neighbors(i) for i in range(len(knob))]
    for i, positions in enumerate(near):
        assert len(set(positions)) == len(positions)
        assert i not in positions
        assert all(i in near[j] for j in positions)


@STEADY
@given(knobs())
def test_every_value_is_within_reach_of_every_other(knob):
    steps = knob.steps_from(knob.default)
    assert steps[knob.default] == 0
    assert len(knob) == 1 or steps.max() < len(knob)
    for i in range(len(knob)):
        assert all(abs(steps[i] - steps[j]) <= 1 for j in knob.neighbors(i))


@STEADY
@given(knobs())
def test_columns_equal_values_decoded_one_by_one(knob):
    columns = knob.tables
    assert tuple(columns) == knob.column_names
    for i in range(len(knob)):
        value = knob.value(i)
        got = [column[i] for column in columns.values()]
        if isinstance(knob, SplitKnob):
            assert got == list(value)
        else:
            assert got == [value if knob.numeric else i]


@STEADY
@given(knobs())
def test_outermost_size_of_a_split_is_what_the_inner_sizes_leave(knob):
    for i in range(len(knob)) if isinstance(knob, SplitKnob) else ():
        outer, *inner = knob.value(i)
        assert outer == -(-knob.extent // int(np.prod(inner, dtype=int)))


@STEADY
@given(spaces_and_indices())
def test_index_values_and_positions_round_trip(case):
    space, indices = case
    assert space.indices_of(space.positions(indices)).tolist() == indices
    for i in indices:
        config = space.config(i)
        assert space.index_of(config.values) == i
        assert space.index_of(config.to_json()["values"]) == i
        positions = space.positions([i])[0]
        assert [k.value(p) for k, p in zip(space.knobs, positions, strict=True)] == list(
            config.values.values()
        )


@STEADY
@given(spaces_and_indices())
def test_space_columns_equal_knob_columns_of_single_configs(case):
    space, indices = case
    columns = space.columns(indices)
    assert tuple(columns) == space.column_names
    for row, i in enumerate(indices):
        config = space.config(i)
        for knob in space.knobs:
            position = knob.index_of(config[knob.name])
            for name, column in knob.tables.items():
                assert columns[name][row] == column[position]
                assert columns[name].dtype == column.dtype


@STEADY
@given(spaces_and_indices())
def test_feasibility_of_an_index_does_not_depend_on_its_company(case):
    space, indices = case
    together = space.feasible(indices)
    assert together.tolist() == [bool(space.feasible([i])[0]) for i in indices]
    assert together.tolist() == np.isin(indices, space.feasible_indices()).tolist()
    assert sum(rejections(space, indices).values()) == np.count_nonzero(~together)


@STEADY
@given(spaces_and_indices())
def test_space_neighbors_are_feasible_moves_of_one_knob_and_symmetric(case):
    space, indices = case
    for i in indices:
        near = space.neighbors(i)
        assert space.feasible(near).all()
        moved = (space.positions(near) != space.positions([i])).sum(axis=1)
        assert (moved == 1).all()
        if space.feasible([i])[0]:
            assert all(i in space.neighbors(j) for j in near)


@STEADY
@given(spaces(), st.integers(0, 30), st.integers(0, 2**32))
def test_samples_are_unique_feasible_and_not_excluded(space, n, seed):
    feasible = space.feasible_indices()
    exclude = feasible[::3].tolist()
    drawn = space.sample(n, np.random.default_rng(seed), exclude)
    assert len(drawn) == min(n, len(feasible) - len(exclude))
    assert len(np.unique(drawn)) == len(drawn)
    assert np.isin(drawn, feasible).all()
    assert not np.isin(drawn, exclude).any()
    assert drawn.tolist() == space.sample(n, np.random.default_rng(seed), exclude).tolist()


@STEADY
@given(spaces_and_indices())
def test_nearest_feasible_agrees_with_a_walk_over_neighbors(case):
    space, indices = case
    start = indices[0]
    reached, frontier = {start}, {start}
    free = Space(space.knobs)
    while frontier and not space.feasible(sorted(frontier)).any():
        frontier = {int(j) for i in frontier for j in free.neighbors(i)} - reached
        reached |= frontier
    nearest = [i for i in sorted(frontier) if space.feasible([i])[0]]
    assert space.nearest_feasible(start) == (nearest[0] if nearest else None)


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_fingerprint_and_samples_are_the_same_in_another_process(hash_seed):
    code = (
        "import numpy as np\n"
        "from search_spaces import *\n"
        "s = Space([SplitKnob('t', 48, 3, filter=lambda v: v[2] > 1), ChoiceKnob('c', ['a', 'b']),"
        " ReorderKnob('o', ['i', 'j']), AnnotateKnob('n', ['i', 'j'])],"
        " [Constraint('r', lambda c: c['t.1'] < 9)])\n"
        "facts = (s.fingerprint(), s.sample(9, np.random.default_rng(3)).tolist(),"
        " s.neighbors(s.default_index).tolist())\n"
    )
    here = {}
    exec(code, here)
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    there = subprocess.run(
        [sys.executable, "-c", code + "print(facts)"],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    assert there.stdout.strip() == repr(here["facts"])
