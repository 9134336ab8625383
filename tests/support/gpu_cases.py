"""Schedules for GPUs that tests of sources and of golden files have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune import te
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor

Case = tuple[Schedule, list[Tensor]]


def bound(stage: Any, axis: Any, threads: int, lanes: int = 1) -> Any:
    """Bind an axis to blocks of so many threads, of which each computes some lanes."""
    if lanes > 1:
        axis, inner = stage.split(axis, factor=lanes)
        stage.vectorize(inner)
    bx, tx = stage.split(axis, factor=threads)
    stage.bind(bx, te.thread_axis("blockIdx.x"))
    stage.bind(tx, te.thread_axis("threadIdx.x"))
    return bx


def bind(stage: Any, **axes: Any) -> None:
    """Bind loops by short names: bx, by, tx, ty; v for virtual threads."""
    for name, axis in axes.items():
        level = {"b": "blockIdx", "t": "threadIdx"}.get(name[0])
        tag = "vthread" if level is None else f"{level}.{name[1]}"
        stage.bind(axis, te.thread_axis(tag))


def broadcast_add(n: int = 64, threads: int = 32, lanes: int = 4) -> Case:
    A, B = te.placeholder((n, 1), name="A"), te.placeholder((n, n), name="B")
    C = te.compute((n, n), lambda x, y: A[x, 0] + B[x, y], name="C")
    s = te.create_schedule(C.op)
    bound(s[C], s[C].fuse(*C.op.axis), threads, lanes)
    return s, [A, B, C]


def relu_tail(n: int = 100, dtype: str = "float16") -> Case:
    """An element-wise function whose last block is not full."""
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: te.max(A[i], te.const(0.0, dtype)), name="B")
    s = te.create_schedule(B.op)
    bound(s[B], B.op.axis[0], 32)
    return s, [A, B]


def transpose(n: int = 32, tile: int = 8) -> Case:
    """Tiles go through shared storage whose rows are padded against bank conflicts."""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    copy = s.cache_read(A, "shared", [B])
    by, bx, ty, tx = s[B].tile(*B.op.axis, tile, tile)
    s[copy].compute_at(s[B], bx)
    s[copy].storage_align(copy.op.axis[0], tile, 1)
    bind(s[B], by=by, bx=bx, ty=ty, tx=tx)
    bind(s[copy], ty=copy.op.axis[0], tx=copy.op.axis[1])
    return s, [A, B]


def row_sums(n: int = 4, m: int = 300, threads: int = 64, rows: int = 1) -> Case:
    """Sums of rows, each by several threads along x; blocks have several rows along y."""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, tx = s[B].split(k, factor=threads)
    bx, ty = s[B].split(B.op.axis[0], factor=rows)
    bind(s[B], bx=bx, ty=ty, tx=tx)
    return s, [A, B]


def softmax(n: int = 3, m: int = 40, threads: int = 32) -> Case:
    """Each row in one block: its largest element and its sum are shared by all threads."""
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    largest = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="M")
    total = te.compute((n,), lambda i: te.sum(te.exp(A[i, r] - largest[i]), axis=r), name="S")
    B = te.compute((n, m), lambda i, j: te.exp(A[i, j] - largest[i]) / total[i], name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    _, tx = s[B].split(j, factor=threads)
    bind(s[B], bx=i, tx=tx)
    for stage, axis in ((s[largest], k), (s[total], r)):
        stage.set_scope("shared")
        stage.compute_at(s[B], i)
        bind(stage, tx=stage.split(axis, factor=threads)[1])
    return s, [A, B]


def matmul(
    n: int = 32,
    dtype: str = "float32",
    tile: Sequence[int] = (2, 4, 2),
    depth: int = 8,
    lanes: int = 2,
    ahead: bool | str = False,
) -> Case:
    """Tiles of virtual threads, threads and elements; operands come through shared storage.

    Parameters
    ----------
    n : int
        Rows and columns.
    dtype : str
        Of the operands.
    tile : sequence of int
        Virtual threads, threads and elements of each, along rows and columns alike.
    depth : int
        Of the tiles in shared storage.
    lanes : int
        Elements that a thread fetches together.
    ahead : bool
        Whether the next tiles are fetched before the present ones are used up, "registers" if they
        wait there.
    """
    A, B = te.placeholder((n, n), dtype, name="A"), te.placeholder((n, n), dtype, name="B")
    k = te.reduce_axis((0, n), name="k")
    wide = None if dtype in ("float16", "bfloat16") else dtype.replace("int8", "int32")
    C = te.compute(
        (n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k)
        if wide == dtype or wide is None
        else te.sum(A[i, k].astype(wide) * B[k, j].astype(wide), axis=k),
        name="C",
    )  # fmt: skip
    s = te.create_schedule(C.op)
    shared = [s.cache_read(x, "shared", [C]) for x in (A, B)]
    total = s.cache_write(C, "local")
    virtual, threads, own = tile
    loops = []
    for axis in C.op.axis:
        rest, inner = s[C].split(axis, factor=own)
        rest, thread = s[C].split(rest, factor=threads)
        block, vthread = s[C].split(rest, factor=virtual)
        loops.append((block, vthread, thread, inner))
    s[C].reorder(*(loop for level in zip(*loops, strict=True) for loop in level))
    (by, vy, ty, _), (bx, vx, tx, _) = loops
    bind(s[C], by=by, bx=bx, v=vy, ty=ty, tx=tx)
    bind(s[C], v=vx)
    s[total].compute_at(s[C], tx)
    outer, inner = s[total].split(total.op.reduce_axis[0], factor=depth)
    s[total].reorder(outer, inner, *total.op.axis)
    for copy in shared:
        s[copy].compute_at(s[total], outer)
        rest = s[copy].fuse(*copy.op.axis)
        if lanes > 1:
            rest, vector = s[copy].split(rest, factor=lanes)
            s[copy].vectorize(vector)
        rest, tx = s[copy].split(rest, factor=threads)
        _, ty = s[copy].split(rest, factor=threads)
        bind(s[copy], tx=tx, ty=ty)
        if ahead:
            s[copy].double_buffer(None if ahead is True else ahead)
    return s, [A, B, C]
