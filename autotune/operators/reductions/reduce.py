"""Reductions of a matrix along its rows or its columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.elements import Array, computed_in, widened
from autotune.operators.operator_arguments import check_arguments, check_choice
from autotune.template import template

# The reducer of `te` and NumPy's function, by name.
_REDUCERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (te.sum, np.sum),
    "mean": (te.sum, np.mean),
    "max": (te.max, np.max),
    "min": (te.min, np.min),
}


def reference(x: Array, *, how: str, axis: int) -> Array:
    """Sum, mean, largest or smallest element along an axis of an (m, n) array."""
    wide = widened(x)
    options = {"dtype": wide.dtype} if how == "sum" else {}
    return np.asarray(_REDUCERS[how][1](wide, axis=axis, **options))


@template("reduce", reference=reference)
def reduce(m: int, n: int, how: str = "sum", axis: int = 1, dtype: str = "float32") -> list[Any]:
    """B = sum, mean, max or min of A[m, n] along an axis; half floats are summed in float32.

    Parameters
    ----------
    m, n : int
    how : str
        "sum", "mean" (of floats), "max" or "min".
    axis : int
        1 for B[m], which reduces rows; 0 for B[n], which reduces columns.
    dtype : str
    """
    check_choice("reduce", "how", how, _REDUCERS)
    check_choice("reduce", "axis", axis, (0, 1))
    check_arguments("reduce", dtype, dtypes.FLOATS if how == "mean" else dtypes.NUMBERS, m=m, n=n)
    A = te.placeholder((m, n), dtype, name="A")
    length, kept = (n, m) if axis == 1 else (m, n)
    k = te.reduce_axis((0, length), name="k")

    def total(i: Any) -> Any:
        return _REDUCERS[how][0](A[i, k] if axis == 1 else A[k, i], axis=k)

    wide = dtypes.accumulator(dtype) if how in ("sum", "mean") else dtype
    if how != "mean":
        return [A, computed_in(wide, dtype, (kept,), total, "B")]
    T = te.compute((kept,), total, name="T")
    share = te.const(1 / length, wide)
    return [A, te.compute((kept,), lambda i: (T[i] * share).astype(dtype), name="B")]
