"""The vector functions of the LLVM backend: error bounds, and what happens at the ends.

Results in float32 are held against NumPy's float64, those in float64 against NumPy's long double;
the error function, which NumPy lacks, against its series in 60 digits.
"""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.slow_cases import slow

from autotune.codegen.llvm.math import VECTOR_FUNCTIONS
from autotune.ir.expr import BinaryOp, Buffer, Call, Const, Expr, Load, SizeVar, Var
from autotune.ir.intrinsics import INTRINSICS
from autotune.ir.stmt import For, LoopKind, PrimFunc, Stmt, Store
from autotune.lowering.vector.vectorize import vectorize
from autotune.runtime.cpu.llvm_compiler import CompiledFunction, compile_function
from autotune.runtime.object_cache import ObjectCache

Array = npt.NDArray[Any]
INF, NAN = np.inf, np.nan
FLOATS = ["float32", "float64"]
#: Processors with and without fused multiply-add; freedoms that a kernel has and these do not.
TARGETS = ["llvm -fast-math"] + (
    ["llvm -mcpu=x86-64-v2"] if platform.machine() == "x86_64" else ["llvm"]
)


def documented_bounds() -> dict[str, tuple[float, float]]:
    """Largest errors (float32, float64) by function, from the table of docs/intrinsics.md."""
    text = (Path(__file__).parents[2] / "docs" / "intrinsics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \| ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE)
    return {
        name: (float(single), float(double))
        for names, single, double in rows
        for name in re.findall(r"`(\w+)`", names)
    }


BOUNDS = documented_bounds()


def compiled(
    name: str, dtype: str, lanes: int, target: str = "llvm", most: float | None = None
) -> CompiledFunction:
    """A function of arrays of any multiple of `lanes`; of the lesser of each and `most`."""
    n = SizeVar("n")
    inputs = [Buffer(f"x{k}", dtype, (n,)) for k in range(INTRINSICS[name].arity)]
    out = Buffer("out", dtype, (n,))
    outer, inner = Var("o"), Var("i")
    index: Expr = outer * lanes + inner
    given: list[Expr] = [Load(b, index) for b in inputs]
    if most is not None:
        given = [BinaryOp("min", x, Const(most, dtype)) for x in given]
    body: Stmt = Store(out, index, Call(name, tuple(given), dtype))
    kind = LoopKind.VECTORIZED if lanes > 1 else LoopKind.SERIAL
    body = For(outer, n // lanes, LoopKind.SERIAL, For(inner, Const(lanes, "int32"), kind, body))
    function = PrimFunc(name, (*inputs, out), frozenset([out]), body, (n,))
    return compile_function(vectorize(function), target, cache=ObjectCache(None))


def kernel(
    name: str, dtype: str, lanes: int = 16, target: str = "llvm", most: float | None = None
) -> Callable[..., Array]:
    function = compiled(name, dtype, lanes, target, most)

    def run(*inputs: Array) -> Array:
        size = -(-len(inputs[0]) // lanes) * lanes
        out = np.full(size, -77, dtype)
        function(*(np.resize(x, size) for x in inputs), out)
        return out[: len(inputs[0])]

    return run


# -- what is true ----------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def precise_erf(x: float) -> np.longdouble:
    """erf by its series in 60 digits, or as near to 1 as a long double can tell."""
    if math.isnan(x) or abs(x) > 6.5:
        return np.longdouble(math.erf(x))
    with localcontext(prec=60):
        power = term = Decimal(x)
        square, total, k = power * power, Decimal(0), 0
        while total + term != total:
            total += term
            k += 1
            power *= -square / k
            term = power / (2 * k + 1)
        root = Decimal("3.14159265358979323846264338327950288419716939937510582097494").sqrt()
        return np.longdouble(str(2 * total / root))


TRUE: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "tanh": np.tanh,
    "sigmoid": sigmoid, "sin": np.sin, "cos": np.cos, "pow": np.power,
}  # fmt: skip


def true_values(name: str, *inputs: Array) -> Array:
    """The function in a wider type than that of the inputs."""
    dtype = inputs[0].dtype
    if name == "erf":
        if dtype == "float32":
            return np.array([math.erf(x) for x in inputs[0]])
        return np.array([precise_erf(x) for x in inputs[0]])
    wide = np.float64 if dtype == "float32" else np.longdouble
    with np.errstate(all="ignore"):
        return TRUE[name](*(x.astype(wide) for x in inputs))


def errors(got: Array, exact: Array) -> Array:
    """Errors in units of the last place; an infinity or NaN in the wrong place is one."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        expected = exact.astype(got.dtype)
        unit = np.spacing(np.minimum(np.abs(expected), info.max)).astype(exact.dtype)
        found = np.abs(got.astype(exact.dtype) - exact) / unit
    found[(got == expected) & np.isinf(expected)] = 0
    found[np.isnan(got) & np.isnan(expected)] = 0
    found[np.isnan(found)] = np.inf
    return found


# -- where -----------------------------------------------------------------------------------------


def everywhere(dtype: str, count: int, rng: np.random.Generator) -> Array:
    """Random bits: every exponent, both signs, subnormal numbers, infinities and NaN."""
    bits = np.dtype(dtype).itemsize * 8
    return rng.integers(0, 2**bits, count, dtype=f"uint{bits}").view(dtype)


@np.errstate(over="ignore", invalid="ignore")
def points(name: str, dtype: str) -> Array:
    rng = np.random.default_rng(7)
    count = 600 if name == "erf" and dtype == "float64" else 40_000
    parts = [everywhere(dtype, count, rng)]
    parts += [rng.uniform(-reach, reach, count // 2) for reach in (1, 6, 100, 1000, 1e6)]
    near_one = rng.normal(0, 1, count) * np.exp2(rng.uniform(-52, 0, count))
    ends = np.array([0.0, 1.0, 2.0**20, np.finfo(dtype).tiny, np.finfo(dtype).max], dtype)
    steps = [np.nextafter(ends, np.array(to, dtype)) for to in (-INF, INF)]
    # Next to a zero of sine or cosine most digits of the argument cancel.
    turns = np.concatenate([np.arange(64), rng.integers(0, 2**21, count // 4)])
    zeros = turns * (np.longdouble("3.14159265358979323846264") / 2)
    everything = np.concatenate([*parts, 1 + near_one, ends, *steps, zeros]).astype(dtype)
    return np.concatenate([everything, -everything])


def pairs(dtype: str) -> tuple[Array, Array]:
    """Bases and exponents, most of them with a finite power."""
    rng = np.random.default_rng(8)
    count = 20_000
    info = np.finfo(dtype)
    anywhere = everywhere(dtype, count, rng), everywhere(dtype, count, rng)
    wide = np.exp2(rng.uniform(np.log2(info.smallest_subnormal), info.maxexp, count))
    near_one = np.abs(1 + rng.normal(0, 1, count) * np.exp2(rng.uniform(-40, 0, count)))
    exponents = rng.uniform(info.minexp - info.nmant, info.maxexp, count)
    with np.errstate(all="ignore"):
        parts = [anywhere, *((x, exponents / np.log2(x)) for x in (wide, near_one))]
        parts.append((rng.uniform(-9, 9, count), rng.integers(-20, 20, count)))
        x, y = (np.concatenate(side).astype(dtype) for side in zip(*parts, strict=True))
    return x, y


# -- tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_errors_stay_within_their_bound(name: str, dtype: str, target: str) -> None:
    inputs = pairs(dtype) if name == "pow" else (points(name, dtype),)
    got = kernel(name, dtype, target=target)(*inputs)
    found = errors(got, true_values(name, *inputs))
    worst = int(np.argmax(found))
    bound = BOUNDS["power" if name == "pow" else name][FLOATS.index(dtype)]
    assert found[worst] <= bound, f"{[x[worst] for x in inputs]} gives {got[worst]}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_any_number_of_lanes_gives_the_same(name: str, dtype: str) -> None:
    x = points(name, dtype)[::101]
    inputs = (np.abs(x), np.roll(x, 1)) if name == "pow" else (x,)
    expected = kernel(name, dtype, 16)(*inputs)
    for lanes in (1, 3, 4):
        np.testing.assert_array_equal(kernel(name, dtype, lanes)(*inputs), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", sorted(set(VECTOR_FUNCTIONS) - {"pow"}))
def test_infinities_zeros_and_nan(name: str, dtype: str) -> None:
    x = np.array([NAN, INF, -INF, 0.0, -0.0], dtype)
    expected = {
        "exp": [NAN, INF, 0, 1, 1],
        "exp2": [NAN, INF, 0, 1, 1],
        "log": [NAN, INF, NAN, -INF, -INF],
        "log2": [NAN, INF, NAN, -INF, -INF],
        "tanh": [NAN, 1, -1, 0, -0.0],
        "sigmoid": [NAN, 1, 0, 0.5, 0.5],
        "erf": [NAN, 1, -1, 0, -0.0],
        "sin": [NAN, NAN, NAN, 0, -0.0],
        "cos": [NAN, NAN, NAN, 1, 1],
    }[name]
    got = kernel(name, dtype)(x)
    np.testing.assert_array_equal(got, np.array(expected, dtype))
    np.testing.assert_array_equal(np.signbit(got[1:]), np.signbit(expected[1:]) & (got[1:] <= 0))


@pytest.mark.parametrize("dtype", FLOATS)
def test_power_at_zeros_infinities_and_nan_is_that_of_c(dtype: str) -> None:
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.0**53, -(2.0**24 - 1), 1e30,
             -1e30, INF, -INF, NAN]  # fmt: skip
    x, y = (side.ravel().astype(dtype) for side in np.meshgrid(edges, edges))
    meaning = INTRINSICS["pow"].meaning
    expected = np.array([meaning(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    with np.errstate(over="ignore"):
        expected = expected.astype(dtype)
    got = kernel("pow", dtype)(x, y)
    np.testing.assert_array_max_ulp(got, expected, 1)
    special = (expected == 0) | ~np.isfinite(expected)
    np.testing.assert_array_equal(got[special], expected[special])
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


def test_the_angle_nearest_to_a_multiple_of_a_right_one() -> None:
    """J.-M. Muller, "Elementary Functions": no float64 comes nearer than this one."""
    x = np.array([6381956970095103 * 2.0**797], "float64")
    assert kernel("cos", "float64")(x)[0] == -4.687165924254627611e-19
    assert kernel("sin", "float64")(x)[0] == 1.0
    x = np.array([16367173 * 2.0**72], "float32")
    assert kernel("cos", "float32")(x)[0] == np.float32(-1.61476979824762e-09)


@pytest.mark.parametrize(
    ("name", "dtype", "low", "high"),
    [
        ("exp", "float32", -103, 88.7),
        ("exp", "float64", -744, 709.7),
        ("exp2", "float32", -148.5, 127.9),
        ("exp2", "float64", -1073.5, 1023.9),
    ],
)
def test_exp_reaches_subnormal_numbers_and_the_largest(
    name: str, dtype: str, low: float, high: float
) -> None:
    x = np.array([low, high], dtype)
    small, large = kernel(name, dtype)(x)
    assert 0 < small < np.finfo(dtype).tiny
    assert np.finfo(dtype).max / 4 < large < np.inf


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, slow(3), 16])
@pytest.mark.parametrize("dtype", FLOATS)
def test_exp_of_what_is_at_most_0_has_an_own_function(dtype: str, lanes: int, target: str) -> None:
    any_nan = everywhere(dtype, 400_000, np.random.default_rng(9))
    x = np.concatenate([points("exp", dtype), any_nan[np.isnan(any_nan)]])
    run = kernel("exp", dtype, lanes, target, most=0.0)
    found = errors(run(x), true_values("exp", np.minimum(x, x.dtype.type(0))))
    worst = int(np.argmax(found))
    assert found[worst] <= BOUNDS["exp"][FLOATS.index(dtype)], x[worst]
    assert "at.exp_up_to_0" in compiled("exp", dtype, lanes, most=0.0).source
    assert "at.exp_up_to_0" not in compiled("exp", dtype, lanes, most=1.0).source


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_no_function_needs_a_library(name: str, dtype: str) -> None:
    function = compiled(name, dtype, 8)
    outside = re.findall(r"^declare .*@([\w.]+)\(", function.source, re.MULTILINE)
    assert all(symbol.startswith("llvm.") for symbol in outside)
    # Large arguments of sin and cos go to a function of our own, called through a register or,
    # where these are few, through the stack.
    calls = re.findall(r"\tcall\w*\t(\S+)", function.assembly())
    assert all(re.match(r"at\.|\*(%|-?\d*\(%r[sb]p\))", callee) for callee in calls), calls
    assert bool(calls) == (name in ("sin", "cos"))
    assert f"at.{name}.v8" in function.source


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sqrt", "rsqrt"])
def test_roots_stay_within_their_bound(name: str, dtype: str) -> None:
    x = points(name, dtype)
    with np.errstate(all="ignore"):
        root = np.sqrt(x.astype(np.float64 if dtype == "float32" else np.longdouble))
        exact = root if name == "sqrt" else 1 / root
    assert errors(kernel(name, dtype)(x), exact).max() <= BOUNDS[name][FLOATS.index(dtype)]
