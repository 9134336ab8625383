"""Loops of the length of a scan join its steps, unless something depends on their order."""

from __future__ import annotations

import numpy as np
import pytest
from support.written_loops import changed, loop

from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import Allocate, For, FunctionInfo, LoopKind, PrimFunc, Stmt, Store, seq
from autotune.ir.visitor import walk
from autotune.lowering.scan.array_contraction import contract_arrays
from autotune.lowering.scan.step_fusion import fuse_steps

STEPS, LANES = 12, 8
LENGTH = STEPS * LANES
IN = Buffer("in", "float32", (const(LENGTH),))
OUT = Buffer("out", "float32", (const(LENGTH),))
ROW = Buffer("W", "float32", (const(LENGTH),))
STATE = Buffer("S", "float32", (const(STEPS + 2), const(1)))
INFO = FunctionInfo(scan_states={"S": True})
VECTOR = LoopKind.VECTORIZED


def flat(step: Expr | int, lane: Expr | int) -> Expr:
    """Return the index of a lane in a step."""
    return binary("+", binary("*", const(LANES), step), lane)


def doubled(steps: int = STEPS, into: Buffer = ROW) -> For:
    """Return the loop that computes a row, perhaps not all of it."""
    i, v = Var("i"), Var("v")
    place = flat(i, v)
    return loop(i, steps, loop(v, LANES, Store(into, place, Load(IN, place) * 2.0), VECTOR))


def start() -> Stmt:
    places = const(0), const(STEPS + 1)
    return seq(*(Store(STATE, place, const(1.0, "float32")) for place in places))


def scanned(lane: int = LANES - 1, steps: int = STEPS) -> For:
    """Return the steps: sums of one lane."""
    t = Var("t")
    return loop(t, steps, Store(STATE, t + 1, Load(STATE, t) + Load(ROW, flat(t, lane))))


def added(ahead: int = 0, steps: int = STEPS) -> For:
    """Return the loop that adds the state before each step to the row, or a later one."""
    k, v = Var("k"), Var("w")
    value = Load(ROW, flat(k, v)) + Load(STATE, k + ahead)
    return loop(k, steps, loop(v, LANES, Store(OUT, flat(k, v), value), VECTOR))


def fused(*stmts: Stmt) -> PrimFunc:
    """Return the function after the pass; the answer is the same."""
    body = Allocate(ROW, Allocate(STATE, seq(*stmts)))
    data = np.random.default_rng(0).integers(-9, 9, LENGTH).astype("float32")
    return changed(fuse_steps, body, (IN, OUT), data, info=INFO)


def serial_loops(function: PrimFunc) -> int:
    return sum(isinstance(s, For) and s.kind is LoopKind.SERIAL for s in walk(function.body))


def allocated(function: PrimFunc) -> dict[str, int | None]:
    """Return the elements of each temporary."""
    found = (s.buffer for s in walk(function.body) if isinstance(s, Allocate))
    return {buffer.name: buffer.elements for buffer in found}


def test_loops_before_and_after_the_steps_join_them() -> None:
    assert serial_loops(fused(doubled(), start(), scanned(), added())) == 1


@pytest.mark.parametrize("fewer", [0, 1])
def test_a_loop_may_have_one_iteration_less(fewer: int) -> None:
    stmts = doubled(), start(), scanned(steps=STEPS - fewer), added(steps=STEPS - 1 + fewer)
    assert serial_loops(fused(*stmts)) == 1


def test_the_state_after_a_step_can_be_read_in_the_same_iteration() -> None:
    assert serial_loops(fused(doubled(), start(), scanned(), added(ahead=1))) == 1


@pytest.mark.parametrize(
    ("stmts", "left"),
    [
        ((doubled(), start(), scanned(), added(ahead=2)), 2),
        ((doubled(), start(), scanned(), added(steps=STEPS - 2)), 2),
        ((doubled(), start(), scanned(lane=0), doubled(into=OUT)), 1),
    ],
    ids=["a later state", "another length", "nothing in common"],
)
def test_a_loop_stays_if_order_or_length_say_so(stmts: tuple[Stmt, ...], left: int) -> None:
    assert serial_loops(fused(*stmts)) == left


