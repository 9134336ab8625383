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
        Keys of a step.
    """
    check_arguments("attention", dtype, dtypes.FLOATS, b=b, heads=heads, s=s, d=d)
    wide = dtypes.accumulator(dtype)
    block = cfg.define_knob("block", [size for size in (64, 16, 32, 128, 256) if size <= s] or [s])
    steps = te.ceildiv(s, block) + 1
    rows, out = (b, heads, s), (b, heads, s, d)
    Q, K, V = (te.placeholder(out, dtype, name=name) for name in "QKV")
    top, total = (te.placeholder((steps, *rows), wide, name=name) for name in ("top", "total"))
    sums = te.placeholder((steps, *out), wide, name="sums")
    lowest, zero = te.min_value(wide), te.const(0, wide)
    scale = te.const(1 / math.sqrt(d), wide)
    r = te.reduce_axis((0, d), name="r")
    j1, j2, j3 = (te.reduce_axis((0, block), name=name) for name in ("j1", "j2", "j3"))

    def key(t: Any, j: Any) -> Any:
        """Return the key of a step; the last one again, where the last block has no more."""
        return te.min((t - 1) * block + j, s - 1)

    def seen(t: Any, i: Any, j: Any) -> Any:
        at = (t - 1) * block + j
        return at <= i if causal else at < s

    S = te.compute(
        (steps, *rows, block),
        lambda t, n, h, i, j: te.sum(
            Q[n, h, i, r].astype(wide) * K[n, h, key(t, j), r].astype(wide), axis=r
        ),
        name="S",
    )
