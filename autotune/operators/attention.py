"""Attention over blocks of keys, with the maximum and the sum of each row so far.

The scores of one block of keys exist at a time, and not those of all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import widened
from autotune.operators.operator_arguments import check_arguments
from autotune.template import Knobs, template


def reference(
    q: npt.NDArray[Any], k: npt.NDArray[Any], v: npt.NDArray[Any], *, causal: bool
) -> npt.NDArray[Any]:
    """Return softmax(q @ k^T / sqrt(d)) @ v; with `causal` no query sees later keys."""
    q, k, v = map(widened, (q, k, v))
    scores = q @ k.swapaxes(2, 3) * q.dtype.type(1 / math.sqrt(q.shape[3]))
    if causal:
        scores = np.where(np.tri(q.shape[2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    return np.asarray(weights / weights.sum(axis=3, keepdims=True) @ v)


def _flops(b: int, heads: int, s: int, d: int, causal: bool, **_: Any) -> float:
    return 4.0 * b * heads * d * (s * (s + 1) / 2 if causal else s * s)


def _sizes(length: int) -> list[int]:
    """Return sizes of blocks: of about 64 or 128, in sixteens; those that fit best come first."""
    sizes = []
    for most in (64, 128):
        even = -(-length // -(-length // most))
        sizes.append(min(-(-even // 16) * 16, length))
    return sorted(dict.fromkeys(sizes), key=lambda size: -(-length // size) * size)


@template("attention", target=None, reference=reference, flops=_flops)
def attention(
    cfg: Knobs,
    b: int,
    heads: int,
    s: int,
    d: int,
    causal: bool = False,
    dtype: str = "float32",
) -> list[Any]:
    """O = softmax(Q @ K^T / sqrt(d)) @ V, for each batch and head; all are [b, heads, s, d].

    Half floats are computed in float32.

    Parameters
    ----------
    b, heads, s, d : int
        Batches, heads, length of the sequences, and size of a head.
    causal : bool
        Whether a query sees only its own key and earlier ones.
    dtype : str

    Knobs
    -----
    block
        Keys of a step; with `causal`, as many neighbouring queries take the same blocks of keys.
    """
    check_arguments("attention", dtype, dtypes.FLOATS, b=b, heads=heads, s=s, d=d)
    wide = dtypes.accumulator(dtype)
    block = int(cfg.define_knob("block", _sizes(s)))  # rules look at sizes
    rows, out = (b, heads, s), (b, heads, s, d)
    Q, K, V = (te.placeholder(out, dtype, name=name) for name in "QKV")
    scale, lowest, zero = te.const(1 / math.sqrt(d), wide), te.min_value(wide), te.const(0, wide)
    r = te.reduce_axis((0, d), name="r")
    j1, j2, j3 = (te.reduce_axis((0, block), name=name) for name in ("j1", "j2", "j3"))

    # Step t takes block t - 1. Past the last key, the last one is read again and not counted.
    steps = te.ceildiv(s, block) + 1
    top, total = (te.placeholder((steps, *rows), wide, name=name) for name in ("top", "total"))
    mixed = te.placeholder((steps, *out), wide, name="mixed")

    def key(t: Any, j: Any) -> Any:
        return te.max(te.min((t - 1) * block + j, s - 1), 0)

    S = te.compute(
        (steps, b, heads, block, s),
        lambda t, n, h, j, i: te.sum(
            Q[n, h, i, r].astype(wide) * K[n, h, key(t, j), r].astype(wide), axis=r
        ),
        name="S",
    )

    def score(t: Any, n: Any, h: Any, j: Any, i: Any) -> Any:
        """Return a scaled score, or the lowest number where the query does not see the key."""
        at = (t - 1) * block + j
        seen = at <= i if causal else at < s
        return te.if_then_else(seen, S[t, n, h, j, i] * scale, lowest)

    own_top = te.compute(
        (steps, *rows), lambda t, n, h, i: te.max(score(t, n, h, j1, i), axis=j1), name="own_top"
    )
    new_top = te.compute(
        (steps, *rows), lambda t, n, h, i: te.max(top[t - 1, n, h, i], own_top[t, n, h, i]),
        name="new_top",
    )
    kept = te.compute(
        (steps, *rows), lambda t, n, h, i: te.exp(top[t - 1, n, h, i] - new_top[t, n, h, i]),
        name="kept",
    )
    P = te.compute(
        (steps, b, heads, block, s),
        lambda t, n, h, j, i: te.exp(score(t, n, h, j, i) - new_top[t, n, h, i]),
        name="P",
    )
    own_total = te.compute(
        (steps, *rows), lambda t, n, h, i: te.sum(P[t, n, h, j2, i], axis=j2), name="own_total"
    )
    own_mixed = te.compute(
        (steps, *out),
        lambda t, n, h, i, c: te.sum(
            P[t, n, h, j3, i] * V[n, h, key(t, j3), c].astype(wide), axis=j3
        ),
        name="own_mixed",
    )
    new_total = te.compute(
        (steps, *rows),
        lambda t, n, h, i: total[t - 1, n, h, i] * kept[t, n, h, i] + own_total[t, n, h, i],
        name="new_total",
    )
    new_mixed = te.compute(
        (steps, *out),
        lambda t, n, h, i, c: mixed[t - 1, n, h, i, c] * kept[t, n, h, i]
        + own_mixed[t, n, h, i, c],
        name="new_mixed",
    )
    first_top = te.compute((1, *rows), lambda *_: lowest, name="first_top")
    first_total = te.compute((1, *rows), lambda *_: zero, name="first_total")
    first_mixed = te.compute((1, *out), lambda *_: zero, name="first_mixed")
    _, totals, mixtures = te.scan(
        [first_top, first_total, first_mixed],
        [new_top, new_total, new_mixed],
        [top, total, mixed],
        inputs=[Q, K, V],
        name="attended",
    )

    def mean(n: Any, h: Any, i: Any, c: Any) -> Any:
        """Return a result after the last step that any of its neighbours needs."""
        last = steps - 1
        if causal:
            last = i // block + 1
        return (mixtures[last, n, h, i, c] / totals[last, n, h, i]).astype(dtype)

    O = te.compute(out, mean, name="O")  # noqa: E741 - the operator's name in the literature
    return [Q, K, V, O]
