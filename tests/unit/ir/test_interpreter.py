"""The interpreter's meaning of statements, types and vectors, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autotune.errors import IRError
from autotune.ir import dtypes, ops
from autotune.ir.evaluate.interpreter import evaluate, interpret
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    KnobVar,
    Load,
    Ramp,
    Select,
    SizeVar,
    Var,
)
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Produce, Stmt, Store, seq


def buffer(name: str, dtype: str, *shape: Any, scope: str = "global") -> Buffer:
    return Buffer(name, dtype, tuple(ops.convert(extent) for extent in shape), scope)


def loop(var: Var, extent: Any, body: Stmt, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, ops.convert(extent), kind, body)


def run(
    body: Stmt, params: Sequence[Buffer], arrays: Sequence[npt.NDArray[Any]], **kwargs: Any
) -> None:
    written = params[-1]
    sizes = kwargs.pop("sizes", ())
    interpret(PrimFunc("f", tuple(params), frozenset({written}), body, sizes), arrays, **kwargs)


def stored(value: Expr, *arguments: Any, params: Sequence[Buffer] = ()) -> Any:
    """Value of an expression of element 0 of the given buffers, as a store gives it."""
    out = buffer("O", value.dtype, 1)
    arrays = [
        np.array([a], dtypes.numpy_dtype(p.dtype)) for a, p in zip(arguments, params, strict=True)
    ]
    result = np.zeros(1, dtypes.numpy_dtype(value.dtype))
    run(Store(out, ops.const(0), value), [*params, out], [*arrays, result])
    return result[0]


def operands(dtype: str) -> tuple[list[Buffer], Expr, Expr]:
    a, b = buffer("A", dtype, 1), buffer("B", dtype, 1)
    return [a, b], Load(a, ops.const(0)), Load(b, ops.const(0))


@pytest.mark.parametrize("kind", list(LoopKind))
def test_loops_of_every_kind_run_every_iteration(kind: LoopKind) -> None:
    a, b, i, j = buffer("A", "float32", 3, 4), buffer("B", "float32", 3, 4), Var("i"), Var("j")
    body = loop(i, 3, loop(j, 4, Store(b, i * 4 + j, Load(a, i * 4 + j) * 2), kind))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.full((3, 4), np.nan, np.float32)
    run(Produce("B", body), [a, b], [x, y])
    np.testing.assert_array_equal(y, 2 * x)


def test_a_matrix_product_accumulates_in_float32_in_order() -> None:
    a, b, c = (buffer(name, "float32", 5, 5) for name in "ABC")
    i, j, k = Var("i"), Var("j"), Var("k")
    at = i * 5 + j
    update = Store(c, at, Load(c, at) + Load(a, i * 5 + k) * Load(b, k * 5 + j))
    body = loop(i, 5, loop(j, 5, seq(Store(c, at, ops.const(0.0)), loop(k, 5, update))))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 5, 5)).astype(np.float32)
    expected = np.zeros((5, 5), np.float32)
    for step in range(5):
        expected += x[:, step, None] * y[None, step, :]
    result = np.full((5, 5), np.nan, np.float32)
    run(body, [a, b, c], [x, y, result])
    np.testing.assert_array_equal(result, expected)


def test_loops_may_nest_deeper_than_python_blocks() -> None:
    out = buffer("O", "int32", 1)
    body: Stmt = Store(out, ops.const(0), Load(out, ops.const(0)) + 1)
    variables = [Var(f"i{k}") for k in range(40)]
    for k, var in enumerate(variables):
        body = loop(var, 2 if k % 10 == 0 else 1, If(var < 5, body))
    result = np.zeros(1, np.int32)
    run(body, [out], [result])
    assert result[0] == 2**4


def test_if_takes_the_side_that_its_condition_says() -> None:
    out, i = buffer("O", "int32", 4), Var("i")
    zero, one = Store(out, i, ops.const(0)), Store(out, i, ops.const(1))
    result = np.full(4, 7, np.int32)
    run(loop(i, 4, If(ops.likely(i < 2), one, zero)), [out], [result])
    assert result.tolist() == [1, 1, 0, 0]
    run(loop(i, 4, If(i >= 3, one)), [out], [result])
    assert result.tolist() == [1, 1, 0, 1]


def test_sizes_are_taken_from_the_shapes() -> None:
    n = SizeVar("n")
    a, b, i = buffer("A", "int64", n), buffer("B", "int64", n * 2), Var("i")
    body = loop(i, n, seq(Store(b, i * 2, Load(a, i)), Store(b, i * 2 + 1, Load(a, n - 1 - i))))
    x, y = np.arange(5), np.empty(10, np.int64)
    run(body, [a, b], [x, y], sizes=(n,))
    np.testing.assert_array_equal(y, np.stack([x, x[::-1]], axis=1).reshape(-1))


def test_arrays_of_any_strides_are_written_in_place() -> None:
    a, b, i = buffer("A", "float64", 2, 3), buffer("B", "float64", 2, 3), Var("i")
    x, whole = np.arange(6.0).reshape(3, 2).T, np.zeros((4, 6))
    run(loop(i, 6, Store(b, i, Load(a, i) + 1)), [a, b], [x, whole[::2, ::2]])
    np.testing.assert_array_equal(whole[::2, ::2], x + 1)
    assert whole[1::2].sum() == whole[:, 1::2].sum() == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_allocation_of_floats_holds_nan_at_first_each_time(dtype: str) -> None:
    out, local, i = buffer("O", dtype, 2), buffer("L", dtype, 1, scope="local"), Var("i")
    zero, one = ops.const(0), Const(1, dtype)
    inner = seq(Store(out, i, Load(local, zero)), Store(local, zero, one))
    result = np.zeros(2, dtypes.numpy_dtype(dtype))
    run(loop(i, 2, Allocate(local, inner)), [out], [result])
    assert np.isnan(result).all()


@pytest.mark.parametrize("index", [-1, 4, 1000])
@pytest.mark.parametrize("lanes", [1, 2])
def test_an_access_out_of_bounds_names_buffer_index_and_size(index: int, lanes: int) -> None:
    a, b = buffer("A", "float32", 4), buffer("B", "float32", 4)
    where: Expr = ops.const(index)
    inside: Expr = ops.const(0)
    if lanes > 1:
        where = Ramp(where, ops.const(0), lanes)
        inside = Ramp(inside, ops.const(1), lanes)
    arrays = [np.zeros(4, np.float32), np.zeros(4, np.float32)]
    place = rf"index {index} is out of bounds for buffer '{{}}' of 4 elements"
    with pytest.raises(IRError, match="load " + place.format("A")):
        run(Store(b, inside, Load(a, where)), [a, b], arrays)
    with pytest.raises(IRError, match="store " + place.format("B")):
        run(Store(b, where, Load(a, inside)), [a, b], arrays)


def test_only_the_chosen_side_of_if_then_else_is_evaluated() -> None:
    a, b, i = buffer("A", "float32", 3), buffer("B", "float32", 5), Var("i")
    arrays = [np.arange(1, 4, dtype=np.float32), np.zeros(5, np.float32)]
    padded = Load(a, i - 1)
    inside = ops.binary("and", i >= 1, i < 4)
    run(loop(i, 5, Store(b, i, ops.if_then_else(inside, padded, 0.0))), [a, b], arrays)
    assert arrays[1].tolist() == [0, 1, 2, 3, 0]
    with pytest.raises(IRError, match="load index -1"):
        run(loop(i, 5, Store(b, i, ops.select(inside, padded, 0.0))), [a, b], arrays)


def test_a_value_shared_by_both_sides_of_if_then_else_is_right_on_each() -> None:
    a, b, i = buffer("A", "float32", 4), buffer("B", "float32", 4), Var("i")
    x = Load(a, i)
    square = x * x
    value = ops.if_then_else(i < 2, square + square, square * x) + ops.if_then_else(i < 1, x, 0.0)
    arrays = [np.arange(1, 5, dtype=np.float32), np.zeros(4, np.float32)]
    run(loop(i, 4, Store(b, i, value)), [a, b], arrays)
    assert arrays[1].tolist() == [3, 8, 27, 64]


def test_float_division_by_zero_is_infinite_and_silent() -> None:
    params, a, b = operands("float64")
    assert stored(a / b, 1.0, 0.0, params=params) == np.inf
    assert np.isnan(stored(a / b, 0.0, 0.0, params=params))


def test_index_arithmetic_does_not_wrap() -> None:
    a, i = buffer("A", "int32", 2), Var("i")
    result = np.zeros(2, np.int32)
    wide = (i + 2**30) * 4 // 4 - 2**30
    run(loop(i, 2, If(((i + 2**30) * 4) > 0, Store(a, wide, i + 5))), [a], [result])
    assert result.tolist() == [5, 6]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh"])
def test_intrinsics_are_rounded_once(name: str, dtype: str) -> None:
    a = buffer("A", dtype, 1)
    result = stored(Call(name, (Load(a, ops.const(0)),), dtype), 0.7, params=[a])
    exact = getattr(np, name)(np.float64(np.dtype(dtype).type(0.7)))
    assert result == np.dtype(dtype).type(exact)


def test_vectors_load_compute_and_store_all_lanes() -> None:
    a, b = buffer("A", "float32", 16), buffer("B", "float32", 4)
    strided = Load(a, Ramp(ops.const(1), ops.const(3), 4))
    lane = Cast("float32", Ramp(ops.const(0), ops.const(1), 4))
    zero = Broadcast(Const(0, "float32"), 4)
    value = Select(lane > Broadcast(Const(0, "float32"), 4), strided + lane, zero - strided)
    arrays = [np.arange(16, dtype=np.float32), np.zeros(4, np.float32)]
    run(Store(b, Ramp(ops.const(3), ops.const(-1), 4), value), [a, b], arrays)
    assert arrays[1].tolist() == [13, 9, 5, -1]


def test_a_vector_store_reads_all_lanes_before_it_writes() -> None:
    a = buffer("A", "int32", 5)
    shifted = Load(a, Ramp(ops.const(0), ops.const(1), 4))
    result = np.arange(5, dtype=np.int32)
    run(Store(a, Ramp(ops.const(1), ops.const(1), 4), shifted), [a], [result])
    assert result.tolist() == [0, 0, 1, 2, 3]


def test_a_masked_vector_load_touches_only_chosen_lanes() -> None:
    a, b = buffer("A", "float32", 3), buffer("B", "float32", 4)
    index = Ramp(ops.const(0), ops.const(1), 4)
    value = ops.if_then_else(index < 3, Load(a, index), Broadcast(ops.const(-1.0), 4))
    arrays = [np.arange(3, dtype=np.float32), np.zeros(4, np.float32)]
    run(Store(b, index, value), [a, b], arrays)
    assert arrays[1].tolist() == [0, 1, 2, -1]


def test_a_vector_condition_runs_each_side_for_the_lanes_that_take_it() -> None:
    a, b = buffer("A", "float32", 3), buffer("B", "float32", 4)
    lanes = Ramp(ops.const(0), ops.const(1), 4)
    doubled = Store(b, lanes, Load(a, lanes) + Load(a, lanes))
    inner = If(lanes < 1, Store(b, lanes, Broadcast(ops.const(-2.0), 4)))
    counted = Store(b, 3 - lanes, Load(b, 3 - lanes) - 1)
    arrays = [np.arange(3, dtype=np.float32), np.zeros(4, np.float32)]
    run(If(lanes < 3, seq(doubled, inner), counted), [a, b], arrays)
    assert arrays[1].tolist() == [-3, 2, 4, 0]


def test_a_side_that_no_lane_takes_does_not_run() -> None:
    a, b = buffer("A", "float32", 1), buffer("B", "float32", 4)
    lanes = Ramp(ops.const(0), ops.const(1), 4)
    outside = Broadcast(Load(a, ops.const(5)), 4)
    arrays = [np.zeros(1, np.float32), np.zeros(4, np.float32)]
    run(If(lanes < 0, loop(Var("i"), 2, Store(b, lanes, outside))), [a, b], arrays)
    with pytest.raises(IRError, match="index 5 is out of bounds"):
        run(If(lanes < 1, Store(b, lanes, outside)), [a, b], arrays)


def test_lanes_of_a_masked_store_are_read_before_the_first_is_written() -> None:
    a = buffer("A", "int32", 5)
    lanes = Ramp(ops.const(0), ops.const(1), 4)
    result = np.arange(5, dtype=np.int32)
    run(If(lanes != 2, Store(a, lanes + 1, Load(a, lanes))), [a], [result])
    assert result.tolist() == [0, 0, 1, 3, 3]
    nine = Store(a, Broadcast(ops.const(3), 4), Broadcast(ops.const(9), 4))
    run(If(lanes != 2, nine), [a], [result])
    assert result.tolist() == [0, 0, 1, 9, 3]


def test_a_shared_subexpression_does_not_blow_up() -> None:
    a = buffer("A", "int32", 1)
    value: Expr = Load(a, ops.const(0))
    for _ in range(60):
        value = value + value
    assert stored(value, 1, params=[a]) == 0  # 2^60 wraps


def test_a_long_expression_compiles() -> None:
    a = buffer("A", "int64", 1)
    value: Expr = Load(a, ops.const(0))
    for k in range(150):
        value = BinaryOp("-", Const(k, "int64"), value)
    assert stored(value, 0, params=[a]) == sum((-1) ** (149 - k) * k for k in range(150))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros(4, np.float32)], "takes 2 arrays, 1 were given"),
        ([np.zeros(4, np.float32), np.zeros(4)], "'B': expected 1 dimensions of float32"),
        ([np.zeros(4, np.float32), np.zeros(5, np.float32)], "'B': expected shape (4,), not (5,)"),
        ([np.zeros(4, np.float32), np.zeros((4, 1), np.float32)], "expected 1 dimensions"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: list[Any], message: str) -> None:
    a, b, i = buffer("A", "float32", 4), buffer("B", "float32", 4), Var("i")
    with pytest.raises(IRError, match=re.escape(message)):
        run(loop(i, 4, Store(b, i, Load(a, i))), [a, b], arrays)


def test_a_size_in_no_shape_must_be_given() -> None:
    n, i, out = SizeVar("n"), Var("i"), buffer("O", "int32", 4)
    result = np.zeros(4, np.int32)
    function = PrimFunc("f", (out,), frozenset({out}), loop(i, n, Store(out, i, i)), (n,))
    with pytest.raises(IRError, match="size 'n' of 'f' is in no array's shape"):
        interpret(function, [result])
    interpret(function, [result], {n: 3})
    assert result.tolist() == [0, 1, 2, 0]


def test_what_has_no_meaning_is_refused() -> None:
    out, other, i = buffer("O", "int32", 4), buffer("X", "int32", 4), Var("i")
    arrays = [np.zeros(4, np.int32)]
    for body, message in [
        (
            Store(out, ops.const(0), KnobVar("k", 1, 2)),
            "variable 'k' is used where it has no value",
        ),
        (seq(loop(i, 4, Store(out, i, i)), Store(out, i, i)), "variable 'i' is used where"),
        (Store(out, ops.const(0), Load(other, ops.const(0))), "buffer 'X' is neither"),
        (Store(out, ops.const(0), Call("mystery", (), "int32")), "'mystery' of int32"),
        (Store(out, ops.const(0), ops.const(1.0)), "store to 'O'"),
    ]:
        with pytest.raises(IRError, match=re.escape(message)):
            run(body, [out], arrays)


def test_evaluate_is_exact_beyond_the_types() -> None:
    a, b = Var("a"), Var("b")
    assert evaluate(a * a * b, {a: 2**40, b: 3}) == 3 * 2**80
    assert evaluate(ops.gcd(a, b), {a: 12, b: 18}) == 6
    assert evaluate(Cast("int64", a) + 1, {a: 1}) == 2
    assert evaluate(a % b, {a: -7, b: 4}) == 1
    assert evaluate(ops.const(5)) == 5


def test_evaluate_skips_what_is_not_chosen() -> None:
    a, b = Var("a"), Var("b")
    assert evaluate(ops.select(b > 0, a // b, -1), {a: 6, b: 0}) == -1
    assert evaluate(ops.binary("and", b > 0, (a // b) > 2), {a: 6, b: 0}) is False
    assert evaluate(ops.binary("or", b <= 0, (a // b) > 2), {a: 6, b: 0}) is True
    with pytest.raises(IRError, match="by zero"):
        evaluate(a // b, {a: 6, b: 0})


def test_evaluate_refuses_floats_loads_and_unknown_variables() -> None:
    a = Var("a")
    for expr in (ops.const(1.0), Load(buffer("A", "int32", 1), ops.const(0))):
        with pytest.raises(IRError, match="scalar integer expressions"):
            evaluate(expr)
    with pytest.raises(IRError, match="no value is given for variable 'a'"):
        evaluate(a + 1)
