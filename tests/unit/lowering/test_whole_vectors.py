"""Vectors that guards may cut off have a copy for whole ones, which moves together."""

from __future__ import annotations

from support.written_loops import changed, loop

from autotune.ir.expr import Buffer, Expr, Var
from autotune.ir.ops import cast, const, likely
from autotune.ir.stmt import For, If, LoopKind, Stmt, Store
from autotune.ir.visitor import free_vars, walk
from autotune.lowering.gpu.whole_vectors import separate_whole_vectors

T, LANE, V = Var("threadIdx.x"), Var("lane"), Var("v")
OUT = Buffer("out", "int32", (const(64),))


def separated(body: Stmt) -> list[Expr]:
    """Return the new conditions; the function computes the same."""
    after = changed(separate_whole_vectors, loop(T, 8, body, LoopKind.THREAD), (OUT,))
    found = [s for s in walk(after.body) if isinstance(s, If) and s.orelse is not None]
    for choice in found:
        assert not any(isinstance(s, If) for s in walk(choice.then))
    return [choice.condition for choice in found]


def lanes(body: Stmt) -> For:
    return For(LANE, const(4), LoopKind.VECTORIZED, body)


def test_a_test_before_the_vector_says_whether_it_is_whole() -> None:
    index = T * 4 + LANE - 3
    guarded = If(likely(index >= 0), If(likely(index < 22), Store(OUT, index, cast("int32", T))))
    (condition,) = separated(lanes(guarded))
    assert LANE not in set(free_vars(condition))


def test_inner_loops_are_counted_in() -> None:
    index = T * 8 + V * 4 + LANE
    guarded = If(likely(index < 51), Store(OUT, index, cast("int32", T)))
    (condition,) = separated(lanes(For(V, const(2), LoopKind.UNROLL_HINTED, guarded)))
    assert set(free_vars(condition)) == {T}


def test_a_guard_that_is_the_same_for_all_lanes_needs_no_copy() -> None:
    index = T * 4 + LANE
    assert not separated(lanes(If(likely(index < 20), Store(OUT, index, cast("int32", T)))))
