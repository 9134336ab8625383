"""Scans through the schedule rules: any combination, order of axes and configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.bare_computations import template_of
from support.legal_configurations import assert_right, drawn, small_integers
from support.slow_cases import slow_if

from autotune import te
from autotune.target import Target
from autotune.task.task import Task

Made = tuple[list[te.Tensor], list[te.Tensor]]


def scan_of(
    shape: tuple[int, ...],
    start: Callable[..., Any],
    step: Callable[..., Any],
    dtype: str = "float32",
) -> Any:
    """A scan of one state, given its first value and step(before, t, *i)."""
    state = te.placeholder(shape, dtype, name="state")
    init = te.compute((1, *shape[1:]), lambda _, *i: start(*i), name="init")
    update = te.compute(shape, lambda t, *i: step(state[(t - 1, *i)], t, *i), name="update")
    return te.scan(init, update, state, name="S")


def column_sums() -> Made:
    X = te.placeholder((70, 50), "float32", name="X")
    return [X], [scan_of((70, 50), lambda i: X[0, i], lambda s, t, i: s + X[t, i])]


def sums_of_many_steps() -> Made:
    X = te.placeholder((1500, 3), "float32", name="X")
    return [X], [scan_of((1500, 3), lambda i: X[0, i], lambda s, t, i: s + X[t, i])]


def row_sums() -> Made:
    X = te.placeholder((9, 300), "float32", name="X")
    S = scan_of((300, 9), lambda i: X[i, 0], lambda s, t, i: s + X[i, t])
    return [X], [te.compute((9, 300), lambda i, j: S[j, i], name="Y")]


def long_row_sums_of_squares() -> Made:
    X = te.placeholder((1, 2100), "float32", name="X")
    Z = te.compute((1, 2100), lambda i, j: X[i, j] * X[i, j], name="Z")
    S = scan_of((2100, 1), lambda i: Z[i, 0], lambda s, t, i: s + Z[i, t])
    return [X], [te.compute((1, 2100), lambda i, j: S[j, i] + 1.0, name="Y")]


def vector_sums() -> Made:
    X = te.placeholder((1300,), "int32", name="X")
    return [X], [scan_of((1300,), lambda: X[0], lambda s, t: s + X[t], "int32")]


def exclusive_sums() -> Made:
    X = te.placeholder((40, 33), "float32", name="X")
    zero = te.const(0, "float32")
    return [X], [scan_of((40, 33), lambda i: zero, lambda s, t, i: X[t - 1, i] + s)]


def row_maxima_so_far() -> Made:
    X = te.placeholder((5, 4, 270), "float32", name="X")
    S = scan_of((270, 4, 5), lambda i, j: X[j, i, 0], lambda s, t, i, j: te.max(X[j, i, t], s))
    return [X], [te.compute((5, 4, 270), lambda j, i, t: S[t, i, j], name="Y")]


def linear() -> Made:
    A = te.placeholder((50, 6, 20), "float32", name="A")
    X = te.placeholder((50, 6, 20), "float32", name="X")
    return [A, X], [
        scan_of(
            (50, 6, 20), lambda i, j: X[0, i, j], lambda s, t, i, j: X[t, i, j] - A[t, i, j] * s
        )
    ]


def linear_along_rows() -> Made:
    A = te.placeholder((6, 90), "float32", name="A")
    X = te.placeholder((6, 90), "float32", name="X")
    S = scan_of((90, 6), lambda i: X[i, 0], lambda s, t, i: s * A[i, t] + X[i, t])
    return [A, X], [te.compute((6, 90), lambda i, j: S[j, i], name="Y")]


def sums_in_the_middle() -> Made:
    X = te.placeholder((3, 40, 37), "float32", name="X")
    S = scan_of((40, 3, 37), lambda b, i: X[b, 0, i], lambda s, t, b, i: s + X[b, t, i])
    return [X], [te.compute((3, 40, 37), lambda b, t, i: S[t, b, i], name="Y")]


def sums_of_sums() -> Made:
    X = te.placeholder((30, 40), "float32", name="X")
    S = scan_of((30, 40), lambda i: X[0, i], lambda s, t, i: s + X[t, i])
    R = scan_of((40, 30), lambda i: S[i, 0], lambda s, t, i: s + S[i, t])
    return [X], [te.compute((30, 40), lambda i, j: R[j, i], name="Y")]


def running_products() -> Made:
    X = te.placeholder((20, 40), "float32", name="X")
    return [X], [scan_of((20, 40), lambda i: X[0, i], lambda s, t, i: s * X[t, i])]


def fibonacci() -> Made:
    """Not a recurrence of one step: two steps back."""
    X = te.placeholder((2, 20), "int32", name="X")
    state = te.placeholder((12, 20), "int32", name="state")
    init = te.compute((2, 20), lambda t, i: X[t, i], name="init")
    update = te.compute((12, 20), lambda t, i: state[t - 1, i] + state[t - 2, i], name="update")
    return [X], [te.scan(init, update, state, name="S")]


def heat() -> Made:
    """Columns that depend on their neighbours."""
    X = te.placeholder((40,), "float32", name="X")
    state = te.placeholder((9, 40), "float32", name="state")
    init = te.compute((1, 40), lambda _, i: X[i], name="init")

    def step(t: Any, i: Any) -> Any:
        left, right = state[t - 1, te.max(i - 1, 0)], state[t - 1, te.min(i + 1, 39)]
        return left + right

    return [X], [te.scan(init, te.compute((9, 40), step, name="update"), state, name="S")]


def cell(batch: int, units: int, transposed: bool = False, last: bool = False) -> Made:
    """h = x + h @ w (or w.T), all steps or the last one."""
    steps = 5
    X = te.placeholder((steps, batch, units), "float32", name="X")
    W = te.placeholder((units, units), "float32", name="W")
    shape = (steps, batch, units)
    h = te.placeholder(shape, "float32", name="h")
    k = te.reduce_axis((0, units), name="k")

    def product(t: Any, i: Any, j: Any) -> Any:
        return te.sum(h[t - 1, i, k] * (W[j, k] if transposed else W[k, j]), axis=k)

    Z = te.compute(shape, product, name="Z")
    update = te.compute(shape, lambda t, i, j: X[t, i, j] + Z[t, i, j], name="update")
    H = te.scan(te.compute((1, batch, units), lambda _, i, j: X[0, i, j]), update, h, name="H")
    if last:
        return [X, W], [te.compute(shape[1:], lambda i, j: H[steps - 1, i, j] * 2.0, name="Y")]
    return [X, W], [H]


def cell_of_one_sequence() -> Made:
    return cell(1, 50)


def cell_of_a_batch() -> Made:
    return cell(5, 37)


def cell_with_transposed_weights() -> Made:
    return cell(3, 33, transposed=True)


def last_state_of_a_cell() -> Made:
    return cell(7, 20, last=True)


def gated_cell() -> Made:
    """Two products in a step, the second of what the step computes; two states."""
    shape, k, j = (4, 3, 20), te.reduce_axis((0, 20), name="k"), te.reduce_axis((0, 20), name="j")
    X = te.placeholder(shape, "float32", name="X")
    W = te.placeholder((2, 20, 20), "float32", name="W")
    h, c = (te.placeholder(shape, "float32", name=name) for name in "hc")
    A = te.compute(shape, lambda t, i, n: te.sum(h[t - 1, i, k] * W[0, k, n], axis=k), name="A")
    R = te.compute(shape, lambda t, i, n: te.max(A[t, i, n], 0.0) - c[t - 1, i, n], name="R")
    B = te.compute(shape, lambda t, i, n: te.sum(R[t, i, j] * W[1, j, n], axis=j), name="B")
    new_h = te.compute(shape, lambda t, i, n: X[t, i, n] + B[t, i, n], name="new_h")
    new_c = te.compute(shape, lambda t, i, n: c[t - 1, i, n] + R[t, i, n], name="new_c")
    zeros = [te.compute((1, 3, 20), lambda *_: te.const(0, "float32"), name=f"z{n}") for n in "hc"]
    return [X, W], list(te.scan(zeros, [new_h, new_c], [h, c], name="S"))


def blocked_product(queries_last: bool = True, causal: bool = True) -> Made:
    """Sums over blocks of keys of (scores above 0) times values, for blocks of queries."""
    n, d, block, grain = 40, 18, 16, 16
    Q, K, V = (te.placeholder((2, n, d), "float32", name=name) for name in "QKV")
    steps = -(-n // block) + 1
    r, b = te.reduce_axis((0, d), name="r"), te.reduce_axis((0, block), name="b")

    def key(t: Any, j: Any) -> Any:
        return te.max(te.min((t - 1) * block + j, n - 1), 0)

    def score(t: Any, h: Any, i: Any, j: Any) -> Any:
        return te.sum(Q[h, i, r] * K[h, key(t, j), r], axis=r)

    if queries_last:
        S = te.compute((steps, 2, block, n), lambda t, h, j, i: score(t, h, i, j), name="S")
    else:
        S = te.compute((steps, 2, n, block), score, name="S")

    def seen(t: Any, h: Any, i: Any, j: Any) -> Any:
        at = (t - 1) * block + j
        own = te.max(S[t, h, j, i] if queries_last else S[t, h, i, j], 0.0)
        return te.if_then_else(at <= i if causal else at < n, own, te.const(0, "float32"))

    o = te.placeholder((steps, 2, n, d), "float32", name="o")
    P = te.compute(
        (steps, 2, n, d),
        lambda t, h, i, e: te.sum(seen(t, h, i, b) * V[h, key(t, b), e], axis=b),
        name="P",
    )
    more = te.compute((steps, 2, n, d), lambda t, h, i, e: o[t - 1, h, i, e] + P[t, h, i, e])
    none = te.compute((1, 2, n, d), lambda *_: te.const(0, "float32"), name="none")
    O = te.scan(none, more, o, name="O")  # noqa: E741

    def last(i: Any) -> Any:
        end = (i // grain * grain + grain - 1) // block + 1
        return te.min(end, steps - 1) if causal else steps - 1

    Y = te.compute((2, n, d), lambda h, i, e: O[last(i), h, i, e] * 2.0, name="Y")
    return [Q, K, V], [Y]


def blocked_product_of_keys_last() -> Made:
    return blocked_product(queries_last=False)


def blocked_product_of_all() -> Made:
    return blocked_product(causal=False)


def product_of_sums(columns: int = 12) -> Made:
    """Sums so far, at most 50, times a matrix."""
    X = te.placeholder((85, 64), "int32", name="X")
    W = te.placeholder((64, columns), "int32", name="W")
    S = scan_of((85, 64), lambda i: X[0, i], lambda s, t, i: s + X[t, i], "int32")
    T = te.compute((85, 64), lambda t, i: te.min(S[t, i], 50), name="T")
    r = te.reduce_axis((0, 64), name="r")
    return [X, W], [te.compute((85, columns), lambda i, j: te.sum(T[i, r] * W[r, j], axis=r))]


def product_of_sums_with_a_column() -> Made:
    return product_of_sums(1)


def sums_reference(x: Any, w: Any) -> Any:
    return np.minimum(np.cumsum(x, axis=0, dtype=x.dtype), 50) @ w


def cell_reference(x: Any, w: Any) -> Any:
    h = np.array(x)
    for t in range(1, len(h)):
        h[t] += h[t - 1] @ w
    return h


def gated_reference(x: Any, w: Any) -> Any:
    h, c = np.zeros_like(x), np.zeros_like(x)
    for t in range(1, len(x)):
        r = np.maximum(h[t - 1] @ w[0], 0) - c[t - 1]
        h[t], c[t] = x[t] + r @ w[1], c[t - 1] + r
    return h, c


def blocked_reference(q: Any, k: Any, v: Any, causal: bool = True) -> Any:
    scores = np.maximum(q @ k.swapaxes(1, 2), 0)
    return 2 * ((np.tril(scores) if causal else scores) @ v)


def recurrence(a: Any, x: Any) -> Any:
    h = np.array(x)
    for t in range(1, len(h)):
        h[t] += a[t] * h[t - 1]
    return h


def fibonacci_reference(x: Any) -> Any:
    rows = list(x)
    for _ in range(10):
        rows.append(rows[-1] + rows[-2])
    return np.stack(rows)


def heat_reference(x: Any) -> Any:
    rows = [x]
    for _ in range(8):
        padded = np.pad(rows[-1], 1, mode="edge")
        rows.append(padded[:-2] + padded[2:])
    return np.stack(rows)


REFERENCES: dict[Callable[[], Made], Callable[..., Any]] = {
    column_sums: lambda x: np.cumsum(x, axis=0),
    sums_of_many_steps: lambda x: np.cumsum(x, axis=0),
    row_sums: lambda x: np.cumsum(x, axis=1),
    long_row_sums_of_squares: lambda x: np.cumsum(x * x, axis=1) + 1,
    vector_sums: lambda x: np.cumsum(x, dtype=x.dtype),
    exclusive_sums: lambda x: np.cumsum(x, axis=0) - x,
    row_maxima_so_far: lambda x: np.maximum.accumulate(x, axis=2),
    linear: lambda a, x: recurrence(-a, x),
    linear_along_rows: lambda a, x: recurrence(a.T, x.T).T,
    sums_in_the_middle: lambda x: np.cumsum(x, axis=1),
    sums_of_sums: lambda x: np.cumsum(np.cumsum(x, axis=0), axis=1),
    running_products: lambda x: np.cumprod(x, axis=0),
    fibonacci: fibonacci_reference,
    heat: heat_reference,
    cell_of_one_sequence: cell_reference,
    cell_of_a_batch: cell_reference,
    cell_with_transposed_weights: lambda x, w: cell_reference(x, w.T),
    last_state_of_a_cell: lambda x, w: 2 * cell_reference(x, w)[-1],
    gated_cell: gated_reference,
    product_of_sums: sums_reference,
    product_of_sums_with_a_column: sums_reference,
    blocked_product: blocked_reference,
    blocked_product_of_keys_last: blocked_reference,
    blocked_product_of_all: lambda q, k, v: blocked_reference(q, k, v, causal=False),
}


#: Those that are much like another one.
ALIKE = {
    product_of_sums, blocked_product_of_all, blocked_product_of_keys_last,
    cell_with_transposed_weights, long_row_sums_of_squares,
}  # fmt: skip


@pytest.mark.parametrize("made", slow_if(ALIKE.__contains__, REFERENCES), ids=lambda f: f.__name__)
def test_every_configuration_of_a_scan_is_right(made: Callable[[], Made]) -> None:
    task = Task(template_of(made), {}, Target("llvm"))
    inputs = small_integers(made()[0], most=1)
    assert_right(task, drawn(task), inputs, REFERENCES[made](*inputs))


@pytest.mark.parametrize(("units", "shared"), [(256, False), (1024, True)])
def test_weights_that_a_core_cannot_keep_are_divided_among_threads(
    units: int, shared: bool
) -> None:
    args = {"steps": 4, "batch": 1, "units": units}
    task = Task.from_reference("rnn_cell", args, "llvm -mcpu=skylake-avx512 -threads=2")
    values = dict(task.space.config(task.default_index).values)
    assert ("threads" in values and values["threads"] > 1) is shared


@pytest.mark.parametrize(
    ("length", "threads", "columns"),
    [(128, 2, 64), (197, 2, 208), (197, 64, 64)],
    ids=["parts alike", "none left over", "parts for many threads"],
)
def test_columns_are_divided_into_parts_that_are_alike_or_not_at_all(
    length: int, threads: int, columns: int
) -> None:
    sizes = {"b": 1, "heads": 12, "s": length, "d": 64}
    target = f"llvm -mcpu=skylake-avx512 -threads={threads}"
    task = Task.from_reference("attention", sizes, target)
    values = task.space.config(task.default_index).values
    assert values[f"step_columns_block{values['block']}"] == columns
