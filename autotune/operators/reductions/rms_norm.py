"""Normalisation of rows by their root mean square."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import Array, widened
from autotune.operators.operator_arguments import check_arguments, check_positive
from autotune.template import template


def reference(x: Array, weight: Array, *, eps: float) -> Array:
    """Return x / sqrt(mean of squares + eps) * weight, by rows."""
    x, weight = widened(x), widened(weight)
    squares = (x * x).mean(axis=1, keepdims=True)
    return np.asarray(x / np.sqrt(squares + x.dtype.type(eps)) * weight)


@template("rms_norm", reference=reference)
def rms_norm(m: int, n: int, eps: float = 1e-5, dtype: str = "float32") -> list[Any]:
    """Y[i, j] = X[i, j] / sqrt(mean of the squares of row i + eps) * W[j]; X is [m, n].

    Half floats are computed in float32.
    """
    check_arguments("rms_norm", dtype, dtypes.FLOATS, m=m, n=n)
    wide = dtypes.accumulator(dtype)
    check_positive("rms_norm", "eps", eps, wide)
    X = te.placeholder((m, n), dtype, name="X")
    W = te.placeholder((n,), dtype, name="W")
    k = te.reduce_axis((0, n), name="k")
    share, least = te.const(1 / n, wide), te.const(eps, wide)
    S = te.compute(
        (m,), lambda i: te.sum(X[i, k].astype(wide) * X[i, k].astype(wide), axis=k), name="S"
    )
    R = te.compute((m,), lambda i: te.rsqrt(S[i] * share + least), name="R")
    Y = te.compute(
        (m, n),
        lambda i, j: (X[i, j].astype(wide) * R[i] * W[j].astype(wide)).astype(dtype),
        name="Y",
    )
    return [X, W, Y]
