"""Rules that pick kernels: every shape keeps its limit, and every size gets a kernel for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.runtime.cpu.dispatch_rule import Pick, SizeTest, kernels_of, pick
from autotune.shape_dispatch.rule_learning import learn, left_out_losses, shapes_between

SIZE = st.sampled_from([1, 2, 7, 64, 65, 1000, 4096])


@st.composite
def problems(draw):
    kernels = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.tuples(SIZE, SIZE), min_size=1, max_size=12, unique=True))
    own = st.sampled_from([{}, {"m": 1}, {"m": 1, "n": 1}])
    fixed = [{}, *(draw(own) for _ in range(kernels - 1))]
    shapes = [{"m": m, "n": n} for m, n in sizes]
    losses = np.array(
        [
            [
                draw(st.floats(0, 1)) if all(shape[name] == 1 for name in own) else np.inf
                for own in fixed
            ]
            for shape in shapes
        ]
    )
    return shapes, losses, fixed


@given(problems(), st.floats(0, 1))
def test_every_shape_keeps_its_limit(problem, within):
    shapes, losses, fixed = problem
    limits = np.maximum(within, losses.min(axis=1))
    rule = learn(shapes, losses, limits.tolist(), fixed)
    for row, shape in enumerate(shapes):
        assert losses[row, pick(rule, shape)] <= limits[row] + 1e-9


@given(problems(), SIZE, SIZE)
def test_any_size_gets_a_kernel_that_works_for_it(problem, m, n):
    shapes, losses, fixed = problem
    rule = learn(shapes, losses, losses.min(axis=1).tolist(), fixed)
    sizes = {"m": m, "n": n}
    assert all(sizes[name] == 1 for name in fixed[pick(rule, sizes)])


def test_where_one_kernel_is_the_best_of_all_there_is_no_test():
    shapes = [{"n": n} for n in (1, 10, 100)]
    losses = np.array([[0.0, 0.1], [0.0, 0.3], [0.0, 0.0]])
    assert learn(shapes, losses, [0.1] * 3, [{}, {}]) == Pick(0)


def test_a_limit_is_between_the_shapes_that_it_divides():
    shapes = [{"n": n} for n in (10, 20, 500, 1000)]
    losses = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    rule = learn(shapes, losses, [0.1] * 4, [{}, {}])
    assert rule == SizeTest(("n",), 100, Pick(0), Pick(1))
    assert list(kernels_of(rule)) == [0, 1]


def test_what_a_rule_does_on_unseen_shapes_is_told_by_leaving_each_out():
    shapes = [{"n": n} for n in (10, 20, 500, 1000)]
    losses = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert left_out_losses(shapes, losses, [0.1] * 4, [{}, {}], [()] * 4) == [0.0] * 4
    lonely = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert left_out_losses(shapes, lonely, [0.1] * 4, [{}, {}], [()] * 4)[-1] == pytest.approx(1.0)


def test_what_was_made_from_a_shape_is_left_out_with_it_and_never_alone():
    shapes = [{"n": n} for n in (10, 1000, 900)]
    losses = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    parents = [(), (), (0, 1)]
    assert left_out_losses(shapes, losses, [0.1] * 3, [{}, {}], parents) == [1.0, 1.0]


def test_shapes_between_are_in_the_middle_of_near_ones_as_it_is_and_by_powers_of_two():
    shapes = [{"m": 1, "n": 16}, {"m": 4, "n": 100}, {"m": 16, "n": 100}, {"m": 1, "n": 64}]
    found = {tuple(shape.values()): pair for shape, pair in shapes_between(shapes)}
    assert found == {(1, 32): (0, 3), (8, 100): (1, 2), (8, 128): (1, 2)}
