"""Matrix product on GPUs: tiles of blocks, virtual threads and threads; operands by way of caches.

The operands' tiles are fetched into shared memory by all threads of a block together, from there
by each thread into registers; sums stay in registers until the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.template import Knobs, template
from autotune.templates._checks import check_arguments
from autotune.templates.cuda._loops import WARP, bind, lane_counts

REGISTERS = 64 * 1024
"""Registers of a multiprocessor, on every architecture from sm_70 on."""

OTHER_REGISTERS = 24
"""Registers of a thread that hold no sums: operands, addresses, loop variables; a rough rule."""


def _flops(m: int, n: int, k: int, dtype: str = "float32") -> float:
    return 2.0 * m * n * k


@template("matmul", target="cuda", reference=np.matmul, flops=_flops)
def matmul(cfg: Knobs, m: int, n: int, k: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """C[m, n] = A[m, k] @ B[k, n]; half floats are multiplied and summed in float32.

    Knobs
    -----
    warps_m, warps_n
        Warps of a block along rows and columns.
    lanes_m
        Threads of a warp along rows, of 32.
    own_m, own_n
        Rows and columns side by side that a thread computes, once for each virtual thread.
    virtual_m, virtual_n
        Virtual threads: times that a warp's threads, side by side, are laid over its tile.
    depth
        Steps of the reduction whose operands lie in shared memory together.
    unroll
        Steps of the reduction that are written out.
    fetch
        Elements that a thread fetches together.
    pad
        Elements between the rows of A's tile, which lies transposed in shared memory, against bank
        conflicts when it is stored there.
    group
        Rows of tiles that neighbouring blocks go down before they go right, so that they find what
        the others loaded in the L2 cache.
    resident
        Blocks that are to run side by side on a multiprocessor, which limits their registers; 0
        leaves it to the compiler.
    ahead
        Whether the next tiles are fetched while the present ones are used: "registers" keeps them
        there until then, "copies" has them copied meanwhile, "shared" stores them at once.
    """
    check_arguments("matmul", dtype, dtypes.NUMBERS, m=m, n=n, k=k)
    # The first value of a knob is its default.
    warps_m = cfg.define_knob("warps_m", [2, 1, 4, 8])
    warps_n = cfg.define_knob("warps_n", [4, 1, 2, 8])
    lanes_m = cfg.define_knob("lanes_m", [8, 1, 2, 4, 16, 32])
    own_m = cfg.define_knob("own_m", [4, 1, 2, 8])
    own_n = cfg.define_knob("own_n", [4, 1, 2, 8])
    virtual_m = cfg.define_knob("virtual_m", [2, 1, 4])
    virtual_n = cfg.define_knob("virtual_n", [2, 1, 4])
    depth = cfg.define_knob("depth", [16, 4, 8, 32])
    unroll = cfg.define_knob("unroll", [16, 1, 2, 4, 8, 32])
    widths = lane_counts(cfg.target, dtype)
    widest = widths[-1]
    fetch = cfg.define_knob("fetch", widths[::-1])
    pad = cfg.define_knob("pad", [4, 0, 1, 2])
    ahead = cfg.define_knob("ahead", ["registers", "copies", "shared", "no"])
    group = cfg.define_knob("group", [8, 1, 2, 4, 16])
    resident = cfg.define_knob("resident", [2, 0, 1, 3])
    threads, sums = warps_m * warps_n * WARP, own_m * own_n * virtual_m * virtual_n
    side_by_side = te.max(resident, 1) * threads
    cfg.add_constraint(
        (sums + OTHER_REGISTERS) * side_by_side <= REGISTERS,
        "the sums of blocks side by side fit in the registers of a multiprocessor",
    )
    cfg.add_constraint(side_by_side <= 1024, "blocks side by side have at most 1024 threads")
    cfg.add_constraint(unroll <= depth, "no more steps are written out than lie in shared memory")
    cfg.add_constraint((k % fetch == 0) & (n % fetch == 0), "rows are whole numbers of vectors")

    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    # Tiles that stick out are filled with zeros, so that what is done with them has no guards.
    lanes_n = WARP // lanes_m
    tile_m = warps_m * virtual_m * lanes_m * own_m
    tile_n = warps_n * virtual_n * lanes_n * own_n
    rows, columns, steps = (
        te.ceildiv(size, tile) * tile for size, tile in ((m, tile_m), (n, tile_n), (k, depth))
    )
    cfg.add_constraint(te.ceildiv(m, tile_m) % group == 0, "rows of tiles are whole groups")
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
    in_registers = [s.cache_read(tile, "local", [total]) for tile in (left, right)]
    by, wy, vy, ty, i = _tiled(s[C], C.op.axis[0], warps_m, virtual_m, lanes_m, own_m)
    bx, wx, vx, tx, j = _tiled(s[C], C.op.axis[1], warps_n, virtual_n, lanes_n, own_n)
    by, down = s[C].split(by, factor=group)
    s[C].reorder(by, bx, down, vy, vx, wy, wx, ty, tx, i, j)
    block, thread = s[C].fuse(by, bx, down), s[C].fuse(wy, wx, ty, tx)
    bind(s[C], {"blockIdx.x": block, "threadIdx.x": thread})
    s[C].pragma(block, "blocks_per_multiprocessor", resident)
    for virtual in (vy, vx):
        s[C].bind(virtual, te.thread_axis("vthread"))
    s[total].compute_at(s[C], thread)
    outer, inner = s[total].split(total.op.reduce_axis[0], factor=depth)
    inner, step = s[total].split(inner, factor=unroll)
    s[total].reorder(outer, inner, step, *total.op.axis)
    s[total].unroll(step)

    s[left].transform_layout(lambda i, kk: (kk, i))
    s[left].storage_align(left.op.axis[1], tile_m, pad)
    for tile in (left, right):
        s[tile].set_scope("shared")
        s[tile].compute_at(s[total], outer)
        _fetched(s[tile], threads, fetch)
        if ahead != "no":
            s[tile].double_buffer(None if ahead == "shared" else ahead)
    for registers, axis, own in zip(in_registers, (0, 1), (own_m, own_n), strict=True):
        s[registers].compute_at(s[total], step)
        _vectors(s[registers], registers.op.axis[axis], own, widest)
    if n % widest == 0:
        _vectors(s[C], j, own_n, widest)
    return s, [A, B, C]


def _tiled(stage: Any, axis: Any, *sizes: Any) -> tuple[Any, ...]:
    """Split an axis of the result into blocks, and these again and again, given outermost first."""
    inner: list[Any] = []
    for size in reversed(sizes):
        axis, part = stage.split(axis, factor=size)
        inner.insert(0, part)
    return axis, *inner


def _fetched(stage: Any, threads: Any, lanes: Any) -> None:
    """Let all threads of a block fill a tile together, some elements of its last axis at a time."""
    rest, vector = stage.split(stage.fuse(*stage.op.axis), factor=lanes)
    stage.vectorize(vector)
    rest, thread = stage.split(rest, factor=threads)
    bind(stage, {"threadIdx.x": thread})


def _vectors(stage: Any, axis: Any, own: Any, widest: int) -> None:
    """Move a thread's elements, which lie side by side, in the widest pieces there are."""
    _, vector = stage.split(axis, factor=te.min(own, widest))
    stage.vectorize(vector)
