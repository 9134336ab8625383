"""Broadcast addition: a column is added to each column of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.template import template


@template("broadcast_add", reference=np.add)
def broadcast_add(n: int, dtype: str = "float32") -> list[Any]:
    """C[n, n] = A[n, 1] + B[n, n]."""
    check_arguments("broadcast_add", dtype, dtypes.NUMBERS, n=n)
    A = te.placeholder((n, 1), dtype, name="A")
    B = te.placeholder((n, n), dtype, name="B")
    return [A, B, te.compute((n, n), lambda x, y: A[x, 0] + B[x, y], name="C")]
