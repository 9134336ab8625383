"""What the schedule rules promise of any computation: right answers, and a space without names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.bare_computations import template_of
from support.legal_configurations import assert_right, drawn, small_integers

import autotune
from autotune import te, tile
from autotune.builder import BuiltFunction
from autotune.operators.tile_template import arguments_of, tile_template
from autotune.target import Target
from autotune.task.task import Task
from autotune.tile.binding.bound_program import TensorType

Made = tuple[list[te.Tensor], list[te.Tensor]]


def product(m: int = 5, n: int = 70, k: int = 9, names: str = "ABC") -> Made:
    """C = A @ B, relu of it, under some names."""
    A = te.placeholder((m, k), "float32", name=names[0])
    B = te.placeholder((k, n), "float32", name=names[1])
    r = te.reduce_axis((0, k), name=f"r{names}")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name=names[2])
    return [A, B], [te.compute((m, n), lambda i, j: te.max(C[i, j], 0.0), name=names + "relu")]


def row_maxima(m: int = 7, n: int = 50) -> Made:
    """X - max of each row."""
    X = te.placeholder((m, n), "float32", name="X")
    r = te.reduce_axis((0, n), name="r")
    M = te.compute((m,), lambda i: te.max(X[i, r], axis=r), name="M")
    return [X], [te.compute((m, n), lambda i, j: X[i, j] - M[i], name="Y")]


def sums_down(m: int = 6, n: int = 40) -> Made:
    """Running sums down columns, doubled."""
    X = te.placeholder((m, n), "float32", name="X")
    state = te.placeholder((m, n), "float32", name="state")
    init = te.compute((1, n), lambda t, j: X[t, j], name="init")
    update = te.compute((m, n), lambda t, j: state[t - 1, j] + X[t, j], name="update")
    S = te.scan(init, update, state, name="S")
    return [X], [te.compute((m, n), lambda i, j: S[i, j] * 2.0, name="Y")]


REFERENCES: dict[Callable[[], Made], Callable[..., Any]] = {
    product: lambda a, b: np.maximum(a @ b, 0),
    row_maxima: lambda x: x - x.max(axis=1, keepdims=True),
    sums_down: lambda x: 2 * np.cumsum(x, axis=0),
}


@pytest.mark.parametrize("made", REFERENCES, ids=lambda f: f.__name__)
def test_every_configuration_computes_the_right_answer(made: Callable[[], Made]) -> None:
    task = Task(template_of(made), {}, Target("llvm"))
    inputs = small_integers(made()[0])
    assert_right(task, drawn(task), inputs, REFERENCES[made](*inputs))


def sums_from_three(axis: int) -> Made:
    """Sums of rows or columns, without the first three elements."""
    X = te.placeholder((33, 37), "float32", name="X")
    r = te.reduce_axis((3, X.shape[axis]), name="r")
    at = (lambda i: X[i, r]) if axis else (lambda i: X[r, i])
    return [X], [te.compute((X.shape[1 - axis],), lambda i: te.sum(at(i), axis=r), name="S")]


def product_of(m: int, k: int) -> Made:
    """C = A @ B."""
    A, B = te.placeholder((m, k), "float32", name="A"), te.placeholder((k, 40), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((m, 40), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return [A, B], [C]


def sums_of_no_rows() -> Made:
    """B[i, j, k] = max(A[k], A[k, j]) where i <= 2, for no i."""
    A = te.placeholder((28, 19), name="A")
    axes = [te.reduce_axis((0, 1), name=name) for name in "pq"]

    def element(i: Any, j: Any, k: Any) -> Any:
        return te.sum(te.max(A[k, k], A[k, j]), axis=axes, where=i <= 2)

    return [A], [te.compute((0, 10, 10), element, name="B")]


def product_from_three() -> Made:
    """C = A[:, 3:] @ B[3:]."""
    A, B = te.placeholder((9, 37), "float32", name="A"), te.placeholder((37, 40), name="B")
    r = te.reduce_axis((3, 37), name="r")
    C = te.compute((9, 40), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return [A, B], [C]


def product_of_rows_found_in_a_table() -> Made:
    """C = A[max(I, 0)] @ B."""
    A, B = te.placeholder((9, 37), "float32", name="A"), te.placeholder((37, 40), name="B")
    found = te.placeholder((21,), "int32", name="I")
    r = te.reduce_axis((0, 37), name="r")
    C = te.compute(
        (21, 40), lambda i, j: te.sum(A[te.max(found[i], 0), r] * B[r, j], axis=r), name="C"
    )
    return [A, B, found], [C]


def diagonals() -> Made:
    """B[i, j] = A[j, j, i]."""
    A = te.placeholder((64, 64, 64), "float32", name="A")
    return [A], [te.compute((64, 64), lambda i, j: A[j, j, i], name="B")]


def rows_by_int64() -> Made:
    """B = R[I].T, where the rows R are those of 2 * A[::-2]."""
    A, order = te.placeholder((40, 33), name="A"), te.placeholder((9,), "int64", name="I")
    R = te.compute((20, 33), lambda i, j: A[39 - 2 * i, j] * 2.0, name="R")
    return [A, order], [te.compute((33, 9), lambda j, i: R[te.max(order[i], 0), j], name="B")]


def sums_by_int64() -> Made:
    """The sums of these rows."""
    (A, order), (B,) = rows_by_int64()
    k = te.reduce_axis((0, 33), name="k")
    return [A, order], [te.compute((9,), lambda i: te.sum(B[k, i], axis=k), name="S")]


def odd_rows(a: Any, order: Any) -> Any:
    return 2 * a[::-2][np.maximum(order, 0)]


@pytest.mark.parametrize("kind", ["llvm", "cuda -on=cpu"])
@pytest.mark.parametrize(
    ("made", "reference"),
    [
        (partial(sums_from_three, 1), lambda x: x[:, 3:].sum(axis=1)),
        (partial(sums_from_three, 0), lambda x: x[3:].sum(axis=0)),
        (product_from_three, lambda a, b: a[:, 3:] @ b[3:]),
        (partial(product_of, 0, 9), lambda a, b: a @ b),
        (partial(product_of, 9, 0), lambda a, b: a @ b),
        (product_of_rows_found_in_a_table, lambda a, b, i: a[np.maximum(i, 0)] @ b),
        (sums_of_no_rows, lambda a: np.empty((0, 10, 10), "float32")),
        (diagonals, np.diagonal),
        (rows_by_int64, lambda a, i: odd_rows(a, i).T),
        (sums_by_int64, lambda a, i: odd_rows(a, i).sum(axis=1)),
    ],
    ids=[
        "rows", "columns", "product", "no rows", "no steps", "table", "nothing", "diagonals",
        "odd rows", "sums of odd rows",
    ],
)  # fmt: skip
def test_unusual_elements_are_right(
    kind: str, made: Callable[[], Made], reference: Callable[..., Any]
) -> None:
    target = Target.of(kind)
    task = Task(replace(template_of(made), target=target.kind), {}, target)
    inputs = small_integers(made()[0])
    expected = reference(*inputs)
    for index in drawn(task):
        out = np.full(expected.shape, np.nan, "float32")
        BuiltFunction(task.final(index), task.target)(*inputs, out)
        np.testing.assert_array_equal(out, expected)


def test_names_of_tensors_and_axes_do_not_change_the_space() -> None:
    spaces = [
        Task(template_of(partial(product, names=names)), {}, Target("llvm")).space
        for names in ("ABC", "xyz")
    ]
    assert spaces[0].fingerprint() == spaces[1].fingerprint()


def plain_product(m: int = 24, n: int = 70, k: int = 36, swapped: bool = False) -> Made:
    """C = A @ B; the factors may be swapped."""
    A = te.placeholder((m, k), "float32", name="A")
    B = te.placeholder((k, n), "float32", name="B")
    r = te.reduce_axis((0, k), name="r")

    def term(i: Any, j: Any) -> Any:
        a, b = A[i, r], B[r, j]
        return te.sum(b * a if swapped else a * b, axis=r)

    return [A, B], [te.compute((m, n), term, name="C")]


def sums_of_three(n: int = 500, first: bool = True) -> Made:
    """(a + b) + c or a + (b + c)."""
    a, b, c = (te.placeholder((n, n), "float32", name=name) for name in "abc")

    def total(i: Any, j: Any) -> Any:
        if first:
            return (a[i, j] + b[i, j]) + c[i, j]
        return a[i, j] + (b[i, j] + c[i, j])

    return [a, b, c], [te.compute((n, n), total, name="T")]


def windows(axes: str = "ckq") -> Made:
    """A convolution of 3 x 3; its sum is over channels, rows and columns in some order."""
    X = te.placeholder((8, 14, 18), "float32", name="X")
    W = te.placeholder((10, 8, 3, 3), "float32", name="W")
    c, k, q = te.reduce_axis((0, 8)), te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    over = [{"c": c, "k": k, "q": q}[name] for name in axes]

    def pixel(o: Any, y: Any, x: Any) -> Any:
        return te.sum(X[c, y + k, x + q] * W[o, c, k, q], axis=over)

    return [X, W], [te.compute((10, 12, 16), pixel, name="Y")]


def fingerprint(made: Callable[[], Made]) -> str:
    return Task(template_of(made), {}, Target("llvm")).space.fingerprint()


def test_another_order_of_operands_does_not_change_the_space() -> None:
    assert fingerprint(plain_product) == fingerprint(partial(plain_product, swapped=True))
    assert fingerprint(sums_of_three) == fingerprint(partial(sums_of_three, first=False))


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90"])
@pytest.mark.parametrize("axes", ["ckq", "cqk", "qkc", "kcq"])
def test_another_order_of_a_sum_does_not_change_the_space(axes: str, target: str) -> None:
    at = Target.parse(target)
    spaces = [
        Task(replace(template_of(made), target=at.kind), {}, at).space
        for made in (windows, partial(windows, axes))
    ]
    assert spaces[0].fingerprint() == spaces[1].fingerprint()


def test_a_product_written_in_tile_has_the_same_space() -> None:
    function = tile.parse(
        "function (X[M, K], Y[K, N]) -> (Z) { Z[i, j: M, N] = +(X[i, k] * Y[k, j]); }"
    )
    types = [TensorType((24, 36), "float32"), TensorType((36, 70), "float32")]
    task = Task(tile_template(function, "f", "llvm"), arguments_of(function, types), "llvm")
    assert task.space.fingerprint() == fingerprint(plain_product)


def planes_less_their_minimum(b: int = 9, h: int = 19, w: int = 15) -> Made:
    """X - min of each plane."""
    X = te.placeholder((b, h, w), "int32", name="X")
    r, q = te.reduce_axis((0, h), name="r"), te.reduce_axis((0, w), name="q")
    M = te.compute((b,), lambda i: te.min(X[i, r, q], axis=[r, q]), name="M")
    return [X], [te.compute((b, h, w), lambda i, y, x: X[i, y, x] - M[i], name="Y")]


def test_reductions_over_two_axes_have_a_legal_configuration_on_gpus() -> None:
    template = replace(template_of(planes_less_their_minimum), target="cuda")
    task = Task(template, {}, Target("cuda -arch=sm_90"))
    assert task.refusal(task.default_index) == ""


def layers(count: int, rows: int = 24, width: int = 96) -> list[te.Tensor]:
    """Products with weights, of which what is positive is taken less the mean of its row."""
    weights = [te.placeholder((width, width), "float32", name=f"W{n}") for n in range(count)]
    x = first = te.placeholder((rows, width), "float32", name="X")
    for weight in weights:
        x = layer(x, weight)
    return [first, *weights, x]


def layer(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
    rows, width = x.shape
    r, s = te.reduce_axis((0, width), name="r"), te.reduce_axis((0, width), name="s")
    y = te.compute((rows, width), lambda i, j: te.sum(x[i, r] * weight[r, j], axis=r))
    z = te.compute((rows, width), lambda i, j: te.max(y[i, j], 0.0))
    total = te.compute((rows,), lambda i: te.sum(z[i, s], axis=s))
    return te.compute((rows, width), lambda i, j: z[i, j] - total[i] / 96)


@pytest.mark.filterwarnings("ignore:no records given")
def test_a_network_of_many_layers_is_built_without_a_schedule() -> None:
    f = autotune.build(layers, {"count": 12})
    rng = np.random.default_rng(0)
    x = rng.standard_normal((24, 96), "float32")
    weights = list(rng.standard_normal((12, 96, 96), "float32"))
    out = np.empty_like(x)
    f(x, *weights, out)
    for weight in weights:
        z = np.maximum(x @ weight, 0)
        x = z - z.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(out, x, rtol=1e-3, atol=1e-3 * abs(x).max())
