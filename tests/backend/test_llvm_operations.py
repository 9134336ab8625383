"""Arithmetic, comparisons, casts and functions compiled by LLVM against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.llvm_kernels import (
    ALL,
    FLOATS,
    INTEGERS,
    LANES,
    SERIAL,
    VECTORIZED,
    Array,
    buffer,
    check,
    compiled,
    elementwise,
    i32,
    poisoned,
    values,
)
from support.numpy_operations import NUMPY

from autotune.ir import ops
from autotune.ir.expr import Call, Const, Expr
from autotune.ir.stmt import LoopKind, PrimFunc, Store, seq

BINARY = [op for op in NUMPY if op not in ("/", "//", "%", "and", "or")]
CASES = [(op, dtype) for op in BINARY for dtype in (*FLOATS, *INTEGERS)]
CASES += [("/", dtype) for dtype in FLOATS]
CASES += [(op, dtype) for op in ("//", "%") for dtype in INTEGERS]


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_binary_operations_agree_with_numpy(op: str, dtype: str, kind: LoopKind) -> None:
    a, b = values(dtype, seed=1), values(dtype, seed=2)
    if op in ("//", "%"):
        b[b == 0] = 7
    a[:2] = b[:2]
    expected = NUMPY[op](a, b)
    function = elementwise(
        lambda x, y: ops.binary(op, x, y), (dtype, dtype), expected.dtype.name, kind
    )
    check(function, [a, b], expected, 0.0)


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("op", ["and", "or", "==", "!=", "<", ">="])
def test_conditions_agree_with_numpy(op: str, kind: LoopKind) -> None:
    a, b = values("bool", seed=3), values("bool", seed=4)
    expected = NUMPY[op](a, b)
    check(
        elementwise(lambda x, y: ops.binary(op, x, y), ("bool", "bool"), "bool", kind),
        [a, b],
        expected,
    )


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("divisor", [1, 2, 3, 16, -4, -1])
@pytest.mark.parametrize("op", ["//", "%"])
def test_division_by_constants_rounds_down(op: str, divisor: int, kind: LoopKind) -> None:
    a = values("int32")
    check(
        elementwise(lambda x: ops.binary(op, x, divisor), ("int32",), "int32", kind),
        [a],
        NUMPY[op](a, np.int32(divisor)),
    )


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_by_zero_and_of_the_smallest_integer_does_not_trap(
    dtype: str, kind: LoopKind
) -> None:
    a = np.full(2 * LANES, np.iinfo(dtype).min, dtype)
    b = np.resize(np.array([0, -1, 1, 3], dtype), 2 * LANES)
    with np.errstate(all="ignore"):
        expected = np.floor_divide(a, b), np.remainder(a, b)
    for op, want in zip(("//", "%"), expected, strict=True):
        kernel = compiled(
            elementwise(lambda x, y, op=op: ops.binary(op, x, y), (dtype, dtype), dtype, kind)
        )
        out = poisoned(dtype, 2 * LANES)
        kernel(a, b, out)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("constant", [None, 0.0])
@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_hand_on_a_nan_as_numpy_does(
    op: str, constant: float | None, kind: LoopKind
) -> None:
    a = np.resize(np.array([np.nan, 1.0, np.nan, -np.inf, 2.0, -3.0], "float32"), 2 * LANES)
    b = np.resize(np.array([1.0, np.nan, np.nan, 0.0, np.inf], "float32"), 2 * LANES)
    if constant is not None:
        b[:] = constant
    kernel = compiled(
        elementwise(
            lambda x, y: ops.binary(op, x, y if constant is None else constant),
            ("float32", "float32"),
            "float32",
            kind,
        )
    )
    out = poisoned("float32", 2 * LANES)
    kernel(a, b, out)
    np.testing.assert_array_equal(out, NUMPY[op](a, b))


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
def test_casts_follow_c(source: str, target: str, kind: LoopKind) -> None:
    a = values(source)
    check(
        elementwise(lambda x: ops.cast(target, x), (source,), target, kind), [a], a.astype(target)
    )


INTRINSICS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "log": lambda x: np.log(np.abs(x) + 1), "sqrt": lambda x: np.sqrt(np.abs(x)),
    "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "abs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
    "sin": np.sin, "cos": np.cos,
}  # fmt: skip


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", INTRINSICS)
def test_intrinsics_agree_with_numpy(name: str, dtype: str, kind: LoopKind) -> None:
    a = values(dtype)

    def expr(x: Expr) -> Expr:
        if name in ("log", "sqrt"):
            x = Call("abs", (x,), dtype) + (1 if name == "log" else 0)
        return Call(name, (x,), dtype)

    exact = name in ("abs", "floor", "ceil", "trunc", "round", "sqrt")
    tolerance = 0.0 if exact else 4 * float(np.finfo(dtype).eps)
    check(elementwise(expr, (dtype,), dtype, kind), [a], INTRINSICS[name](a), tolerance)


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("dtype", FLOATS)
def test_power_agrees_with_numpy(dtype: str, kind: LoopKind) -> None:
    a, b = np.abs(values(dtype, seed=1)), values(dtype, seed=2)
    function = elementwise(lambda x, y: Call("pow", (x, y), dtype), (dtype, dtype), dtype, kind)
    check(function, [a, b], np.power(a, b), 4 * float(np.finfo(dtype).eps))


def test_integers_wrap() -> None:
    a = np.full(2 * LANES, 2**31 - 1, "int32")
    with np.errstate(over="ignore"):
        check(elementwise(lambda x: x * 3 + 2, ("int32",), "int32", SERIAL), [a], a * 3 + 2)


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
def test_select_takes_from_two_values(kind: LoopKind) -> None:
    a, b = values("float32", seed=1), values("float32", seed=2)
    function = elementwise(
        lambda x, y: ops.select(x > y, x * 2, y), ("float32", "float32"), "float32", kind
    )
    check(function, [a, b], np.where(a > b, a * 2, b))


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
def test_negation_and_logical_not(kind: LoopKind) -> None:
    a = values("float32")
    function = elementwise(
        lambda x: ops.select(ops.logical_not(x > 0), -x, x), ("float32",), "float32", kind
    )
    check(function, [a], np.abs(a))


def test_float_constants_keep_every_bit() -> None:
    for dtype in FLOATS:
        specials = [0.1, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e300]
        out = buffer("out", dtype, len(specials))
        body = seq(*(Store(out, i32(k), Const(v, dtype)) for k, v in enumerate(specials)))
        result = poisoned(dtype, len(specials))
        compiled(PrimFunc("constants", (out,), frozenset([out]), body))(result)
        with np.errstate(over="ignore"):
            expected = np.array(specials).astype(dtype)
        assert result[:4].tobytes() == expected[:4].tobytes()
        np.testing.assert_array_equal(result, expected)
