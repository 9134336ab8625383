"""Conditions that all lanes answer alike: never one that they do not, and those of templates."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from autotune.ir import ops
from autotune.ir.expr import Const, Expr, Var
from autotune.ir.visitor import substitute, walk_expr
from autotune.lowering.vector.lane_guards import uniform_condition

LANES = 4
v, x, step = Var("v"), Var("x"), Var("step")


def number(value: int) -> Const:
    return Const(value, "int32")


def value(condition: Expr, at_v: int, at_x: int) -> object:
    decided = substitute(condition, {v: number(at_v), x: number(at_x)})
    assert isinstance(decided, Const)
    return decided.value


def depends(condition: Expr, var: Var) -> bool:
    return any(part is var for part in walk_expr(condition))


@pytest.mark.parametrize("start", [0, 4, 3])
def test_an_answer_is_taken_from_the_first_lane_only_if_it_is_that_of_all(start: int) -> None:
    rng = np.random.default_rng(start)
    scales, extras = (-8, -4, 0, 1, 2, 4, 8), (-5, -4, 0, 1, 3, 4)
    forms: list[Callable[[Expr, int], Expr]] = [
        lambda e, c: e,
        lambda e, c: e % c,
        lambda e, c: e // c,
        lambda e, c: e % (2 * c) // 2 * 3 + e // 8,
        lambda e, c: (e % c) * -2 + x * 16,
    ]
    asked = 0
    for a, b, c, form in itertools.product(scales, (-1, 1, 2), extras, forms):
        e = form(x * a + v * b + c, int(rng.choice((2, 4, 6, 8))))
        op = str(rng.choice(("<", "<=", ">", ">=")))
        condition = ops.binary(op, e, int(rng.integers(-9, 17)))
        result = uniform_condition(condition, v, number(start), LANES)
        if result is condition:
            continue
        asked += 1
        assert not depends(result, v)
        for at_x, lane in itertools.product(range(-5, 6), range(LANES)):
            truth = value(condition, start + lane, at_x)
            assert value(result, start, at_x) == truth, f"{condition}, x = {at_x}, lane {lane}"
    assert asked > 20


@pytest.mark.parametrize(
    "condition",
    [
        x * 8 + v < 40,
        ops.binary("<", 39, x * 8 + v),
        (x * 64 + v) % 128 + step * 128 < 72,
        (x * 4 + v) // 128 + step * 3 <= 7,
        ops.likely(ops.binary("and", x * 4 + v < 40, step < 3)),
    ],
    ids=str,
)
def test_guards_of_whole_vectors_are_asked_once(condition: Expr) -> None:
    assert not depends(uniform_condition(condition, v, number(0), LANES), v)
    assert not depends(uniform_condition(condition, v, step * LANES, LANES), v)


@pytest.mark.parametrize(
    "condition", [x * 4 + v < 39, x + v < 40, x * 4 + v <= 40, v < 2, v * 2 + x * 4 < 40], ids=str
)
def test_guards_that_cut_a_vector_stay(condition: Expr) -> None:
    assert uniform_condition(condition, v, number(0), LANES) is condition
