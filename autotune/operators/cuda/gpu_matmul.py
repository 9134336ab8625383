"""Matrix product on GPUs: tiles of blocks, virtual threads and threads; operands in shared memory.

All threads of a block load the operands' tiles into shared memory, and each thread loads from there
into registers. Sums stay in registers until the end.
"""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators.matmul import flops, reference
from autotune.operators.matmul import matmul as by_rules
from autotune.operators.operator_arguments import check_arguments
from autotune.rules.gpu.product_loops import Operand, define_tiles, schedule_product
from autotune.rules.gpu.thread_loops import lane_counts
from autotune.template import Knobs, template


@template("matmul", target="cuda", reference=reference, flops=flops)
def matmul(
    cfg: Knobs,
    m: int,
    n: int,
    k: int,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str = "float32",
    out_dtype: str = "",
) -> Any:
    """C[m, n] = A[m, k] @ B[k, n]; half floats are multiplied and summed in float32.

    Arguments are as of `autotune.operators.matmul`; other layouts and types than those of the
    plain product are scheduled by rules.

    Knobs
    -----
    warps_m, warps_n
        Warps of a block along rows and columns.
    lanes_m
        Threads of a warp along rows, of 32.
    own_m, own_n
        Adjacent rows and columns that a thread computes, for each virtual thread.
    virtual_m, virtual_n
        Virtual threads: number of times that the threads of a warp are repeated across its tile.
    depth
        Reduction steps whose operands are in shared memory at a time.
    unroll
        Steps of the reduction that are unrolled.
    fetch
        Elements that a thread loads together.
    pad
        Padding in elements between the rows of A's transposed tile in shared memory, against bank
        conflicts of the stores.
    group
        Rows of tiles that consecutive blocks cover before they move one column right, for reuse in
        the L2 cache.
    resident
        Blocks that should run at once on a multiprocessor, which limits their registers; 0 leaves
        it to the compiler.
    ahead
        Whether the next tiles are loaded while the present ones are used: "registers" loads them
        into registers first, "copies" copies them asynchronously, "shared" stores them at once.
    """
    if transpose_a or transpose_b or out_dtype not in ("", dtype):
        return by_rules.function(m, n, k, transpose_a, transpose_b, dtype, out_dtype)
    check_arguments("matmul", dtype, dtypes.NUMBERS, m=m, n=n, k=k)
    widths = lane_counts(cfg.target, dtype)
    tiles = define_tiles(cfg, (1, m, n, k), widths, runs=(k, n))
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    # Tiles at the edge are padded with zeros, so that their use needs no guards.
    rows, columns, steps = tiles.padded(m, n, k)
    zero = te.const(0, dtype)
    left = te.compute(
        (rows, steps),
        lambda i, kk: te.if_then_else(te.all(i < m, kk < k), A[i, kk], zero),
        name="A.shared",
    )
    right = te.compute(
        (steps, columns),
        lambda kk, j: te.if_then_else(te.all(kk < k, j < n), B[kk, j], zero),
        name="B.shared",
    )
    kk = te.reduce_axis((0, steps), name="k")
    total = te.compute(
        (rows, columns), lambda i, j: te.sum(left[i, kk] * right[kk, j], axis=kk), name="T"
    )
    C = te.compute((m, n), lambda i, j: total[i, j].astype(dtype), name="C")

    s = te.create_schedule(C.op)
    operands = Operand(left, 0, steps_last=True), Operand(right, 1, steps_last=False)
    axes = C.op.axis[0], C.op.axis[1]
    in_vectors = n % tiles.widest == 0
    schedule_product(s, C, axes, total, operands, tiles, in_vectors=in_vectors)
    return s, [A, B, C]
