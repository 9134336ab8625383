"""CUDA schedules whose features are benchmarked: what they compute is not run here.

The structures of AutoTVM's CUDA templates: tiles of blocks, virtual threads and threads, operands
fetched together into shared memory, accumulators in registers.
"""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.template import Knobs, template

_LARGEST_BLOCK = 1024
_SHARED_BYTES = 48 * 1024
_FLOAT_BYTES = 4


def _bind(stage: Any, axes: dict[str, Any]) -> None:
    for tag, axis in axes.items():
        stage.bind(axis, te.thread_axis(tag))


def _fetch(stage: Any, threads: dict[str, Any], vector: Any) -> None:
    """Let all threads of a block copy a tile together, some elements at a time."""
    rest = stage.fuse(*stage.op.axis)
    rest, lanes = stage.split(rest, factor=vector)
    stage.vectorize(lanes)
    for tag, extent in threads.items():
        rest, inner = stage.split(rest, factor=extent)
        stage.bind(inner, te.thread_axis(tag))


@template("matmul_cuda", target="cuda")
def matmul_cuda(cfg: Knobs, n: int = 1024) -> tuple[Any, list[Any]]:
    """C[n, n] = A[n, n] @ B[n, n]."""
    A, B = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    tile_y = cfg.define_split("tile_y", n, 4)
    tile_x = cfg.define_split("tile_x", n, 4)
    tile_k = cfg.define_split("tile_k", n, 3)
    fetch = cfg.define_knob("fetch", [1, 2, 4])
    threads = {"threadIdx.x": tile_x[2], "threadIdx.y": tile_y[2]}
    cfg.add_constraint(tile_y[2] * tile_x[2] <= _LARGEST_BLOCK, "threads of a block")
    rows, columns = (tile[1] * tile[2] * tile[3] for tile in (tile_y, tile_x))
    cfg.add_constraint(
        (rows + columns) * tile_k[1] * tile_k[2] * _FLOAT_BYTES <= _SHARED_BYTES, "shared memory"
    )

    s = te.create_schedule(C.op)
    in_shared = [s.cache_read(operand, "shared", [C]) for operand in (A, B)]
    in_registers = [s.cache_read(tile, "local", [C]) for tile in in_shared]
    acc = s.cache_write(C, "local")
    by, vy, ty, yi = tile_y.apply(s[C], s[C].op.axis[0])
    bx, vx, tx, xi = tile_x.apply(s[C], s[C].op.axis[1])
    s[C].reorder(by, bx, vy, vx, ty, tx, yi, xi)
    _bind(s[C], {"blockIdx.y": by, "blockIdx.x": bx, "vthread": vy})
    _bind(s[C], {"vthread": vx, "threadIdx.y": ty, "threadIdx.x": tx})
    s[acc].compute_at(s[C], tx)
    ko, km, ki = tile_k.apply(s[acc], s[acc].op.reduce_axis[0])
    s[acc].reorder(ko, km, ki, *s[acc].op.axis)
    for tile, registers in zip(in_shared, in_registers, strict=True):
        s[tile].compute_at(s[acc], ko)
        s[registers].compute_at(s[acc], km)
        _fetch(s[tile], threads, fetch)
    return s, [A, B, C]


