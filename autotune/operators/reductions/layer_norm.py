"""Layer normalisation of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import Array, widened
from autotune.operators.operator_arguments import check_arguments, check_positive
from autotune.template import template


def reference(x: Array, gamma: Array, beta: Array, *, eps: float) -> Array:
    """Return (x - mean) / sqrt(variance + eps) * gamma + beta, by rows."""
    x, gamma, beta = map(widened, (x, gamma, beta))
    apart = x - x.mean(axis=1, keepdims=True)
    variance = (apart * apart).mean(axis=1, keepdims=True)
    return np.asarray(apart / np.sqrt(variance + x.dtype.type(eps)) * gamma + beta)


@template("layer_norm", reference=reference)
def layer_norm(m: int, n: int, eps: float = 1e-5, dtype: str = "float32") -> list[Any]:
    """Y[i, j] = (X[i, j] - mean) / sqrt(variance + eps) * gamma[j] + beta[j]; X is [m, n].

    Mean and variance are those of row i. Half floats are computed in float32.
    """
    check_arguments("layer_norm", dtype, dtypes.FLOATS, m=m, n=n)
    wide = dtypes.accumulator(dtype)
    check_positive("layer_norm", "eps", eps, wide)
    X = te.placeholder((m, n), dtype, name="X")
    gamma = te.placeholder((n,), dtype, name="gamma")
    beta = te.placeholder((n,), dtype, name="beta")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    share, least = te.const(1 / n, wide), te.const(eps, wide)
    S = te.compute((m,), lambda i: te.sum(X[i, k].astype(wide), axis=k), name="S")
    M = te.compute((m,), lambda i: S[i] * share, name="M")
    D = te.compute((m, n), lambda i, j: X[i, j].astype(wide) - M[i], name="D")
    V = te.compute((m,), lambda i: te.sum(D[i, r] * D[i, r], axis=r), name="V")
    R = te.compute((m,), lambda i: te.rsqrt(V[i] * share + least), name="R")
    Y = te.compute(
        (m, n),
        lambda i, j: (D[i, j] * R[i] * gamma[j].astype(wide) + beta[j].astype(wide)).astype(dtype),
        name="Y",
    )
    return [X, gamma, beta, Y]
