"""Every statement of the Tile tutorial computes what NumPy says, and has the gradient it should.

Sizes are odd and even. Fragments, those of images included, stand in a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tile_slopes import check_gradient
from support.tile_tools import bound, floats, run

from autotune import tile
from autotune.errors import TileError
from autotune.tile.binding.bound_program import Contract

TARGET = "llvm -mcpu=x86-64-v2"
LENGTHS = [1, 2, 5, 8]


def conv1d(x: Any, k: Any) -> Any:
    width = x.shape[1] - k.shape[0] + 1
    return sum(x[:, d : d + width] @ k[d] for d in range(k.shape[0]))


def dilated(x: Any, k: Any) -> Any:
    rows, columns = x.shape[1] - 2 * (k.shape[0] - 1), x.shape[2] - 3 * (k.shape[1] - 1)
    return sum(
        x[:, 2 * a : 2 * a + rows, 3 * b : 3 * b + columns] @ k[a, b]
        for a in range(k.shape[0])
        for b in range(k.shape[1])
    )


def pooled(x: Any, outputs: int) -> Any:
    return np.array([x[2 * i : 2 * i + 2].max() for i in range(outputs)])


def skipped(x: Any) -> Any:
    result = np.zeros(len(x), x.dtype)
    result[::2] = x[::2].sum(axis=1)
    return result


SUM_0 = "function (I[M, N]) -> (O) { O[n: N] = +(I[m, n]); }"
PADDED = "function (I[M, N]) -> (O) { O[n: N+1] = +(I[m, n]); }"
SHORTER = "function (I[M, N]) -> (O) { O[n: N-1] = +(I[m, n]); }"
MATMUL = "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
MAX_0 = "function (I[M, N]) -> (O) { O[n: N] = >(I[m, n]); }"
GLOBAL_MIN = """function (I) -> (O) {
    Neg = -I;
    O_Neg[] = >(Neg[i, j, k]);
    O = -O_Neg;
}"""
MEAN_0 = "function (I[X, Y]) -> (O) { Sum[y: Y] = +(I[x, y]); O = Sum / X; }"
MEAN_STAGED = """function (I[X, Y]) -> (O) {
    Sum[] = +(I[x, y]);
    PartialMean = Sum / X;
    O = PartialMean / Y;
}"""
MEAN = "function (I[X, Y]) -> (O) { Sum[] = +(I[x, y]); O = Sum / (X * Y); }"
WRONG_POOL = "function (I[N]) -> (O) { O[i: N / 2] = >(I[2 * i + j]); }"
POOL = "function (I[N]) -> (O) { O[i: N / 2] = >(I[2 * i + j]), j < 2; }"
POOL_UP = "function (I[N]) -> (O) { O[i: (N + 1) / 2] = >(I[2 * i + j]), j < 2; }"
SKIP = "function (I[N, M]) -> (O) { O[2 * i: N] = +(I[2 * i, j]); }"
CUMSUM = "function (I[N]) -> (O) { O[i: N] = +(I[k]), i - k < N; }"
CUMSUM_BY_OFFSET = "function (I[N]) -> (O) { O[i: N] = +(I[i - j]), j < N; }"
CONV_1D = (
    "function (I[N, L, CI], K[LK, CI, CO]) -> (O) "
    "{O[n, x, co: N, L - LK + 1, CO] = +(I[n, x + k, ci] * K[k, ci, co]);}"
)
DILATED = """function (I[N, Lx, Ly, CI], K[LKx, LKy, CI, CO]) -> (O) {
    O[n, x, y, co: N, Lx - 2 * (LKx - 1), Ly - 3 * (LKy - 1), CO] =
            +(I[n, x + 2 * kx, y + 3 * ky, ci] * K[kx, ky, ci, co]);
}"""

#: Code, shapes, and what it means.
STATEMENTS: dict[str, tuple[str, list[list[tuple[int, ...]]], Callable[..., Any]]] = {
    "sum": (SUM_0, [[(3, 4)], [(6, 1)]], lambda i: i.sum(axis=0)),
    "sum, longer": (PADDED, [[(3, 4)], [(2, 5)]], lambda i: np.pad(i.sum(axis=0), (0, 1))),
    "sum, shorter": (SHORTER, [[(3, 4)], [(2, 5)]], lambda i: i.sum(axis=0)[:-1]),
    "matmul": (MATMUL, [[(4, 6), (6, 2)], [(3, 5), (5, 7)]], lambda a, b: a @ b),
    "max": (MAX_0, [[(3, 4)], [(2, 5)]], lambda i: i.max(axis=0)),
    "global min": (GLOBAL_MIN, [[(2, 3, 4)], [(1, 1, 1)]], lambda i: i.min()),
    "mean over an axis": (MEAN_0, [[(3, 4)], [(6, 5)]], lambda i: i.mean(axis=0)),
    "mean in stages": (MEAN_STAGED, [[(3, 4)], [(6, 5)]], lambda i: i.mean()),
    "mean": (MEAN, [[(3, 4)], [(6, 7)]], lambda i: i.mean()),
    "deliberately wrong pool": (
        WRONG_POOL, [[(n,)] for n in LENGTHS[1:]], lambda i: np.full(len(i) // 2, i.max())
    ),
    "pool": (POOL, [[(n,)] for n in LENGTHS[1:]], lambda i: pooled(i, len(i) // 2)),
    "pool, rounded up": (
        POOL_UP, [[(n,)] for n in LENGTHS], lambda i: pooled(i, (len(i) + 1) // 2)
    ),
    "skipping": (SKIP, [[(5, 3)], [(6, 2)]], skipped),
    "cumulative sum": (CUMSUM, [[(n,)] for n in LENGTHS], np.cumsum),
    "cumulative sum by offset": (CUMSUM_BY_OFFSET, [[(n,)] for n in LENGTHS], np.cumsum),
    "convolution": (CONV_1D, [[(2, 7, 3), (3, 3, 4)], [(1, 6, 2), (2, 2, 5)]], conv1d),
    "dilated convolution": (
        DILATED, [[(2, 7, 9, 3), (3, 2, 3, 4)], [(1, 6, 7, 2), (2, 3, 2, 1)]], dilated
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_contractions_of_the_tutorial(name: str) -> None:
    code, cases, meaning = STATEMENTS[name]
    for shapes in cases:
        arrays = [floats(*shape, seed=k) for k, shape in enumerate(shapes)]
        expected = meaning(*arrays)
        for result in (run(code, *arrays), tile.compile(code, TARGET)(*arrays)):
            assert (result.shape, result.dtype) == (np.shape(expected), np.float32)
            np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", STATEMENTS)
def test_all_of_them_are_differentiated(name: str) -> None:
    code, cases, _ = STATEMENTS[name]
    check_gradient(code, [floats(*shape, seed=k) for k, shape in enumerate(cases[-1])])


def valid(code: str, *arrays: Any) -> set[tuple[int, ...]]:
    """Return the valid index sets of a function's contraction."""
    (step,) = bound(code, *arrays).steps
    assert isinstance(step, Contract)
    return {p for b in step.domain.points() for p in zip(*map(list, b.values()), strict=True)}


