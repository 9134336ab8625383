"""The rules of docs/dtypes.md: promotion, literals, casts, division, rounding, folding."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.dtype_values import Array, assert_same, converted, edges, pairs

from autotune import te
from autotune.errors import IRError
from autotune.ir import dtypes, ops
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.evaluate.interpreter import evaluate, interpret
from autotune.ir.expr import BinaryOp, Buffer, Cast, Const, Expr, Load, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Store

NUMPY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
OPERATIONS = ("+", "-", "*", "/", "//", "%", "min", "max", "==", "!=", "<", "<=", ">", ">=")
NARROW = tuple(name for name in dtypes.INTEGERS if not dtypes.is_index(name))


AT = Var("i")


def load(name: str, dtype: str, size: int = 1) -> Load:
    return Load(Buffer(name, dtype, (ops.const(size),)), AT)


def array(dtype: str, *values: Any) -> Array:
    return np.array(values).astype(dtypes.numpy_dtype(dtype))


def interpreted(make: Callable[..., Expr], *operands: Array) -> Array:
    """What a loop stores that computes `make` of the elements of the operands."""
    n = len(operands[0])
    loads = [load(f"in{k}", x.dtype.name, n) for k, x in enumerate(operands)]
    value = make(*loads)
    out = Buffer("out", value.dtype, (ops.const(n),))
    body = For(AT, ops.const(n), LoopKind.SERIAL, Store(out, AT, value))
    params = (*(node.buffer for node in loads), out)
    result = np.zeros(n, dtypes.numpy_dtype(value.dtype))
    interpret(PrimFunc("f", params, frozenset([out]), body), [*operands, result])
    return result


def computed(op: str, x: Array, y: Array) -> Array:
    return interpreted(lambda a, b: BinaryOp(op, a, b), x, y)


# -- the table of types ---------------------------------------------------------------------


def test_ranges_and_precisions_are_those_of_numpy() -> None:
    for dtype in dtypes.INTEGERS:
        info = np.iinfo(dtype)
        assert (dtypes.min_value(dtype), dtypes.max_value(dtype)) == (info.min, info.max)
    import ml_dtypes

    for dtype in dtypes.FLOATS:
        limits = ml_dtypes.finfo(dtypes.numpy_dtype(dtype))
        assert dtypes.min_value(dtype) == float(limits.min)
        assert dtypes.max_value(dtype) == float(limits.max)
        assert dtypes.epsilon(dtype) == float(limits.eps)
    for dtype in dtypes.ALL:
        assert dtypes.numpy_dtype(dtype).name == dtype
        assert dtypes.numpy_dtype(dtype).itemsize == dtypes.itemsize(dtype)


@pytest.mark.parametrize("dtype", dtypes.NUMBERS)
@pytest.mark.parametrize("op", ["+", "*", "min", "max"])
def test_the_identity_of_an_operation_changes_no_value(op: str, dtype: str) -> None:
    identity = Const(dtypes.identity(op, dtype), dtype)
    values = edges(dtype)
    result = interpreted(lambda a: BinaryOp(op, a, identity), values)
    assert_same(result, values, signed_zeros=False)  # -0 + 0 is 0


def test_halves_accumulate_in_float32_and_others_in_themselves() -> None:
    for dtype in dtypes.NUMBERS:
        assert dtypes.accumulator(dtype) == ("float32" if dtypes.is_half(dtype) else dtype)


def test_only_bfloat16_needs_ml_dtypes() -> None:
    code = (
        "import sys; from autotune import te;"
        "te.compute((4,), lambda i: te.const(1, 'float16') + i.astype('float16'));"
        "assert 'ml_dtypes' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- promotion and literals -----------------------------------------------------------------


def test_promotion_is_a_join() -> None:
    """Operands may be grouped and swapped: the result has the same type."""
    for a, b in itertools.product(dtypes.ALL, repeat=2):
        assert dtypes.promote(a, b) == dtypes.promote(b, a)
        for c in dtypes.ALL:
            left = dtypes.promote(dtypes.promote(a, b), c)
            if not {a, b, c} & set(dtypes.HALVES):
                assert left == dtypes.promote(a, dtypes.promote(b, c))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float16", "int64", "float16"),
        ("bfloat16", "uint64", "bfloat16"),
        ("float16", "bfloat16", "float32"),
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("int8", "int16", "int16"),
        ("uint8", "uint32", "uint32"),
        ("uint8", "int8", "int8"),
        ("uint32", "int32", "int32"),
        ("uint8", "int32", "int32"),
        ("int8", "uint32", "int32"),
        ("uint64", "int64", "int64"),
        ("bool", "uint8", "uint8"),
        ("bool", "float16", "float16"),
    ],
)
def test_promotion(a: str, b: str, expected: str) -> None:
    assert dtypes.promote(a, b) == dtypes.promote(b, a) == expected
    total = ops.binary("max", load("a", a), load("b", b))
    assert total.dtype == expected


@pytest.mark.parametrize(
    ("dtype", "number", "result"),
    [
        ("uint8", 255, "uint8"),
        ("int8", -128, "int8"),
        ("float16", 65504.0, "float16"),
        ("bfloat16", 3, "bfloat16"),
        ("float32", 3.4028235e38, "float32"),  # rounds to the largest number
        ("float16", math.inf, "float16"),
        ("int16", 0.5, "float32"),
        ("int32", 2**40, "int64"),
        ("uint8", True, "uint8"),
        ("uint8", np.int64(7), "uint8"),
    ],
)
def test_a_literal_takes_the_type_beside_it(dtype: str, number: Any, result: str) -> None:
    assert (load("a", dtype) + number).dtype == result
    assert (number - load("a", dtype)).dtype == result


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("uint8", 256), ("uint8", -1), ("int8", 128), ("int16", -32769), ("uint32", 2**32),
        ("float16", 65520.0), ("float16", 10**6), ("int64", 2**63), ("int32", 2**64),
        ("bfloat16", 3.4e38), ("float32", 10**400),
    ],
)  # fmt: skip
def test_a_literal_that_does_not_fit_is_refused(dtype: str, number: Any) -> None:
    for make in (lambda a: a + number, lambda a: number * a, lambda a: a < number):
        with pytest.raises(IRError, match=f"does not fit in {dtype}, the type of the operand"):
            make(load("a", dtype))


# -- arithmetic ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_stored_integers_wrap_as_numpy_does(op: str, dtype: str) -> None:
    x, y = pairs(dtype)
    np.testing.assert_array_equal(computed(op, x, y), NUMPY[op](x, y))


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_integer_division_rounds_down(dtype: str) -> None:
    x, y = pairs(dtype)
    x, y = x[y != 0], y[y != 0]
    exact = [(int(a) // int(b), int(a) % int(b)) for a, b in zip(x, y, strict=True)]
    assert computed("//", x, y).tolist() == [dtypes.wrapped(q, dtype) for q, _ in exact]
    assert computed("%", x, y).tolist() == [r for _, r in exact]


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
@pytest.mark.parametrize("op", ["//", "%"])
def test_division_by_zero_is_an_error(op: str, dtype: str) -> None:
    with pytest.raises(IRError, match="division of an integer by zero"):
        computed(op, array(dtype, 1), array(dtype, 0))


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_every_float_operation_rounds_to_its_type(op: str, dtype: str) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        assert_same(computed(op, x, y), NUMPY[op](x, y))


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_and_unsigned_integers_wrap_in_indices_too(dtype: str) -> None:
    """They are data wherever they stand; only int32 and int64 are exact in indices."""
    i = Var("i")
    half = dtypes.max_value(dtype) // 2 + 1
    wrapping = Cast("int64", Cast(dtype, i) + Const(half, dtype) + Const(half - 1, dtype))
    for value in (0, 1, 2, 5):
        exact = dtypes.wrapped(value + 2 * half - 1, dtype)
        assert evaluate(wrapping, {i: value}) == dtypes.wrapped(exact, "int64")
        assert evaluate(Simplifier({i: (0, 5)}).expr(wrapping), {i: value}) == dtypes.wrapped(
            exact, "int64"
        )


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_simplification_trusts_no_arithmetic_that_wraps(dtype: str) -> None:
    i = Var("i")
    narrow = ops.cast(dtype, i)
    for expr in (
        ops.cast("int32", narrow * 3 // 3),
        ops.cast("int32", narrow + 100) - 100,
        ops.cast("int32", (narrow * 2) % 5),
        ops.select(narrow + 100 < narrow, ops.const(1), ops.const(0)),
        ops.cast("int32", ops.binary("max", narrow * 2, narrow)),
    ):
        simple = Simplifier({i: (0, 200)}).expr(expr)
        for value in range(201):
            assert evaluate(simple, {i: value}) == evaluate(expr, {i: value}), expr


def test_bounds_of_what_wraps_are_those_of_its_type() -> None:
    from autotune.ir.expr import KnobVar

    knob = KnobVar("k", 0, 300)
    assert Intervals().bounds(ops.cast("uint8", knob)) == (0, 255)
    assert Intervals().bounds(ops.cast("int8", knob)) == (-128, 127)
    assert Intervals().bounds(ops.cast("int16", knob)) == (0, 300)
    assert Intervals().bounds(ops.cast("int16", knob) * 200) == (-32768, 32767)


# -- casts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", dtypes.ALL)
@pytest.mark.parametrize("target", dtypes.ALL)
def test_casts_follow_c(source: str, target: str) -> None:
    values = edges(source)
    assert_same(interpreted(lambda a: Cast(target, a), values), converted(values, target))


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (-1.75, "int8", -1), (300.0, "uint8", 255), (-0.5, "uint8", 0), (-3.0, "uint64", 0),
        (math.nan, "int64", 0), (math.inf, "int64", 2**63 - 1), (-math.inf, "int16", -(2**15)),
        (2.0**64, "uint64", 2**64 - 1), (2.0**63, "int64", 2**63 - 1), (1e300, "uint32", 2**32 - 1),
    ],
)  # fmt: skip
def test_floats_saturate_where_c_leaves_them_undefined(
    value: float, target: str, expected: int
) -> None:
    assert interpreted(lambda a: Cast(target, a), array("float64", value))[0] == expected
    assert ops.cast(target, Const(value, "float64")) is Const(expected, target)


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (-1, "int8", "uint8", 255), (255, "uint8", "int8", -1), (-1, "int8", "uint64", 2**64 - 1),
        (300, "int32", "uint8", 44), (2**31, "uint32", "int32", -(2**31)),
        (2**64 - 1, "uint64", "int64", -1), (2**63, "uint64", "float64", 2.0**63),
        (2**63 + 2**40, "uint64", "float32", 2.0**63 + 2.0**40),
    ],
)  # fmt: skip
def test_integers_wrap_when_they_are_cast(
    value: int, source: str, target: str, expected: float
) -> None:
    assert interpreted(lambda a: Cast(target, a), array(source, value))[0] == expected


def test_a_half_is_reached_from_float32() -> None:
    """Two roundings: this number is above a tie of float16, which float32 rounds it to."""
    value = 1 + 2.0**-11 + 2.0**-40
    assert interpreted(lambda a: Cast("float16", a), array("float64", value))[0] == 1.0
    assert Const(value, "float16").value == 1.0
    assert np.float16(value) == 1 + 2.0**-10  # NumPy rounds once


# -- folding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", dtypes.ALL)
def test_constants_are_cast_as_the_program_casts(source: str) -> None:
    for target in dtypes.ALL:
        values = edges(source)
        for value, expected in zip(values, converted(values, target), strict=True):
            folded = ops.cast(target, Const(value, source))
            if isinstance(folded, Const):
                assert folded is Const(expected, target), (value, target)
            else:  # exact in an index, wrapped where it is stored
                assert dtypes.is_index(target)


@pytest.mark.parametrize("dtype", dtypes.NUMBERS)
def test_constants_fold_to_what_the_program_computes(dtype: str) -> None:
    for op in OPERATIONS:
        if op in ("/", "//", "%") and (op == "/") != dtypes.is_float(dtype):
            continue
        x, y = pairs(dtype)
        if op in ("//", "%"):
            x, y = x[y != 0], y[y != 0]
        results = computed(op, x, y)
        for a, b, expected in zip(x, y, results, strict=True):
            folded = ops.binary(op, Const(a, dtype), Const(b, dtype))
            if isinstance(folded, Const):
                assert folded is Const(expected, results.dtype.name), (op, a, b)


# -- tensors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_any_integer_may_be_an_index(dtype: str) -> None:
    table, where = te.placeholder((300,), name="T"), te.placeholder((4,), dtype, name="W")
    read = table[where[te.var("i")]]
    assert read.children[0].dtype == (
        "int64" if dtype in ("uint32", "int64", "uint64") else "int32"
    )


def test_listings_tell_float_types_apart() -> None:
    texts = [str(Const(1.5, dtype)) for dtype in dtypes.FLOATS]
    assert texts == ["1.5h", "1.5bf", "1.5f", "1.5"]


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_an_allocation_holds_poison_of_its_type(dtype: str) -> None:
    from autotune.ir.stmt import Allocate, seq

    scratch, out = Buffer("s", dtype, (ops.const(2),), "local"), Buffer("o", dtype, (ops.const(2),))
    i = Var("i")
    copy = For(i, ops.const(2), LoopKind.SERIAL, Store(out, i, Load(scratch, i)))
    result = np.zeros(2, dtypes.numpy_dtype(dtype))
    interpret(PrimFunc("f", (out,), frozenset([out]), Allocate(scratch, seq(copy))), [result])
    assert np.isnan(result).all() if dtypes.is_float(dtype) else result.all()
