"""Matrix product on CPUs: packed panels, a register tile of accumulators, parallel outer tiles.

Packing is part of the function. Tiles at the edge compute clamped rows and zero-padded columns,
which are not stored, so the inner loops have no guards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.template import Knobs, template


def _flops(m: int, n: int, k: int, dtype: str = "float32") -> float:
    return 2.0 * m * n * k


@template("matmul", target="llvm", reference=np.matmul, flops=_flops)
def matmul(cfg: Knobs, m: int, n: int, k: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """C[m, n] = A[m, k] @ B[k, n]; half floats are multiplied and summed in float32.

    Knobs
    -----
    tile_m, tile_n
        Rows and columns of the register tile; columns come in whole vectors.
    unroll_k
        Steps of the reduction that are unrolled.
    block_m, block_n
        Register tiles that one task computes, so that panels stay in the cache.
    pack_a
        Whether A is copied into panels of tile_m rows too.
    order
        Order in which a thread computes its blocks.
    """
    check_arguments("matmul", dtype, dtypes.NUMBERS, m=m, n=n, k=k)
    A = te.placeholder((m, k), dtype, name="A")
    B = te.placeholder((k, n), dtype, name="B")
    lanes = max(1, cfg.target.vector_bytes // dtypes.itemsize(dtypes.accumulator(dtype)))
    wide = cfg.target.vector_bytes >= 64
    registers = 32 if wide else 16
    # The first value of a knob is its default.
    tile_m = cfg.define_knob("tile_m", [6, 1, 2, 3, 4, 5, 7, 8, 10, 12, 14, 16])
    vectors_n = [4, 1, 2, 3] if wide else [2, 1, 3, 4]
    tile_n = cfg.define_knob("tile_n", [count * lanes for count in vectors_n])
    unroll_k = cfg.define_knob("unroll_k", [4, 1, 2, 8])
    block_m = cfg.define_knob("block_m", [4, 1, 2, 8, 16, 32])
    block_n = cfg.define_knob("block_n", [1, 2, 4, 8, 16])
    pack_a = cfg.define_knob("pack_a", [False, True])
    order = cfg.define_knob("order", ["nm", "mn"])
    cfg.add_constraint(
        tile_m * tile_n <= (registers - 2) * lanes, "the accumulators fit in the registers"
    )
    cfg.add_constraint(block_m * tile_m <= max(16, m), "a block is no taller than the matrix")
    cfg.add_constraint(block_n * tile_n <= max(4 * lanes, n), "a block is no wider than the matrix")

    rows, columns = te.ceildiv(m, tile_m), te.ceildiv(n, tile_n)
    zero = te.const(0, dtype)

    def b_element(kk: Any, j: Any) -> Any:
        return B[kk, j] if n % tile_n == 0 else te.if_then_else(j < n, B[kk, j], zero)

    def a_element(i: Any, kk: Any) -> Any:
        return A[te.min(i, m - 1), kk]

    PB = te.compute(
        (columns, k, tile_n), lambda jo, kk, ji: b_element(kk, jo * tile_n + ji), name="PB"
    )
    kk = te.reduce_axis((0, k), name="k")
    if pack_a:
        PA = te.compute(
            (rows, k, tile_m), lambda io, kk, ii: a_element(io * tile_m + ii, kk), name="PA"
        )
        T = te.compute(
            (rows, columns, tile_m, tile_n),
            lambda io, jo, ii, ji: te.sum(PA[io, kk, ii] * PB[jo, kk, ji], axis=kk),
            name="T",
        )
    else:
        T = te.compute(
            (rows, columns, tile_m, tile_n),
            lambda io, jo, ii, ji: te.sum(
                a_element(io * tile_m + ii, kk) * PB[jo, kk, ji], axis=kk
            ),
            name="T",
        )
    C = te.compute(
        (m, n),
        lambda i, j: T[i // tile_m, j // tile_n, i % tile_m, j % tile_n].astype(dtype),
        name="C",
    )

    def vectors(stage: Any, axis: Any) -> None:
        """Vectorise the columns of a tile in whole vectors."""
        outer, inner = stage.split(axis, factor=lanes)
        stage.unroll(outer)
        stage.vectorize(inner)

    s = te.create_schedule(C.op)
    acc = s.cache_write(T, "local")
    i, j = s[C].op.axis
    io, jo, ii, ji = s[C].tile(i, j, tile_m, tile_n)
    io, im = s[C].split(io, factor=block_m)
    jo, jm = s[C].split(jo, factor=block_n)
    if order == "mn":
        s[C].reorder(io, jo, jm, im, ii, ji)
        s[C].parallel(s[C].fuse(io, jo))
    else:
        s[C].reorder(jo, io, jm, im, ii, ji)
        s[C].parallel(s[C].fuse(jo, io))
    if m % tile_m == 0 and n % tile_n == 0:
        s[C].unroll(ii)
        vectors(s[C], ji)
    s[T].compute_at(s[C], im)
    _, _, ti, tj = s[T].op.axis
    s[T].unroll(ti)
    vectors(s[T], tj)
    s[acc].compute_at(s[C], im)
    io, jo, ai, aj = s[acc].op.axis
    ko, ki = s[acc].split(s[acc].op.reduce_axis[0], factor=unroll_k)
    s[acc].reorder(io, jo, ko, ki, ai, aj)
    vectors(s[acc], aj)
    if k % unroll_k == 0:
        s[acc].unroll(ki)
    s[acc].unroll(ai)

    s[PB].parallel(s[PB].op.axis[0])
    vectors(s[PB], s[PB].op.axis[2])
    if pack_a:
        po, pk, pi = s[PA].op.axis
        s[PA].reorder(po, pk, pi)
        s[PA].parallel(po)
        s[PA].vectorize(pi)
    return s, [A, B, C]
