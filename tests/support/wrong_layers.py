"""Wrong kernels of layers: products in batches, activations, images, norms, attention, cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.operators.contractions.attention import reference as attention
from autotune.operators.contractions.conv2d_nhwc import reference as convolution
from autotune.operators.elements import gelu_reference as gelu
from autotune.operators.reductions.pool2d import reference as pool
from support import checked_workloads as w
from support.wrong_operators import lstm_by, recurrence, rnn_by, serial_sums
from support.wrong_ways import Array, Kernel, as_computed, rounded_to, write


def by(of: Callable[..., Array]) -> Kernel:
    """Write what a function returns for the inputs, halves in float32."""

    def kernel(*arrays: Array) -> None:
        with np.errstate(all="ignore"):
            write(arrays[-1:], [of(*(as_computed(a).copy() for a in arrays[:-1]))])

    return kernel


def spoiled(of: Callable[..., Array], change: Callable[[Array], Any]) -> Kernel:
    """Change the right answer in place."""

    def wrong(*inputs: Array) -> Array:
        found = np.array(of(*inputs))
        change(found)
        return found

    return by(wrong)


def noisy(a: Array, share: float = 2.0**-12) -> Array:
    """Return values of which every second one is larger by a share, as of fast approximations."""
    return np.asarray(a * (1 + share * (np.arange(a.size).reshape(a.shape) % 2)).astype(a.dtype))


def ten_bits(a: Array) -> Array:
    """Return floats with ten bits of mantissa: TF32."""
    bits = a.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(a.dtype)


# -- products ------------------------------------------------------------------------------


def _last_term(a: Array, b: Array) -> Array:
    """Return the last of the terms that each product sums."""
    return a[..., -1:] * b[..., -1:, :]


def one_missing(i: int, k: int, j: int) -> Kernel:
    """Leave one term out of the sum of one element."""

    def product(a: Array, b: Array) -> Array:
        c = a @ b
        row = a[i].copy()
        row[k] = 0
        c[i, j] = row @ b[:, j]
        return c

    return by(product)


def _last_row(factor: float) -> Callable[[Array], None]:
    def change(c: Array) -> None:
        c[-1] *= c.dtype.type(factor)

    return change


def _corner(factor: float) -> Callable[[Array], None]:
    def change(c: Array) -> None:
        c[(-1,) * c.ndim] *= c.dtype.type(factor)

    return change


def _copied_column(c: Array) -> None:
    c[..., -1] = c[..., -2]


PRODUCTS: dict[str, Kernel] = {
    "last term twice": by(lambda a, b: a @ b + _last_term(a, b)),
    "last column copied": spoiled(np.matmul, _copied_column),
}
SINGLE: dict[str, Kernel] = {
    "last row 1e-3": spoiled(np.matmul, _last_row(1.001)),
    "last row 1e-4": spoiled(np.matmul, _last_row(0.9999)),
    "last element 1e-3": spoiled(np.matmul, _corner(1.001)),
    "last element 1e-4": spoiled(np.matmul, _corner(1.0001)),
    "ten bits": by(lambda a, b: ten_bits(a) @ ten_bits(b)),
}
BATCHES: dict[str, Kernel] = {
    "the first B for all": by(lambda a, b: a @ b[:1]),
    "B of the next batch": by(lambda a, b: a @ np.roll(b, -1, axis=0)),
    "last batch without its last term": by(
        lambda a, b: a @ b - _last_term(a, b) * (np.arange(len(a)) == len(a) - 1)[:, None, None]
    ),
}


def in_blocks(a: Array, b: Array, kind: str) -> Array:
    """Sum eight terms at a time in a narrow type, and the blocks in float32."""
    terms = (a[:, None, :] * b.T[None, :, :]).reshape(len(a), b.shape[1], -1, 8)
    return np.asarray(serial_sums(terms, kind).astype(np.float32).sum(axis=2))


TRANSPOSED: dict[str, Kernel] = {
    "A not transposed": by(lambda a, b: a @ b.T),
    "B not transposed": by(lambda a, b: a.T @ b),
    "neither": by(lambda a, b: a @ b),
    "result transposed": by(lambda a, b: b @ a),
}


def gelu_by_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def quick_gelu(x: Array) -> Array:
    return x * w.sigmoid(1.702 * x)


def _leaky(x: Array) -> Array:
    return np.maximum(x, x * x.dtype.type(0.01))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


DENSE: dict[str, Kernel] = {
    "no bias": by(lambda x, w, b: _relu(x @ w)),
    "bias after relu": by(lambda x, w, b: _relu(x @ w) + b),
    "no relu": by(lambda x, w, b: x @ w + b),
    "leaky relu": by(lambda x, w, b: _leaky(x @ w + b)),
    "relu up to 6": by(lambda x, w, b: np.minimum(_relu(x @ w + b), 6)),
    "bias along rows": by(lambda x, w, b: _relu(x @ w + b[:, None])),
    "bias twice": by(lambda x, w, b: _relu(x @ w + 2 * b)),
    "no last term": by(lambda x, w, b: _relu(x[:, :-1] @ w[:-1] + b)),
}
DENSE_GELU: dict[str, Kernel] = {
    "tanh for erf": by(lambda x, w, b: gelu_by_tanh(x @ w + b)),
    "sigmoid for erf": by(lambda x, w, b: quick_gelu(x @ w + b)),
    "relu for gelu": by(lambda x, w, b: _relu(x @ w + b)),
    "bias after gelu": by(lambda x, w, b: gelu(x @ w) + b),
    "last row 1e-3": spoiled(lambda x, w, b: gelu(x @ w + b), _last_row(1.001)),
    "last row 1e-4": spoiled(lambda x, w, b: gelu(x @ w + b), _last_row(1.0001)),
}
BIAS_GELU: dict[str, Kernel] = {
    "tanh for erf": by(lambda x, b: gelu_by_tanh(x + b)),
    "sigmoid for erf": by(lambda x, b: quick_gelu(x + b)),
    "bias after gelu": by(lambda x, b: gelu(x) + b),
    "no bias": by(lambda x, b: gelu(x)),
    "relu for gelu": by(lambda x, b: _relu(x + b)),
    "negative ones are 0": by(lambda x, b: np.where(x + b < -2, 0, gelu(x + b))),
    "large ones are themselves": by(lambda x, b: np.where(x + b > 1.5, x + b, gelu(x + b))),
    "erf of 12 bits": by(lambda x, b: noisy(gelu(x + b))),
}

# -- images --------------------------------------------------------------------------------


def _convolved(change: Callable[[Array, Array], tuple[Array, Array]], **args: int) -> Kernel:
    return by(lambda d, f: convolution(*change(d, f), **args))


GROUPED = {"stride": 2, "pad": 2, "groups": 2, "dilation": 2}
CONV_NHWC: dict[str, Kernel] = {
    "groups exchanged": _convolved(
        lambda d, f: (np.roll(d, d.shape[3] // 2, axis=3), f), **GROUPED
    ),
    "weights of the next channel": _convolved(lambda d, f: (d, np.roll(f, 1, axis=3)), **GROUPED),
    "first group for both": _convolved(
        lambda d, f: (np.concatenate([d[..., : d.shape[3] // 2]] * 2, axis=3), f), **GROUPED
    ),
    "not dilated": by(lambda d, f: convolution(d, f, **{**GROUPED, "dilation": 1, "pad": 1})),
    "a row too late": _convolved(lambda d, f: (np.roll(d, -1, axis=1), f), **GROUPED),
    "images exchanged": _convolved(lambda d, f: (d[::-1], f), **GROUPED),
    "rows and columns of weights exchanged": _convolved(
        lambda d, f: (d, f.swapaxes(0, 1)), **GROUPED
    ),
    "last row of weights missing": _convolved(
        lambda d, f: (d, np.concatenate([f[:-1], 0 * f[-1:]])), **GROUPED
    ),
}

WINDOW = {"kernel": 3, "stride": 2, "pad": 1}


def _windows(d: Array, value: float) -> Array:
    padded = np.pad(d, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=value)
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]


MAX_POOL: dict[str, Kernel] = {
    "0 in the margin": by(lambda d: _windows(d, 0).max(axis=(4, 5))),
    "no last column of windows": by(lambda d: _windows(d, -np.inf)[..., :-1].max(axis=(4, 5))),
    "magnitudes": by(lambda d: pool(abs(d), how="max", **WINDOW)),
    "least": by(lambda d: -pool(-d, how="max", **WINDOW)),
    "channels exchanged": by(lambda d: pool(d[:, ::-1], how="max", **WINDOW)),
    "at least 0": by(lambda d: np.maximum(pool(d, how="max", **WINDOW), 0)),
    "corner of windows": by(lambda d: _windows(d, 0)[..., 1, 1]),
}
MEAN_POOL: dict[str, Kernel] = {
    "the margin counts": by(lambda d: _windows(d, 0).mean(axis=(4, 5))),
    "sums": by(lambda d: _windows(d, 0).sum(axis=(4, 5))),
    "8 of 9": by(lambda d: pool(d, how="mean", **WINDOW) * d.dtype.type(8 / 9)),
    # At least two units in the last place of bfloat16, which itself may be off by one.
    "corner 2e-2": spoiled(lambda d: pool(d, how="mean", **WINDOW), _corner(1.02)),
}

# -- rows ----------------------------------------------------------------------------------


def _rms(x: Array, eps: float = 1e-5) -> Array:
    return np.sqrt((x * x).mean(axis=1, keepdims=True) + x.dtype.type(eps))


RMS: dict[str, Kernel] = {
    "centred": by(lambda x, g: x / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * g),
    "no weights": by(lambda x, g: x / _rms(x)),
    "weights and 1": by(lambda x, g: x / _rms(x) * (1 + g)),
    "another epsilon": by(lambda x, g: x / _rms(x, 1e-2) * g),
    "mean of magnitudes": by(lambda x, g: x / abs(x).mean(axis=1, keepdims=True) * g),
    "half a row": by(lambda x, g: x / _rms(x[:, : x.shape[1] // 2]) * g),
    "all rows": by(lambda x, g: x / np.sqrt((x * x).mean() + 1e-5) * g),
    "no root": by(lambda x, g: x / _rms(x) ** 2 * g),
    "no last element": by(lambda x, g: x / _rms(x * (np.arange(x.shape[1]) < x.shape[1] - 1)) * g),
}
RMS_SINGLE: dict[str, Kernel] = {
    "root of 12 bits": by(lambda x, g: x / noisy(_rms(x)) * g),
    "squares in bfloat16": by(
        lambda x, g: x * g
        / np.sqrt(serial_sums(x * x, "bfloat16").astype(x.dtype)[:, None] / x.shape[1] + 1e-5)
    ),
    "last row 1e-4": spoiled(lambda x, g: x / _rms(x) * g, _last_row(1.0001)),
}


def _blocks_of_softmax(x: Array) -> Array:
    """Return a softmax of two blocks whose sums are not brought to one maximum."""
    blocks = np.array_split(x, 2, axis=1)
    exps = [np.exp(b - b.max(axis=1, keepdims=True)) for b in blocks]
    return np.concatenate(exps, axis=1) / sum(e.sum(axis=1, keepdims=True) for e in exps)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


SOFTMAX: dict[str, Kernel] = {
    "blocks not rescaled": by(_blocks_of_softmax),
    "logarithms": by(lambda x: np.log(_softmax(x))),
    "of twice the values": by(lambda x: _softmax(2 * x)),
    "sums of the row before": by(
        lambda x: np.exp(x - x.max(axis=1, keepdims=True))
        / np.roll(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True), 1, axis=0)
    ),
    "exp by its series": by(
        lambda x: (lambda e: e / e.sum(axis=1, keepdims=True))(
            1 + (x - x.max(axis=1, keepdims=True)) + (x - x.max(axis=1, keepdims=True)) ** 2 / 2
        )
    ),
}
SOFTMAX_SINGLE: dict[str, Kernel] = {
    "exp of 12 bits": by(lambda x: noisy(_softmax(x))),
    "last element 1e-3": spoiled(_softmax, _corner(1.001)),
    "last row 1e-4": spoiled(_softmax, _last_row(1.0001)),
}

MEANS: dict[str, Kernel] = {
    "of one fewer": by(lambda a: a.sum(axis=0) / (len(a) - 1)),
    "sums": by(lambda a: a.sum(axis=0)),
    "no last row": by(lambda a: a[:-1].sum(axis=0) / len(a)),
    "every second row": by(lambda a: a[::2].mean(axis=0)),
    "of all": by(lambda a: np.full(a.shape[1], a.mean(), a.dtype)),
    "middle": by(lambda a: np.median(a, axis=0)),
}
MOST: dict[str, Kernel] = {
    "at least 0": by(lambda a: np.maximum(a.max(axis=0), 0)),
    "no last row": by(lambda a: a[:-1].max(axis=0)),
    "of magnitudes": by(lambda a: abs(a).max(axis=0)),
    "the first": by(lambda a: a[0]),
    "of all": by(lambda a: np.full(a.shape[1], a.max(), a.dtype)),
}

# -- attention -----------------------------------------------------------------------------


def attended(
    causal: bool,
    scale: Callable[[int], float] = lambda d: 1 / math.sqrt(d),
    seen: int = 0,
    change: Callable[[Array, Array, Array], tuple[Array, Array, Array]] = lambda *qkv: qkv,
    weigh: Callable[[Array], Array] | None = None,
    total: Callable[[Array], Array] = lambda e: e.sum(axis=3, keepdims=True),
) -> Kernel:
    """Attention in which a part is something else."""

    def of(*inputs: Array) -> Array:
        q, k, v = change(*inputs)
        scores = q @ k.swapaxes(2, 3) * q.dtype.type(scale(q.shape[3]))
        if causal:
            scores = np.where(np.tri(q.shape[2], k=seen, dtype=bool), scores, -np.inf)
        top = scores.max(axis=3, keepdims=True)
        e = np.exp(scores - top) if weigh is None else weigh(scores - top)
        return np.asarray(e / total(e) @ v)

    return by(of)


def _without_last_key(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    return q, k[:, :, :-1], v[:, :, :-1]


def attentions(causal: bool) -> dict[str, Kernel]:
    """Return wrong kernels of attention."""
    found: dict[str, Kernel] = {
        "not scaled": attended(causal, scale=lambda d: 1),
        "divided by d": attended(causal, scale=lambda d: 1 / d),
        "keys of another head": attended(
            causal, change=lambda q, k, v: (q, np.roll(k, 1, axis=1), v)
        ),
        "values of another head": attended(
            causal, change=lambda q, k, v: (q, k, np.roll(v, 1, axis=1))
        ),
        "queries exchanged": attended(causal, change=lambda q, k, v: (q[:, :, ::-1], k, v)),
        "no last element of heads": attended(
            causal, change=lambda q, k, v: (q[..., :-1], k[..., :-1], v),
            scale=lambda d: 1 / math.sqrt(d + 1),
        ),
        "exp2": attended(causal, weigh=np.exp2),
        "not divided": attended(causal, total=lambda e: np.ones_like(e[..., :1])),
        "divided by the number of keys": attended(
            causal, total=lambda e: np.full_like(e[..., :1], e.shape[3])
        ),
        "sum without the first key": attended(
            causal, total=lambda e: e[..., 1:].sum(axis=3, keepdims=True)
        ),
        "means of values": attended(causal, weigh=lambda x: (x > -np.inf).astype(x.dtype)),
    }
    if causal:
        found |= {
            "sees the next key": attended(True, seen=1),
            "does not see its own key": attended(True, seen=-1),
            "sees all keys": by(lambda q, k, v: attention(q, k, v, causal=False)),
        }
    else:
        found |= {
            "no last key": attended(False, change=_without_last_key),
            "sees no later key": by(lambda q, k, v: attention(q, k, v, causal=True)),
        }
    return found


ATTENTION_SINGLE: dict[str, Kernel] = {
    "weights in bfloat16": attended(False, weigh=lambda x: rounded_to("bfloat16")(np.exp(x))),
    "scores in half": attended(False, weigh=lambda x: np.exp(rounded_to("float16")(x))),
    "exp of 12 bits": attended(False, weigh=lambda x: noisy(np.exp(x))),
    "last row 1e-3": spoiled(lambda *qkv: attention(*qkv, causal=False), _last_row(1.001)),
    "last element 1e-3": spoiled(lambda *qkv: attention(*qkv, causal=False), _corner(1.001)),
}

# -- scans and cells -----------------------------------------------------------------------


def _carry_lost(x: Array) -> Array:
    """Sums so far whose blocks of eight rows lose what came before the last block."""
    blocks = [np.cumsum(part, axis=0) for part in np.split(x, range(8, len(x), 8))]
    for n in range(len(blocks) - 1, 0, -1):
        blocks[n] = blocks[n] + blocks[n - 1][-1]
    return np.concatenate(blocks)


SCAN: dict[str, Kernel] = {
    "without their own": by(lambda x: np.cumsum(x, axis=0) - x),
    "from the end": by(lambda x: np.cumsum(x[::-1], axis=0)[::-1]),
    "carry of one block only": by(_carry_lost),
    "first row twice": by(lambda x: np.cumsum(x, axis=0) + x[:1]),
    "last row 1e-4": spoiled(lambda x: np.cumsum(x, axis=0), _last_row(1.0001)),
}
RECURRENCE: dict[str, Kernel] = {
    "magnitudes of factors": recurrence(lambda a, h, x: abs(a) * h + x),
    "decays": recurrence(lambda a, h, x: a * h * h.dtype.type(0.999) + x),
    "factors in half": recurrence(lambda a, h, x: rounded_to("float16")(a) * h + x),
    "difference": recurrence(lambda a, h, x: a * h - x),
    "at least 0": recurrence(lambda a, h, x: np.maximum(a * h + x, 0)),
}


def _later(of: Callable[..., Array], step: int) -> Kernel:
    """Be right up to a step, and something else from there."""
    right = lambda x, h, u, t: np.tanh(x + h[t - 1] @ u)  # noqa: E731
    return rnn_by(lambda x, h, u, t: (of if t >= step else right)(x, h, u, t))


RNN: dict[str, Kernel] = {
    "state of the next batch": rnn_by(lambda x, h, u, t: np.tanh(x + np.roll(h[t - 1], 1, 0) @ u)),
    "forgets at step 6": rnn_by(lambda x, h, u, t: np.tanh(x + (t != 6) * h[t - 1] @ u)),
    "last step without the state": _later(lambda x, h, u, t: np.tanh(x), 11),
    "last step 1e-3": _later(
        lambda x, h, u, t: np.tanh(x + h[t - 1] @ u) * x.dtype.type(1.001), 11
    ),
    "last step 1e-4": _later(
        lambda x, h, u, t: np.tanh(x + h[t - 1] @ u) * x.dtype.type(1.0001), 11
    ),
    "state in half": rnn_by(lambda x, h, u, t: np.tanh(x + rounded_to("float16")(h[t - 1]) @ u)),
    "sigmoid for tanh": rnn_by(lambda x, h, u, t: w.sigmoid(x + h[t - 1] @ u)),
}


def _cell(change: Callable[[Array, Array, int], None]) -> Kernel:
    """An LSTM whose states are changed after each step."""
    right = lstm_by()

    def kernel(x: Array, u: Array, h: Array, c: Array) -> None:
        right(x, u, h, c)
        for t in range(1, len(x)):
            change(h, c, t)

    return kernel


def _scaled_state(h: Array, c: Array, t: int) -> None:
    c[t] *= c.dtype.type(1.001)


def _last_output(h: Array, c: Array, t: int) -> None:
    if t == len(h) - 1:
        h[t] *= h.dtype.type(1.0001)


def _batches(h: Array, c: Array, t: int) -> None:
    h[t], c[t] = h[t, ::-1].copy(), c[t, ::-1].copy()


def _exchanged(h: Array, c: Array, t: int) -> None:
    h[t], c[t] = c[t].copy(), h[t].copy()


def _clipped_state(h: Array, c: Array, t: int) -> None:
    c[t] = np.clip(c[t], -0.5, 0.5)


LSTM: dict[str, Kernel] = {
    "C 1e-3": _cell(_scaled_state),
    "last H 1e-4": _cell(_last_output),
    "batches exchanged": _cell(_batches),
    "H and C exchanged": _cell(_exchanged),
    "C clipped": _cell(_clipped_state),
}
