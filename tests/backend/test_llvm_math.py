"""The vector functions of the LLVM backend: error bounds and what happens at the ends."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autotune.codegen.llvm.math import VECTOR_FUNCTIONS
from autotune.ir.expr import Buffer, Call, Const, Load, SizeVar, Var
from autotune.ir.stmt import For, Function, LoopKind, Store
from autotune.lowering.vectorize import vectorize
from autotune.runtime.cache import ObjectCache
from autotune.runtime.llvm import compile_function

Array = npt.NDArray[Any]
PRECISE = Context(prec=50, Emin=-999999, Emax=999999)
#: Largest error allowed, in units of the last place.
BOUNDS = {"exp": 1.2, "log": 1.0, "tanh": 2.5, "sigmoid": 2.5}


def kernel(name: str, dtype: str, lanes: int = 16) -> Callable[[Array], Array]:
    n = SizeVar("n")
    a, b = Buffer("a", dtype, (n,)), Buffer("b", dtype, (n,))
    outer, inner = Var("o"), Var("i")
    index = outer * lanes + inner
    store = Store(b, index, Call(name, (Load(a, index),), dtype))
    vector = For(inner, Const(lanes, "int32"), LoopKind.VECTORIZED, store)
    body = For(outer, n // lanes, LoopKind.SERIAL, vector)
    function = vectorize(Function(name, (a, b), frozenset([b]), body, (n,)))
    compiled = compile_function(function, cache=ObjectCache(None))
    assert f"at.{name}.v{lanes}" in compiled.source

    def run(x: Array) -> Array:
        padded = np.resize(x, -(-len(x) // lanes) * lanes)
        out = np.full_like(padded, -77)
        compiled(padded, out)
        return out[: len(x)]

    return run


def precisely(name: str, x: float) -> Decimal:
    """The function's value to 50 digits."""
    value = Decimal(x)
    if name == "exp":
        return PRECISE.exp(value)
    if name == "log":
        return PRECISE.ln(value)
    if name == "sigmoid":
        return PRECISE.divide(Decimal(1), 1 + PRECISE.exp(-value))
    if abs(x) < 1e-8:
        return value - value**3 / 3
    double = PRECISE.exp(PRECISE.multiply(value, Decimal(2)))
    return PRECISE.divide(PRECISE.subtract(double, Decimal(1)), PRECISE.add(double, Decimal(1)))


def error_in_ulp(name: str, x: Array, got: Array) -> float:
    worst = 0.0
    for point, value in zip(x, got, strict=True):
        exact = precisely(name, float(point))
        unit = float(np.spacing(np.abs(x.dtype.type(exact))))
        worst = max(worst, abs(float(PRECISE.subtract(Decimal(float(value)), exact))) / unit)
    return worst


def points(name: str, dtype: str, n: int = 1500) -> Array:
    rng = np.random.default_rng(5)
    if name == "log":
        info = np.finfo(dtype)
        exponents = rng.uniform(np.log2(info.smallest_subnormal) + 1, info.maxexp - 1, n // 2)
        near_one = rng.uniform(0.5, 2.0, n - n // 2)
        return np.concatenate([np.exp2(exponents), near_one]).astype(dtype)
    reach = {"exp": 100 if dtype == "float32" else 740, "tanh": 12, "sigmoid": 60}[name]
    wide = rng.uniform(-reach, min(reach, 88 if dtype == "float32" else 709), n // 2)
    small = rng.normal(0, 1, n - n // 2) * np.exp2(rng.uniform(-20, 1, n - n // 2))
    return np.concatenate([wide, small]).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_errors_stay_within_their_bound(name: str, dtype: str) -> None:
    x = points(name, dtype)
    assert error_in_ulp(name, x, kernel(name, dtype)(x)) <= BOUNDS[name]


@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_float32_errors_on_a_dense_grid(name: str) -> None:
    x = np.linspace(1e-3, 50, 400_000) if name == "log" else np.linspace(-87, 88, 400_000)
    x = x.astype("float32")
    wide = x.astype("float64")
    exact = {
        "exp": np.exp, "log": np.log, "tanh": np.tanh, "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    }[name](wide)  # fmt: skip
    unit = np.spacing(np.abs(exact).astype("float32")).astype("float64")
    assert (np.abs(kernel(name, "float32")(x) - exact) / unit).max() <= BOUNDS[name]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_infinities_zeros_and_nan(name: str, dtype: str) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([nan, inf, -inf, 0.0, -0.0, 1e30, -1e30], dtype)
    expected = {
        "exp": [nan, inf, 0, 1, 1, inf, 0],
        "log": [nan, inf, nan, -inf, -inf, np.log(np.array(1e30, dtype)), nan],
        "tanh": [nan, 1, -1, 0, -0.0, 1, -1],
        "sigmoid": [nan, 1, 0, 0.5, 0.5, 1, 0],
    }[name]
    got = kernel(name, dtype)(x)
    np.testing.assert_allclose(got, np.array(expected, dtype), rtol=1e-6)
    if name == "tanh":
        assert np.signbit(got[4])


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("float32", -103, 88.7), ("float64", -744, 709.7)]
)
def test_exp_reaches_subnormal_numbers_and_the_largest(dtype: str, low: float, high: float) -> None:
    x = np.array([low, high], dtype)
    small, large = kernel("exp", dtype)(x)
    assert 0 < small < np.finfo(dtype).tiny
    assert np.finfo(dtype).max / 4 < large < np.inf


def test_scalars_use_the_same_functions() -> None:
    a, b = (
        Buffer("a", "float32", (Const(1, "int32"),)),
        Buffer("b", "float32", (Const(1, "int32"),)),
    )
    zero = Const(0, "int32")
    body = Store(b, zero, Call("exp", (Load(a, zero),), "float32"))
    function = compile_function(
        Function("one", (a, b), frozenset([b]), body), cache=ObjectCache(None)
    )
    out = np.zeros(1, "float32")
    function(np.ones(1, "float32"), out)
    np.testing.assert_allclose(out, np.e, rtol=2e-7)


def test_no_function_becomes_calls_of_the_library() -> None:
    for name in VECTOR_FUNCTIONS:
        n = Const(64, "int32")
        a, b, i = Buffer("a", "float32", (n,)), Buffer("b", "float32", (n,)), Var("i")
        body = For(i, n, LoopKind.VECTORIZED, Store(b, i, Call(name, (Load(a, i),), "float32")))
        function = vectorize(Function(name, (a, b), frozenset([b]), body))
        assert "call" not in compile_function(function, cache=ObjectCache(None)).assembly()
