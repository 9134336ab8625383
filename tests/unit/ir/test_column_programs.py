"""Column programs: what they read, write, share, refuse, and when they fall back."""

from __future__ import annotations

import re
import tracemalloc
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autotune.errors import IRError
from autotune.ir import ops
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.evaluate.column_programs import ColumnProgram
from autotune.ir.expr import (
    BinaryOp,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    KnobVar,
    Load,
    Not,
    Select,
    Var,
)

X, Y = KnobVar("x", 0, 100), KnobVar("y", 1, 7)
ROWS = 50
COLUMNS = {
    "x": np.arange(ROWS, dtype=np.int64),
    "y": np.arange(ROWS, dtype=np.int64) % 7 + 1,
}


def evaluated(expr: Expr, **columns: list[int]) -> list[Any]:
    data = {name: np.array(values, np.int64) for name, values in columns.items()}
    (result,) = ColumnProgram([expr])(data)
    assert isinstance(result, np.ndarray)
    return result.tolist()


def test_numbers_are_float64_and_conditions_bool() -> None:
    number, condition = ColumnProgram([X * Y + 1, X % Y < 2])(COLUMNS)
    assert isinstance(number, np.ndarray)
    assert isinstance(condition, np.ndarray)
    assert (number.dtype, condition.dtype) == (np.float64, np.bool_)
    np.testing.assert_array_equal(number, COLUMNS["x"] * COLUMNS["y"] + 1)
    np.testing.assert_array_equal(condition, COLUMNS["x"] % COLUMNS["y"] < 2)


