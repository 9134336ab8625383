"""A temporary lives in the output that its elements become, where nothing else is written."""

from __future__ import annotations

import numpy as np
from support.written_loops import changed

from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import Allocate, For, FunctionInfo, If, LoopKind, Stmt, Store, seq
from autotune.ir.visitor import walk
from autotune.lowering.output_storage import store_in_outputs

ROWS, LENGTH = 3, 1000
IN, OUT = (Buffer(name, "float32", (const(ROWS), const(LENGTH))) for name in ("in", "out"))
TEMPORARY = Buffer("E", "float32", (const(LENGTH),))


def loop(var: Var, body: Stmt, extent: int = LENGTH, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, const(extent), kind, body)


def rows(last: Expr | None = None, temporary: Buffer = TEMPORARY, guard: bool = False) -> Stmt:
    """Each row of the output: the row of the input plus 1, reversed by `last`, times its second."""
    i, j, k, u = (Var(name) for name in "ijku")
    place = binary("+", binary("*", i, const(LENGTH)), j)
    first = Store(temporary, j, Load(IN, place) + 1.0)
    total = Buffer("S", temporary.dtype, (const(1),))
    add = Store(total, const(0), Load(total, const(0)) + Load(temporary, u))
    where = binary("+", binary("*", i, const(LENGTH)), k)
    if last is not None:
        where = binary("+", binary("*", i, const(LENGTH)), const(LENGTH - 1) - k)
    final = Store(OUT, where, (Load(temporary, k) * Load(total, const(0))).astype("float32"))
    inside = i < ROWS - 1
    made = seq(
        loop(j, If(inside, first) if guard else first),
        Store(total, const(0), const(0.0, temporary.dtype)),
        loop(u, add),
        loop(k, If(inside, final) if guard else final),
    )
    return loop(i, Allocate(temporary, Allocate(total, made)), ROWS, LoopKind.PARALLEL)


def after(body: Stmt, info: FunctionInfo | None = None) -> list[str]:
    """Return the temporaries that are left; the answer is the same."""
    data = (np.arange(ROWS * LENGTH, dtype="float32") % 7).reshape(ROWS, LENGTH)
    function = changed(store_in_outputs, body, (IN, OUT), data, info=info)
    return [s.buffer.name for s in walk(function.body) if isinstance(s, Allocate)]


def test_a_row_whose_elements_become_a_row_of_the_output_lives_there() -> None:
    assert after(rows()) == ["S"]


def test_rows_under_one_guard_live_in_the_output() -> None:
    assert after(rows(guard=True)) == ["S"]


def test_a_reversed_row_keeps_its_storage() -> None:
    assert after(rows(last=const(0))) == ["E", "S"]


def test_a_row_longer_than_those_of_the_output_keeps_its_storage() -> None:
    assert after(rows(temporary=Buffer("E", "float32", (const(LENGTH + 1),)))) == ["E", "S"]


def test_a_row_of_another_type_keeps_its_storage() -> None:
    i, j, k = (Var(name) for name in "ijk")
    wide = Buffer("E", "float64", (const(LENGTH),))
    place, where = (binary("+", binary("*", i, const(LENGTH)), v) for v in (j, k))
    made = seq(
        loop(j, Store(wide, j, Load(IN, place).astype("float64"))),
        loop(k, Store(OUT, where, Load(wide, k).astype("float32"))),
    )
    assert after(loop(i, Allocate(wide, made), ROWS)) == ["E"]


def test_an_output_stored_past_the_caches_holds_no_temporary() -> None:
    assert after(rows(), FunctionInfo(nontemporal=frozenset({"out"}))) == ["E", "S"]


def copied(*, times: int = 1) -> Stmt:
    """The input by way of a temporary row, whose last loop runs some times."""
    i, j, k, again = (Var(name) for name in ("i", "j", "k", "again"))
    place, where = (binary("+", binary("*", i, const(LENGTH)), v) for v in (j, k))
    last: Stmt = loop(k, Store(OUT, where, Load(TEMPORARY, k) * 2.0))
    last = last if times == 1 else loop(again, last, times)
    return loop(
        i, Allocate(TEMPORARY, seq(loop(j, Store(TEMPORARY, j, Load(IN, place))), last)), ROWS
    )


def test_elements_that_are_read_repeatedly_keep_their_storage() -> None:
    assert after(copied()) == []
    assert after(copied(times=2)) == ["E"]


def test_an_output_with_another_store_holds_no_temporary() -> None:
    i = Var("i")
    other = loop(i, Store(OUT, i, const(1.0, "float32")), ROWS)
    assert after(seq(copied(), other)) == ["E"]
