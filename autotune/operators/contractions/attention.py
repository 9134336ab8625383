"""Attention over blocks of keys, with the maximum and the sum of each row so far.

The scores of one block of keys exist at a time, and not those of all.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import Array, widened
from autotune.operators.operator_arguments import check_arguments
from autotune.template import Knobs, template


def reference(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    """Return softmax(q @ k^T / sqrt(d)) @ v; with `causal` no query sees later keys."""
    q, k, v = map(widened, (q, k, v))
    scores = q @ k.swapaxes(2, 3) * q.dtype.type(1 / math.sqrt(q.shape[3]))
    if causal:
        scores = np.where(np.tri(q.shape[2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    return np.asarray(weights / weights.sum(axis=3, keepdims=True) @ v)


def _flops(b: int, heads: int, s: int, d: int, causal: bool, **_: Any) -> float:
    return 4.0 * b * heads * d * (s * (s + 1) / 2 if causal else s * s)


def _sizes(length: int, unit: int) -> list[int]:
    """Return sizes of blocks: of about 64 or 128, in units; those that fit best come first."""
    sizes = []
    for most in (64, 128):
        even = -(-length // -(-length // most))
        sizes.append(min(-(-even // unit) * unit, length))
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
    # Rules look at sizes. Queries are in vectors or warps, keys alone in rows of tiles.
    unit = 4 if cfg.target.gpu is None and not causal else 16
    block = int(cfg.define_knob("block", _sizes(s, unit)))
    rows, out = (b, heads, s), (b, heads, s, d)
    Q, K, V = (te.placeholder(out, dtype, name=name) for name in "QKV")
    scale, lowest, zero = te.const(1 / math.sqrt(d), wide), te.min_value(wide), te.const(0, wide)
    r = te.reduce_axis((0, d), name="r")
    j1, j2, j3 = (te.reduce_axis((0, block), name=name) for name in ("j1", "j2", "j3"))

    # Step t takes block t - 1. Past the last key, the last one is read again and not counted.
    steps = te.ceildiv(s, block) + 1
    of_rows, of_results, of_scores = (
        partial(te.compute, (steps, *shape)) for shape in (rows, out, (b, heads, block, s))
    )
    top, total = (te.placeholder((steps, *rows), wide, name=name) for name in ("top", "total"))
    mixed = te.placeholder((steps, *out), wide, name="mixed")

    def key(t: Any, j: Any) -> Any:
        return te.max(te.min((t - 1) * block + j, s - 1), 0)

    def product(t: Any, n: Any, h: Any, j: Any, i: Any) -> Any:
        own = Q[n, h, i, r].astype(wide) * K[n, h, key(t, j), r].astype(wide)
        return te.sum(own, axis=r)

    S = of_scores(product, name="S")

    def score(t: Any, n: Any, h: Any, j: Any, i: Any) -> Any:
        """Return a scaled score, or the lowest number where the query does not see the key."""
        at = (t - 1) * block + j
        seen = at <= i if causal else at < s
        return te.if_then_else(seen, S[t, n, h, j, i] * scale, lowest)

    own_top = of_rows(lambda t, n, h, i: te.max(score(t, n, h, j1, i), axis=j1), name="own_top")
    new_top = of_rows(lambda t, *at: te.max(top[(t - 1, *at)], own_top[(t, *at)]), name="new_top")
    kept = of_rows(lambda t, *at: te.exp(top[(t - 1, *at)] - new_top[(t, *at)]), name="kept")
    P = of_scores(
        lambda t, n, h, j, i: te.exp(score(t, n, h, j, i) - new_top[t, n, h, i]), name="P"
    )
    own_total = of_rows(lambda t, n, h, i: te.sum(P[t, n, h, j2, i], axis=j2), name="own_total")

    def weighted(t: Any, n: Any, h: Any, i: Any, c: Any) -> Any:
        return te.sum(P[t, n, h, j3, i] * V[n, h, key(t, j3), c].astype(wide), axis=j3)

    own_mixed = of_results(weighted, name="own_mixed")
    new_total = of_rows(
        lambda t, *at: total[(t - 1, *at)] * kept[(t, *at)] + own_total[(t, *at)],
        name="new_total",
    )
    new_mixed = of_results(
        lambda t, n, h, i, c: (
            mixed[t - 1, n, h, i, c] * kept[t, n, h, i] + own_mixed[t, n, h, i, c]
        ),
        name="new_mixed",
    )
    starts = (("top", rows, lowest), ("total", rows, zero), ("mixed", out, zero))
    first = [
        te.compute((1, *shape), lambda *_, value=value: value, name=f"first_{name}")
        for name, shape, value in starts
    ]
    _, totals, mixtures = te.scan(
        first,
        [new_top, new_total, new_mixed],
        [top, total, mixed],
        inputs=[Q, K, V],
        name="attended",
    )

    def mean(n: Any, h: Any, i: Any, c: Any) -> Any:
        """Return a result after the last step that any of its neighbours needs."""
        last = i // block + 1 if causal else steps - 1
        return (mixtures[last, n, h, i, c] / totals[last, n, h, i]).astype(dtype)

    O = te.compute(out, mean, name="O")  # noqa: E741 - the operator's name in the literature
    return [Q, K, V, O]