def test_steps_that_read_the_next_part_of_a_row_stay_apart() -> None:
    t = Var("t")
    place = flat(t, 2 * LANES - 1)
    ahead = loop(t, STEPS - 1, Store(STATE, t + 1, Load(STATE, t) + Load(ROW, place)))
    assert serial_loops(fused(doubled(STEPS), start(), ahead, added(steps=STEPS - 1))) == 2


def test_steps_backwards_stay_apart() -> None:
    t = Var("t")
    place = flat(const(STEPS - 1) - t, 0)
    backwards = loop(t, STEPS, Store(STATE, t + 1, Load(STATE, t) + Load(ROW, place)))
    assert serial_loops(fused(doubled(), start(), backwards, added())) == 2


def test_what_is_between_loops_must_not_change_what_they_use() -> None:
    v = Var("x")
    changed_row = loop(v, LANES, Store(ROW, v, const(3.0, "float32")), VECTOR)
    assert serial_loops(fused(doubled(), changed_row, start(), scanned(), added())) == 2


def test_a_function_without_scans_is_left_alone() -> None:
    i, j = Var("i"), Var("j")
    body = seq(loop(i, 4, Store(OUT, i, Load(IN, i))), loop(j, 4, Store(OUT, j + 4, Load(IN, j))))
    function = PrimFunc("f", (IN, OUT), frozenset({OUT}), body, ())
    assert fuse_steps(function) is function
    assert contract_arrays(function) is function


# -- temporaries -------------------------------------------------------------------------------


def contracted(*stmts: Stmt) -> PrimFunc:
    """Return the function after both passes; the answer is the same."""
    body = Allocate(ROW, Allocate(STATE, seq(*stmts)))
    data = np.random.default_rng(0).integers(-9, 9, LENGTH).astype("float32")
    return changed(lambda f: contract_arrays(fuse_steps(f)), body, (IN, OUT), data, info=INFO)


def first() -> Store:
    return Store(STATE, const(0), const(1.0, "float32"))


def test_what_one_step_needs_of_the_row_and_the_state_is_kept() -> None:
    found = allocated(contracted(doubled(), first(), scanned(), added()))
    assert sorted(filter(None, found.values())) == [1, LANES]


def test_a_state_of_which_another_step_is_set_first_is_kept_whole() -> None:
    found = allocated(contracted(doubled(), start(), scanned(), added()))
    assert found["S"] == STEPS + 2


def test_a_state_that_is_read_after_it_was_replaced_is_kept_whole() -> None:
    t, v, w = Var("t"), Var("v"), Var("w")
    row = loop(v, LANES, Store(ROW, flat(t, v), Load(IN, flat(t, v))), VECTOR)
    step = Store(STATE, t + 1, Load(STATE, t) + Load(ROW, flat(t, 0)))
    late = loop(w, LANES, Store(OUT, flat(t, w), Load(ROW, flat(t, w)) + Load(STATE, t)), VECTOR)
    found = allocated(contracted(first(), loop(t, STEPS, seq(row, step, late))))
    assert found["S"] == STEPS + 2
    assert LANES in found.values()


def test_a_row_that_is_read_later_is_kept_whole() -> None:
    c = Var("c")
    again = loop(c, STEPS, Store(OUT, c, Load(ROW, const(LENGTH - 1) - c)))
    found = allocated(contracted(doubled(), first(), scanned(), added(), again))
    assert found["W"] == LENGTH


def test_neighbours_in_the_row_are_kept() -> None:
    k, v = Var("k"), Var("w")
    value = Load(ROW, flat(k, v)) + Load(ROW, binary("max", flat(k, v) - 1, const(0)))
    both = loop(k, STEPS, loop(v, LANES, Store(OUT, flat(k, v), value), VECTOR))
    found = allocated(contracted(doubled(), first(), scanned(), both))
    assert found["W"] == LENGTH
