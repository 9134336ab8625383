"""Matrix products as tensor expressions and in NumPy, for the operators that contain one."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.operators.elements import Array, computed_in
from autotune.operators.operator_arguments import sum_type


def product(
    left: Any, right: Any, transpose_a: bool, transpose_b: bool, out_dtype: str, name: str
) -> Any:
    """Return the matrix products of two tensors whose leading dimensions are equal.

    `left` is (..., m, k), or (..., k, m) if `transpose_a`; `right` is (..., k, n), or (..., n, k)
    if `transpose_b`; the result is (..., m, n). Elements are multiplied and summed in the wider of
    their type and `out_dtype`, halves in float32.
    """
    *leading, rows, depth = left.shape
    if transpose_a:
        rows, depth = depth, rows
    columns = right.shape[-2 if transpose_b else -1]
    wide = sum_type(left.dtype, out_dtype)
    k = te.reduce_axis((0, depth), name="k")

    def element(*index: Any) -> Any:
        *batch, i, j = index
        a = left(*batch, *((k, i) if transpose_a else (i, k)))
        b = right(*batch, *((j, k) if transpose_b else (k, j)))
        return te.sum(a.astype(wide) * b.astype(wide), axis=k)

    return computed_in(wide, out_dtype, (*leading, rows, columns), element, name)


def product_reference(
    a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False, out_dtype: str = ""
) -> Array:
    """Return the matrix products of two arrays; products of integers are in `out_dtype`."""
    if a.dtype.kind in "iu" and out_dtype:
        a, b = a.astype(out_dtype), b.astype(out_dtype)
    found: Array = np.matmul(
        a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
    )
    return found


def product_flops(m: int, n: int, k: int, b: int = 1, **_: Any) -> float:
    """Return the multiplications and additions of `b` products."""
    return 2.0 * b * m * n * k
