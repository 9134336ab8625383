"""Matrix product."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments, result_type
from autotune.operators.products import product, product_flops, product_reference
from autotune.template import template


@template("matmul", reference=product_reference, flops=product_flops)
def matmul(
    m: int,
    n: int,
    k: int,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str = "float32",
    out_dtype: str = "",
) -> list[Any]:
    """C[m, n] = A[m, k] @ B[k, n]; half floats are multiplied and summed in float32.

    Parameters
    ----------
    m, n, k : int
    transpose_a, transpose_b : bool
        Whether A is given as [k, m], and B as [n, k].
    dtype : str
        Type of A and B.
    out_dtype : str
        Type of C if it is another one: a float type if `dtype` is one, else an integer type. A
        wider one is also the type of products and sums.
    """
    check_arguments("matmul", dtype, dtypes.NUMBERS, m=m, n=n, k=k)
    out = result_type("matmul", dtype, out_dtype)
    A = te.placeholder((k, m) if transpose_a else (m, k), dtype, name="A")
    B = te.placeholder((n, k) if transpose_b else (k, n), dtype, name="B")
    return [A, B, product(A, B, transpose_a, transpose_b, out, "C")]
