"""Templates with schedules by hand whose spaces tests rely on: packed operands, register tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.contractions.conv2d_nchw import reference
from autotune.operators.images import output_size
from autotune.template import Knobs, template


@template("packed_matmul", target="llvm", reference=np.matmul)
def packed_matmul(
    cfg: Knobs, m: int, n: int, k: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
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


@template("packed_conv2d", target="llvm", reference=reference)
def packed_conv2d(
    cfg: Knobs,
    n: int,
    c: int,
    h: int,
    w: int,
    o: int,
    kh: int,
    kw: int,
    stride: int = 1,
    pad: int = 0,
    dtype: str = "float32",
) -> tuple[Any, list[Any]]:
    """O[n, o, oh, ow] = convolution of D[n, c, h, w] with F[o, c, kh, kw].

    Knobs
    -----
    tile_x, tile_o
        Pixels of a row and output channels of the register tile.
    unroll_kw
        Whether the loop over the kernel's columns is unrolled.
    rows
        Rows of the output that one parallel task computes.
    """
    D = te.placeholder((n, c, h, w), dtype, name="D")
    F = te.placeholder((o, c, kh, kw), dtype, name="F")
    oh, ow = output_size(h, kh, stride, pad), output_size(w, kw, stride, pad)
    lanes = max(1, cfg.target.vector_bytes // dtypes.itemsize(dtypes.accumulator(dtype)))
    wide = cfg.target.vector_bytes >= 64
    registers = 32 if wide else 16
    # The first value of a knob is its default.
    tile_x = cfg.define_knob("tile_x", [6, 1, 2, 3, 4, 5, 7, 8, 10, 12, 14, 16])
    vectors_o = [4, 1, 2] if wide else [2, 1, 4]
    tile_o = cfg.define_knob("tile_o", [count * lanes for count in vectors_o])
    unroll_kw = cfg.define_knob("unroll_kw", [True, False])
    rows = cfg.define_knob("rows", [2, 1, 4, 8])
    cfg.add_constraint(
        tile_x * tile_o <= (registers - 2) * lanes, "the accumulators fit in the registers"
    )
    cfg.add_constraint(tile_x <= max(1, ow), "a tile is no wider than the image")
    cfg.add_constraint(rows <= max(1, oh), "a task is no taller than the image")

    zero = te.const(0, dtype)
    P = D
    if pad:
        P = te.compute(
            (n, c, h + 2 * pad, w + 2 * pad),
            lambda b, ci, y, x: te.if_then_else(
                te.all(y >= pad, y < h + pad, x >= pad, x < w + pad),
                D[b, ci, y - pad, x - pad],
                zero,
            ),
            name="P",
        )
    groups, tiles = te.ceildiv(o, tile_o), te.ceildiv(ow, tile_x)
    W = te.compute(
        (groups, c, kh, kw, tile_o),
        lambda oo, ci, ky, kx, oi: F[te.min(oo * tile_o + oi, o - 1), ci, ky, kx],
        name="W",
    )
    rc = te.reduce_axis((0, c), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    T = te.compute(
        (n, groups, oh, tiles, tile_x, tile_o),
        lambda b, oo, y, xo, xi, oi: te.sum(
            P[b, rc, y * stride + ry, te.min(xo * tile_x + xi, ow - 1) * stride + rx]
            * W[oo, rc, ry, rx, oi],
            axis=[rc, ry, rx],
        ),
        name="T",
    )
    O = te.compute(  # noqa: E741 - the operator's name in the literature
        (n, o, oh, ow),
        lambda b, oc, y, x: T[
            b, oc // tile_o, y, x // tile_x, x % tile_x, oc % tile_o
        ].astype(dtype),
        name="O",
    )

    s = te.create_schedule(O.op)
    acc = s.cache_write(T, "local")
    b, oc, y, x = s[O].op.axis
    oo, oi = s[O].split(oc, factor=tile_o)
    xo, xi = s[O].split(x, factor=tile_x)
    yo, yi = s[O].split(y, factor=rows)
    s[O].reorder(b, oo, yo, yi, xo, oi, xi)
    s[O].parallel(s[O].fuse(b, oo, yo))
    s[T].compute_at(s[O], xo)
    *_, tx, to = s[T].op.axis
    s[T].unroll(tx)
    s[T].vectorize(to)
    s[acc].compute_at(s[O], xo)
    *outer, ax, ao = s[acc].op.axis
    rc, ry, rx = s[acc].op.reduce_axis
    s[acc].reorder(*outer, rc, ry, rx, ax, ao)
    if unroll_kw:
        s[acc].unroll(rx)
    s[acc].unroll(ax)
    s[acc].vectorize(ao)
    s[W].parallel(s[W].op.axis[0])
    if pad:
        s[P].parallel(s[P].fuse(*s[P].op.axis[:2]))
    return s, [D, F, O]