def test_float64_columns_are_read_as_int64_ones() -> None:
    program = ColumnProgram([X // Y])
    (expected,), (result,) = (
        program(COLUMNS),
        program({name: column.astype(np.float64) for name, column in COLUMNS.items()}),
    )
    np.testing.assert_array_equal(result, expected)


def test_division_rounds_down_for_both_signs() -> None:
    a, b = KnobVar("a", -9, 9), KnobVar("b", -4, 4)
    left, right = [7, -7, 7, -7, 0], [2, 2, -2, -2, -3]
    assert evaluated(BinaryOp("//", a, b), a=left, b=right) == [3, -4, -4, 3, 0]
    assert evaluated(BinaryOp("%", a, b), a=left, b=right) == [1, 1, -1, -1, 0]
    assert evaluated(a // 4, a=left) == [1, -2, 1, -2, 0]
    assert evaluated(a % 4, a=left) == [3, 1, 3, 1, 0]


def test_what_is_the_same_in_all_rows_comes_back_as_a_number() -> None:
    program = ColumnProgram([ops.const(6), X >= 0, X + 1, Y * 0])
    values = program(COLUMNS)
    assert program.constants == (6, True, None, 0)
    assert (values[0], values[1], values[3]) == (6, True, 0)


def test_only_the_knobs_that_occur_are_read() -> None:
    program = ColumnProgram([Y + 1])
    assert program.knobs == ("y",)
    np.testing.assert_array_equal(program({"y": COLUMNS["y"]})[0], COLUMNS["y"] + 1)


@pytest.mark.parametrize("order", ["C", "F"])
def test_results_go_into_the_columns_of_a_float32_matrix(order: Any) -> None:
    matrix = np.full((ROWS, 3), np.nan, np.float32, order=order)
    ColumnProgram([X + Y, ops.const(5), X > Y], chunk=16)(COLUMNS, out=list(matrix.T))
    x, y = COLUMNS["x"], COLUMNS["y"]
    np.testing.assert_array_equal(matrix, np.stack([x + y, np.full(ROWS, 5), x > y], axis=1))


@pytest.mark.parametrize("chunk", [1, 7, 50, 64])
def test_the_chunk_size_does_not_change_results(chunk: int) -> None:
    exprs = [X * Y % 5 + X // Y, ops.select(X > Y, X - Y, Y - X), X * Y % 5]
    for result, expected in zip(
        ColumnProgram(exprs, chunk)(COLUMNS), ColumnProgram(exprs)(COLUMNS), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


def test_common_subexpressions_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from autotune.ir.evaluate import column_programs

    calls = []

    def counted(a: Any, b: Any) -> Any:
        calls.append(1)
        return np.gcd(a.astype(np.int64), b.astype(np.int64)).astype(np.float64)

    monkeypatch.setitem(column_programs.CALLS, "gcd", counted)
    shared = ops.gcd(X, Y)
    ColumnProgram([shared + 1, shared * 2, ops.select(shared > 1, shared, X)])(COLUMNS)
    assert len(calls) == 1


def test_results_are_dropped_after_their_last_use() -> None:
    long: Expr = X
    for k in range(100):
        long = ops.binary("max" if k % 2 else "min", long + k, Y * k)
    program, rows = ColumnProgram([long]), 1 << 13
    columns = {name: np.resize(column, rows) for name, column in COLUMNS.items()}
    program(columns)
    tracemalloc.start()
    program(columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 8 * rows


def test_a_division_by_zero_that_is_not_chosen_is_fine_and_silent() -> None:
    guarded = Select(X > 2, BinaryOp("//", ops.const(60), X), ops.const(-1))
    lazily = Call("if_then_else", (X > 2, BinaryOp("%", ops.const(60), X), X), "int32")
    also = ops.binary("and", X > 0, BinaryOp("%", ops.const(60), X).equal(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values, rests, divides = ColumnProgram([guarded, lazily, also])(COLUMNS)
    numbers = range(ROWS)
    np.testing.assert_array_equal(values, [60 // x if x > 2 else -1 for x in numbers])
    np.testing.assert_array_equal(rests, [60 % x if x > 2 else x for x in numbers])
    np.testing.assert_array_equal(divides, [x > 0 and 60 % x == 0 for x in numbers])


@pytest.mark.parametrize(
    "expr",
    [
        BinaryOp("//", Y, X),
        BinaryOp("%", Y, X) + 1,
        BinaryOp("//", Y, X) < 3,
        ops.binary("min", BinaryOp("//", Y, X), Y),
        ops.select(BinaryOp("//", Y, X) > 2, X, Y),
        Not(ops.binary("or", BinaryOp("//", Y, X) < 3, X > 90)),
    ],
)
def test_a_division_by_zero_that_counts_is_an_error(expr: Expr) -> None:
    with pytest.raises(IRError, match=re.escape("divides by zero in 1 of 50 rows")):
        ColumnProgram([expr])(COLUMNS)


def test_an_expression_that_shares_its_parts_is_compiled_and_refused_in_no_time() -> None:
    shared: Expr = BinaryOp("//", Y, X)
    for _ in range(50):
        shared = shared + shared * 2 - shared
    program = ColumnProgram([shared > 3])
    with pytest.raises(IRError, match=re.escape(" > 3)` divides by zero in 1 of 50")) as caught:
        program(COLUMNS)
    assert len(str(caught.value)) < 300
    assert len(repr(shared)) < 300
    (values,) = program({name: column[1:] for name, column in COLUMNS.items()})
    quotient = COLUMNS["y"][1:] // COLUMNS["x"][1:]
    np.testing.assert_array_equal(values, quotient > 0)


def test_values_beyond_the_exact_range_are_computed_exactly() -> None:
    a, b = KnobVar("a", 0, 2**31 - 1), KnobVar("b", 0, 2**31 - 1)
    product = BinaryOp("*", Cast("int64", a), Cast("int64", b))
    exprs = [product - (product - 1), product % 10, product]
    top = 2**31 - 1
    columns = {"a": np.array([3, top, 5, top]), "b": np.array([7, top, 11, 2])}
    one, digit, whole = ColumnProgram(exprs, chunk=3)(columns)
    np.testing.assert_array_equal(one, [1, 1, 1, 1])
    np.testing.assert_array_equal(digit, [1, top * top % 10, 5, 2 * top % 10])
    np.testing.assert_array_equal(whole, [21, float(top * top), 55, 2 * top])


def test_overflow_in_one_chunk_leaves_the_next_alone() -> None:
    a = KnobVar("a", 0, 2**31 - 1)
    cube = BinaryOp("*", BinaryOp("*", a, a), a)
    column = np.arange(20)
    column[2] = 2**31 - 1
    (result,) = ColumnProgram([BinaryOp("%", cube, ops.const(7))], chunk=5)({"a": column})
    np.testing.assert_array_equal(result, [int(v) ** 3 % 7 for v in column])


def test_a_missing_column_is_named() -> None:
    with pytest.raises(IRError, match="no column is given for knob 'y'"):
        ColumnProgram([X + Y])({"x": COLUMNS["x"]})


def test_a_column_outside_the_knobs_range_is_refused() -> None:
    with pytest.raises(IRError, match="values from 0 to 49, but its knob has values from 1 to 7"):
        ColumnProgram([X + Y])({"x": COLUMNS["x"], "y": COLUMNS["x"]})


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(IRError, match="'y' has shape"):
        ColumnProgram([X + Y])({"x": COLUMNS["x"], "y": COLUMNS["y"][:-1]})


@pytest.mark.parametrize(
    "out", [[], [np.empty(ROWS, np.int64)], [np.empty(ROWS - 1)], [np.empty(ROWS, np.bool_)]]
)
def test_output_arrays_that_do_not_fit_are_refused(out: list[npt.NDArray[Any]]) -> None:
    with pytest.raises(IRError, match=r"expressions need as many|expected float32"):
        ColumnProgram([X + Y])(COLUMNS, out)


@pytest.mark.parametrize(
    "expr",
    [
        Var("i") + 1,
        ops.cast("float32", X),
        Load(Buffer("A", "int32", ()), X),
        BinaryOp("+", X > 1, X > 2),
        Call("exp", (X,), "int32"),
    ],
)
def test_expressions_of_other_kinds_are_refused(expr: Expr) -> None:
    with pytest.raises(IRError):
        ColumnProgram([expr])


def test_constants_that_columns_cannot_hold_are_refused() -> None:
    with pytest.raises(IRError, match=re.escape("below 2^52")):
        ColumnProgram([BinaryOp("+", Cast("int64", X), Const(2**52, "int64"))])


def test_no_rows_give_no_results() -> None:
    empty = {"x": np.empty(0, np.int64), "y": np.empty(0, np.int64)}
    (result,) = ColumnProgram([X + Y])(empty)
    assert isinstance(result, np.ndarray)
    assert result.shape == (0,)


@pytest.mark.parametrize(
    ("expr", "bounds"),
    [
        (X + Y, (1, 107)),
        (X - Y, (-7, 99)),
        (X * -2, (-200, 0)),
        (X // Y, (0, 100)),
        (X % Y, (0, 6)),
        (Y % 8, (1, 7)),
        (ops.binary("min", X, Y), (0, 7)),
        (ops.binary("max", X, Y), (1, 100)),
        (Y < 8, (1, 1)),
        (Y > 7, (0, 0)),
        (X.equal(Y), (0, 1)),
        (X.equal(101), (0, 0)),
        (ops.select(X > 5, X, Y), (0, 100)),
        (ops.gcd(X, Y), (1, 100)),
    ],
)
def test_bounds_of_an_expression(expr: Expr, bounds: tuple[int, int]) -> None:
    assert Intervals().bounds(expr) == bounds


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "min", "max", "==", "!=", "<", "<="])
def test_bounds_hold_on_every_small_domain(op: str) -> None:
    from autotune.ir.evaluate.interpreter import evaluate

    ranges = [(low, high) for low in range(-3, 4) for high in range(low, 4)]
    a, b = Var("a"), Var("b")
    values = {
        (i, j): evaluate(BinaryOp(op, a, b), {a: i, b: j})
        for i in range(-3, 4)
        for j in range(-3, 4)
        if j or op not in ("//", "%")
    }
    for first in ranges:
        for second in ranges:
            expr = BinaryOp(op, KnobVar("a", *first), KnobVar("b", *second))
            low, high = Intervals().bounds(expr)
            inside = [
                value
                for (i, j), value in values.items()
                if first[0] <= i <= first[1] and second[0] <= j <= second[1]
            ]
            assert all(low <= value <= high for value in inside)
