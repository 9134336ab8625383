"""What NumPy offers for each operator of the corpus: the calls that `corpus.py` times.

A function takes the arguments of a workload, its input arrays and its output arrays. It returns a
call that fills the outputs. Memory for steps in between is allocated beforehand, and only the call
is timed. An operator that NumPy has no function for has no entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Args = Mapping[str, Any]
Arrays = Sequence[Array]
Call = Callable[[], object]


def numpy_call(operator: str, args: Args, inputs: Arrays, outputs: Arrays) -> Call | None:
    """Return a call that computes an operator with NumPy; None if NumPy lacks it."""
    make = _CALLS.get(operator)
    return None if make is None else make(args, inputs, outputs)


# -- products ----------------------------------------------------------------------------------


def _turned(array: Array, transposed: bool) -> Array:
    """Return the array with its last two dimensions swapped, if it is given transposed."""
    return array.swapaxes(-1, -2) if transposed else array


def _matmul(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    a, b = (
        _turned(array, args.get(f"transpose_{name}", False))
        for array, name in zip(inputs, "ab", strict=True)
    )
    (c,) = outputs
    if c.dtype != a.dtype:
        return lambda: np.matmul(a, b, out=c, dtype=c.dtype)
    return lambda: np.matmul(a, b, out=c)


def _dense(args: Args, inputs: Arrays, outputs: Arrays) -> Call | None:
    x, w, *bias = inputs
    (y,) = outputs
    activation = args.get("activation") or "none"
    if activation not in ("none", "relu", "tanh"):  # NumPy has no erf
        return None

    def call() -> None:
        np.matmul(x, w, out=y)
        if bias:
            np.add(y, bias[0], out=y)
        if activation == "relu":
            np.maximum(y, 0, out=y)
        if activation == "tanh":
            np.tanh(y, out=y)

    return call


# -- windows -----------------------------------------------------------------------------------


def _padded(data: Array, pad: int, axes: tuple[int, int], value: float = 0.0) -> tuple[Array, Call]:
    """Return an array with a border of a value, and a call that copies the data into it."""
    if pad == 0:
        return data, lambda: None
    shape = list(data.shape)
    inner = [slice(None)] * data.ndim
    for axis in axes:
        shape[axis] += 2 * pad
        inner[axis] = slice(pad, -pad)
    whole = np.full(shape, value, data.dtype)
    middle = whole[tuple(inner)]
    return whole, lambda: np.copyto(middle, data)


def _windows(
    whole: Array, kernel: tuple[int, int], stride: int, dilation: int, axes: tuple[int, int]
) -> Array:
    """Return a view of all windows, with the two dimensions of the kernel at the end."""
    extents = [dilation * (size - 1) + 1 for size in kernel]
    view = np.lib.stride_tricks.sliding_window_view(whole, extents, axis=axes)
    steps = [slice(None)] * whole.ndim
    for axis in axes:
        steps[axis] = slice(None, None, stride)
    return view[(*steps, slice(None, None, dilation), slice(None, None, dilation))]


def _conv2d_nchw(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    data, weight = inputs
    (out,) = outputs
    stride, pad = args.get("stride", 1), args.get("pad", 0)
    groups, dilation = args.get("groups", 1), args.get("dilation", 1)
    o, cg, kh, kw = weight.shape
    n, c, _, _ = data.shape
    oh, ow = out.shape[2:]
    whole, fill = _padded(data, pad, (2, 3))
    windows = _windows(whole, (kh, kw), stride, dilation, (2, 3))  # (n, c, oh, ow, kh, kw)
    if cg == 1 and o == c:  # no sum over channels: one pass for each element of the kernel
        taps = [(windows[..., y, x], weight[:, 0, y, x, None, None])
                for y in range(kh) for x in range(kw)]  # fmt: skip
        return _sum_of_products(fill, taps, out)
    columns = np.empty((n, c, kh, kw, oh, ow), data.dtype)
    unfolded = windows.transpose(0, 1, 4, 5, 2, 3)
    plain = kh == kw == stride == 1 and pad == 0
    b = (data if plain else columns).reshape(n, groups, cg * kh * kw, oh * ow)
    a = weight.reshape(groups, o // groups, cg * kh * kw)
    product = out.reshape(n, groups, o // groups, oh * ow)

    def call() -> None:
        if not plain:
            fill()
            np.copyto(columns, unfolded)
        np.matmul(a, b, out=product)

    return call


def _conv2d_nhwc(args: Args, inputs: Arrays, outputs: Arrays) -> Call | None:
    data, weight = inputs  # weight: (kh, kw, c, o)
    (out,) = outputs
    if args.get("groups", 1) != 1:
        return None
    kh, kw, c, o = weight.shape
    n, oh, ow, _ = out.shape
    whole, fill = _padded(data, args.get("pad", 0), (1, 2))
    sizes = args.get("stride", 1), args.get("dilation", 1)
    windows = _windows(whole, (kh, kw), *sizes, (1, 2))  # (n, oh, ow, c, kh, kw)
    unfolded = windows.transpose(0, 1, 2, 4, 5, 3)
    columns = np.empty((n, oh, ow, kh, kw, c), data.dtype)
    a, b = columns.reshape(-1, kh * kw * c), weight.reshape(-1, o)
    product = out.reshape(-1, o)

    def call() -> None:
        fill()
        np.copyto(columns, unfolded)
        np.matmul(a, b, out=product)

    return call


def _sum_of_products(fill: Call, pairs: Sequence[tuple[Array, Array]], out: Array) -> Call:
    """Return a call that adds up the products of pairs, one after the other."""
    product = np.empty_like(out)

    def call() -> None:
        fill()
        np.multiply(*pairs[0], out=out)
        for a, b in pairs[1:]:
            np.multiply(a, b, out=product)
            np.add(out, product, out=out)

    return call


def _pool2d(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    (data,), (out,) = inputs, outputs
    kernel, stride, pad = args["kernel"], args.get("stride", 1), args.get("pad", 0)
    largest = args.get("how", "max") == "max"
    whole, fill = _padded(data, pad, (2, 3), -math.inf if largest else 0.0)
    windows = _windows(whole, (kernel, kernel), stride, 1, (2, 3))
    taps = [windows[..., y, x] for y in range(kernel) for x in range(kernel)]
    combine = np.maximum if largest else np.add
    # The border does not count in a mean, as in ONNX.
    inside, _ = _padded(np.ones(data.shape[2:], data.dtype), pad, (0, 1))
    if pad:
        inside[pad:-pad, pad:-pad] = 1
    counts = _windows(inside, (kernel, kernel), stride, 1, (0, 1)).sum(axis=(2, 3))

    def call() -> None:
        fill()
        np.copyto(out, taps[0])
        for tap in taps[1:]:
            combine(out, tap, out=out)
        if not largest:
            np.divide(out, counts, out=out)

    return call


# -- rows --------------------------------------------------------------------------------------


def _softmax_into(x: Array, out: Array) -> None:
    np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=-1, keepdims=True), out=out)


def _softmax(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    (x,), (y,) = inputs, outputs
    return lambda: _softmax_into(x, y)


def _layer_norm(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    x, gamma, beta = inputs
    (y,) = outputs
    eps = x.dtype.type(args.get("eps", 1e-5))
    square = np.empty_like(y)

    def call() -> None:
        np.subtract(x, x.mean(axis=1, keepdims=True), out=y)
        np.multiply(y, y, out=square)
        np.divide(y, np.sqrt(square.mean(axis=1, keepdims=True) + eps), out=y)
        np.multiply(y, gamma, out=y)
        np.add(y, beta, out=y)

    return call


def _rms_norm(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    x, gamma = inputs
    (y,) = outputs
    eps = x.dtype.type(args.get("eps", 1e-5))

    def call() -> None:
        np.multiply(x, x, out=y)
        scale = np.sqrt(y.mean(axis=1, keepdims=True) + eps)
        np.divide(x, scale, out=y)
        np.multiply(y, gamma, out=y)

    return call


def _reduce(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    (x,), (y,) = inputs, outputs
    functions: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}
    function = functions[args["how"]]
    kept = y.ndim == x.ndim
    return lambda: function(x, axis=args["axis"], out=y, keepdims=kept)


# -- elements ----------------------------------------------------------------------------------


def _transpose(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    (x,), (y,) = inputs, outputs
    turned = x.T
    return lambda: np.copyto(y, turned)


def _broadcast_add(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    a, b = inputs
    (c,) = outputs
    return lambda: np.add(a, b, out=c)


# -- steps -------------------------------------------------------------------------------------


def _cumsum(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    (x,), (y,) = inputs, outputs
    return lambda: np.cumsum(x, axis=args.get("axis", 0), out=y)


def _linear_recurrence(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    a, x = inputs
    (h,) = outputs

    def call() -> None:
        h[0] = x[0]
        for t in range(1, len(x)):
            np.multiply(a[t], h[t - 1], out=h[t])
            np.add(h[t], x[t], out=h[t])

    return call


def _sigmoid_into(x: Array) -> None:
    np.negative(x, out=x)
    np.exp(x, out=x)
    np.add(x, 1, out=x)
    np.reciprocal(x, out=x)


def _rnn_cell(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    x, u = inputs
    (h,) = outputs

    def call() -> None:
        h[0] = 0
        for t in range(1, len(x)):
            np.matmul(h[t - 1], u[0], out=h[t])
            np.add(h[t], x[t, 0], out=h[t])
            np.tanh(h[t], out=h[t])

    return call


def _lstm_cell(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    x, u = inputs
    h, c = outputs
    gates = np.empty_like(x[0])
    enters, leaves, stays, given = gates

    def call() -> None:
        h[0] = c[0] = 0
        for t in range(1, len(x)):
            np.matmul(h[t - 1], u, out=gates)
            np.add(gates, x[t], out=gates)
            np.tanh(given, out=given)
            for gate in (enters, stays, leaves):
                _sigmoid_into(gate)
            np.multiply(enters, given, out=given)
            np.multiply(stays, c[t - 1], out=c[t])
            np.add(c[t], given, out=c[t])
            np.tanh(c[t], out=h[t])
            np.multiply(h[t], leaves, out=h[t])

    return call


# -- attention ---------------------------------------------------------------------------------


def _attention(args: Args, inputs: Arrays, outputs: Arrays) -> Call:
    q, k, v = inputs
    (out,) = outputs
    keys = k.swapaxes(-1, -2)
    scores = np.empty((*q.shape[:-1], k.shape[-2]), q.dtype)
    scale = q.dtype.type(1.0 / math.sqrt(q.shape[-1]))
    hidden = np.triu(np.full(scores.shape[-2:], -np.inf, q.dtype), 1)

    def call() -> None:
        np.matmul(q, keys, out=scores)
        np.multiply(scores, scale, out=scores)
        if args.get("causal", False):
            np.add(scores, hidden, out=scores)
        _softmax_into(scores, scores)
        np.matmul(scores, v, out=out)

    return call


_CALLS: dict[str, Callable[[Args, Arrays, Arrays], Call | None]] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "dense": _dense,
    "conv2d_nchw": _conv2d_nchw,
    "conv2d_nhwc": _conv2d_nhwc,
    "pool2d": _pool2d,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "reduce": _reduce,
    "transpose": _transpose,
    "broadcast_add": _broadcast_add,
    "cumsum": _cumsum,
    "linear_recurrence": _linear_recurrence,
    "rnn_cell": _rnn_cell,
    "lstm_cell": _lstm_cell,
    "attention": _attention,
}
