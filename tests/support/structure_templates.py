"""Templates of structures that ours have none of: packed and fused, nested, factored reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.template import Knobs, template


@template("packed_fused", target="llvm", reference=lambda a, b: a @ b)
def packed_fused(cfg: Knobs, m: int, n: int, k: int) -> tuple[Any, list[Any]]:
    """Packed columns and a cached tile inside a loop that is fused of two others."""
    A = te.placeholder((m, k), name="A")
    B = te.placeholder((k, n), name="B")
    tile = cfg.define_knob("tile", [4, 1, 2, 3, 7, 16])
    height = cfg.define_knob("height", [2, 1, 3, 5, 8])
    piece = cfg.define_knob("piece", [1, 2, 3, 4])
    r = te.reduce_axis((0, k), name="r")
    P = te.compute(
        (te.ceildiv(n, tile), k, tile),
        lambda jo, kk, ji: B[kk, te.min(jo * tile + ji, n - 1)],
        name="P",
    )
    C = te.compute(
        (m, n), lambda i, j: te.sum(A[i, r] * P[j // tile, r, j % tile], axis=r), name="C"
    )
    s = te.create_schedule(C.op)
    cached = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, height, tile)
    both = s[C].fuse(io, jo)
    outer, inner = s[C].split(both, factor=piece)
    s[C].parallel(outer)
    if cfg.define_knob("inside", [False, True]):
        s[P].compute_at(s[C], inner)
        s[cached].compute_at(s[C], ii)
    else:
        s[P].compute_at(s[C], outer)
        s[cached].compute_at(s[C], inner)
    ro, ri = s[cached].split(s[cached].op.reduce_axis[0], factor=piece)
    ci, cj = s[cached].op.axis
    s[cached].reorder(ro, ci, ri, cj)
    s[cached].vectorize(cj)
    s[C].vectorize(ji)
    return s, [A, B, C]


def _blurred(a: Any) -> Any:
    p = a + 1
    return p[:-1, :-2] + p[1:, 2:] * 2


@template("fused_blur", target="llvm", reference=_blurred)
def fused_blur(cfg: Knobs, h: int, w: int) -> tuple[Any, list[Any]]:
    """A producer at several depths of a fused and split loop, read by another cached producer."""
    A = te.placeholder((h + 1, w + 2), name="A")
    P = te.compute((h + 1, w + 2), lambda i, j: A[i, j] + 1, name="P")
    C = te.compute((h, w), lambda i, j: P[i, j] + P[i + 1, j + 2] * 2, name="C")
    s = te.create_schedule(C.op)
    rows = cfg.define_split("rows", h, 3, policy="power2")
    width = cfg.define_knob("width", [3, 1, 2, 4, 8])
    i0, i1, i2 = rows.apply(s[C], s[C].op.axis[0])
    jo, ji = s[C].split(s[C].op.axis[1], nparts=te.min(width, w))
    s[C].reorder(i0, jo, i1, i2, ji)
    loops = [s[C].fuse(i0, jo), i1, i2, ji]
    copy = s.cache_read(A, "local", [P])
    at = loops[cfg.define_knob("at", [0, 1, 2])]
    s[P].compute_at(s[C], at)
    s[copy].compute_at(s[P], s[P].op.axis[0])
    pj = s[P].split(s[P].op.axis[1], factor=width)[1]
    s[P].unroll(pj)
    return s, [A, C]


@template("factored_rows", target="llvm", reference=lambda a: a.sum(axis=(1, 2)))
def factored_rows(cfg: Knobs, m: int, n: int, p: int) -> tuple[Any, list[Any]]:
    """Sums over two fused axes whose partial sums are computed first, lane by lane."""
    A = te.placeholder((m, n, p), name="A")
    r, q = te.reduce_axis((0, n), name="r"), te.reduce_axis((0, p), name="q")
    C = te.compute((m,), lambda i: te.sum(A[i, r, q], axis=[r, q]), name="C")
    s = te.create_schedule(C.op)
    lanes = cfg.define_knob("lanes", [4, 1, 2, 3, 5, 8])
    block = cfg.define_knob("block", [2, 1, 3, 4])
    piece = cfg.define_knob("piece", [1, 2, 3])
    ro, ri = s[C].split(r, factor=piece)
    _, inner = s[C].split(s[C].fuse(ro, s[C].fuse(ri, q)), factor=lanes)
    parts = s.rfactor(C, inner)
    io, ii = s[C].split(s[C].op.axis[0], factor=block)
    s[parts].compute_at(s[C], ii if cfg.define_knob("deep", [False, True]) else io)
    return s, [A, C]


def _largest(a: Any) -> Any:
    return np.argmax(a, axis=1).astype(np.int32)


@template("argmax_rows", target="llvm", reference=_largest)
def argmax_rows(cfg: Knobs, m: int, n: int) -> tuple[Any, list[Any]]:
    """Place of the largest element of each row: a reduction of pairs, split and reordered."""
    A = te.placeholder((m, n), name="A")
    argmax = te.comm_reducer(
        lambda x, y: (
            te.Select(te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0])), x[0], y[0]),
            te.Select(x[1] >= y[1], x[1], y[1]),
        ),
        lambda index, value: (te.const(2**31 - 1, index), te.min_value(value)),
        name="argmax",
    )
    r = te.reduce_axis((0, n), name="r")
    place, _ = te.compute((m,), lambda i: argmax((r.var, A[i, r]), axis=r), name="best")
    C = te.compute((m,), lambda i: place[i], name="C")
    s = te.create_schedule(C.op)
    block = cfg.define_knob("block", [2, 1, 3, 4])
    piece = cfg.define_knob("piece", [4, 1, 2, 7])
    io, _ = s[C].split(s[C].op.axis[0], factor=block)
    s[place].compute_at(s[C], io)
    ro, ri = s[place].split(s[place].op.reduce_axis[0], factor=piece)
    if cfg.define_knob("first", ["row", "piece"]) == "piece":
        s[place].reorder(ro, *s[place].op.axis, ri)
    return s, [A, C]