@template("conv2d_cuda", target="cuda")
def conv2d_cuda(
    cfg: Knobs, channels: int = 64, size: int = 56, filters: int = 64, kernel: int = 3
) -> tuple[Any, list[Any]]:
    """Convolve one image with its border added, stride 1."""
    D = te.placeholder((1, channels, size, size), name="D")
    W = te.placeholder((filters, channels, kernel, kernel), name="W")
    margin = kernel // 2
    P = te.compute(
        (1, channels, size + 2 * margin, size + 2 * margin),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= margin, y < size + margin, x >= margin, x < size + margin),
            D[n, c, y - margin, x - margin],
            0.0,
        ),
        name="P",
    )
    rc = te.reduce_axis((0, channels), name="rc")
    ry = te.reduce_axis((0, kernel), name="ry")
    rx = te.reduce_axis((0, kernel), name="rx")
    C = te.compute(
        (1, filters, size, size),
        lambda n, f, y, x: te.sum(P[n, rc, y + ry, x + rx] * W[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="C",
    )
    tile_f = cfg.define_split("tile_f", filters, 4)
    tile_y = cfg.define_split("tile_y", size, 4)
    tile_x = cfg.define_split("tile_x", size, 4)
    tile_rc = cfg.define_split("tile_rc", channels, 2)
    tile_ry = cfg.define_split("tile_ry", kernel, 2)
    tile_rx = cfg.define_split("tile_rx", kernel, 2)
    threads = {"threadIdx.x": tile_x[2], "threadIdx.y": tile_y[2], "threadIdx.z": tile_f[2]}
    cfg.add_constraint(tile_f[2] * tile_y[2] * tile_x[2] <= _LARGEST_BLOCK, "threads of a block")

    s = te.create_schedule(C.op)
    s[P].compute_inline()
    in_shared = [s.cache_read(operand, "shared", [C]) for operand in (P, W)]
    acc = s.cache_write(C, "local")
    n, f, y, x = s[C].op.axis
    bf, vf, tf, fi = tile_f.apply(s[C], f)
    by, vy, ty, yi = tile_y.apply(s[C], y)
    bx, vx, tx, xi = tile_x.apply(s[C], x)
    bf = s[C].fuse(n, bf)
    s[C].reorder(bf, by, bx, vf, vy, vx, tf, ty, tx, fi, yi, xi)
    _bind(s[C], {"blockIdx.z": bf, "blockIdx.y": by, "blockIdx.x": bx})
    for axis in (vf, vy, vx):
        s[C].bind(axis, te.thread_axis("vthread"))
    _bind(s[C], {"threadIdx.z": tf, "threadIdx.y": ty, "threadIdx.x": tx})
    s[acc].compute_at(s[C], tx)
    rco, rci = tile_rc.apply(s[acc], s[acc].op.reduce_axis[0])
    ryo, ryi = tile_ry.apply(s[acc], s[acc].op.reduce_axis[1])
    rxo, rxi = tile_rx.apply(s[acc], s[acc].op.reduce_axis[2])
    s[acc].reorder(rco, ryo, rxo, rci, ryi, rxi, *s[acc].op.axis)
    for tile in in_shared:
        s[tile].compute_at(s[acc], rxo)
        _fetch(s[tile], threads, 1)
    return s, [D, W, C]


@template("broadcast_add_cuda", target="cuda")
def broadcast_add_cuda(cfg: Knobs, n: int = 4096) -> tuple[Any, list[Any]]:
    """C[n, n] = A[n, 1] + B[n, n]."""
    A = te.placeholder((n, 1), name="A")
    B = te.placeholder((n, n), name="B")
    C = te.compute((n, n), lambda x, y: A[x, 0] + B[x, y], name="C")
    nt = cfg.define_knob("nt", list(range(32, 1025, 32)))
    nb = cfg.define_knob("nb", list(range(32, 4097, 32)))
    each = cfg.define_knob("each", list(range(1, 65)))
    vector = cfg.define_knob("vector", [1, 2, 4])
    s = te.create_schedule(C.op)
    fused = s[C].fuse(*s[C].op.axis)
    fused, lanes = s[C].split(fused, factor=vector)
    s[C].vectorize(lanes)
    fused, _ = s[C].split(fused, factor=each)
    fused, tx = s[C].split(fused, factor=nt)
    _, bx = s[C].split(fused, factor=nb)
    s[C].reorder(bx, tx)
    _bind(s[C], {"blockIdx.x": bx, "threadIdx.x": tx})
    return s, [A, B, C]
