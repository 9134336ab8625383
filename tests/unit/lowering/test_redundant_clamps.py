"""Indices lose the bounds that loops and guards imply, and keep those that matter."""

from __future__ import annotations

import numpy as np
import pytest
from support.written_loops import changed, loop

from autotune.ir.expr import Buffer, Load, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import If, LoopKind, Stmt, Store
from autotune.lowering.guards.redundant_clamps import drop_redundant_clamps

OUT, IN = (Buffer(name, "int32", (const(40),)) for name in ("out", "in"))
TILE, R = Var("i"), Var("r")
ROW = binary("+", binary("*", TILE, const(4)), R)
BOUNDED = Load(IN, binary("min", ROW, const(30)))


def without_bounds(body: Stmt, tiles: int) -> str:
    """Return the listing of loops without redundant bounds; checks that it computes the same."""
    loops = loop(TILE, tiles, loop(R, 4, body, LoopKind.UNROLLED))
    return str(changed(drop_redundant_clamps, loops, (IN, OUT), np.arange(40, dtype="int32")))


@pytest.mark.parametrize(("tiles", "kept"), [(7, False), (8, True)])
def test_a_bound_is_kept_only_if_a_loop_reaches_it(tiles: int, kept: bool) -> None:
    assert ("min(" in without_bounds(Store(OUT, ROW, BOUNDED), tiles)) == kept


def test_a_guard_implies_a_bound() -> None:
    guarded = If(binary("<", ROW, const(31)), Store(OUT, ROW, BOUNDED))
    assert "min(" not in without_bounds(guarded, 10)


def test_a_minimum_of_data_is_kept() -> None:
    least = binary("min", Load(IN, ROW), const(1000))
    assert "min(" in without_bounds(Store(OUT, ROW, least), 7)


def test_quotients_are_simplified_where_a_bound_goes() -> None:
    group = binary("//", binary("min", ROW, const(30)), const(8))
    listing = without_bounds(Store(OUT, ROW, Load(IN, group)), 7)
    assert "in[floordiv(i, 2)]" in listing  # the same for all rows of a tile
