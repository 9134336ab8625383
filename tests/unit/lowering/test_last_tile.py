"""The last tile of an axis has code of its own where axes share a loop; results are the same."""

from __future__ import annotations

import pytest
from support.agreement import assert_computes
from support.written_loops import changed, conditions, loop

from autotune import te
from autotune.ir import ops
from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.ops import const, likely
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Stmt, Store, seq
from autotune.ir.visitor import walk
from autotune.lowering.guards.last_tile import split_last_tiles
from autotune.lowering.guards.loop_partition import partition, shorten

X, Y, Z, R, V = (Var(name) for name in "xyzrv")
OUT = Buffer("out", "int32", (const(672),))
UNROLLED, VECTOR, PARALLEL = LoopKind.UNROLLED, LoopKind.VECTORIZED, LoopKind.PARALLEL


def add(index: Expr) -> Store:
    return Store(OUT, index, ops.binary("+", Load(OUT, index), ops.convert(1)))


def split(body: Stmt, finish: bool = False) -> PrimFunc:
    """Apply the pass, perhaps those after it; check that the same is computed."""
    after = changed(split_last_tiles, body, (OUT,))
    return changed(finished, after.body, (OUT,)) if finish else after


def finished(function: PrimFunc) -> PrimFunc:
    return shorten(partition(function))


def rows_of_tiles(end: int, tiles: int = 7, kind: LoopKind = LoopKind.SERIAL) -> For:
    """Return loops over 3 rows of tiles of 32 elements, in vectors of 8, in steps of a sum."""
    at = (X % tiles) * 32 + Y * 8 + V
    guarded = If(likely(at < end), add((X // tiles) * end + at))
    vectors = loop(Y, 4, loop(V, 8, guarded, VECTOR), UNROLLED)
    return loop(X, 3 * tiles, loop(R, 2, vectors), kind)


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, PARALLEL])
def test_only_the_last_tile_has_a_branch_and_no_step_tests_anything(kind: LoopKind) -> None:
    after = split(rows_of_tiles(200, kind=kind), finish=True)
    assert conditions(after) == ["likely((floormod(x, 7) < 6))"]


def test_the_vectors_of_the_last_tile_are_as_many_and_as_long_as_is_left() -> None:
    after = split(rows_of_tiles(197), finish=True)
    (branch,) = (stmt for stmt in walk(after.body) if isinstance(stmt, If))
    assert branch.orelse is not None
    sizes = [str(s.extent) for s in walk(branch.orelse) if isinstance(s, For) and s.kind is VECTOR]
    assert sizes == ["5"]
    assert "192" in str(branch.orelse)


def test_an_axis_that_tiles_divide_has_no_branch() -> None:
    assert conditions(split(rows_of_tiles(224))) == []


def test_a_loop_that_can_end_earlier_is_left_to_partition() -> None:
    """No vector or unrolled loop is cut: a shorter loop says as much."""
    at = (X % 7) * 32 + Y
    body = loop(X, 21, loop(Y, 32, If(likely(at < 200), add((X // 7) * 200 + at))))
    assert split(body).body is body


def test_several_partial_tiles_are_not_told_apart() -> None:
    body = rows_of_tiles(150)
    assert split(body).body is body


def test_two_axes_have_a_branch_each() -> None:
    row, column = (X // 3) * 4 + Y, (X % 3) * 8 + V
    tile = If(likely(row < 10), If(likely(column < 20), add(row * 20 + column)))
    body = loop(X, 9, loop(Y, 4, loop(V, 8, tile, VECTOR), UNROLLED))
    assert len(conditions(split(body, finish=True))) == 3  # the second one in both branches


def test_tiles_with_memory_of_their_own_share_it_between_the_branches() -> None:
    own = Buffer("own", "int32", (const(32),))
    at = (X % 7) * 32 + Y * 8 + V
    first = loop(Y, 4, loop(V, 8, Store(own, Y * 8 + V, ops.convert(2)), VECTOR), UNROLLED)
    value = ops.binary("+", Load(own, Y * 8 + V), ops.convert(1))
    guarded = If(likely(at < 197), Store(OUT, (X // 7) * 197 + at, value))
    last = loop(Y, 4, loop(V, 8, guarded, VECTOR), UNROLLED)
    after = split(loop(X, 21, Allocate(own, seq(first, last)), PARALLEL), finish=True)
    assert sum(isinstance(stmt, Allocate) for stmt in walk(after.body)) == 1
    assert conditions(after) == ["likely((floormod(x, 7) < 6))"]


def test_guards_that_leave_nothing_of_an_iteration_end_the_loop_before_it() -> None:
    at = Z * 16 + Y * 8 + V
    body = loop(
        Z, 2, loop(R, 3, loop(Y, 2, loop(V, 8, If(likely(at < 5), add(at)), VECTOR), UNROLLED))
    )
    after = changed(finished, body, (OUT,))
    assert conditions(after) == []
    assert [f"{s.var.name}<{s.extent}" for s in walk(after.body) if isinstance(s, For)] == [
        "r<3",
        "v<5",
    ]


# -- copies of a loop that are shorter than it ---------------------------------------------------
# A condition on the loop is one expression in all of them, and is decided for the longest.


def test_a_shorter_loop_of_the_last_tile_decides_nothing_for_the_others() -> None:
    A = te.placeholder((8, 14), "int32", name="A")
    B = te.compute((8, 14), lambda i, j: te.if_then_else(i + j % 4 < 6, A[i, j] + 5, 0), name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    outer, inner = s[B].split(j, factor=4)
    s[B].unroll(inner)
    s[B].parallel(s[B].fuse(i, outer))
    assert_computes(s, [A, B])


def test_a_loop_that_ends_earlier_decides_nothing_for_its_copies() -> None:
    A = te.placeholder((8, 4, 4), "int32", name="A")
    B = te.compute(
        (8, 4, 4),
        lambda w, x, z: te.if_then_else(te.all(z <= x * 4 + 1, w + z < 6), A[w, x, z] + 5, 0),
        name="B",
    )
    C = te.placeholder((3, 197), "int32", name="C")
    D = te.compute((3, 197), lambda i, j: C[i, j] + 1, name="D")
    s = te.create_schedule([B.op, D.op])
    s[B].unroll(B.op.axis[2])
    i, j = D.op.axis
    outer, inner = s[D].split(j, factor=32)
    y, v = s[D].split(inner, factor=8)
    s[D].reorder(i, outer, y, v)
    s[D].unroll(y)
    s[D].vectorize(v)
    s[D].parallel(s[D].fuse(i, outer))
    assert_computes(s, [A, C, B, D])


def test_a_tile_that_is_written_in_another_form_has_no_branch() -> None:
    at = (X * 32) % 224 + Y * 8 + V
    guarded = If(likely(at < 197), add((X // 7) * 197 + at))
    body = loop(X, 21, loop(Y, 4, loop(V, 8, guarded, VECTOR), UNROLLED))
    assert len(conditions(split(body))) == 1
