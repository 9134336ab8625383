"""Tiles at the end of rows of unknown length have a copy for each number of vectors."""

from __future__ import annotations

import pytest
from support.written_loops import changed, conditions, loop

from autotune.ir import ops
from autotune.ir.expr import Buffer, Expr, Load, SizeVar, Var
from autotune.ir.ops import binary, const, likely
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Stmt, Store, seq
from autotune.ir.visitor import walk
from autotune.lowering.guards.last_vectors import split_last_vectors
from autotune.lowering.guards.loop_partition import partition, shorten

N, X, Y, V, W, L = SizeVar("n"), *(Var(name) for name in "xyvwl")
OUT, TILE = (Buffer(name, "int32", (const(160),)) for name in ("out", "tile"))
UNROLLED, VECTOR, PARALLEL = LoopKind.UNROLLED, LoopKind.VECTORIZED, LoopKind.PARALLEL
LANES, SIZES = 8, [{N: n} for n in (1, 7, 8, 9, 16, 17, 24, 25, 40, 61)]


def stored(vectors: int, lane: Expr = L) -> Stmt:
    """Return loops that add 1 to a row of vectors, as far as it is within n elements."""
    at = X * (vectors * LANES) + V * LANES + lane
    add = Store(OUT, at, binary("+", Load(OUT, at), ops.convert(1)))
    return loop(V, vectors, loop(L, LANES, If(likely(at < N), add), VECTOR), UNROLLED)


def tiles(vectors: int, body: Stmt, kind: LoopKind = LoopKind.SERIAL) -> Stmt:
    width = vectors * LANES
    return loop(X, (N + (width - 1)) // width, body, kind)


def split(body: Stmt, finish: bool = False) -> PrimFunc:
    """Apply the pass, perhaps those after it; check that the same is computed."""

    def passes(function: PrimFunc) -> PrimFunc:
        function = split_last_vectors(function)
        return shorten(partition(function)) if finish else function

    return changed(passes, body, (OUT,), sizes=SIZES)


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, PARALLEL])
@pytest.mark.parametrize("vectors", [2, 3, 4])
def test_there_is_a_copy_for_each_number_of_vectors(vectors: int, kind: LoopKind) -> None:
    after = split(tiles(vectors, stored(vectors), kind))
    tests = [text for text in conditions(after) if "(x" in text and "l" not in text[6:]]
    assert len(tests) == vectors - 1


def test_a_copy_tests_only_lanes_of_its_last_vector() -> None:
    after = split(tiles(4, stored(4)))
    loops = [stmt for stmt in walk(after.body) if isinstance(stmt, For) and stmt.kind is UNROLLED]
    plain = [not any(isinstance(s, If) for s in walk(inner.body)) for inner in loops]
    lengths = [str(inner.extent) for inner in loops]
    assert sorted(zip(lengths, plain, strict=True)) == [("2", True), ("4", False)]


def test_whole_tiles_have_no_tests_after_all_passes() -> None:
    after = split(tiles(2, stored(2)), finish=True)
    first = next(s for s in walk(after.body) if isinstance(s, For) and s.var.name == "x")
    assert not any(isinstance(stmt, If) for stmt in walk(first.body))


def test_parallel_loops_and_allocations_stay_directly_inside() -> None:
    inner = loop(Y, 2, Allocate(TILE, seq(Store(TILE, const(0), const(1)), stored(2))), PARALLEL)
    after = split(tiles(2, inner, PARALLEL))
    outer = after.body
    assert isinstance(outer, For)
    assert isinstance(outer.body, For)
    assert isinstance(outer.body.body, Allocate)
    assert isinstance(outer.body.body.body, If)


def test_what_is_stored_beyond_the_end_of_a_row_is_stored_in_all_copies() -> None:
    at = X * 16 + V * LANES + L
    padded = Store(OUT, at, ops.if_then_else(at < N, ops.convert(5), ops.convert(7)))
    row = seq(loop(V, 2, loop(L, LANES, padded, VECTOR), UNROLLED), stored(2))
    after = split(tiles(2, row))
    assert any(isinstance(stmt, If) and stmt.orelse is not None for stmt in walk(after.body))


def test_rows_of_known_length_stay() -> None:
    at = X * 16 + V * LANES + L
    add = Store(OUT, at, binary("+", Load(OUT, at), ops.convert(1)))
    row = loop(V, 2, loop(L, LANES, If(likely(at < 61), add), VECTOR), UNROLLED)
    before = PrimFunc("f", (OUT,), frozenset({OUT}), loop(X, 4, row), ())
    assert split_last_vectors(before) is before


def test_single_vectors_and_loops_that_are_not_written_out_stay() -> None:
    at = X * 16 + W * LANES + L
    add = Store(OUT, at, binary("+", Load(OUT, at), ops.convert(1)))
    guarded = loop(L, LANES, If(likely(at < N), add), VECTOR)
    for body in (tiles(1, stored(1)), tiles(2, loop(W, 2, guarded))):
        assert not [text for text in conditions(split(body)) if "l)" not in text]


def test_no_copies_are_made_beyond_the_limit() -> None:
    many = seq(*(stored(4) for _ in range(60)))
    before = PrimFunc("f", (OUT,), frozenset({OUT}), tiles(4, many), (N,))
    assert conditions(split_last_vectors(before)) == conditions(before)
