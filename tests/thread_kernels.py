"""Small functions whose threads share memory and meet at barriers, with what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvm_kernels import i32

from autotune.ir import ops
from autotune.ir.expr import Buffer, Const, Expr, Load, Var
from autotune.ir.stmt import Allocate, Barrier, For, Function, If, LoopKind, Stmt, Store, seq

Array = npt.NDArray[Any]
Kernel = Callable[[], tuple[Function, Array, Array]]
BLOCKS, THREADS = 3, 8
N = BLOCKS * THREADS

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


def function(body: Stmt) -> Function:
    return Function("f", (A, O), frozenset({O}), body)


def _input() -> Array:
    return np.arange(N, dtype=np.float32) ** 2


def _of(body: Stmt, expected: Callable[[Array], Array]) -> tuple[Function, Array, Array]:
    values = _input()
    result = expected(values.reshape(BLOCKS, THREADS)).reshape(N).astype(np.float32)
    return function(body), values, result


def reversed_by_blocks() -> tuple[Function, Array, Array]:
    S = shared()
    body = seq(copied(S, thread, A, here), Barrier(), copied(O, here, S, THREADS - 1 - thread))
    return _of(blocks(threads(Allocate(S, body))), lambda a: a[:, ::-1])


def two_nests_of_one_block() -> tuple[Function, Array, Array]:
    """Shared memory allocated outside the thread loops, which end between write and read."""
    S = shared()
    nests = seq(threads(copied(S, thread, A, here)), threads(copied(O, here, S, 7 - thread)))
    return _of(blocks(Allocate(S, nests)), lambda a: a[:, ::-1])


def rotated_in_a_loop() -> tuple[Function, Array, Array]:
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


def sums_in_a_tree() -> tuple[Function, Array, Array]:
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


def rows_and_columns() -> tuple[Function, Array, Array]:
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


def under_uniform_conditions() -> tuple[Function, Array, Array]:
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


def deep_in_loops() -> tuple[Function, Array, Array]:
    """A barrier inside more loops than one function of CPython may nest."""
    S = shared()
    body = seq(copied(S, thread, A, here), Barrier(), copied(O, here, S, THREADS - 1 - thread))
    for depth in range(18):
        body = serial(Var(f"i{depth}"), 1, body)
    return _of(blocks(threads(Allocate(S, body))), lambda a: a[:, ::-1])


def two_kernels() -> tuple[Function, Array, Array]:
    """The second kernel reads in every block what all blocks of the first wrote."""
    T = Buffer("T", "float32", (i32(N),))
    body = seq(
        blocks(threads(copied(T, here, A, here))),
        blocks(threads(copied(O, here, T, N - 1 - here))),
    )
    return _of(Allocate(T, body), lambda a: a[::-1, ::-1])


def virtual_threads() -> tuple[Function, Array, Array]:
    """Each thread does the work of two, one after the other; both use the same shared memory."""
    S, virtual, column = shared("S", 4), Var("vthread"), Var("threadIdx.x")
    at = block * THREADS + virtual * 4 + column
    body = seq(
        copied(S, column, A, at), Barrier(), copied(O, at, S, 3 - column), Barrier()
    )
    loop = For(virtual, i32(2), LoopKind.VTHREAD, body, "vthread")
    return _of(
        blocks(threads(Allocate(S, loop), column, 4)),
        lambda a: a.reshape(BLOCKS, 2, 4)[:, :, ::-1],
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
)
