"""Every function of te: what it computes, by the interpreter and by LLVM, scalar and vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.dtype_values import edges
from support.verify import verify

import autotune
from autotune import te
from autotune.ir import dtypes
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Const
from autotune.ir.intrinsics import INTRINSICS
from autotune.lowering.finalise import finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache

Array = npt.NDArray[Any]
NAN, INF = np.nan, np.inf

EDGES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 3.7, -3.7, 1e-30, 1e20, -1e20, INF, -INF,
         NAN]  # fmt: skip

#: What each function of floats is, elementwise in float64.
UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "erf": np.vectorize(math.erf), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "abs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "isnan": np.isnan,
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "power": np.power, "fmod": np.fmod, "Max": np.maximum, "Min": np.minimum,
}  # fmt: skip
#: Functions of bits; NumPy gives shifts by too much, and negative ones, the same meaning.
BITWISE: dict[str, Callable[..., Any]] = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift, "shift_right": np.right_shift, "bitwise_not": np.invert,
}  # fmt: skip
EXACT = ("abs", "floor", "ceil", "round", "trunc", "isnan", "fmod", "Max", "Min", "sqrt")


def results(build: Callable[..., Any], *inputs: Array, vector: int = 0) -> tuple[Array, Array]:
    """Run a compute of the elements of `inputs` in the interpreter and as machine code."""
    n = len(inputs[0])
    tensors = [te.placeholder((n,), x.dtype.name, name=f"X{k}") for k, x in enumerate(inputs)]
    out = te.compute((n,), lambda i: build(*(t[i] for t in tensors)), name="Y")
    s = te.create_schedule(out.op)
    if vector:
        _, inner = s[out].split(out.op.axis[0], factor=vector)
        s[out].vectorize(inner)
    function = verify(finalise(lower_schedule(s, [*tensors, out])))
    told, ran = (np.zeros(n, dtypes.numpy_dtype(out.dtype)) for _ in range(2))
    interpret(function, [*inputs, told])
    compile_function(function, cache=ObjectCache(None))(*inputs, ran)
    return told, ran


def rounded(exact: Array, dtype: str) -> Array:
    """What float64 values are in a type: half types are reached by way of float32."""
    single = exact.astype("float32") if dtypes.is_half(dtype) else exact
    return single.astype(dtypes.numpy_dtype(dtype))


def assert_close(got: Array, expected: Array, exact: bool) -> None:
    assert got.dtype == expected.dtype
    if expected.dtype.kind == "b":
        np.testing.assert_array_equal(got, expected)
        return
    dtype = expected.dtype.name
    # A half float is that of a float32, which may be on the other side of a tie.
    steps = 1 if dtypes.is_half(dtype) else 4
    got, expected = got.astype("float64"), expected.astype("float64")
    tolerance = 0.0 if exact else steps * dtypes.epsilon(dtype)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=0)
    same = np.isnan(expected) | (np.signbit(got) == np.signbit(expected))
    assert same.all(), f"signs of {got[~same]}, expected {expected[~same]}"


@pytest.mark.parametrize("vector", [0, 8])
@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("name", UNARY)
@np.errstate(all="ignore")
def test_functions_of_one_float(name: str, dtype: str, vector: int) -> None:
    x = rounded(np.concatenate([EDGES, np.random.default_rng(1).normal(0, 3, 63)]), dtype)
    expected = np.asarray(UNARY[name](x.astype("float64")))
    expected = expected if name == "isnan" else rounded(expected, dtype)
    for got in results(getattr(te, name), x, vector=vector):
        assert_close(got, expected, name in EXACT)


@pytest.mark.parametrize("vector", [0, 8])
@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("name", BINARY)
@np.errstate(all="ignore")
def test_functions_of_two_floats(name: str, dtype: str, vector: int) -> None:
    grid = np.meshgrid(EDGES, EDGES)
    x, y = (
        rounded(
            np.concatenate([corner.ravel(), np.random.default_rng(seed).normal(0, 3, 31)]), dtype
        )
        for seed, corner in enumerate(grid)
    )
    expected = rounded(BINARY[name](x.astype("float64"), y.astype("float64")), dtype)
    for got in results(getattr(te, name), x, y, vector=vector):
        if name in ("Max", "Min"):  # which of two zeros is not said
            np.testing.assert_array_equal(got.astype("float64"), expected.astype("float64"))
        else:
            assert_close(got, expected, name in EXACT)


@pytest.mark.parametrize("vector", [0, 8])
@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_functions_of_integers(dtype: str, vector: int) -> None:
    x = edges(dtype)
    bits = np.bitwise_count(x.view(f"u{x.itemsize}"))
    for got in results(te.popcount, x, vector=vector):
        np.testing.assert_array_equal(got, bits)
        assert got.dtype == dtype
    for got in results(te.abs, x, vector=vector):
        np.testing.assert_array_equal(got, np.abs(x))


@pytest.mark.parametrize("vector", [0, 8])
@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
@pytest.mark.parametrize("name", BITWISE)
def test_functions_of_bits(name: str, dtype: str, vector: int) -> None:
    x, y = (a.ravel() for a in np.meshgrid(edges(dtype), edges(dtype)))
    operands = (x,) if name == "bitwise_not" else (x, y)
    for got in results(getattr(te, name), *operands, vector=vector):
        np.testing.assert_array_equal(got, BITWISE[name](*operands))
        assert got.dtype == dtype


@pytest.mark.parametrize("places", [0, 1, 5, 31, 32, -1])
def test_shifts_by_a_number(places: int) -> None:
    x = edges("int32")
    for name in ("shift_left", "shift_right"):
        for got in results(lambda a: getattr(te, name)(a, places), x, vector=8):  # noqa: B023
            np.testing.assert_array_equal(got, BITWISE[name](x, np.int32(places)))
    for got in results(lambda a: te.shift_right_logical(a, places), x):
        moved = np.right_shift(x.view("uint32").astype("int64"), places)
        np.testing.assert_array_equal(got.view("uint32"), moved if places >= 0 else 0)


def test_lowest_and_highest_values_are_finite() -> None:
    assert te.min_value("float32").value == -te.max_value("float32").value == np.finfo("f").min
    assert te.min_value("float16").value == -65504
    assert te.max_value("uint8").value == 255
    assert te.min_value("int64").value == -(2**63)
    assert te.min_value("int8").dtype == "int8"


def test_integers_are_whole_and_never_nan() -> None:
    n = te.var("n")
    for rounded in (te.floor, te.ceil, te.round, te.trunc):
        assert rounded(n) is n
    never = te.isnan(n)
    assert isinstance(never, Const)
    assert never.value is False


def test_a_nan_can_be_replaced() -> None:
    x = np.array([1, NAN, 3, NAN] * 4, "float32")
    expected = np.array([1, 0, 3, 0] * 4, "float32")
    for vector in (0, 8):
        for choice in (te.if_then_else, te.Select):
            for got in results(lambda a: choice(te.isnan(a), 0.0, a), x, vector=vector):  # noqa: B023
                np.testing.assert_array_equal(got, expected)


def test_a_bare_number_takes_the_type_of_the_float_beside_it() -> None:
    x = te.placeholder((4,), "float64", name="x")[0]
    assert te.power(x, 2).dtype == te.power(2, x).dtype == te.pow(x, 0.5).dtype == "float64"
    assert te.fmod(x, 3).dtype == "float64"
    assert te.power(2.0, 3.0).dtype == "float32"


def test_a_count_of_bits_may_be_an_index() -> None:
    x = te.placeholder((6,), name="X")
    y = te.compute((32,), lambda i: x[te.min(te.popcount(i), 5)], name="Y")
    a, out = np.arange(6, dtype="float32"), np.zeros(32, "float32")
    built = autotune.build(te.create_schedule(y.op), [x, y], "llvm")
    built(a, out)
    np.testing.assert_array_equal(out, [i.bit_count() for i in range(32)])


def test_every_intrinsic_is_tested_here_and_has_a_name_in_te() -> None:
    names = {*UNARY, *BINARY, *BITWISE, "shift_right_logical", "popcount"} - {"Max", "Min"}
    names -= {"shift_right", "bitwise_not"}  # made of the others
    assert {"power" if name == "pow" else name for name in INTRINSICS} == names
    assert all(callable(getattr(te, name)) for name in INTRINSICS)
