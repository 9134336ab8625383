"""Hoisting moves guards out of what does not change them, keeps their meaning, and stops."""

from __future__ import annotations

import numpy as np
from support.written_loops import changed, loop

from autotune.ir import ops
from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.ops import const, likely
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Seq, Stmt, Store, seq
from autotune.lowering.guards.hoist_guards import hoist_guards

OUT = Buffer("out", "int32", (const(24),))
DATA = Buffer("data", "int32", (const(24),))
X, Y = Var("i"), Var("j")


def store(index: Expr, value: int = 1) -> Store:
    return Store(OUT, index, const(value))


def hoisted(body: Stmt) -> str:
    """Hoist, check that nothing else changes, and return the listing."""
    after = changed(hoist_guards, body, (DATA, OUT), np.arange(24, dtype="int32") % 3)
    assert hoist_guards(after).body is after.body, "a second pass finds something"
    return str(after)


def test_a_guard_leaves_the_loops_it_does_not_depend_on() -> None:
    text = hoisted(loop(X, 6, loop(Y, 4, If(likely(X < 5), store(X * 4 + Y)))))
    assert text == (
        "for (i, 0, 6) {\n"
        "  if (likely((i < 5))) {\n"
        "    for (j, 0, 4) {\n"
        "      out[((i*4) + j)] = 1\n"
        "    }\n  }\n}\n"
    )


def test_of_several_guards_only_those_that_do_not_vary_move() -> None:
    inner = If(likely(X * 4 + Y < 19), If(likely(X < 4), If(likely(Y < 3), store(X * 4 + Y))))
    text = hoisted(loop(X, 6, loop(Y, 4, inner)))
    assert text.index("(i < 4)") < text.index("for (j") < text.index("< 19") < text.index("(j < 3)")


def test_a_guard_common_to_all_statements_is_written_once() -> None:
    common = likely(X < 4)
    body = seq(If(common, store(X)), If(common, If(likely(Y < 2), store(X * 4 + Y, 2))))
    text = hoisted(loop(X, 6, loop(Y, 4, body)))
    assert text.count("(i < 4)") == 1
    assert text.index("(i < 4)") < text.index("for (j") < text.index("(j < 2)")


def test_a_guard_of_one_statement_of_several_stays_with_it() -> None:
    body = seq(If(likely(X < 4), store(X)), store(X * 4 + Y, 2))
    text = hoisted(loop(X, 6, loop(Y, 4, body)))
    assert text.index("for (j") < text.index("(i < 4)")


def test_a_condition_on_memory_that_the_loop_leaves_alone_is_read_once() -> None:
    condition = ops.binary("==", Load(DATA, X), const(1))
    text = hoisted(loop(X, 6, loop(Y, 4, If(likely(X < 5), If(condition, store(X * 4 + Y))))))
    assert text.index("(i < 5)") < text.index("data[i]") < text.index("for (j")


def test_a_condition_on_memory_that_the_loop_writes_stays() -> None:
    condition = ops.binary("==", Load(OUT, X), const(0))
    text = hoisted(loop(X, 6, loop(Y, 4, If(condition, store(X * 4 + Y)))))
    assert text.index("for (j") < text.index("out[i]")


def test_a_condition_on_memory_stays_behind_the_guard_that_makes_reading_safe() -> None:
    condition = ops.binary("==", Load(DATA, X * 7), const(1))
    text = hoisted(loop(X, 6, loop(Y, 4, If(X + Y < 3, If(condition, store(X * 4 + Y))))))
    assert text.index("for (j") < text.index("(i + j)") < text.index("data[")


def test_a_condition_on_memory_stays_in_a_loop_that_may_not_run() -> None:
    condition = ops.binary("==", Load(DATA, X * 7), const(1))
    inner = For(Y, ops.binary("max", const(0), 3 - X), LoopKind.SERIAL, If(condition, store(X)))
    text = hoisted(loop(X, 6, inner))
    assert text.index("for (j") < text.index("data[")


def test_a_condition_that_has_an_alternative_stays() -> None:
    text = hoisted(loop(X, 6, loop(Y, 4, If(X < 3, store(X * 4 + Y), store(X * 4 + Y, 2)))))
    assert text.index("for (j") < text.index("(i < 3)")


def test_a_guard_does_not_leave_the_loop_of_a_thread() -> None:
    thread = Var("threadIdx.x")
    inner = If(likely(X < 3), store(X * 4 + thread))
    text = hoisted(loop(X, 6, loop(thread, 4, inner, LoopKind.THREAD)))
    assert text.index("thread_extent") < text.index("(i < 3)")


def test_a_guard_leaves_an_allocation_and_comes_before_it() -> None:
    scratch = Buffer("scratch", "int32", (const(4),), "local")
    use = seq(Store(scratch, Y, const(3)), Store(OUT, X * 4 + Y, Load(scratch, Y)))
    text = hoisted(loop(X, 6, loop(Y, 4, Allocate(scratch, If(likely(X < 3), use)))))
    assert text.index("(i < 3)") < text.index("for (j") < text.index("allocate")


def test_the_same_guard_twice_becomes_one() -> None:
    guard = likely(X < 3)
    text = hoisted(loop(X, 6, loop(Y, 4, If(guard, If(guard, store(X * 4 + Y))))))
    assert text.count("(i < 3)") == 1


def test_a_function_without_guards_keeps_its_body() -> None:
    body = loop(X, 6, seq(store(X), Seq(())))
    function = PrimFunc("f", (DATA, OUT), frozenset({OUT}), body)
    assert hoist_guards(function).body is body
