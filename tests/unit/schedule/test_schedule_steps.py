"""Steps as data: their text, their JSON, what replaying them refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.mistakes import Program, assert_refused, refused

from autotune import te
from autotune.errors import AutotuneError, ScheduleError
from autotune.ir.expr import Expr, KnobVar, SizeVar, Var
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.schedule.steps import expr_of, term_of, term_text, with_knobs

TILE = KnobVar("tile", 1, 64)
SIZE = te.var("n")
I_VAR = Var("i")


def name(var: Var) -> str:
    assert var is I_VAR
    return "i#0"


def variable(text: str) -> Expr:
    assert text == "i#0"
    return I_VAR


TERMS = [
    (I_VAR * 2 + 1 < SIZE, ("<", ("+", ("*", "i#0", 2), 1), ("size", "n"))),
    (te.all(I_VAR >= 0, I_VAR // 3 != 4), ("and", (">=", "i#0", 0), ("!=", ("//", "i#0", 3), 4))),
    (te.select(I_VAR > 1, I_VAR % 5, te.min(I_VAR, 7)), (
        "select", (">", "i#0", 1), ("%", "i#0", 5), ("min", "i#0", 7)
    )),
    (te.if_then_else(I_VAR > 1, I_VAR, 3), ("if_then_else", (">", "i#0", 1), "i#0", 3)),
    (I_VAR.astype("int64") - 2**40, ("-", ("int64", "i#0"), 2**40)),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "term"), TERMS)
def test_an_expression_survives_the_way_through_json(expr: Expr, term: Any) -> None:
    assert term_of(expr, name) == term
    assert term_text(term).replace("i#0", "i") == str(expr)
    assert expr_of(term, variable, {"n": SIZE}) is expr


def test_knobs_in_a_term_are_replaced_and_what_is_constant_is_computed() -> None:
    term = term_of(te.max(TILE * 2 // 3, 5) + I_VAR, name)
    assert term_text(term) == "(max(floordiv((tile*2), 3), 5) + i#0)"
    assert with_knobs(term, {"tile": 12}) == ("+", 8, "i#0")
    assert with_knobs(term, {}) == term
    parts = [term_of(part, name) for part in (I_VAR // TILE, I_VAR % TILE)]
    assert [with_knobs(part, {"tile": 1}) for part in parts] == ["i#0", 0]


@pytest.mark.parametrize("expr", [te.const(1.5), te.exp(te.const(1.0)), TILE.astype("float32")])
def test_what_is_more_than_integer_arithmetic_is_no_term(expr: Expr) -> None:
    with pytest.raises(ScheduleError, match="is more than arithmetic of integers"):
        term_of(expr, name)


def every_primitive() -> tuple[Schedule, list[Any]]:
    """Every primitive at least once."""
    A = te.placeholder((16, SIZE), name="A")
    B = te.compute((16, SIZE), lambda i, j: A[i, j] + 1, name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16, SIZE), lambda i, j: te.sum(B[k, j] * B[i, j], axis=k), name="C")
    D = te.compute((16, SIZE), lambda i, j: C[i, j] * 2, name="D")
    E = te.compute((16, SIZE), lambda i, j: D[i, j] + A[i, j], name="E")
    s = te.create_schedule(E.op)
    local = s.cache_read(A, "local", [B, E])
    ko, _ = s[C].split(k, factor=4)
    partial = s.rfactor(C, ko, factor_axis=1)
    s[partial].parallel(partial.op.axis[0])
    s[partial].unroll(s[partial].op.reduce_axis[0])
    cache = s.cache_write(E, "shared")
    i, j = s[E].op.axis
    io, _, ji, _ = s[E].tile(i, j, 4, 8)
    s[E].bind(io, te.thread_axis("blockIdx.x"))
    tx = te.thread_axis((0, 4), "threadIdx.x", name="tx")
    s[E].bind(s[E].leaf_axes[2], tx)
    s[cache].compute_at(s[E], ji)
    s[cache].double_buffer("registers")
    s[cache].transform_layout(lambda i, j: (j, i))
    s[cache].storage_align(cache.op.axis[0], 8, 1)
    s[cache].set_store_predicate(te.all(tx.equal(0), cache.op.axis[0] < SIZE))
    s[D].compute_inline()
    s[B].set_scope("local")
    s[B].compute_at(s[partial], partial.op.axis[0])
    s[B].compute_root()
    s[local].fuse(*local.op.axis)
    s[local].pragma(s[local].leaf_axes[0], "auto_unroll_max_step", 16)
    s[local].pragma(s[local].leaf_axes[0], "unroll_explicit", False)
    s[local].pragma(s[local].leaf_axes[0], "nontemporal_store")
    s[local].reorder(s[local].leaf_axes[0])
    s[cache].vectorize(cache.op.axis[1])
    return s, [A, E]


def test_every_primitive_is_replayed() -> None:
    s, _ = every_primitive()
    steps = json.loads(json.dumps(s.to_json()))
    again = te.create_schedule(s.outputs, steps=steps)
    assert again.steps == s.steps
    assert str(again) == str(s)
    assert again.to_json() == steps
    primitives = {step.primitive for step in s.steps}
    assert primitives == {
        "bind", "cache_read", "cache_write", "compute_at", "compute_inline", "compute_root",
        "double_buffer", "fuse", "parallel", "pragma", "reorder", "rfactor", "set_scope",
        "set_store_predicate", "split", "storage_align", "transform_layout", "unroll",
        "vectorize",
    }  # fmt: skip


def test_a_schedule_prints_its_steps_with_numbers() -> None:
    p = Program()
    p.sB.reorder(*p.sB.tile(p.i, p.j, TILE, 4))
    p.sC.compute_at(p.sD, p.y)
    assert str(p.s).splitlines() == [
        "1. B.split(i#0, factor, tile)",
        "2. B.split(j#1, factor, 4)",
        "3. B.reorder(i.outer#2, j.outer#4, i.inner#3, j.inner#5)",
        "4. B.reorder(i.outer#2, j.outer#4, i.inner#3, j.inner#5)",
        "5. C.compute_at(D, y#0)",
    ]


def test_sizes_that_knobs_decide_are_stored_as_numbers() -> None:
    p = Program()
    p.sD.split(p.y, factor=te.min(TILE * 2, 8))
    with pytest.raises(ScheduleError) as caught:
        p.s.to_json()
    assert str(caught.value) == (
        "step `D.split(y#0, factor, min((tile*2), 8))` depends on knob 'tile'; give its value, as "
        "in to_json({'tile': 4})"
    )
    assert p.s.to_json({"tile": 3}) == [["split", "D", "y#0", "factor", 6]]


def test_a_replayed_thread_axis_keeps_its_length_and_name() -> None:
    p = Program()
    p.sD.bind(p.y, te.thread_axis((0, 8), "threadIdx.x", name="tx"))
    (step,) = p.s.to_json()
    assert step == ["bind", "D", "y#0", "threadIdx.x", 8, "tx"]
    again = te.create_schedule(p.D.op, steps=[step])
    (thread,) = again[p.D].bindings.values()
    assert (thread.name, thread.thread_tag, str(thread.dom.extent)) == ("tx", "threadIdx.x", "8")
    loops = [str(lower_schedule(s, [p.A, p.D])) for s in (p.s, again)]
    assert loops[0] == loops[1]


def replayed(*steps: Any) -> Callable[[Program], object]:
    return lambda p: te.create_schedule(p.D.op, steps=steps)


MISFITS = [
    refused(
        "a stage that is not there",
        replayed(["split", "D", "y#0", "factor", 2], ["parallel", "E", "i#0"]),
        "step 2, `E.parallel(i#0)`: there is no stage 'E'; there are: A, B, C, D",
    ),
    refused(
        "an axis that is not there",
        replayed(["unroll", "B", "i#1"]),
        "step 1, `B.unroll(i#1)`: stage 'B' has no axis 'i#1'; it has: i#0, j#1",
    ),
    refused(
        "what the primitive refuses",
        replayed(["split", "D", "y#0", "factor", 0]),
        "step 1, `D.split(y#0, factor, 0)`: split on stage 'D', axis 'y': the factor is 0; give a "
        "whole number of at least 1",
    ),
    refused(
        "a primitive that is not there",
        replayed(["shuffle", "D", "y#0"]),
        "step 1, `D.shuffle(y#0)`: there is no primitive 'shuffle'; there are: fuse, reorder, "
        "vectorize, unroll, parallel, compute_root, compute_inline, split, bind, pragma, "
        "compute_at, double_buffer, set_scope, transform_layout, storage_align, "
        "set_store_predicate, cache_read, cache_write, rfactor",
    ),
    refused(
        "an argument too few",
        replayed(["split", "D", "y#0", "factor"]),
        "step 1, `D.split(y#0, factor)`: its arguments do not fit: missing a required argument: "
        "'size'; compare them with what to_json gives",
    ),
    refused(
        "what is no step",
        replayed(["unroll", "D", "y#0"], {"split": 4}),
        "step 2: expected a step as [primitive, stage, arguments...], got {'split': 4}; give what "
        "to_json gave",
    ),
    refused(
        "a knob without a value",
        replayed(["split", "D", "y#0", "factor", ["*", ["knob", "tile"], 2]]),
        "step 1, `D.split(y#0, factor, (tile*2))`: knob 'tile' has no value; give the steps of one "
        "configuration",
    ),
    refused(
        "a size that the computation does not have",
        replayed(["set_store_predicate", "C", ["<", "x#0", ["size", "n"]]]),
        "step 1, `C.set_store_predicate((x#0 < n))`: there is no size 'n'; the computation has: "
        "none",
    ),
    refused(
        "a new stage under another name",
        replayed(["cache_write", "D.cache", "D", "local"]),
        "step 1, `D.cache.cache_write(D, local)`: it gives `D.local.cache_write(D, local)` here; "
        "the steps are of another computation",
    ),
    refused(
        "an output that is not there",
        replayed(["cache_read", "A.local", "A", 1, "local", "B"]),
        "step 1, `A.local.cache_read(A, 1, local, B)`: stage 'A' has no output 1; it has 1, "
        "counted from 0",
    ),
    refused(
        "an operation that is none",
        replayed(["split", "D", "y#0", "factor", ["pow", 2, 3]]),
        "step 1, `D.split(y#0, factor, (2 pow 3))`: there is no operation 'pow' of 2 operands; "
        "compare it with what to_json gives",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), MISFITS)
def test_a_step_that_does_not_fit_is_told_in_one_line(
    make: Callable[[Program], object], error: type[AutotuneError], message: str
) -> None:
    assert_refused(make, error, message)


def test_two_sizes_of_one_name_cannot_be_told_apart() -> None:
    n, other = SIZE, SizeVar("n", "int32")
    A = te.placeholder((n, other), name="A")
    B = te.compute((n, other), lambda i, j: A[i, j], name="B")
    with pytest.raises(ScheduleError, match="two sizes are called 'n'; rename one"):
        te.create_schedule(B.op, steps=[["set_store_predicate", "B", ["<", "i#0", ["size", "n"]]]])
