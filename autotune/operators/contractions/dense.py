"""A dense layer: a matrix product with a bias and an activation."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import ACTIVATIONS, Array, widened
from autotune.operators.operator_arguments import check_arguments, check_choice
from autotune.operators.products import product, product_flops
from autotune.template import template


def reference(x: Array, w: Array, bias: Array, *, activation: str) -> Array:
    """Return activation(x @ w + bias)."""
    return ACTIVATIONS[activation][1](widened(x) @ widened(w) + widened(bias))


@template("dense", reference=reference, flops=product_flops)
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
