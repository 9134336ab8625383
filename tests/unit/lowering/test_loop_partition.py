"""Loops are split where guards change their truth; the result is the same, the main part bare."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.agreement import assert_computes
from support.verify import verify
from support.written_loops import changed, conditions, loop

from autotune import te
from autotune.ir import ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Buffer, Expr, Load, SizeVar, Var
from autotune.ir.ops import const, likely
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Stmt, Store, seq
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.guards.loop_partition import _OpenPartition as OpenPartition
from autotune.lowering.guards.loop_partition import _Partition as Partition
from autotune.lowering.guards.loop_partition import partition, shorten
from autotune.lowering.guards.loop_splitting import Sizes
from autotune.lowering.nest.lower_schedule import lower_schedule

X, Y, Z = Var("x"), Var("y"), Var("z")
N = SizeVar("n")
OUT = Buffer("out", "int32", (const(64),))
VECTOR, UNROLLED, PARALLEL = LoopKind.VECTORIZED, LoopKind.UNROLLED, LoopKind.PARALLEL


def store(index: Expr, value: int | Expr = 1) -> Store:
    return Store(OUT, index, ops.binary("+", Load(OUT, index), ops.convert(value)))


def split(body: Stmt, rule: Callable[[PrimFunc], PrimFunc] = partition) -> PrimFunc:
    """Partition, check that every size still computes the same, and return the function."""
    symbolic = any(N in _variables(stmt) for stmt in walk(body))
    sizes = [{N: n} for n in (0, 1, 5, 37, 48)] if symbolic else [{}]
    return changed(rule, body, (OUT,), sizes=sizes)


def _variables(stmt: Stmt) -> set[Var]:
    from autotune.ir.visitor import free_vars, stmt_exprs

    return {var for expr in stmt_exprs(stmt) for var in free_vars(expr)}


def size(stmt: Stmt) -> int:
    return Sizes().of(stmt)


def loops(function: PrimFunc) -> list[str]:
    """Return variable and extent of each loop, in order."""
    return [f"{s.var.name}<{s.extent}" for s in walk(function.body) if isinstance(s, For)]


def test_a_guard_around_a_whole_body_shortens_its_loop_and_copies_nothing() -> None:
    after = split(loop(X, 6, If(likely(X < 4), store(X))))
    assert (loops(after), conditions(after)) == (["x<4"], [])


def test_a_lower_bound_starts_the_loop_later() -> None:
    after = split(loop(X, 6, If(likely(X >= 2), store(X))))
    assert (loops(after), conditions(after)) == (["x<4"], [])
    assert "out[(x + 2)]" in str(after)


def test_a_shortened_loop_may_be_parallel_and_depend_on_the_loops_around() -> None:
    inner = loop(Y, 4, If(likely(X * 4 + Y < 10), store(X * 4 + Y)), PARALLEL)
    after = split(loop(X, 3, inner))
    assert (loops(after), conditions(after)) == (["x<3", "y<min((10 - (x*4)), 4)"], [])


def test_vectors_keep_their_length_and_the_loop_around_is_split_before_its_end() -> None:
    inner = loop(Y, 16, If(likely(X * 16 + Y < 37), store(X * 16 + Y)), VECTOR)
    after = split(loop(X, 3, inner))
    assert loops(after) == ["x<2", "y<16", "y<16"]
    assert conditions(after) == ["likely((y < 5))"]
    assert loops(shorten(after)) == ["x<2", "y<16", "y<5"]
    assert conditions(shorten(after)) == []


def test_bounds_known_only_at_run_time_are_split_too() -> None:
    inner = loop(Y, 8, If(likely(X * 8 + Y < N), store(X * 8 + Y)), VECTOR)
    after = split(loop(X, (N + 7) // 8, inner))
    main, rest = (s for s in walk(after.body) if isinstance(s, For) and s.kind is not VECTOR)
    assert not any(isinstance(s, If) for s in walk(main.body))
    assert len(conditions(after)) == 1
    assert str(main.extent) == "floordiv(n, 8)"
    assert rest.var is not main.var


def short_of_copies(monkeypatch: pytest.MonkeyPatch, body: Stmt) -> Stmt:
    """Allow copies of half the size of a statement, and return it."""
    monkeypatch.setattr(Partition, "AT_LEAST", size(body) // 2)
    for kind in (Partition, OpenPartition):
        monkeypatch.setattr(kind, "AT_MOST", size(body) // 2)
    return body


def test_steps_written_out_are_a_short_loop_in_a_tail_whose_copy_would_be_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner = loop(Y, 4, If(likely(X * 4 + Y < N), store(const(3), X * 4 + Y)), UNROLLED)
    after = split(short_of_copies(monkeypatch, loop(X, (N + 3) // 4, inner)))
    main, rest = (s for s in walk(after.body) if isinstance(s, For) and s.var.name == "y")
    assert (main.kind, rest.kind) == (UNROLLED, LoopKind.SERIAL)
    assert conditions(after) == []


def test_steps_that_store_in_places_of_their_own_stay_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner = loop(Y, 4, If(likely(X * 4 + Y < N), store(X * 4 + Y)), UNROLLED)
    after = split(short_of_copies(monkeypatch, loop(X, (N + 3) // 4, inner)))
    kinds = {s.kind for s in walk(after.body) if isinstance(s, For) and s.var.name == "y"}
    assert kinds == {UNROLLED}


def test_lengths_known_only_at_run_time_are_split_by_their_bound() -> None:
    inner = loop(Y, ops.binary("min", N, const(8)), If(likely(X * 8 + Y < N), store(X * 8 + Y)))
    after = split(loop(X, (N + 7) // 8, For(Y, inner.extent, VECTOR, inner.body)))
    main = next(s for s in walk(after.body) if isinstance(s, For))
    assert not any(isinstance(s, If) for s in walk(main.body))
    assert loops(shorten(after))[:2] == ["x<floordiv(n, 8)", "y<8"]


def test_what_only_runs_where_the_guard_holds_is_not_copied_for_the_rest() -> None:
    last = loop(Y, 4, If(likely(X * 4 + Y < 10), store(X * 4 + Y)))
    after = split(loop(X, 5, seq(If(likely(X < 3), store(X)), If(likely(X < 3), store(X)), last)))
    assert conditions(after) == []
    assert loops(shorten(after)) == ["x<3", "y<min((10 - (x*4)), 4)"]


def test_a_choice_is_split_into_before_within_and_after() -> None:
    inside = te.all(X >= 2, X < 6)
    after = split(loop(X, 9, store(X, ops.if_then_else(inside, X * 3, const(7)))))
    assert loops(after) == ["x<2", "x<4", "x<3"]
    assert "if_then_else" not in str(after)


def test_outside_of_one_bound_the_loops_of_the_other_are_not_split() -> None:
    inside = te.all(Y >= 1, Y < 7, X >= 1, X < 7)
    value = ops.if_then_else(inside, X * 3, const(7))
    after = split(loop(Y, 8, loop(X, 8, store(Y * 8 + X, value))))
    assert "if_then_else" not in str(after)
    assert size(after.body) < 6 * size(store(Y * 8 + X, value))


def test_an_unrolled_loop_is_split_where_its_parts_are_constant() -> None:
    inner = loop(Y, 16, If(likely(X * 16 + Y < 37), store(X * 16 + Y)), VECTOR)
    after = split(loop(X, 3, inner, UNROLLED))
    assert loops(after) == ["x<2", "y<16", "y<16"]


def test_a_parallel_loop_stays_one_and_its_body_tests_first() -> None:
    inner = loop(Y, 16, If(likely(X * 16 + Y < 37), store(X * 16 + Y)), VECTOR)
    after = split(loop(X, 3, inner, PARALLEL))
    assert loops(after) == ["x<3", "y<16", "y<16"]
    assert conditions(after) == ["likely(((x*16) <= 21))", "likely((((x*16) + y) < 37))"]


def test_a_guard_on_parts_of_a_fused_loop_is_tested_before_the_loops_inside() -> None:
    inner = loop(Y, 4, If(likely(X % 3 * 4 + Y < 10), store(X % 3 * 4 + Y)), VECTOR)
    after = split(loop(X, 6, inner))
    assert conditions(after)[0] == "likely(((floormod(x, 3)*4) <= 6))"
    assert loops(after) == ["x<6", "y<4", "y<4"]


def test_a_condition_is_tested_before_the_loops_it_does_not_depend_on() -> None:
    value = ops.if_then_else(X % 3 < 2, const(1), const(2))
    after = split(loop(X, 6, loop(Y, 4, store(X * 4 + Y, value))))
    (test,) = (s for s in walk(after.body) if isinstance(s, If))
    assert isinstance(test.then, For)
    assert isinstance(test.orelse, For)
    assert "if_then_else" not in str(after)


def test_only_the_statement_with_the_guard_is_copied_if_others_are_larger() -> None:
    large = seq(*(store(X + k, k) for k in range(8)))
    guarded = loop(Y, 4, If(likely(X * 4 + Y < 10), store(X * 4 + Y)), VECTOR)
    after = split(loop(X, 3, seq(large, guarded)))
    assert loops(after) == ["x<3", "y<4", "y<4"]
    assert sum(isinstance(s, Store) for s in walk(after.body)) == 8 + 2


def test_the_main_part_of_several_guards_has_none_of_them() -> None:
    inner = loop(Z, 4, If(likely(Y * 4 + Z < 7), store(X * 16 + Y * 4 + Z)), VECTOR)
    middle = loop(Y, 2, If(likely(X * 2 + Y < 5), inner))
    after = split(loop(X, 3, middle))
    first = next(s for s in walk(after.body) if isinstance(s, For) and s.kind is VECTOR)
    assert isinstance(first.body, Store)
    assert conditions(after) == ["likely((z < 3))"]


def test_copies_stay_within_the_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = loop(Y, 16, If(likely(X * 16 + Y < 37), store(X * 16 + Y)), VECTOR)
    body = loop(Z, 2, loop(X, 3, inner), PARALLEL)
    whole = split(body)
    assert size(body) < size(whole.body) <= size(body) + Partition.AT_LEAST
    monkeypatch.setattr(Partition, "AT_LEAST", 0)
    monkeypatch.setattr(Partition, "TIMES", 1)
    assert size(body) < size(split(body).body) <= 2 * size(body)
    monkeypatch.setattr(Partition, "AT_MOST", size(inner) - 1)
    assert split(body).body is body


def test_a_guard_on_threads_stays_where_some_threads_fail_it() -> None:
    thread = Var("threadIdx.x")
    guarded = If(likely(X * 4 + thread < 10), store(X * 4 + thread))
    after = split(loop(thread, 4, loop(X, 3, guarded), LoopKind.THREAD))
    assert loops(after) == ["threadIdx.x<4", "x<2"]
    assert conditions(after) == ["likely((threadIdx.x < 2))"]


def test_a_loop_in_which_threads_share_memory_is_not_split_by_them() -> None:
    thread, shared = Var("threadIdx.x"), Buffer("shared", "int32", (const(64),), "shared")
    guarded = If(likely(X * 4 + thread < 10), Store(shared, X * 4 + thread, const(1, "int32")))
    own = loop(thread, 4, loop(X, 3, guarded), LoopKind.THREAD)
    body = Allocate(shared, own)
    assert split(body).body is body


def test_loops_of_threads_and_guards_on_threads_stay() -> None:
    thread = Var("threadIdx.x")
    for body in (
        loop(thread, 4, If(likely(thread < 3), store(thread)), LoopKind.THREAD),
        loop(X, 4, loop(thread, 4, If(likely(X < 3), store(X * 4)), LoopKind.THREAD)),
    ):
        assert split(body).body is body


def test_a_condition_on_memory_and_one_on_numbers_that_wrap_stay() -> None:
    for condition in (Load(OUT, X) < 1, ops.cast("int8", X) < 3):
        body = loop(X, 6, If(likely(condition), store(X)))
        assert split(body).body is body


def test_a_function_without_guards_keeps_its_body() -> None:
    body = loop(X, 6, store(X))
    assert split(body).body is body


def test_an_empty_axis_is_never_entered() -> None:
    n = te.var("n")
    A = te.placeholder((n,), "int32", name="A")
    B = te.compute((n,), lambda i: te.if_then_else(te.all(i >= 1, i < n - 1), A[i], 0), name="B")
    s = te.create_schedule(B.op)
    inner = s[B].split(B.op.axis[0], factor=4)[1]
    s[B].vectorize(inner)
    final = verify(finalise(analyse(lower_schedule(s, [A, B]))))
    for length in (0, 1, 2, 4, 5, 11):
        a, b = np.arange(10, 10 + length, dtype="int32"), np.full(length, -1, "int32")
        interpret(final, [a, b])
        want = a.copy()
        want[:1] = want[-1:] = 0
        np.testing.assert_array_equal(b, want)


def test_listings_and_features_are_of_the_loops_as_scheduled() -> None:
    A = te.placeholder((37,), "int32", name="A")
    B = te.compute((37,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=16)[1])
    analysed = analyse(lower_schedule(s, [A, B]))
    assert loops(analysed) == ["i.outer<3", "i.inner<16"]
    assert len(conditions(analysed)) == 1


def test_an_unrolled_loop_around_an_allocation_stays_one() -> None:
    A = te.placeholder((4, 4), name="A")
    X = te.compute((4, 4), lambda i, j: A[i, j] + 1, name="X")
    k = te.reduce_axis((0, 1), "k")
    Y = te.compute(
        (4, 4),
        lambda i, j: te.sum(te.if_then_else(i + i < 4, X[i, i + i], 0.0) + X[i, j], axis=k),
        name="Y",
    )
    s = te.create_schedule(Y.op)
    s[X].compute_at(s[Y], k)
    s[Y].unroll(Y.op.axis[0])
    s[Y].parallel(Y.op.axis[1])
    final = assert_computes(s, [A, Y])
    assert sum(isinstance(stmt, Allocate) for stmt in walk(final.body)) == 1
