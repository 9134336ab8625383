"""Matrix products of a batch."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments, result_type
from autotune.operators.products import product, product_flops, product_reference
from autotune.template import template


@template("batch_matmul", reference=product_reference, flops=product_flops)
def batch_matmul(
    b: int,
    m: int,
    n: int,
    k: int,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str = "float32",
    out_dtype: str = "",
) -> list[Any]:
    """C[b, m, n] = A[b, m, k] @ B[b, k, n] for each b; A or B may be given transposed.

    Arguments are as of `matmul`.
    """
    check_arguments("batch_matmul", dtype, dtypes.NUMBERS, b=b, m=m, n=n, k=k)
    out = result_type("batch_matmul", dtype, out_dtype)
    A = te.placeholder((b, k, m) if transpose_a else (b, m, k), dtype, name="A")
    B = te.placeholder((b, n, k) if transpose_b else (b, k, n), dtype, name="B")
    return [A, B, product(A, B, transpose_a, transpose_b, out, "C")]
