"""Stages that share short rows are computed in vectors across rows, wherever these are legal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.bare_computations import template_of
from support.legal_configurations import small_integers

from autotune import te, tile
from autotune.ir import dtypes
from autotune.operators.tile_template import arguments_of, tile_template
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.target import Target
from autotune.task.task import Task
from autotune.tile.binding.bound_program import TensorType

Made = tuple[list[te.Tensor], list[te.Tensor]]
Array = npt.NDArray[Any]

HERE = Target("llvm")
AVX2, AVX512 = Target("llvm -mcpu=x86-64-v3"), Target("llvm -mcpu=skylake-avx512")


def less_maximum(
    m: int, n: int, dtype: str = "float32", names: str = "Xkr"
) -> Made:
    """(X - maximum of the row) * sum of the row."""
    X = te.placeholder((m, n), dtype, name=names[0])
    k, r = te.reduce_axis((0, n), name=names[1]), te.reduce_axis((0, n), name=names[2])
    top = te.compute((m,), lambda i: te.max(X[i, k], axis=k), name=names + "top")
    total = te.compute((m,), lambda i: te.sum(X[i, r], axis=r), name=names + "total")
    Y = te.compute((m, n), lambda i, j: (X[i, j] - top[i]) * total[i], name=names + "Y")
    return [X], [Y]


def less_maximum_of(x: Array) -> Array:
    return np.asarray((x - x.max(axis=1, keepdims=True)) * x.sum(axis=1, keepdims=True))


def softmax(m: int, n: int, names: str = "Xkr") -> Made:
    X = te.placeholder((m, n), name=names[0])
    k, r = te.reduce_axis((0, n), name=names[1]), te.reduce_axis((0, n), name=names[2])
    top = te.compute((m, 1), lambda i, _: te.max(X[i, k], axis=k), name=names + "top")
    E = te.compute((m, n), lambda i, j: te.exp(X[i, j] - top[i, 0]), name=names + "E")
    total = te.compute((m, 1), lambda i, _: te.sum(E[i, r], axis=r), name=names + "total")
    return [X], [te.compute((m, n), lambda i, j: E[i, j] / total[i, 0], name=names + "Y")]


def row_sums(m: int, n: int) -> Made:
    X = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), name="k")
    return [X], [te.compute((m,), lambda i: te.sum(X[i, k], axis=k), name="S")]


def sums_beside_maxima(m: int, n: int) -> Made:
    """One number for each row, of two that take a pass over the row."""
    (X,), (S,) = row_sums(m, n)
    r = te.reduce_axis((0, n), name="r")
    top = te.compute((m,), lambda i: te.max(X[i, r] * S[i], axis=r), name="top")
    return [X], [te.compute((m,), lambda i: top[i] - S[i], name="Y")]


def scaled(m: int, n: int) -> Made:
    """Deviations from the sum, with a factor for each row and one for each column."""
    X, R, C = (te.placeholder(s, name=c) for s, c in (((m, n), "X"), ((m, 1), "R"), ((n,), "C")))
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    S = te.compute((m, 1), lambda i, _: te.sum(X[i, k] * R[i, 0], axis=k), name="S")
    D = te.compute((m, n), lambda i, j: X[i, j] * R[i, 0] - S[i, 0], name="D")
    most = te.compute((m, 1), lambda i, _: te.max(D[i, r], axis=r), name="most")
    return [X, R, C], [te.compute((m, n), lambda i, j: D[i, j] * C[j] + most[i, 0], name="Y")]


def scaled_of(x: Array, r: Array, c: Array) -> Array:
    d = x * r - (x * r).sum(axis=1, keepdims=True)
    return np.asarray(d * c + d.max(axis=1, keepdims=True))


def planes(b: int, m: int, h: int, w: int) -> Made:
    """Elements less the least of a row, which has two axes."""
    X = te.placeholder((b, m, h, w), name="X")
    k, r = te.reduce_axis((0, h), name="k"), te.reduce_axis((0, w), name="r")
    least = te.compute((b, m), lambda c, i: te.min(X[c, i, k, r], axis=[k, r]), name="least")
    Y = te.compute((b, m, h, w), lambda c, i, y, x: X[c, i, y, x] - least[c, i], name="Y")
    return [X], [Y]


def windows_in_rows(m: int, n: int) -> Made:
    """Sums of three neighbours less their largest; what is read begins at the second element."""
    X = te.placeholder((m, n + 3), name="X")
    d = te.reduce_axis((0, 3), name="d")
    W = te.compute((m, n), lambda i, j: te.sum(X[i, j + d + 1], axis=d), name="W")
    k = te.reduce_axis((0, n), name="k")
    top = te.compute((m,), lambda i: te.max(W[i, k], axis=k), name="top")
    return [X], [te.compute((m, n), lambda i, j: W[i, j] - top[i], name="Y")]


def windows_in_rows_of(x: Array) -> Array:
    w = x[:, 1:-2] + x[:, 2:-1] + x[:, 3:]
    return np.asarray(w - w.max(axis=1, keepdims=True))


def stored_by_columns(m: int, n: int) -> Made:
    (X,), (Y,) = less_maximum(m, n)
    return [X], [te.compute((n, m), lambda j, i: Y[i, j] + 1.0, name="T")]


def of_another_stage(m: int, n: int) -> Made:
    """Rows that a product computes before."""
    A, B = te.placeholder((m, 40), name="A"), te.placeholder((40, n), name="B")
    d = te.reduce_axis((0, 40), name="d")
    P = te.compute((m, n), lambda i, j: te.sum(A[i, d] * B[d, j], axis=d), name="P")
    k = te.reduce_axis((0, n), name="k")
    top = te.compute((m,), lambda i: te.max(P[i, k], axis=k), name="top")
    return [A, B], [te.compute((m, n), lambda i, j: P[i, j] - top[i], name="Y")]


def twice(m: int, n: int) -> Made:
    """Two groups, of which the second reads what the first computes."""
    (X,), (Y,) = less_maximum(m, n)
    k = te.reduce_axis((0, n), name="l")
    least = te.compute((m,), lambda i: te.min(Y[i, k], axis=k), name="least")
    return [X], [Y, te.compute((m, n), lambda i, j: Y[i, j] - least[i], name="Z")]


def twice_of(x: Array) -> tuple[Array, Array]:
    y = less_maximum_of(x)
    return y, np.asarray(y - y.min(axis=1, keepdims=True))


def row_vectors(task: Task) -> dict[str, object]:
    """Return the knobs for vectors across rows, and their defaults."""
    values = task.space.config(task.default_index).values
    return {name: value for name, value in values.items() if name.startswith("row_vectors")}


def task_of(made: Callable[..., Made], *args: Any, target: Target = HERE) -> Task:
    return Task(template_of(partial(made, *args)), {}, target)


def results(task: Task, values: Mapping[str, object], inputs: list[Array]) -> list[Array]:
    built = compile_function(task.final_of(values), task.target)
    outs = [
        np.full(p.shape, 77, dtypes.numpy_dtype(p.dtype))
        for p in built.signature.parameters[len(inputs) :]
    ]
    built(*inputs, *outs)
    return outs


CASES: list[tuple[Callable[..., Made], tuple[Any, ...], Callable[..., Any]]] = [
    *((less_maximum, (m, n), less_maximum_of) for m, n in ((137, 2), (139, 3), (133, 10))),
    *((less_maximum, (m, n), less_maximum_of) for m, n in ((131, 7), (128, 16), (135, 19))),
    (less_maximum, (101, 9, "float64"), less_maximum_of),
    (less_maximum, (97, 5, "float16"), less_maximum_of),
    (less_maximum, (99, 12, "bfloat16"), less_maximum_of),
    (less_maximum, (101, 6, "int32"), less_maximum_of),
    (sums_beside_maxima, (147, 11), lambda x: (x.T * x.sum(axis=1)).max(axis=0) - x.sum(axis=1)),
    (scaled, (141, 13), scaled_of),
    (planes, (3, 35, 3, 5), lambda x: x - x.min(axis=(2, 3), keepdims=True)),
    (windows_in_rows, (75, 6), windows_in_rows_of),
    (stored_by_columns, (133, 6), lambda x: less_maximum_of(x).T + 1),
    (of_another_stage, (67, 10), lambda a, b: a @ b - (a @ b).max(axis=1, keepdims=True)),
    (twice, (85, 4), twice_of),
]


@pytest.mark.parametrize(("made", "args", "reference"), CASES)
def test_short_rows_are_right_in_vectors_across_them_and_along(
    made: Callable[..., Made], args: tuple[Any, ...], reference: Callable[..., Any]
) -> None:
    task = task_of(made, *args)
    knobs, inputs = row_vectors(task), small_integers(made(*args)[0])
    assert knobs
    expected = reference(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for way in ("across", "along"):
        outs = results(task, dict.fromkeys(knobs, way), inputs)
        for out, right in zip(outs, expected, strict=True):
            np.testing.assert_array_equal(out, right, err_msg=way)


@pytest.mark.parametrize("n", [5, 12])
def test_rows_beside_one_with_nans_or_infinities_are_not_affected(n: int) -> None:
    m = 4 * HERE.vector_bytes // 4 + 3
    x = np.random.default_rng(0).normal(size=(m, n)).astype("float32")
    special = [np.nan, np.inf, -np.inf]
    for row in range(0, m, 2):
        x[row, row % n] = special[row // 2 % 3]
    x[1], x[3] = -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        expected = e / e.sum(axis=1, keepdims=True)
    task = task_of(softmax, m, n)
    for way in ("across", "along"):
        (y,) = results(task, dict.fromkeys(row_vectors(task), way), [x])
        np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.parametrize("vectors", [1, 4])
@pytest.mark.parametrize("threads", [1, 8])
def test_blocks_of_any_number_of_vectors_end_where_rows_do(vectors: int, threads: int) -> None:
    for rows, n in ((2 * HERE.vector_bytes // 4, 6), (301, 14)):
        task = task_of(less_maximum, rows, n)
        (x,) = small_integers(less_maximum(rows, n)[0])
        values = task.space.config(task.default_index).values
        own = {"row_vectors": "across", "block_vectors": vectors, "threads": threads}
        chosen = {
            name: own.get(name.rstrip("_0123456789"), value) for name, value in values.items()
        }
        (y,) = results(task, chosen, [x])
        np.testing.assert_array_equal(y, less_maximum_of(x))


def beside_the_row_below(m: int, n: int) -> Made:
    X, k = te.placeholder((m + 1, n), name="X"), te.reduce_axis((0, n), name="k")
    return [X], [te.compute((m,), lambda i: te.sum(X[i, k] * X[i + 1, k], axis=k), name="S")]


def with_their_transpose(n: int) -> Made:
    X = te.placeholder((n, n), name="X")
    k = te.reduce_axis((0, n), name="k")
    top = te.compute((n,), lambda i: te.max(X[i, k], axis=k), name="top")
    return [X], [te.compute((n, n), lambda i, j: X[i, j] + X[j, i] - top[i], name="Y")]


def found_in_a_table(m: int, n: int) -> Made:
    X, order = te.placeholder((90, n), name="X"), te.placeholder((m,), "int32", name="I")
    k = te.reduce_axis((0, n), name="k")
    top = te.compute((m,), lambda i: te.max(X[te.max(order[i], 0), k], axis=k), name="top")
    Y = te.compute((m, n), lambda i, j: X[te.max(order[i], 0), j] - top[i], name="Y")
    return [X, order], [Y]


def elements_only(m: int, n: int) -> Made:
    X, R = te.placeholder((m, n), name="X"), te.placeholder((m,), name="R")
    return [X, R], [te.compute((m, n), lambda i, j: X[i, j] - R[i], name="Y")]


def by_columns(m: int, n: int) -> Made:
    X = te.placeholder((n, m), name="X")
    k = te.reduce_axis((0, n), name="k")
    top = te.compute((m,), lambda i: te.max(X[k, i], axis=k), name="top")
    return [X], [te.compute((n, m), lambda j, i: X[j, i] - top[i], name="Y")]


def product(m: int, n: int) -> Made:
    A, B = te.placeholder((m, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return [A, B], [te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")]


def inlined_elsewhere(m: int, n: int) -> Made:
    """What a group and another stage compute where they read it."""
    X = te.placeholder((m, n), name="X")
    D = te.compute((m, n), lambda i, j: X[i, j] * 2.0, name="D")
    k = te.reduce_axis((0, n), name="k")
    top = te.compute((m,), lambda i: te.max(D[i, k], axis=k), name="top")
    Y = te.compute((m, n), lambda i, j: D[i, j] - top[i], name="Y")
    return [X], [te.compute((m, n), lambda i, j: D[i, j] + 1.0, name="Z"), Y]


@pytest.mark.parametrize(
    ("made", "args"),
    [
        (softmax, (500, 300)),
        (softmax, (5, 10)),
        (softmax, (0, 10)),
        (beside_the_row_below, (500, 6)),
        (with_their_transpose, (40,)),
        (found_in_a_table, (500, 6)),
        (elements_only, (500, 6)),
        (row_sums, (500, 6)),
        (by_columns, (500, 6)),
        (product, (500, 8)),
        (inlined_elsewhere, (500, 6)),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_there_is_no_choice_where_rows_cannot_be_or_should_not_be_in_lanes(
    made: Callable[..., Made], args: tuple[Any, ...]
) -> None:
    assert not row_vectors(task_of(made, *args))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=str)
def test_the_shortest_rows_are_in_lanes_by_default_and_longer_ones_are_not(target: Target) -> None:
    lanes = target.vector_bytes // 4
    for n, way in ((3, "across"), (lanes - 2, "across"), (4 * lanes, "along")):
        assert set(row_vectors(task_of(softmax, 5000, n, target=target)).values()) == {way}


@pytest.mark.parametrize("n", [3, 6, 11, 20])
def test_rows_in_lanes_leave_no_function_and_no_sum_of_single_elements(n: int) -> None:
    task = task_of(softmax, 640, n)
    across = dict.fromkeys(row_vectors(task), "across")
    lines = str(task.final_of(across)).splitlines()
    stores = [line for line in lines if "] = " in line and "//" not in line]
    assert stores
    assert all("ramp(" in line for line in stores)


def test_names_and_the_language_do_not_change_the_space_of_short_rows() -> None:
    function = tile.parse(
        """function (X[M, N]) -> (Y) {
             T[i, 0: M, 1] = >(X[i, k]);
             E = exp(X - T);
             S[i, 0: M, 1] = +(E[i, k]);
             Y = E / S;
           }"""
    )
    types = [TensorType((500, 12), "float32")]
    written = Task(tile_template(function, "f", "llvm"), arguments_of(function, types), "llvm")
    spaces = [task_of(softmax, 500, 12, names).space for names in ("Xkr", "abc")]
    assert row_vectors(written)
    assert {s.fingerprint() for s in (*spaces, written.space)} == {spaces[0].fingerprint()}
