"""A loop joins the one that reads its results in turn, unless something depends on their order."""

from __future__ import annotations

import numpy as np
import pytest
from support.written_loops import changed, loop

from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import Allocate, For, If, LoopKind, Seq, Stmt, Store, seq
from autotune.ir.visitor import walk
from autotune.lowering.loop_fusion import fuse_loops

LENGTH, LANES = 100, 8
IN = Buffer("in", "float32", (const(LENGTH),))
OUT = Buffer("out", "float32", (const(LENGTH),))
ROW = Buffer("B", "float32", (const(LENGTH),))
SUMS = Buffer("S", "float32", (const(LANES),))
SERIAL, UNROLLED, VECTOR = LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.VECTORIZED


def at(*terms: tuple[int, Expr]) -> Expr:
    total: Expr = const(0)
    for scale, var in terms:
        total = binary("+", total, binary("*", const(scale), var))
    return total


def made(length: int, value: Expr | None = None) -> For:
    """Return the loop that computes the row, up to some length."""
    x, v = Var("x"), Var("v")
    place = at((LANES, x), (1, v))
    store: Stmt = Store(ROW, place, Load(IN, place) * 2.0 if value is None else value)
    if length % LANES:
        store = If(place < length, store)
    return loop(x, -(-length // LANES), loop(v, LANES, store, VECTOR))


def summed(length: int, back: bool = False) -> For:
    """Return the loops that add the row to a vector."""
    r, v = Var("r"), Var("w")
    count = -(-length // LANES)
    place = at((LANES, const(count - 1) - r if back else r), (1, v))
    store = If(place < length, Store(SUMS, v, Load(SUMS, v) + Load(ROW, place)))
    return loop(r, count, loop(v, LANES, store, VECTOR))


def loops_after(*stmts: Stmt) -> int:
    """Return the number of serial loops that are left; the answer is the same."""
    z, c = Var("z"), Var("c")
    zeros = loop(z, LANES, Store(SUMS, z, const(0.0, "float32")), UNROLLED)
    copied = loop(c, LANES, Store(OUT, c, Load(SUMS, c)), UNROLLED)
    first, *others = stmts
    body = Allocate(ROW, Allocate(SUMS, seq(first, zeros, *others, copied)))
    data = np.random.default_rng(0).standard_normal(LENGTH).astype("float32")
    after = changed(fuse_loops, body, (IN, OUT), data)
    return sum(isinstance(s, For) and s.kind is SERIAL for s in walk(after.body))


@pytest.mark.parametrize("length", [96, 100, 92, 97, 3])
def test_a_sum_joins_the_loop_that_computes_what_it_adds(length: int) -> None:
    assert loops_after(made(length), summed(length)) == 1


def test_elements_beyond_the_first_loop_are_not_computed() -> None:
    shorter = made(40)
    x, v = Var("x"), Var("v")
    place = at((LANES, x), (1, v))
    rest = If(place >= 40, Store(ROW, place, const(1.0, "float32")))
    filled = loop(x, LENGTH // LANES, loop(v, LANES, rest, VECTOR))
    assert loops_after(filled, shorter, summed(100)) >= 2


def test_a_loop_backwards_stays_apart() -> None:
    assert loops_after(made(96), summed(96, back=True)) == 2


def test_a_result_that_is_read_in_between_stays() -> None:
    y = Var("y")
    early = loop(y, 8, Store(OUT, y + 50, Load(ROW, y)))
    assert loops_after(made(96), early, summed(96)) == 3


def test_what_the_first_loop_reads_must_not_change_in_between() -> None:
    w = Var("w")
    value = Load(SUMS, const(0)) + 1.0
    filled = loop(w, LANES, Store(SUMS, w, const(3.0, "float32")), UNROLLED)
    made_of_sums = made(96, value)
    assert loops_after(Seq((filled, made_of_sums)), summed(96)) == 2
