"""A dense layer: a matrix product with a bias and an activation."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import ACTIVATIONS, widened
from autotune.operators.operator_arguments import check_arguments, check_choice
from autotune.operators.products import product
from autotune.template import template


def reference(
    x: npt.NDArray[Any], w: npt.NDArray[Any], bias: npt.NDArray[Any], *, activation: str
) -> npt.NDArray[Any]:
    """Return activation(x @ w + bias)."""
    return ACTIVATIONS[activation][1](widened(x) @ widened(w) + widened(bias))


@template("dense", reference=reference, flops=lambda m, n, k, **_: 2.0 * m * n * k)
def dense(m: int, n: int, k: int, activation: str = "", dtype: str = "float32") -> list[Any]:
    """Y[m, n] = activation(X[m, k] @ W[k, n] + bias[n]); half floats are computed in float32.

    Parameters
    ----------
    m, n, k : int
    activation : str
        "" for none, "relu", or "gelu" (the one with the error function).
    dtype : str
    """
    check_arguments("dense", dtype, dtypes.FLOATS, m=m, n=n, k=k)
    check_choice("dense", "activation", activation, ACTIVATIONS)
    X = te.placeholder((m, k), dtype, name="X")
    W = te.placeholder((k, n), dtype, name="W")
    bias = te.placeholder((n,), dtype, name="bias")
    T = product(X, W, False, False, dtypes.accumulator(dtype), "T")
    apply = ACTIVATIONS[activation][0]
    Y = te.compute(
        (m, n), lambda i, j: apply(T[i, j] + bias[j].astype(T.dtype)).astype(dtype), name="Y"
    )
    return [X, W, bias, Y]
