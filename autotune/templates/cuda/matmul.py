"""Matrix product on GPUs: tiles of blocks, virtual threads and threads; operands by way of caches.

The operands' tiles are fetched into shared memory by all threads of a block together, from there
by each thread into registers; sums stay in registers until the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.template import Knobs, template
from autotune.templates._checks import check_arguments
from autotune.templates.cuda._loops import bind, lane_counts


def _flops(m: int, n: int, k: int, dtype: str = "float32") -> float:
    return 2.0 * m * n * k


@template("matmul", target="cuda", reference=np.matmul, flops=_flops)
def matmul(cfg: Knobs, m: int, n: int, k: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """C[m, n] = A[m, k] @ B[k, n]; half floats are multiplied and summed in float32.

    Knobs
    -----
    threads_m, threads_n
        Threads of a block along rows and columns.
    own_m, own_n
        Rows and columns side by side that a thread computes, once for each virtual thread.
    virtual_m, virtual_n
        Virtual threads: times that a block's threads, side by side, are laid over its tile.
    depth
        Steps of the reduction whose operands lie in shared memory together.
    fetch
        Elements that a thread fetches together.
    pad
        Elements between the rows of A's tile, which lies transposed in shared memory, against bank
        conflicts when it is stored there.
    ahead
        Whether the next tiles are fetched while the present ones are used.
    """
    check_arguments("matmul", dtype, dtypes.NUMBERS, m=m, n=n, k=k)
    # The first value of a knob is its default.
    threads_m = cfg.define_knob("threads_m", [16, 4, 8, 32])
    threads_n = cfg.define_knob("threads_n", [16, 4, 8, 32])
    own_m = cfg.define_knob("own_m", [4, 1, 2, 8])
    own_n = cfg.define_knob("own_n", [4, 1, 2, 8])
    virtual_m = cfg.define_knob("virtual_m", [2, 1, 4])
    virtual_n = cfg.define_knob("virtual_n", [2, 1, 4])
    depth = cfg.define_knob("depth", [16, 4, 8, 32])
    widths = lane_counts(cfg.target, dtype)
    widest = widths[-1]
    fetch = cfg.define_knob("fetch", widths[::-1])
    pad = cfg.define_knob("pad", [4, 0, 1, 2])
    ahead = cfg.define_knob("ahead", [False, True])
    cfg.add_constraint((k % fetch == 0) & (n % fetch == 0), "rows are whole numbers of vectors")

    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    # Tiles that stick out are filled with zeros, so that what is done with them has no guards.
    tile_m, tile_n = threads_m * own_m * virtual_m, threads_n * own_n * virtual_n
    rows, columns, steps = (
        te.ceildiv(size, tile) * tile for size, tile in ((m, tile_m), (n, tile_n), (k, depth))
    )
    zero = te.const(0, dtype)
    turned = te.compute(
        (steps, rows),
        lambda kk, i: te.if_then_else(te.all(kk < k, i < m), A[i, kk], zero),
        name="A.shared",
    )
    filled = te.compute(
        (steps, columns),
        lambda kk, j: te.if_then_else(te.all(kk < k, j < n), B[kk, j], zero),
        name="B.shared",
    )
    kk = te.reduce_axis((0, steps), name="k")
    total = te.compute(
        (rows, columns), lambda i, j: te.sum(turned[kk, i] * filled[kk, j], axis=kk), name="T"
    )
    C = te.compute((m, n), lambda i, j: total[i, j].astype(dtype), name="C")

    s = te.create_schedule(C.op)
    in_registers = [s.cache_read(tile, "local", [total]) for tile in (turned, filled)]
    by, vy, ty, i = _tiled(s[C], C.op.axis[0], virtual_m, threads_m, own_m)
    bx, vx, tx, j = _tiled(s[C], C.op.axis[1], virtual_n, threads_n, own_n)
    s[C].reorder(by, bx, vy, vx, ty, tx, i, j)
    bind(s[C], {"blockIdx.y": by, "blockIdx.x": bx, "threadIdx.y": ty, "threadIdx.x": tx})
    for virtual in (vy, vx):
        s[C].bind(virtual, te.thread_axis("vthread"))
    s[total].compute_at(s[C], tx)
    outer, inner = s[total].split(total.op.reduce_axis[0], factor=depth)
    s[total].reorder(outer, inner, *total.op.axis)

    s[turned].storage_align(turned.op.axis[0], tile_m, pad)
    along_k = tuple(reversed(turned.op.axis))
    for tile, axes in ((turned, along_k), (filled, filled.op.axis)):
        s[tile].set_scope("shared")
        s[tile].compute_at(s[total], outer)
        _fetched(s[tile], axes, {"threadIdx.x": threads_n, "threadIdx.y": threads_m}, fetch)
        if ahead:
            s[tile].double_buffer()
    for registers, own in zip(in_registers, (own_m, own_n), strict=True):
        s[registers].compute_at(s[total], inner)
        _vectors(s[registers], registers.op.axis[1], own, widest)
    if n % widest == 0:
        _vectors(s[C], j, own_n, widest)
    return s, [A, B, C]


def _tiled(stage: Any, axis: Any, virtual: Any, threads: Any, own: Any) -> tuple[Any, ...]:
    """Split an axis of the result into blocks, virtual threads, threads and elements."""
    axis, inner = stage.split(axis, factor=own)
    axis, thread = stage.split(axis, factor=threads)
    block, vthread = stage.split(axis, factor=virtual)
    return block, vthread, thread, inner


def _fetched(stage: Any, axes: Sequence[Any], threads: Mapping[str, Any], lanes: Any) -> None:
    """Let all threads of a block fill a tile together, some elements of its last axis at a time."""
    stage.reorder(*axes)
    rest = stage.fuse(*axes)
    rest, vector = stage.split(rest, factor=lanes)
    stage.vectorize(vector)
    for tag, extent in threads.items():
        rest, thread = stage.split(rest, factor=extent)
        bind(stage, {tag: thread})


def _vectors(stage: Any, axis: Any, own: Any, widest: int) -> None:
    """Move a thread's elements, which lie side by side, in the widest pieces there are."""
    _, vector = stage.split(axis, factor=te.min(own, widest))
    stage.vectorize(vector)