def test_index_sets_of_the_tutorial_are_valid_or_not() -> None:
    five = valid(POOL_UP, floats(5))
    assert five == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)}  # not (2, 1), nor (-1000, 1)
    too_many = valid(WRONG_POOL, floats(6))
    assert {(1, 3), (1, -1)} <= too_many
    assert all(0 <= 2 * i + j < 6 for i, j in too_many)
    assert {i for i, _ in valid(SKIP, floats(5, 2))} == {0, 1, 2}  # not 1/2


def test_where_each_place_is_written_once_all_aggregations_assign() -> None:
    code = "function (I[N]) -> (O) {{ O[N - 1 - i: N] = {}(I[i]); }}"
    i = floats(5)
    for aggregation in "+*><=":
        np.testing.assert_array_equal(run(code.format(aggregation), i), i[::-1])
    with pytest.raises(TileError, match="writes O\\[0\\] more than once"):
        run("function (I[N]) -> (O) { O[0: N] = =(I[i]); }", i)


def test_a_dimension_that_is_repeated_makes_a_square() -> None:
    code = "function (A[N, N]) -> (O) { O[i: N] = +(A[i, i]); }"
    np.testing.assert_array_equal(run(code, floats(4, 4)), np.diag(floats(4, 4)))
    with pytest.raises(TileError, match="N is 4 as dimension 0 of A, but 5 as dimension 1"):
        run(code, floats(4, 5))


