"""Guards that loops and other guards decide vanish; those that make a difference stay."""

from __future__ import annotations

import numpy as np
import pytest
from support.guards import Guards
from support.verify import verify
from support.written_loops import changed, conditions, loop

from autotune import te
from autotune.ir import ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Buffer, Expr, KnobVar, Load, SizeVar, Var
from autotune.ir.ops import const, likely
from autotune.ir.stmt import If, PrimFunc, Stmt, Store, seq
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.guards.prove_guards import Prover
from autotune.lowering.nest.lower_schedule import lower_schedule

X, Y = Var("x"), Var("y")
N = SizeVar("n")
OUT = Buffer("out", "int32", (const(64),))


def store(index: Expr, value: int | Expr = 1) -> Store:
    return Store(OUT, index, ops.binary("+", Load(OUT, index), ops.convert(value)))


def proved(body: Stmt) -> PrimFunc:
    """Prove, check that every size still computes the same, and return the function."""
    sizes = [{N: n} for n in (0, 1, 7, 30)]
    return changed(lambda f: f.with_body(Prover().stmt(f.body)), body, (OUT,), sizes=sizes)


IMPLIED = {
    "a stronger bound": (X * 4 + Y < 10, X * 4 + Y < 12),
    "a bound on a part": (X * 4 + Y < 10, X < 3),
    "a bound on a part, rounded": (X * 4 + Y * 3 < 10, X <= 2),
    "a bound from below": (X * 4 + Y >= 6, X + Y >= 2),
    "a bound on a quotient": (X * 4 + Y < 10, (X * 4 + Y) // 3 < 4),
    "a size": (X * 4 + Y < N, X * 4 < N),
    "the opposite of a size": (X >= N, X * 4 + 1 > N),
}


@pytest.mark.parametrize(("known", "follows"), IMPLIED.values(), ids=IMPLIED)
def test_a_guard_that_one_around_it_implies_vanishes(known: Expr, follows: Expr) -> None:
    after = proved(loop(X, 6, loop(Y, 4, If(likely(known), If(likely(follows), store(X * 4 + Y))))))
    assert conditions(after) == [str(likely(known))]


@pytest.mark.parametrize(("known", "follows"), IMPLIED.values(), ids=IMPLIED)
def test_what_a_guard_implies_does_not_imply_the_guard(known: Expr, follows: Expr) -> None:
    after = proved(loop(X, 6, loop(Y, 4, If(follows, If(known, store(X * 4 + Y))))))
    assert conditions(after) == [str(follows), str(known)]


def test_two_guards_imply_a_third() -> None:
    inner = If(X < Y, If(Y * 2 < N, If(X * 2 + 2 < N, store(X * 4 + Y))))
    assert conditions(proved(loop(X, 8, loop(Y, 8, inner)))) == ["(x < y)", "((y*2) < n)"]


def test_a_guard_that_cannot_hold_removes_what_it_guards() -> None:
    after = proved(loop(X, 6, If(X < 3, If(X > 4, store(X), store(X, 2)))))
    assert str(after).count("out[x] =") == 1
    assert conditions(after) == ["(x < 3)"]


def test_the_other_branch_knows_the_opposite() -> None:
    after = proved(loop(X, 6, If(X < 3, store(X), If(X >= 2, store(X, 2)))))
    assert conditions(after) == ["(x < 3)"]


def test_what_holds_in_a_branch_is_forgotten_after_it() -> None:
    after = proved(loop(X, 6, seq(If(X < 3, store(X)), If(X < 4, store(X, 2)))))
    assert conditions(after) == ["(x < 3)", "(x < 4)"]


def test_the_end_of_a_loop_is_known_inside() -> None:
    after = proved(loop(X, ops.binary("min", N, const(8)), If(X < N, If(X < 8, store(X)))))
    assert conditions(after) == []


def test_a_loop_ends_at_the_smallest_bound_that_counts() -> None:
    end = ops.binary("min", ops.binary("min", 10 - X * 2, 11 - X * 2), const(9))
    after = proved(loop(X, 4, If(X >= 1, loop(Y, end, store(X * 8 + Y)))))
    assert "for (y, 0, (10 - (x*2)))" in str(after)


def test_choices_between_values_are_decided_too() -> None:
    value = ops.if_then_else(te.all(X >= 0, X * 2 < N), X, const(3))
    after = proved(loop(X, 9, If(X * 2 + 1 < N, store(X, value))))
    assert "if_then_else" not in str(after)


def test_parts_of_a_condition_are_decided_one_by_one() -> None:
    after = proved(loop(X, 9, If(te.all(X >= 0, X < 5, X < 9), store(X))))
    assert conditions(after) == ["(x < 5)"]


def test_a_part_that_a_later_part_implies_vanishes() -> None:
    stronger = te.all(X + Y < 9, X + Y < 7)
    weaker = te.all(X + Y < 7, N > X, X + Y < 9)
    value = ops.if_then_else(stronger, X, const(3))
    after = proved(loop(X, 6, loop(Y, 6, seq(If(weaker, store(X)), store(X * 6 + Y, value)))))
    assert conditions(after) == ["(((x + y) < 7) && (n > x))"]
    assert "if_then_else(((x + y) < 7), x, 3)" in str(after)


def test_what_a_condition_implies_is_open_in_another_one() -> None:
    value = ops.if_then_else(
        te.all(X + Y < 9, X + Y < 7), X, ops.if_then_else(X + Y < 9, const(3), const(4))
    )
    after = proved(loop(X, 6, loop(Y, 6, store(X * 6 + Y, value))))
    assert "if_then_else(((x + y) < 7), x, if_then_else(((x + y) < 9), 3, 4))" in str(after)


def test_memory_and_numbers_that_wrap_prove_nothing() -> None:
    element, wrapping = Load(OUT, X), ops.cast("int8", X * 100)
    for known, follows in ((element < 1, element < 2), (wrapping < 1, wrapping < 2)):
        body = loop(X, 6, If(known, seq(store(X, 5), If(follows, store(X)))))
        assert conditions(proved(body)) == [str(known), str(follows)]


def test_a_loop_without_iterations_or_statements_vanishes() -> None:
    assert str(proved(loop(X, 6, If(X < 0, store(X))))) == ""
    assert str(proved(loop(X, 0, store(X)))) == ""


def test_pieces_of_symbolic_splits_fused_and_split_again_leave_no_idle_guard() -> None:
    """Guards are emitted for splits that may leave remainders, also where others cover them."""
    knobs = [KnobVar(name, 1, 16) for name in "abc"]
    A = te.placeholder((12, 5), "int32", name="A")
    B = te.compute((12, 5), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    io, ii = s[B].split(i, factor=knobs[0])
    fused = s[B].fuse(ii, j)
    fo, fi = s[B].split(fused, factor=knobs[1])
    again = s[B].fuse(io, fo)
    s[B].split(again, factor=knobs[2])
    lowered = lower_schedule(s, [A, B])
    a = np.arange(60, dtype="int32").reshape(12, 5)
    emitted = left = 0
    for values in np.random.default_rng(0).integers(1, 14, (25, 3)):
        analysed = analyse(lowered, dict(zip(knobs, map(int, values), strict=True)))
        final = verify(finalise(analysed))
        out = np.zeros_like(a)
        interpret(final, [a, out])
        np.testing.assert_array_equal(out, a * 2)
        assert Guards(final).idle() == [], f"{values}:\n{final}"
        emitted, left = emitted + len(Guards(analysed).all()), left + len(Guards(final).all())
    assert left < emitted / 3
    assert fi.name in str(lowered)
