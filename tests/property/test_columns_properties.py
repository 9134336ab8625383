"""Batch evaluation of random expressions equals Python's integers, row by row, exactly."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import IRError
from autotune.extract.feature_kernel import PITCH, column_kernel
from autotune.ir import ops
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.evaluate.column_arithmetic import LIMIT
from autotune.ir.evaluate.column_programs import ColumnProgram
from autotune.ir.evaluate.interpreter import evaluate
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, KnobVar, Not, Select
from autotune.ir.visitor import walk_expr
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache

KNOBS = (
    KnobVar("small", 0, 4),
    KnobVar("signed", -9, 9),
    KnobVar("wide", 1, 4096),
    KnobVar("huge", -(2**31) + 1, 2**31 - 1),
)
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC = ("+", "-", "*", "//", "%", "min", "max")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def by_hand(node: Expr, row: dict[Any, int]) -> int | bool | None:
    """Value of one row, written out once more; None where it is undefined."""
    if isinstance(node, Const):
        return node.value  # type: ignore[return-value]
    if isinstance(node, KnobVar):
        return row[node]
    values = [by_hand(child, row) for child in node.children]
    if isinstance(node, Select):
        if values[0] is None:
            return None
        return values[1] if values[0] else values[2]
    if isinstance(node, BinaryOp) and node.op in ("and", "or"):
        decisive = node.op == "or"
        if any(value is decisive for value in values):
            return decisive
        return None if None in values else not decisive
    if None in values:
        return None
    if isinstance(node, BinaryOp):
        if node.op in ("//", "%") and values[1] == 0:
            return None
        return PYTHON[node.op](*values)
    if isinstance(node, Not):
        return not values[0]
    if isinstance(node, Cast):
        return int(values[0])  # type: ignore[arg-type]
    assert isinstance(node, Call)
    assert node.name == "gcd"
    return math.gcd(*values)  # type: ignore[arg-type]


def draw_number(draw: st.DrawFn, depth: int) -> Expr:
    shape = draw(st.integers(0, 7)) if depth else draw(st.integers(0, 1))
    if shape == 0:
        return ops.const(draw(st.integers(-40, 40)))
    if shape == 1:
        return draw(st.sampled_from(KNOBS))
    a = draw_number(draw, depth - 1)
    if shape <= 3:
        return BinaryOp(draw(st.sampled_from(ARITHMETIC)), a, draw_number(draw, depth - 1))
    if shape == 4:
        b = draw_number(draw, depth - 1)
        divided = BinaryOp(draw(st.sampled_from(("//", "%"))), a, b)
        return Select(BinaryOp("!=", b, ops.const(0)), divided, a)
    if shape == 5:
        return Select(draw_condition(draw, depth - 1), a, draw_number(draw, depth - 1))
    if shape == 6:
        return Call("gcd", (a, draw_number(draw, depth - 1)), "int32")
    return Cast("int32", draw_condition(draw, depth - 1))


def draw_condition(draw: st.DrawFn, depth: int) -> Expr:
    shape = draw(st.integers(0, 3)) if depth else 0
    if shape <= 1:
        a, b = draw_number(draw, max(depth - 1, 0)), draw_number(draw, max(depth - 1, 0))
        return BinaryOp(draw(st.sampled_from(COMPARISONS)), a, b)
    if shape == 2:
        return Not(draw_condition(draw, depth - 1))
    a, b = draw_condition(draw, depth - 1), draw_condition(draw, depth - 1)
    return BinaryOp(draw(st.sampled_from(("and", "or"))), a, b)


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    make = draw(st.sampled_from((draw_number, draw_condition)))
    return make(draw, draw(st.integers(1, 4)))


EXPRESSIONS = expressions()


def some_rows(seed: int, count: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    columns = {}
    for knob in KNOBS:
        column = rng.integers(knob.low, knob.high + 1, count)
        column[rng.random(count) < 0.1] = knob.low
        column[rng.random(count) < 0.1] = knob.high
        columns[knob.name] = column
    return columns


@settings(max_examples=100, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_a_batch_equals_its_rows(exprs: list[Expr], seed: int) -> None:
    columns = some_rows(seed, 23)
    rows = [{knob: int(columns[knob.name][i]) for knob in KNOBS} for i in range(23)]
    expected = [[by_hand(expr, row) for row in rows] for expr in exprs]
    if any(None in values for values in expected):
        with pytest.raises(IRError, match="zero"):
            ColumnProgram(exprs, chunk=8)(columns)
        return
    results = ColumnProgram(exprs, chunk=8)(columns)
    for expr, result, values in zip(exprs, results, expected, strict=True):
        exact = [int(v) for v in np.broadcast_to(result, 23)]  # type: ignore[arg-type]
        assert exact == [int(float(v)) for v in values], str(expr)  # type: ignore[arg-type]


@settings(max_examples=5, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=10, max_size=30), st.integers(0, 2**32 - 1))
def test_a_compiled_batch_equals_its_rows_unless_it_says_so(exprs: list[Expr], seed: int) -> None:
    columns = some_rows(seed, 64)
    results, doubtful = compiled(exprs, columns)
    for i in range(64):
        row = {knob: int(columns[knob.name][i]) for knob in KNOBS}
        steps = [by_hand(node, row) for expr in exprs for node in walk_expr(expr)]
        if all(step is not None and abs(step) < LIMIT for step in steps):
            assert not doubtful[i]
        if not doubtful[i]:
            expected = [np.float32(by_hand(expr, row)) for expr in exprs]
            assert results[:, i].tolist() == expected


def test_a_compiled_batch_says_where_it_cannot_be_relied_on() -> None:
    signed, huge = KNOBS[1], KNOBS[3]
    rows = np.array([(3, 5), (3, 2**31 - 1), (0, 5), (3, 1), (9, -(2**20))])
    columns = {"signed": rows[:, 0], "huge": rows[:, 1]}
    for expr, wrong in (
        ((huge * huge * huge) // 3, [1, 4]),
        ((huge * huge) // signed, [1, 2]),
        (signed % (huge - 1), [3]),
    ):
        _, doubtful = compiled([expr], columns)
        assert np.flatnonzero(doubtful).tolist() == wrong


def compiled(
    exprs: list[Expr], columns: dict[str, np.ndarray[Any, Any]]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return what a compiled function gives for each row, and where not to rely on it."""
    kernel = column_kernel(tuple(columns), Intervals(), lambda lanes: [*map(lanes.write, exprs)])
    count = len(next(iter(columns.values())))
    taken, found = np.ones((len(columns), PITCH)), np.empty((len(exprs) + 1, PITCH), np.float32)
    taken[:, :count] = list(columns.values())
    compile_function(kernel, level=0, cache=ObjectCache(None))(taken, found)
    return found[:-1, :count], found[-1, :count] != 0


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.integers(0, 2**32 - 1))
def test_scalar_evaluation_and_bounds_agree_with_rows(expr: Expr, seed: int) -> None:
    columns = some_rows(seed, 5)
    low, high = Intervals().bounds(expr)
    for i in range(5):
        row = {knob: int(columns[knob.name][i]) for knob in KNOBS}
        expected = by_hand(expr, row)
        if expected is not None:
            assert low <= expected <= high
            try:
                value = evaluate(expr, row)
            except IRError:  # `undefined and False`: decided for a batch, an error for a row
                assert "&&" in str(expr) or "||" in str(expr)
            else:
                assert value == expected


INTEGERS = st.integers(-(2**52) + 1, 2**52 - 1)


@settings(max_examples=200, deadline=None)
@given(INTEGERS, INTEGERS.filter(bool), st.integers(-2, 2))
def test_floor_division_is_exact_up_to_the_limit(a: int, b: int, offset: int) -> None:
    x, y = KnobVar("x", -(2**52) + 1, 2**52 - 1), KnobVar("y", -(2**52) + 1, 2**52 - 1)
    near = max(-(2**52) + 1, min(2**52 - 1, a // b * b + offset))  # around a multiple of b
    columns = {"x": np.array([a, near]), "y": np.array([b, b])}
    quotient, remainder = ColumnProgram([BinaryOp("//", x, y), BinaryOp("%", x, y)])(columns)
    assert list(quotient) == [a // b, near // b]  # type: ignore[arg-type]
    assert list(remainder) == [a % b, near % b]  # type: ignore[arg-type]
