"""Small functions whose threads share memory and meet at barriers, with what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.ir import ops
from autotune.ir.expr import Buffer, Const, Expr, Load, Var
from autotune.ir.ops import cast
from autotune.ir.stmt import (
    Allocate,
    Barrier,
    For,
    If,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    WarpReduce,
    seq,
)
from support.llvm_kernels import i32

Array = npt.NDArray[Any]
Kernel = Callable[[], tuple[PrimFunc, Array, Array]]
BLOCKS, THREADS = 3, 8
N = BLOCKS * THREADS

A_TENSOR = te.placeholder((N,), name="A")
A, O = (Buffer(name, "float32", (i32(N),)) for name in "AO")  # noqa: E741
block, thread, row = Var("blockIdx.x"), Var("threadIdx.x"), Var("threadIdx.y")
here = block * THREADS + thread
"""Each thread's own element of A and O."""


def shared(name: str = "S", *shape: int) -> Buffer:
    return Buffer(name, "float32", tuple(map(i32, shape or (THREADS,))), "shared")


def local(name: str, *shape: int) -> Buffer:
    return Buffer(name, "float32", tuple(map(i32, shape or (1,))), "local")


def threads(body: Stmt, var: Var = thread, extent: int | Expr = THREADS) -> Stmt:
    return For(var, ops.convert(extent), LoopKind.THREAD, body, var.name)


def blocks(body: Stmt, var: Var = block, extent: int = BLOCKS) -> Stmt:
    return For(var, i32(extent), LoopKind.THREAD, body, var.name)


def serial(var: Var, extent: int | Expr, body: Stmt) -> Stmt:
    return For(var, ops.convert(extent), LoopKind.SERIAL, body)


def copied(goal: Buffer, to: Any, source: Buffer, at: Any) -> Store:
    return Store(goal, ops.convert(to), Load(source, ops.convert(at)))


def added(goal: Buffer, to: Any, value: Expr) -> Store:
    return Store(goal, ops.convert(to), Load(goal, ops.convert(to)) + value)


def allocated(body: Stmt, *buffers: Buffer) -> Stmt:
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return body


def function(body: Stmt) -> PrimFunc:
    return PrimFunc("f", (A, O), frozenset({O}), body)


def _input() -> Array:
    return np.arange(N, dtype=np.float32) ** 2


def _of(body: Stmt, expected: Callable[[Array], Array]) -> tuple[PrimFunc, Array, Array]:
    values = _input()
    result = expected(values.reshape(BLOCKS, THREADS)).reshape(N).astype(np.float32)
    return function(body), values, result


def reversed_by_blocks() -> tuple[PrimFunc, Array, Array]:
    S = shared()
    body = seq(copied(S, thread, A, here), Barrier(), copied(O, here, S, THREADS - 1 - thread))
    return _of(blocks(threads(Allocate(S, body))), lambda a: a[:, ::-1])


def two_nests_of_one_block() -> tuple[PrimFunc, Array, Array]:
    """Shared memory allocated outside the thread loops, which end between write and read."""
    S = shared()
    nests = seq(threads(copied(S, thread, A, here)), threads(copied(O, here, S, 7 - thread)))
    return _of(blocks(Allocate(S, nests)), lambda a: a[:, ::-1])


def rotated_in_a_loop() -> tuple[PrimFunc, Array, Array]:
    """Each round every thread takes its neighbour's value; a value lives across both barriers."""
    S, kept, step = shared(), local("kept"), Var("step")
    once = seq(
        copied(S, thread, kept, 0),
        Barrier(),
        copied(kept, 0, S, (thread + 1) % THREADS),
        Barrier(),
    )
    body = seq(copied(kept, 0, A, here), serial(step, 3, once), copied(O, here, kept, 0))
    return _of(blocks(threads(allocated(body, S, kept))), lambda a: np.roll(a, -3, axis=1))


def sums_in_a_tree() -> tuple[PrimFunc, Array, Array]:
    """Half of the threads work in each step; the barriers stand outside their conditions."""
    S, steps = shared(), []
    for width in (4, 2, 1):
        half = If(thread < width, added(S, thread, Load(S, thread + width)))
        steps += [Barrier(), half]
    body = seq(copied(S, thread, A, here), *steps, Barrier(), copied(O, here, S, 0))
    return _of(
        blocks(threads(Allocate(S, body))),
        lambda a: np.broadcast_to(a.sum(1, keepdims=True), a.shape),
    )


def rows_and_columns() -> tuple[PrimFunc, Array, Array]:
    """Blocks of 2 x 4 threads; a barrier in two thread loops, with a statement between them."""
    S, mine, column = shared("S", 2, 4), local("mine", 2), Var("threadIdx.x")
    at = block * THREADS + row * 4 + column
    body = seq(
        copied(mine, 0, A, at),
        Store(mine, i32(1), Const(1.0, "float32")),
        copied(S, row * 4 + column, mine, 0),
        Barrier(),
        added(mine, 1, Load(S, (1 - row) * 4 + (3 - column))),
        copied(O, at, mine, 1),
    )
    nest = threads(threads(Allocate(mine, body), column, 4), row, 2)
    return _of(blocks(Allocate(S, nest)), lambda a: a[:, ::-1] + 1)


