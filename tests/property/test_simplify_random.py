"""Simplified random expressions against direct evaluation: indices, stored values, columns.

`AUTOTUNE_EXAMPLES=100000` is the full count, with `-o timeout=7200`.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Any

import numpy as np
import pytest
from support.random_expressions import Array, Generator, Grid, TooLargeError, assert_sound

from autotune.ir import dtypes, ops
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.algebra.polynomials import normal
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.evaluate.column_programs import ColumnProgram
from autotune.ir.evaluate.interpreter import interpret, scalar_function
from autotune.ir.expr import Buffer, Expr, KnobVar, Load, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Store

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))
SPANS = ((0, 0), (0, 1), (0, 3), (0, 6), (1, 4), (2, 7), (-1, 1), (-4, 3), (-6, -2))
INDICES = ("int32", "int64")
EVERY = (*INDICES, *INDICES, *dtypes.INTEGERS)
X, Y, Z = Var("x"), Var("y"), Var("z")
KNOBS = {(name, span): KnobVar(name, *span) for name, span in itertools.product("xyz", SPANS)}


def assert_same(before: Expr, after: Expr, grid: Grid, about: Any) -> None:
    a, b = np.broadcast_arrays(grid(before), grid(after))
    assert a.dtype == b.dtype, f"`{before}` became `{after}` for {about}"
    assert np.array_equal(a, b), f"`{before}` became `{after}` for {about}"


# -- indices: exact integers -----------------------------------------------------------------------


def drawn(rng: random.Random) -> tuple[Expr, dict[Var, tuple[int, int]]]:
    """Return a random expression and random ranges of its variables."""
    return Generator(rng, (X, Y, Z), EVERY).any(rng.randrange(1, 6)), {
        var: rng.choice(SPANS) for var in (X, Y, Z)
    }


def test_simplification_and_bounds_agree_with_direct_evaluation() -> None:
    rng, compared = random.Random(0), 0
    for _ in range(EXAMPLES or 1000):
        expr, ranges = drawn(rng)
        try:
            assert_sound(expr, ranges)
        except TooLargeError:
            continue
        compared += 1
    assert compared > 0.99 * (EXAMPLES or 1000)


def test_without_ranges_only_what_always_holds_is_used() -> None:
    rng = random.Random(1)
    for _ in range(EXAMPLES or 250):
        expr, ranges = drawn(rng)
        assert_same(expr, Simplifier().expr(expr), Grid.of(ranges), ranges)


def test_the_polynomial_normal_form_agrees_with_direct_evaluation() -> None:
    rng = random.Random(2)
    for _ in range(EXAMPLES or 250):
        expr = Generator(rng, (X, Y, Z), ("int32",)).number(rng.randrange(1, 5), "int32")
        ranges = {var: rng.choice(SPANS) for var in (X, Y, Z)}
        assert_same(expr, normal(expr), Grid.of(ranges), ranges)


def test_direct_evaluation_is_what_the_interpreter_does() -> None:
    rng = random.Random(3)
    for _ in range(200):
        expr, ranges = drawn(rng)
        grid = Grid.of(ranges)
        run = scalar_function([expr], list(ranges))
        points = np.stack([grid(var) for var in ranges], axis=1).tolist()
        values = np.broadcast_to(grid(expr), len(points))
        assert [run(*point)[0] for point in points] == values.tolist()


# -- stored values: integers that wrap -------------------------------------------------------------

FACTORS = (1, 1, 1, 100_000, 65_536, 10**9, 2**31 - 1)
WIDE = ((0, 3), (0, 100), (-4, 3), (0, 2**31 - 1), (-(2**31), 2**31 - 1), (2**31 - 5, 2**31 - 1))
N, M = Buffer("N", "int32", (ops.const(100),)), Buffer("M", "int64", (ops.const(100),))


def spread(rng: random.Random, low: int, high: int, count: int = 48) -> Array:
    """Return values from low to high, both ends often among them."""
    values = [rng.choice((low, high, rng.randint(low, high))) for _ in range(count)]
    return np.array(values, np.int64)


def test_simplified_stored_values_wrap_as_they_did_before() -> None:
    rng = random.Random(4)
    i, j = Var("i"), Var("j", "int64")
    loads = Load(N, Y), Load(M, Y)
    for _ in range(EXAMPLES or 400):
        leaves = [i * rng.choice(FACTORS), j * rng.choice((*FACTORS, 2**40, 2**62)), X]
        leaves += loads if rng.random() < 0.4 else ()
        expr = Generator(rng, leaves, EVERY, lazy=False).any(rng.randrange(1, 6))
        ranges = {var: rng.choice(WIDE) for var in (i, j, X)}
        values: dict[Expr, Array] = {v: spread(rng, *r) for v, r in ranges.items()}
        for load in loads:
            info = np.iinfo(load.dtype)
            ends = rng.choice(((-9, 9), (int(info.min), int(info.max))))
            values[load] = spread(rng, *ends)
        assert_same(expr, Simplifier(ranges).value(expr), Grid(values, wraps=True), ranges)


def test_direct_evaluation_of_stored_values_is_what_the_interpreter_does() -> None:
    rng = random.Random(5)
    out = Buffer("out", "int32", (ops.const(12),))
    for _ in range(60):
        leaves = (X * rng.choice(FACTORS), X)
        expr = Generator(rng, leaves, EVERY, lazy=False).number(rng.randrange(1, 6), "int32")
        body = For(X, ops.const(12), LoopKind.SERIAL, Store(out, X, expr))
        result = np.zeros(12, np.int32)
        interpret(PrimFunc("f", (out,), (out,), body, ()), [result])
        values = Grid({X: np.arange(12)}, wraps=True)(expr)
        assert result.tolist() == np.broadcast_to(values, 12).tolist(), expr


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("simplify", [False, True])
def test_columns_and_intervals_agree_with_direct_evaluation(simplify: bool) -> None:
    rng = random.Random(6)
    for _ in range((EXAMPLES or 300) // 2):
        knobs = [KNOBS[name, rng.choice(SPANS)] for name in "xyz"]
        expr = Generator(rng, knobs, INDICES).any(rng.randrange(1, 6))
        expr = Simplifier().expr(expr) if simplify else expr
        grid = Grid.of({knob: (knob.low, knob.high) for knob in knobs})
        try:
            expected = grid(expr)
        except TooLargeError:
            continue
        low, high = Intervals().bounds(expr)
        assert low <= expected.min(), expr
        assert expected.max() <= high, expr
        (values,) = ColumnProgram([expr])({knob.name: grid(knob) for knob in knobs})
        assert np.array_equal(*np.broadcast_arrays(values, expected)), expr
