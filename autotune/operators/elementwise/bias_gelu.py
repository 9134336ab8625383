"""A bias and the Gaussian error linear unit."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import Array, gelu, gelu_reference, widened
from autotune.operators.operator_arguments import check_arguments
from autotune.template import template


def reference(x: Array, bias: Array) -> Array:
    """Return gelu(x + bias)."""
    return gelu_reference(widened(x) + widened(bias))


@template("bias_gelu", reference=reference)
def bias_gelu(m: int, n: int, dtype: str = "float32") -> list[Any]:
    """Y[m, n] = gelu(X[m, n] + bias[n]), the one with the error function.

    Half floats are computed in float32.
    """
    check_arguments("bias_gelu", dtype, dtypes.FLOATS, m=m, n=n)
    wide = dtypes.accumulator(dtype)
    X = te.placeholder((m, n), dtype, name="X")
    bias = te.placeholder((n,), dtype, name="bias")
    Y = te.compute(
        (m, n),
        lambda i, j: gelu(X[i, j].astype(wide) + bias[j].astype(wide)).astype(dtype),
        name="Y",
    )
    return [X, bias, Y]
