"""What Tile means beyond the tutorial: unwritten elements, fractions, types, scalars, functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tile_tools import bound, floats, run

from autotune.errors import ArgumentError, TileError
from autotune.ir import dtypes
from autotune.ir.dtypes import converted as cast
from autotune.tile import evaluate


def contraction(code: str, *arrays: Any) -> Any:
    return run(f"function (A[N], B[M]) -> (O) {{ {code} }}", *arrays)


A, B = floats(5), floats(3, seed=1)


@pytest.mark.parametrize("aggregation", ["+", "*", ">", "<", "="])
def test_elements_that_are_never_written_are_zero(aggregation: str) -> None:
    sparse = contraction(f"O[2 * i + 1: N] = {aggregation}(A[i]);", A, B)
    np.testing.assert_array_equal(sparse, [0, A[0], 0, A[1], 0])
    none = contraction(f"O[i: N] = {aggregation}(A[i + 9]);", A, B)
    np.testing.assert_array_equal(none, np.zeros(5))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("O[i: 2 * N] = +(A[i / 2]);", np.dstack([A, 0 * A]).ravel()),
        ("O[i: 2 * N] = +(A[1 / 2 * i]);", np.dstack([A, 0 * A]).ravel()),
        ("O[i / 2: N] = +(A[i]);", [A[0], A[2], A[4], 0, 0]),
        ("O[3 * i / 2: N] = +(A[i]);", [A[0], 0, 0, A[2], 0]),
        ("O[(i + 1) / 2: N] = +(A[i]);", [0, A[1], A[3], 0, 0]),
        ("O[i: N] = +(A[i + 1 / 2]);", np.zeros(5)),
        ("O[i: N] = +(A[j]), i / 2 - j < 1 / 1;", [A[0], A[0], A[1], A[1], A[2]]),
        ("O[i: N] = +(A[i + N / 2]);", [A[2], A[3], A[4], 0, 0]),
    ],
)
def test_fractions_in_index_expressions(code: str, expected: Any) -> None:
    np.testing.assert_array_equal(contraction(code, A, B), expected)


def test_constraints_need_not_be_whole() -> None:
    # 0 <= j / 2 < 1: j is 0 or 1.
    result = contraction("O[i: N] = +(A[i + j]), j / 2 < 1;", A, B)
    np.testing.assert_allclose(result, A + np.append(A[1:], np.float32(0)), rtol=1e-6)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("O[i: N] = =(A[N - 1 - i]);", A[::-1]),
        ("O[-i: N] = =(A[i + 2]);", [A[2], A[1], A[0], 0, 0]),
        ("O[i: N + M] = +(A[i]);", [*A, 0, 0, 0]),
        ("O[i: N] = +(A[i - 2]);", [0, 0, A[0], A[1], A[2]]),
        ("O[] = +(A[2]);", A[2]),
        ("O[3: N] = +(A[2]);", [0, 0, 0, A[2], 0]),
        ("O[] = +(A[9]);", 0),
        ("O[i: N] = +(A[i]), 3 - i < N;", [*A[:4], 0]),
        ("O[i: M] = +(A[M * i]);", [A[0], A[3], 0]),
        ("O[i: 4] = +(A[i] * B[i]);", [*(A[:3] * B), 0]),
        ("O[i, j: N, M] = >(A[i] + B[j]);", A[:, None] + B),
        ("O[i: N] = *(A[i] * B[j]);", A**3 * B.prod()),
        ("O[] = <(A[i] + B[i]);", (A[:3] + B).min()),
    ],
)
def test_indices(code: str, expected: Any) -> None:
    np.testing.assert_allclose(contraction(code, A, B), expected, rtol=1e-6)


def test_a_conditional_contraction_gives_its_third_tensor_where_two_are_equal() -> None:
    code = """function (X[M, N]) -> (O) {
        Most[i: M] = >(X[i, j]);
        Where = index(X, 1);
        O[i: M] = >(X[i, j] == Most[i] ? Where[i, j]);
    }"""
    x = floats(6, 5)
    result = run(code, x)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, x.argmax(axis=1))


def test_a_conditional_is_zero_where_two_are_not_equal() -> None:
    code = "function (X[N], Y[N], Z[N]) -> (O) { O[i: N] = <(X[i] == Y[j] ? Z[j]), j < 2; }"
    x = np.float32([1, 2, 3])
    result = run(code, x, np.float32([3, 1, 1]), np.float32([5, 7, 9]))
    np.testing.assert_array_equal(result, [0, 0, 0])
    result = run(code.replace("<(", "+("), x, np.float32([3, 1, 1]), np.float32([5, 7, 9]))
    np.testing.assert_array_equal(result, [7, 0, 5])


def test_assignment_is_refused_exactly_where_two_index_sets_write_one_place() -> None:
    # i + 3j is different for all i in 0..2, and no longer for i = 3.
    code = "function (A[M, N]) -> (O) {{ O[i + 3 * j: 3 * N + 1] = =(A[i, j]), i < {}; }}"
    a = floats(4, 2)
    np.testing.assert_array_equal(run(code.format(3), a), [*a[:3].T.ravel(), 0])
    with pytest.raises(TileError, match=r"writes O\[3\] more than once: for i = 0, j = 1"):
        run(code.format(4), a)
    # Both reach an even place only where i is even, once each.
    even = "function (A[N]) -> (O) { O[i: N] = =(A[i / 2 + k]), 2 * k - 1 / 2 < 1; }"
    np.testing.assert_array_equal(run(even, A), np.zeros(5))


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("abs(A)", np.abs), ("ceil(A)", np.ceil), ("floor(A)", np.floor), ("round(A)", np.rint),
        ("sqrt(A)", np.sqrt), ("exp(A)", np.exp), ("log(A)", np.log), ("sin(A)", np.sin),
        ("cos(A)", np.cos), ("tan(A)", np.tan), ("asin(A)", np.arcsin), ("acos(A)", np.arccos),
        ("atan(A)", np.arctan), ("sinh(A)", np.sinh), ("cosh(A)", np.cosh), ("tanh(A)", np.tanh),
        ("pow(A, 2)", np.square), ("max(A, 0)", lambda a: np.maximum(a, 0)),
        ("min(1, A)", lambda a: np.minimum(1, a)), ("A <= 1", lambda a: a <= 1),
        ("A > 1", lambda a: a > 1), ("A >= 1", lambda a: a >= 1), ("-A", np.negative),
        ("A * N + N / 2", lambda a: a * 5 + 2), ("A * 1.5 / 3", lambda a: a * np.float32(0.5)),
        ("as_float(A, 64)", lambda a: a.astype("float64")), ("as_bool(A)", lambda a: a != 0),
        ("as_int(A * 100, 8)", lambda a: np.clip(np.trunc(a * 100), -128, 127).astype("int8")),
        ("as_uint(A * 300, 8)", lambda a: np.clip(np.trunc(a * 300), 0, 255).astype("uint8")),
        ("as_float(A, 16)", lambda a: a.astype("float16")),
    ],
)  # fmt: skip
def test_functions(written: str, meaning: Any) -> None:
    with np.errstate(invalid="ignore"):
        expected = meaning(A)
    result = run(f"function (A[N]) -> (O) {{ O = {written}; }}", A)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_a_number_that_is_none_is_not_zero() -> None:
    x = np.float32([np.nan, 0, -0.0, np.inf])
    for written in ("as_bool(X)", "(X ? 2 : 1) == 2", "X != 0"):
        result = run(f"function (X[N]) -> (O) {{ O = {written}; }}", x)
        assert result.tolist() == [True, False, False, True]


def test_index_counts_along_an_axis_and_reshape_is_row_major() -> None:
    x = floats(4, 6)
    code = "function (X[M, N]) -> (R, C, S) {{ R = {}; C = {}; S = {}; }}"
    code = code.format("index(X, 0)", "index(X * 2, 1) + X", "reshape(-X, N / 2, 2, M)")
    rows, columns, reshaped = run(code, x)
    np.testing.assert_array_equal(rows, np.indices((4, 6))[0])
    np.testing.assert_array_equal(columns, np.indices((4, 6), "float32")[1] + x)
    np.testing.assert_array_equal(reshaped, -x.reshape(3, 2, 4))


@pytest.mark.parametrize(
    ("written", "a", "b", "result"),
    [
        ("A + B", "float16", "int64", "float16"),
        ("A * B", "float16", "bfloat16", "float32"),
        ("A + B", "uint8", "int8", "int8"),
        ("A / B", "int8", "int8", "float32"),
        ("A / B", "int32", "int8", "float64"),
        ("A + B", "bool", "bool", "int32"),
        ("A * 2", "int8", "int8", "int8"),
        ("A * 2.0", "int8", "int8", "float32"),
        ("A * 2", "bool", "bool", "int32"),
        ("A < B", "uint8", "int8", "bool"),
        ("A < B ? A : B", "float32", "float64", "float64"),
        ("sqrt(B)", "bool", "int16", "float32"),
        ("max(A, B)", "bool", "bool", "int32"),
        ("A < B ? 1 : 0", "int8", "int8", "int32"),
        ("A < B ? 1.0 : 0", "int8", "int8", "float32"),
    ],
)
def test_types_of_results(written: str, a: str, b: str, result: str) -> None:
    code = f"function (A, B) -> (O) {{ O = {written}; }}"
    arrays = np.ones(3).astype(a), np.ones(3).astype(b) if b != "bfloat16" else None
    if arrays[1] is None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        arrays = arrays[0], np.ones(3).astype(ml_dtypes.bfloat16)
    assert run(code, *arrays).dtype == result


@pytest.mark.parametrize(
    ("aggregation", "dtype", "result"),
    [
        ("+", "bool", "int32"), (">", "bool", "bool"), ("*", "uint8", "uint8"),
        ("+", "float16", "float16"), ("=", "int64", "int64"), ("<", "float64", "float64"),
    ],
)  # fmt: skip
def test_types_of_contractions(aggregation: str, dtype: str, result: str) -> None:
    values = np.array([1, 0, 3]).astype(dtype)
    code = f"function (A[N]) -> (O) {{ O[i: N] = {aggregation}(A[i]); }}"
    assert run(code, values).dtype == result


def test_sums_of_integers_wrap_and_sums_of_halves_are_rounded_once() -> None:
    code = "function (A[N]) -> (O) { O[] = +(A[i]); }"
    assert run(code, np.array([100, 100], "int8")) == np.int8(-56)
    many = np.full(4000, 0.7, "float16")
    assert run(code, many) == np.float16(many.astype("float64").sum())


def test_numbers_and_dimensions_make_scalars() -> None:
    code = "function (A[N]) -> (O, P, Q) { O = 1.5; P = A * 0 + N; Q = N < 3; }"
    one, size, nothing = run(code, A)
    assert (one, one.dtype, one.shape) == (1.5, np.float32, ())
    assert (size == 5).all()
    assert (nothing.dtype, bool(nothing)) == (np.bool_, False)


def test_computed_dimensions_are_sizes() -> None:
    code = """function (X[N]) -> (O) {
        Half = (N + 1) / 2;
        Rest = -(1 - Half) - 1;
        O[i, j: Half, Rest + 1] = +(X[2 * i + j]), j < 2;
    }"""
    program = bound(code, floats(7))
    assert program.sizes == {"N": 7, "Half": 4, "Rest": 2}
    assert program.types["O"].shape == (4, 3)


def test_arrays_of_other_shapes_and_types_are_refused() -> None:
    program = bound("function (X[N]) -> (O) { O = X; }", floats(3))
    with pytest.raises(ArgumentError, match=r"X is bound to float32\[3\], got float32\[4\]"):
        evaluate(program, floats(4))
    with pytest.raises(ArgumentError, match=r"got float64\[3\]"):
        evaluate(program, np.zeros(3))
    with pytest.raises(ArgumentError, match="takes 1 arrays, got 2"):
        evaluate(program, floats(3), floats(3))


@pytest.mark.parametrize(
    "nested", ["-" * 99 + "A", "A + " * 99 + "A", "max(A, " * 99 + "A" + ")" * 99]
)
def test_the_deepest_expressions_are_evaluated(nested: str) -> None:
    assert run(f"function (A[N]) -> (O) {{ O = {nested}; }}", A).shape == (5,)


def test_the_deepest_index_expressions_are_evaluated() -> None:
    code = f"O[i: N + {'1 + ' * 90}1] = +(A[{'(' * 98}i{' - 1)' * 98}]);"
    assert contraction(code, A, B).shape == (96,)


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if dtypes.is_integer(d)])
def test_floats_become_integers_one_and_all_as_one_by_one(dtype: str) -> None:
    ends = [side * 2.0**bits for bits in (7, 8, 15, 16, 31, 32, 63, 64, 99) for side in (1, -1)]
    near = [np.nextafter(end, way) for end in ends for way in (np.inf, -np.inf)]
    off = [end + step for end in ends for step in (-1, -0.5, 0.5, 1)]
    values = np.array([*ends, *near, *off, 0.0, -0.0, -0.9, 0.9, np.inf, -np.inf, np.nan])
    expected = [dtypes.saturated(value, dtype) for value in values]
    assert cast(values, dtype).dtype.name == dtype
    assert cast(values, dtype).tolist() == expected
