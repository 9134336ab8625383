"""Cumulative sums down columns or along rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.operators.operator_arguments import check_arguments, check_choice
from autotune.template import template

TYPES = ("float32", "float64", "int32", "int64")


def reference(x: npt.NDArray[Any], *, axis: int) -> npt.NDArray[Any]:
    """Return the sums of an (m, n) array down to each row (axis 0) or along rows (axis 1)."""
    return np.asarray(np.cumsum(x, axis=axis, dtype=x.dtype))


@template("cumsum", reference=reference)
def cumsum(m: int, n: int, axis: int = 0, dtype: str = "float32") -> list[Any]:
    """Y[i, j] = sum of X[0..i, j] (axis 0) or of X[i, 0..j] (axis 1); both are [m, n].

    Integers wrap around.
    """
    check_arguments("cumsum", dtype, TYPES, m=m, n=n)
    check_choice("cumsum", "axis", axis, (0, 1))
    X = te.placeholder((m, n), dtype, name="X")
    steps, columns = (m, n) if axis == 0 else (n, m)

    def value(t: Any, i: Any) -> Any:
        return X[t, i] if axis == 0 else X[i, t]

    state = te.placeholder((steps, columns), dtype, name="state")
    first = te.compute((1, columns), lambda _, i: value(0, i), name="first")
    later = te.compute((steps, columns), lambda t, i: state[t - 1, i] + value(t, i), name="later")
    S = te.scan(first, later, state, inputs=[X], name="Y" if axis == 0 else "S")
    if axis == 0:
        return [X, S]
    return [X, te.compute((m, n), lambda i, j: S[j, i], name="Y")]
