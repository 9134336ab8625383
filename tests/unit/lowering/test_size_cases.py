"""Unrolled loops as long as a small size run a constant number of times in copies of the code."""

import pytest
from support.verify import verify
from support.written_loops import changed

from autotune.ir import ops
from autotune.ir.expr import Buffer, Const, Load, SizeVar, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, LoopKind, PrimFunc, Store
from autotune.ir.visitor import walk
from autotune.lowering.vector.size_cases import split_by_size

N, M, ROW = SizeVar("n"), SizeVar("m"), Var("row")
OUT = Buffer("out", "int32", (const(32),))


def unrolled(extent, kind=LoopKind.UNROLLED):
    body = Store(OUT, ROW, binary("+", Load(OUT, ROW), ops.convert(1)))
    loop = For(ROW, extent, kind, body, "")
    return verify(PrimFunc("f", (OUT,), frozenset({OUT}), loop, (N, M)))


def lengths(function):
    loops = (stmt for stmt in walk(function.body) if isinstance(stmt, For))
    return {int(s.extent.value) if isinstance(s.extent, Const) else None for s in loops}


def rows(limit, size=N):
    return binary("max", const(1), binary("min", const(limit), size))


@pytest.mark.parametrize("limit", [2, 3, 8])
def test_each_small_size_has_a_copy_and_all_compute_the_same(limit):
    sizes = [{N: size, M: 0} for size in range(2 * limit)]
    after = changed(split_by_size, unrolled(rows(limit)).body, (OUT,), sizes=sizes)
    assert lengths(after) == {*range(1, limit + 1)}


@pytest.mark.parametrize(
    "extent",
    [const(4), rows(100), binary("min", rows(4), rows(4, M))],
    ids=["constant", "many", "two sizes"],
)
def test_other_lengths_have_no_copies(extent):
    before = unrolled(extent)
    assert split_by_size(before) is before


def test_loops_that_are_not_unrolled_have_no_copies():
    before = unrolled(rows(4), LoopKind.SERIAL)
    assert split_by_size(before) is before
