"""Barriers where not all threads come: conditions move inwards, or are refused in one line."""

from __future__ import annotations

import numpy as np
import pytest
from support.verify import verify

from autotune.errors import LoweringError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import Allocate, Barrier, For, If, LoopKind, PrimFunc, Stmt, Store, seq
from autotune.ir.visitor import walk
from autotune.lowering.gpu.insert_barriers import insert_barriers

THREADS = 8
OUT = Buffer("out", "int32", (const(THREADS),))
SHARED = Buffer("S", "int32", (const(THREADS),), "shared")
t = Var("threadIdx.x")


def kernel(body: Stmt) -> PrimFunc:
    nest = For(t, const(THREADS), LoopKind.THREAD, body, "threadIdx.x")
    block = For(Var("blockIdx.x"), const(1), LoopKind.THREAD, Allocate(SHARED, nest), "blockIdx.x")
    return PrimFunc("f", (OUT,), frozenset({OUT}), block)


def reversed_among(count: Expr | int) -> Stmt:
    """The first `count` threads exchange their numbers."""
    return seq(Store(SHARED, t, t), Store(OUT, t, Load(SHARED, binary("-", count, 1) - t)))


def run(function: PrimFunc) -> list[int]:
    result = np.full(THREADS, -1, "int32")
    interpret(verify(function), [result], races=True)
    return result.tolist()


def barriers(function: PrimFunc) -> int:
    return sum(isinstance(stmt, Barrier) for stmt in walk(function.body))


def test_a_condition_that_differs_between_threads_moves_inwards() -> None:
    function = insert_barriers(kernel(If(t < 5, reversed_among(5))))
    assert run(function) == [4, 3, 2, 1, 0, -1, -1, -1]
    assert barriers(function) == 1


def test_what_only_other_threads_do_stays_on_the_other_side_of_a_barrier() -> None:
    body = If(t < 5, reversed_among(5), Store(OUT, t, const(7)))
    assert run(insert_barriers(kernel(body))) == [4, 3, 2, 1, 0, 7, 7, 7]


def test_a_loop_that_is_longer_in_some_threads_gets_one_length_if_they_wait_in_it() -> None:
    k = Var("k")
    body = seq(
        Store(SHARED, t, const(1)),
        For(k, t, LoopKind.SERIAL, seq(
            Store(OUT, t, Load(SHARED, t - 1)), Store(SHARED, t, Load(OUT, t) + 1)
        )),
    )  # fmt: skip
    function = insert_barriers(kernel(body))
    assert run(function) == [-1, 1, 2, 3, 4, 5, 6, 7]


def test_a_condition_that_changes_in_what_it_guards_is_refused() -> None:
    local = Buffer("L", "int32", (const(1),), "local")
    varying = Allocate(
        local,
        seq(
            Store(local, const(0), t),
            If(
                Load(local, const(0)) < 5,
                seq(Store(local, const(0), const(0)), reversed_among(5)),
            ),
        ),
    )
    with pytest.raises(LoweringError, match="differs between threads and depends on values that"):
        insert_barriers(kernel(varying))


def test_the_halves_of_a_double_buffer_need_one_barrier_for_each_iteration() -> None:
    k = Var("k")
    both = Buffer("S", "int32", (const(2 * THREADS),), "shared")
    body = For(
        k,
        const(4),
        LoopKind.SERIAL,
        seq(
            Store(both, k % 2 * THREADS + t, t + k),
            Store(OUT, t, Load(both, k % 2 * THREADS + (THREADS - 1) - t)),
        ),
    )
    nest = For(t, const(THREADS), LoopKind.THREAD, body, "threadIdx.x")
    function = insert_barriers(PrimFunc("f", (OUT,), frozenset({OUT}), Allocate(both, nest)))
    assert barriers(function) == 1
    assert run(function) == [10, 9, 8, 7, 6, 5, 4, 3]
