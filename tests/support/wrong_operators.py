"""Wrong kernels that are written out for an operator, such as one that sums in a narrow type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.operators.contractions.conv2d_nchw import reference as convolution
from support import checked_workloads as w
from support.wrong_ways import Array, Kernel, as_computed, write

# -- written out ---------------------------------------------------------------------------


def serial_sums(terms: Array, kind: str) -> Array:
    """Sum along the last axis, one term after another, in a type."""
    type_ = dtypes.numpy_dtype(kind)
    total = np.zeros(terms.shape[:-1], type_)
    with np.errstate(all="ignore"):
        for k in range(terms.shape[-1]):
            total = (total + terms[..., k].astype(type_)).astype(type_)
    return total


def products(a: Array, b: Array, kind: str) -> Array:
    """Return a[i, k] * b[k, j] as [i, j, k], rounded to a type."""
    type_ = dtypes.numpy_dtype(kind)
    with np.errstate(all="ignore"):
        return a.astype(type_)[:, None, :] * b.astype(type_).T[None, :, :]


def matmul_in(multiplied: str, summed: str) -> Kernel:
    """Multiply in a type and sum in another."""

    def kernel(a: Array, b: Array, c: Array) -> None:
        write([c], [serial_sums(products(a, b, multiplied), summed)])

    return kernel


def terms_of(part: Callable[[int], Any]) -> Kernel:
    """Sum some of the terms of a matrix product only."""

    def kernel(a: Array, b: Array, c: Array) -> None:
        some = part(a.shape[1])
        write([c], [as_computed(a)[:, some] @ as_computed(b)[some]])

    return kernel


HALF_TERMS = terms_of(lambda k: slice(0, k // 2))
NO_LAST = terms_of(lambda k: slice(0, k - 1))
NO_FIRST = terms_of(lambda k: slice(1, None))
EVERY_SECOND = terms_of(lambda k: slice(0, None, 2))


def transposed_b(a: Array, b: Array, c: Array) -> None:
    write([c], [as_computed(a) @ as_computed(b).T])


def transposed_out(a: Array, b: Array, c: Array) -> None:
    write([c], [(as_computed(a) @ as_computed(b)).T])


MATMUL: dict[str, Kernel] = {
    "half the terms": HALF_TERMS,
    "no last term": NO_LAST,
    "no first term": NO_FIRST,
    "every second term": EVERY_SECOND,
}
SQUARE: dict[str, Kernel] = {"B transposed": transposed_b, "C transposed": transposed_out}


def row_sums_in(kind: str) -> Kernel:
    """Sum rows in a type."""
    return lambda a, y: write([y], [serial_sums(a, kind)])


def half_a_row(a: Array, y: Array) -> None:
    write([y], [as_computed(a)[:, : a.shape[1] // 2].sum(axis=1)])


def scan_in(kind: str, axis: int) -> Kernel:
    """Sums so far, in a type."""

    def kernel(x: Array, y: Array) -> None:
        type_ = dtypes.numpy_dtype(kind)
        with np.errstate(all="ignore"):
            y[...] = np.cumsum(x.astype(type_), axis=axis, dtype=type_).astype(y.dtype)

    return kernel


def no_scan(x: Array, y: Array) -> None:
    y[...] = x


def restarting(length: int, axis: int) -> Kernel:
    """Forget what was before each block of steps."""

    def kernel(x: Array, y: Array) -> None:
        x, y = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
        for begin in range(0, len(x), length):
            y[begin : begin + length] = np.cumsum(x[begin : begin + length], axis=0, dtype=x.dtype)

    return kernel


def recurrence(of: Callable[[Array, Array, Array], Array]) -> Kernel:
    """h[t] = of(a[t], h[t - 1], x[t])."""

    def kernel(a: Array, x: Array, h: Array) -> None:
        h[0] = x[0]
        with np.errstate(all="ignore"):
            for t in range(1, len(x)):
                h[t] = of(a[t], h[t - 1], x[t])

    return kernel


def softmax_by(of: Callable[[Array], Array]) -> Kernel:
    """Write a function of the rows in float32 or float64."""

    def kernel(x: Array, y: Array) -> None:
        with np.errstate(all="ignore"):
            write([y], [of(as_computed(x))])

    return kernel


def _exps(x: Array) -> Array:
    return np.exp(x - x.max(axis=1, keepdims=True))


def _softmax(e: Array, total: Array | None = None) -> Array:
    return e / (e if total is None else total).sum(axis=1, keepdims=True)


SOFTMAX: dict[str, Kernel] = {
    "no maximum": softmax_by(lambda x: _softmax(np.exp(x))),
    "maximum of all rows": softmax_by(lambda x: _softmax(np.exp(x - x.max()))),
    "not divided": softmax_by(_exps),
    "sum without the last": softmax_by(lambda x: _softmax(_exps(x), _exps(x)[:, :-1])),
    "sum of half": softmax_by(lambda x: _softmax(_exps(x), _exps(x)[:, : x.shape[1] // 2])),
    "along columns": softmax_by(lambda x: (np.exp(x) / np.exp(x).sum(axis=0))),
    "exp2": softmax_by(lambda x: _softmax(np.exp2(x - x.max(axis=1, keepdims=True)))),
    "maximum without the last": softmax_by(
        lambda x: _softmax(np.exp(x - x[:, :-1].max(axis=1, keepdims=True)))
    ),
    "sum in half": softmax_by(
        lambda x: _exps(x) / serial_sums(_exps(x), "float16").astype(x.dtype)[:, None]
    ),
    "sum in bfloat16": softmax_by(
        lambda x: _exps(x) / serial_sums(_exps(x), "bfloat16").astype(x.dtype)[:, None]
    ),
}


def conv_by(change: Callable[[Array, Array], tuple[Array, Array]], **fixed: int) -> Kernel:
    """Convolve changed data and weights."""
    def kernel(d: Array, f: Array, o: Array) -> None:
        data, weights = change(as_computed(d).copy(), as_computed(f).copy())
        write([o], [convolution(data, weights, **fixed)])

    return kernel


def _edge_padded(d: Array, f: Array, o: Array) -> None:
    padded = np.pad(as_computed(d), ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    write([o], [convolution(padded, as_computed(f))])


def _no_last_channel(d: Array, f: Array) -> tuple[Array, Array]:
    d[:, -1] = 0
    return d, f


def _no_last_column(d: Array, f: Array) -> tuple[Array, Array]:
    f[..., -1] = 0
    return d, f


CONV: dict[str, Kernel] = {
    "edges repeated": _edge_padded,
    "flipped weights": conv_by(lambda d, f: (d, f[..., ::-1, ::-1]), pad=1),
    "transposed weights": conv_by(lambda d, f: (d, f.swapaxes(2, 3)), pad=1),
    "no last channel": conv_by(_no_last_channel, pad=1),
    "no last column of weights": conv_by(_no_last_column, pad=1),
    "shifted": conv_by(lambda d, f: (np.roll(d, 1, axis=3), f), pad=1),
}


def rnn_by(
    of: Callable[[Array, Array, Array, int], Array],
) -> Kernel:
    """h[t] = of(x[t], h, u, t)."""

    def kernel(x: Array, u: Array, h: Array) -> None:
        h[0] = 0
        with np.errstate(all="ignore"):
            for t in range(1, len(x)):
                h[t] = of(x[t, 0], h, u[0], t)

    return kernel


RNN: dict[str, Kernel] = {
    "no recurrence": rnn_by(lambda x, h, u, t: np.tanh(x)),
    "state of two steps before": rnn_by(lambda x, h, u, t: np.tanh(x + h[max(t - 2, 0)] @ u)),
    "weights transposed": rnn_by(lambda x, h, u, t: np.tanh(x + h[t - 1] @ u.T)),
    "no tanh": rnn_by(lambda x, h, u, t: x + h[t - 1] @ u),
    "clipped for tanh": rnn_by(lambda x, h, u, t: np.clip(x + h[t - 1] @ u, -1, 1)),
    "no last unit": rnn_by(lambda x, h, u, t: np.tanh(x + h[t - 1][:, :-1] @ u[:-1])),
    "cubic tanh": rnn_by(lambda x, h, u, t: _pade(x + h[t - 1] @ u)),
}


def _pade(x: Array) -> Array:
    return np.clip(x * (27 + x * x) / (27 + 9 * x * x), -1, 1)


def lstm_by(**change: Any) -> Kernel:
    """An LSTM in which a part is something else."""

    def kernel(x: Array, u: Array, h: Array, c: Array) -> None:
        h[0] = c[0] = 0
        for t in range(1, len(x)):
            gates = x[t] + (0 if change.get("memoryless") else h[t - 1] @ u)
            i, o, f, g = gates[list(change.get("order", (0, 1, 2, 3)))]
            i, f, o = w.sigmoid(i), w.sigmoid(f), w.sigmoid(o)
            kept = 0 if change.get("forgets") else f * c[t - 1]
            c[t] = kept + i * (g if change.get("linear") else np.tanh(g))
            h[t] = o * (c[t] if change.get("no_tanh") else np.tanh(c[t]))

    return kernel


LSTM: dict[str, Kernel] = {
    "no product with the state": lstm_by(memoryless=True),
    "forgets": lstm_by(forgets=True),
    "gates exchanged": lstm_by(order=(1, 0, 2, 3)),
    "gates in another order": lstm_by(order=(0, 1, 3, 2)),
    "no tanh of the candidate": lstm_by(linear=True),
    "no tanh of the state": lstm_by(no_tanh=True),
}


def norm_by(of: Callable[[Array, Array, Array], Array]) -> Kernel:
    """Write a function in float32 or float64."""
    return lambda x, g, b, y: write([y], [of(*map(as_computed, (x, g, b)))])


def _centred(x: Array) -> Array:
    return x - x.mean(axis=1, keepdims=True)


def _deviation(x: Array, ddof: int = 0, eps: float = 1e-5) -> Array:
    return np.sqrt(x.var(axis=1, keepdims=True, ddof=ddof) + x.dtype.type(eps))


NORM: dict[str, Kernel] = {
    "not centred": norm_by(lambda x, g, b: x / _deviation(x) * g + b),
    "not scaled": norm_by(lambda x, g, b: _centred(x) * g + b),
    "n - 1": norm_by(lambda x, g, b: _centred(x) / _deviation(x, 1) * g + b),
    "another epsilon": norm_by(lambda x, g, b: _centred(x) / _deviation(x, eps=1e-3) * g + b),
    "no offset": norm_by(lambda x, g, b: _centred(x) / _deviation(x) * g),
    "no weights": norm_by(lambda x, g, b: _centred(x) / _deviation(x) + b),
    "mean in half": norm_by(
        lambda x, g, b: (x - serial_sums(x, "float16").astype(x.dtype)[:, None] / x.shape[1])
        / _deviation(x) * g + b
    ),
}


def gather_wrong(shift: int) -> Kernel:
    return lambda t, i, c: write([c], [t[(i + shift) % len(t)]])


def wrapping(kind: str) -> Kernel:
    """Multiply and add in an integer type."""
    type_ = np.dtype(kind)
    return lambda a, b, c: write([c], [(a.astype(type_) * b.astype(type_)) + a.astype(type_)])


def saturating(a: Array, b: Array, c: Array) -> None:
    exact = a.astype(object) * b.astype(object) + a.astype(object)
    info = np.iinfo(c.dtype)
    c[...] = np.clip(exact, info.min, info.max).astype(c.dtype)


def through_float(kind: str) -> Kernel:
    def kernel(a: Array, b: Array, c: Array) -> None:
        with np.errstate(all="ignore"):
            found = a.astype(kind) * b.astype(kind) + a.astype(kind)
            c[...] = np.nan_to_num(found).astype(np.int64).astype(c.dtype)

    return kernel


def towards_zero(a: Array, b: Array, c: Array) -> None:
    c[...] = np.trunc(a / b).astype(c.dtype)