def test_a_contraction_fixes_the_rank_of_what_it_reads() -> None:
    with pytest.raises(TileError, match="I has 2 dimensions"):
        run("function (I) -> (O) { O[] = >(I[i, j, k]); }", floats(2, 3))


def test_names_have_letters_digits_and_underscores_and_indices_their_own_contraction() -> None:
    code = """function (I_0x[N_1, M2]) -> (O__) {
        A_[i_1: N_1] = +(I_0x[i_1, kX2]);
        O__[i_1: M2] = +(A_[kX2]), i_1 - kX2 < M2;
    }"""
    i = floats(3, 4)
    rows = np.append(i.sum(axis=1), np.float32(0))
    np.testing.assert_allclose(run(code, i), np.cumsum(rows), rtol=1e-5)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


ELEMENT_WISE: dict[str, Callable[..., Any]] = {
    "A + B": lambda a, b: a + b,
    "A - B": lambda a, b: a - b,
    "A * B": lambda a, b: a * b,
    "A / B": lambda a, b: a / b,
    "A == B": lambda a, b: a == b,
    "A != B": lambda a, b: a != b,
    "A < B": lambda a, b: a < b,
    "sqrt(A * A)": lambda a, b: np.sqrt(a * a) + 0 * b,
    "exp(A)": lambda a, b: np.exp(a),
    "pow(A * A, B)": lambda a, b: np.power(a * a, b),
    "sin(A)": lambda a, b: np.sin(a),
    "tanh(A)": lambda a, b: np.tanh(a),
    "log(A * A)": lambda a, b: np.log(a * a),
    "sigmoid(A)": lambda a, b: sigmoid(a),
    "A < B ? A : 2": lambda a, b: np.where(a < b, a, np.float32(2)),
    "N < 2 ? A : -A": lambda a, b: -a,
}


@pytest.mark.parametrize("written", ELEMENT_WISE)
def test_element_wise_operations_of_the_tutorial(written: str) -> None:
    a, b = floats(3, 4), floats(4, seed=1)
    a[0] = b
    code = f"function (A[M, N], B) -> (O) {{ O = {written}; }}"
    for result in (run(code, a, b), tile.compile(code, TARGET)(a, b)):
        expected = np.broadcast_to(ELEMENT_WISE[written](a, b), result.shape)
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-6)


def test_the_condition_may_be_a_single_value_or_broadcast() -> None:
    code = "function (C, T, E) -> (O) { O = C ? T : E; }"
    t, e = floats(3, 4), floats(3, 4, seed=1)
    for c in (np.array(True), np.array(0.0), np.array([0, 2, 0, -1]), np.array([[0], [1], [2]])):
        np.testing.assert_array_equal(run(code, c, t, e), np.where(c, t, e))
    with pytest.raises(TileError, match="one shape or one is a scalar"):
        run(code, np.array(True), t, e[:, :1])


def test_a_function_block_with_several_inputs_and_outputs() -> None:
    code = """function (I0[N0, N1], I1[M0, M1, M2], I2) -> (O0, O1) {
        O0[i: N0] = +(I0[i, j]);
        O1 = I1 * I2;
    }"""
    i0, i1, i2 = floats(2, 3), floats(2, 3, 4), floats(4)
    first, second = run(code, i0, i1, i2)
    np.testing.assert_allclose(first, i0.sum(axis=1), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(second, i1 * i2)