def under_uniform_conditions() -> tuple[PrimFunc, Array, Array]:
    """Only even blocks reverse; the number of rounds differs between blocks."""
    S, turn = shared(), Var("turn")
    once = seq(
        copied(S, thread, O, here),
        Barrier(),
        copied(O, here, S, THREADS - 1 - thread),
        Barrier(),
    )
    test = ops.binary("==", block % 2, i32(0))
    body = seq(
        copied(O, here, A, here),
        If(test, serial(turn, block + 1, once), added(O, here, Const(1.0, "float32"))),
    )
    return _of(
        blocks(threads(Allocate(S, body))),
        lambda a: np.stack([a[0, ::-1], a[1] + 1, a[2, ::-1]]),
    )


def deep_in_loops() -> tuple[PrimFunc, Array, Array]:
    """A barrier inside more loops than one function of CPython may nest."""
    S = shared()
    body = seq(copied(S, thread, A, here), Barrier(), copied(O, here, S, THREADS - 1 - thread))
    for depth in range(18):
        body = serial(Var(f"i{depth}"), 1, body)
    return _of(blocks(threads(Allocate(S, body))), lambda a: a[:, ::-1])


def two_kernels() -> tuple[PrimFunc, Array, Array]:
    """The second kernel reads in every block what all blocks of the first wrote."""
    T = Buffer("T", "float32", (i32(N),))
    body = seq(
        blocks(threads(copied(T, here, A, here))),
        blocks(threads(copied(O, here, T, N - 1 - here))),
    )
    return _of(Allocate(T, body), lambda a: a[::-1, ::-1])


def virtual_threads() -> tuple[PrimFunc, Array, Array]:
    """Each thread does the work of two, one after the other; both use the same shared memory."""
    S, virtual, column = shared("S", 4), Var("vthread"), Var("threadIdx.x")
    at = block * THREADS + virtual * 4 + column
    body = seq(copied(S, column, A, at), Barrier(), copied(O, at, S, 3 - column), Barrier())
    loop = For(virtual, i32(2), LoopKind.VTHREAD, body, "vthread")
    return _of(
        blocks(threads(Allocate(S, loop), column, 4)),
        lambda a: a.reshape(BLOCKS, 2, 4)[:, :, ::-1],
    )


def sums_of_warps() -> tuple[PrimFunc, Array, Array]:
    """Four threads each combine their values, in two rows of a block; twice, in a loop."""
    row, column, step = Var("threadIdx.y"), Var("threadIdx.x"), Var("step")
    total, kept, at = local("total", 2), local("kept"), block * THREADS + row * 2 + column
    combiner = te.sum(A_TENSOR[0], axis=te.reduce_axis((0, 1))).combiner
    reduced = WarpReduce(combiner, (Load(kept, i32(0)),), (total,), step, 4)
    body = seq(
        copied(kept, 0, A, at),
        serial(step, 2, seq(reduced, added(kept, 0, Load(total, step)))),
        copied(O, at, kept, 0),
    )
    nest = threads(threads(allocated(body, total, kept), column, 2), row, 4)

    def expected(a: Array) -> Array:
        for _ in range(2):
            a = a + a.reshape(BLOCKS, 2, 4).sum(2).repeat(4, 1)
        return a

    return _of(blocks(nest), expected)


def largest_of_warps_and_where() -> tuple[PrimFunc, Array, Array]:
    """Two values combine together, those of one result in those of the other."""
    total = [local("place"), local("value")]
    value = Load(A, (block + 1) * 5 * (thread + 1) % 23)
    combiner = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda place, value: (te.const(-1, place), te.min_value(value)),
    )((A_TENSOR[0], A_TENSOR[0]), axis=te.reduce_axis((0, 1)))[0].combiner
    operands = (cast("float32", thread), value)
    body = seq(
        WarpReduce(combiner, operands, tuple(total), i32(0), 8), copied(O, here, total[0], 0)
    )
    picked = np.array([[(b + 1) * 5 * (t + 1) % 23 for t in range(8)] for b in range(BLOCKS)])
    return _of(
        blocks(threads(allocated(body, *total))),
        lambda a: np.broadcast_to(picked.argmax(1, keepdims=True), a.shape),
    )


KERNELS: tuple[Kernel, ...] = (
    reversed_by_blocks,
    two_nests_of_one_block,
    rotated_in_a_loop,
    sums_in_a_tree,
    rows_and_columns,
    under_uniform_conditions,
    deep_in_loops,
    two_kernels,
    virtual_threads,
    sums_of_warps,
    largest_of_warps_and_where,
)
