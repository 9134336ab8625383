"""Transposition of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.template import template


@template("transpose", reference=np.transpose)
def transpose(m: int, n: int, dtype: str = "float32") -> list[Any]:
    """B[n, m] = A[m, n], rows and columns exchanged."""
    check_arguments("transpose", dtype, dtypes.NUMBERS, m=m, n=n)
    A = te.placeholder((m, n), dtype, name="A")
    return [A, te.compute((n, m), lambda i, j: A[j, i], name="B")]
