"""Linear recurrences down columns, as in state-space models."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.operators.operator_arguments import check_arguments
from autotune.operators.scans.rnn_cell import TYPES
from autotune.template import template


def reference(a: npt.NDArray[Any], x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """h[t] = a[t] * h[t - 1] + x[t] from h[-1] = 0, element by element, for (m, n) arrays."""
    h = np.array(x)
    for t in range(1, len(h)):
        h[t] += a[t] * h[t - 1]
    return h


@template("linear_recurrence", reference=reference)
def linear_recurrence(m: int, n: int, dtype: str = "float32") -> list[Any]:
    """H[t, i] = A[t, i] * H[t - 1, i] + X[t, i] from H[-1, i] = 0; all are [m, n]."""
    check_arguments("linear_recurrence", dtype, TYPES, m=m, n=n)
    A = te.placeholder((m, n), dtype, name="A")
    X = te.placeholder((m, n), dtype, name="X")
    state = te.placeholder((m, n), dtype, name="state")
    first = te.compute((1, n), lambda _, i: X[0, i], name="first")
    later = te.compute((m, n), lambda t, i: state[t - 1, i] * A[t, i] + X[t, i], name="later")
    return [A, X, te.scan(first, later, state, inputs=[A, X], name="H")]
