"""Corners of lowering that random programs seldom reach, each run with and without LLVM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.agreement import assert_computes, assert_gives, lowered, numbers
from support.verify import verify

from autotune import te
from autotune.errors import IRError, LoweringError
from autotune.ir.algebra.polynomials import rejoined, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import KnobVar, Var
from autotune.ir.ops import const
from autotune.ir.stmt import For, If, LoopKind, Seq
from autotune.ir.visitor import free_vars, stmt_exprs, walk
from autotune.lowering.finalise import analyse
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.te.tensor import Tensor


def test_a_tensor_without_dimensions_is_computed_inside_its_reader() -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((5,), name="A")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    C = te.compute((5,), lambda i: A[i] - B, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a = numbers(5)
    assert_gives(s, [A, C], [a], a - a.sum())


def test_two_computes_may_share_a_reduction_axis_side_by_side() -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((5, 4), name="A")
    B = te.compute((4,), lambda i: te.sum(A[k, i], axis=k), name="B")
    C = te.compute((4,), lambda i: te.max(A[k, i] * B[i], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[B].split(k, factor=2)
    s[C].split(k, factor=3)
    s[B].compute_at(s[C], C.op.axis[0])
    a = numbers(5, 4)
    assert_gives(s, [A, C], [a], (a * a.sum(0)).max(0))


def test_a_shared_reduction_axis_is_refused_inside_its_own_loop() -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((5, 4), name="A")
    B = te.compute((4,), lambda i: te.sum(A[k, i], axis=k), name="B")
    C = te.compute((4,), lambda i: te.sum(A[k, i] * B[i], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], k)
    with pytest.raises(LoweringError, match="both reduce over axis 'k'"):
        lower_schedule(s, [A, C])


def test_values_of_different_reductions_cannot_share_a_compute() -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((4, 5), name="A")
    with pytest.raises(IRError, match="'B': values that are not parts of one reduction"):
        te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, k], axis=k)), name="B")
    with pytest.raises(IRError, match="'B': values that are not parts of one reduction"):
        te.compute((4,), lambda i: (A[i, 0], te.max(A[i, k], axis=k)), name="B")


def test_a_factor_that_is_a_knob_keeps_its_guard_only_where_it_leaves_a_remainder() -> None:
    factor = KnobVar("f", 1, 8)
    A = te.placeholder((10,), name="A")
    B = te.compute((10,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=factor)
    function = verify(lower_schedule(s, [A, B]), allow_knobs=True)
    a = numbers(10)
    for value in range(1, 9):
        analysed = verify(analyse(function, {factor: value}))
        guards = str(analysed).count("likely")
        assert guards == (0 if 10 % value == 0 else 1)
        out = np.zeros_like(a)
        interpret(analysed, [a, out])
        np.testing.assert_array_equal(out, a + 1)


@pytest.mark.parametrize("where", [False, True])
def test_a_reduction_whose_condition_is_constant_takes_all_or_nothing(where: bool) -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((4, 5), name="A")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, where=where), name="C")
    a = numbers(4, 5)
    assert_gives(te.create_schedule(C.op), [A, C], [a], a.sum(1) * np.float32(where))


@pytest.mark.parametrize("tag", ["vthread", "threadIdx.x"])
def test_a_thread_axis_inside_a_reduction_starts_its_accumulators_too(tag: str) -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((4, 5), name="A")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].reorder(k, C.op.axis[0])
    s[C].bind(C.op.axis[0], te.thread_axis(tag))
    a, out = numbers(4, 5), np.full(4, 77, "float32")
    for function in lowered(s, [A, C]):
        interpret(function, [a, out])
        np.testing.assert_array_equal(out, a.sum(1))


def test_an_analysed_function_is_simplified_to_itself() -> None:
    A, B = te.placeholder((10, 7), name="A"), te.placeholder((7, 12), name="B")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((10, 12), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    i, j = C.op.axis
    xo, yo, _, _ = s[C].tile(i, j, KnobVar("x", 1, 8), 5)
    s[local].compute_at(s[C], yo)
    s[C].parallel(xo)
    function = lower_schedule(s, [A, B, C])
    (x,) = {
        v
        for stmt in walk(function.body)
        for e in stmt_exprs(stmt)
        for v in free_vars(e)
        if isinstance(v, KnobVar)
    }
    once = analyse(function, {x: 4})
    assert analyse(once, {}).body is once.body


def test_a_guard_around_nothing_vanishes() -> None:
    condition = Var("i") < 3
    nothing = For(Var("j"), const(0), LoopKind.SERIAL, Seq(()))
    simplified = Simplifier().stmt(If(condition, nothing, nothing))
    assert isinstance(simplified, Seq)
    assert not simplified.stmts


def chain(length: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the first and last of so many element-wise stages, and those between."""
    A = te.placeholder((8,), name="A")
    stages = [A]
    for number in range(length):
        before = stages[-1]
        stages.append(te.compute((8,), lambda i, b=before: b[i] + 1.0, name=f"S{number}"))
    return A, stages[-1], stages[1:-1]


@pytest.mark.parametrize("inlined", [False, True], ids=["stored", "inlined"])
def test_long_chains_of_stages_lower(inlined: bool) -> None:
    A, last, between = chain(60)
    s = te.create_schedule(last.op)
    for tensor in between:
        if inlined:
            s[tensor].compute_inline()
    assert_computes(s, [A, last])


def test_an_expression_that_nests_too_deeply_is_refused_in_one_line() -> None:
    A = te.placeholder((8,), name="A")

    def add(i: Any) -> Any:
        return sum((A[(i + number) % 8] for number in range(2000)), te.const(0.0))

    B = te.compute((8,), add, name="B")
    with pytest.raises(LoweringError, match="nests deeper than Python's recursion") as caught:
        lower_schedule(te.create_schedule(B.op), [A, B])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("vector", [False, True], ids=["scalar", "vector"])
@pytest.mark.parametrize("logic", [te.all, te.any])
def test_a_condition_reads_only_what_its_first_part_allows(logic: Any, vector: bool) -> None:
    A = te.placeholder((6,), name="A")
    I = te.placeholder((19,), "int64", name="I")  # noqa: E741

    def choose(i: Any) -> Any:
        safe = [I[i] >= 0, I[i] < 6] if logic is te.all else [I[i] < 0, I[i] >= 6]
        return te.if_then_else(logic(*safe, A[I[i]] > 0.5), 1.0, 0.0)

    B = te.compute((19,), choose, name="B")
    s = te.create_schedule(B.op)
    if vector:
        s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    far = np.arange(19) * 10**11
    far[::3] = np.arange(7) % 6
    assert_computes(s, [A, I, B], {I: far})


def test_loops_that_are_fused_and_read_as_one_number_come_out_as_that_number() -> None:
    number, other = Var("number"), Var("other")
    outer, last = number // 5, number % 5
    parts = (outer // 3 * 3 + outer % 3) * 5 + last
    assert rejoined(parts, {number}) is number
    assert to_poly(rejoined(parts * 4 + other, {number})) == to_poly(number * 4 + other)
    assert to_poly(rejoined(outer * 10 + last * 2, {number})) == to_poly(number * 2)
    assert to_poly(rejoined(outer * 10 + last, {number})) == to_poly(outer * 10 + last)


def test_a_fused_loop_outside_of_what_is_computed_is_read_as_its_parts() -> None:
    number, other = Var("number"), Var("other")
    index = number // 5 * 5 + number % 5 + other
    assert to_poly(rejoined(index, {other})) == to_poly(index)
