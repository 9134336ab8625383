"""Softmax of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import Array, widened
from autotune.operators.operator_arguments import check_arguments
from autotune.template import template


def reference(x: Array) -> Array:
    """Softmax of the rows of an (m, n) array, computed in at least float32."""
    wide = widened(x)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


@template("softmax", reference=reference)
def softmax(m: int, n: int, dtype: str = "float32") -> list[Any]:
    """Y[i, j] = exp(X[i, j]) / sum over j of exp(X[i, j]), in a way that cannot overflow.

    Half floats are computed in float32.
    """
    check_arguments("softmax", dtype, dtypes.FLOATS, m=m, n=n)
    wide = dtypes.accumulator(dtype)
    X = te.placeholder((m, n), dtype, name="X")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    M = te.compute((m,), lambda i: te.max(X[i, k], axis=k), name="M")
    E = te.compute((m, n), lambda i, j: te.exp(X[i, j].astype(wide) - M[i].astype(wide)), name="E")
    S = te.compute((m,), lambda i: te.sum(E[i, r], axis=r), name="S")
    # One division for a row: the elements are multiplied.
    R = te.compute((m,), lambda i: te.const(1, wide) / S[i], name="R")
    return [X, te.compute((m, n), lambda i, j: (E[i, j] * R[i]).astype(dtype), name="Y")]
