"""Random nests with tiles that share a loop, and guards: splitting changes no result."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.verify import verify

from autotune.ir import ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.ops import const, likely
from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Stmt, Store, seq
from autotune.lowering.guards.hoist_guards import hoist_guards
from autotune.lowering.guards.last_tile import split_last_tiles
from autotune.lowering.guards.loop_partition import partition, shorten

SIZE = 4096
OUT = Buffer("out", "int32", (const(SIZE),))
PASSES = (hoist_guards, split_last_tiles, partition, hoist_guards, shorten)


class RandomNest:
    """A loop over tiles of two axes, loops inside of one, and guarded stores."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        tiles, rows = pick((2, 3, 4)), pick((1, 2, 3))
        self.x = Var("x")
        self.tile = self.x % tiles if self.random.random() < 0.7 else self.x // rows
        self.inner = [
            (Var(name), pick((1, 2, 3, 4)), pick(kinds))
            for name, kinds in (
                ("r", (LoopKind.SERIAL,)),
                ("u", (LoopKind.UNROLLED, LoopKind.UNROLL_HINTED, LoopKind.SERIAL)),
                ("v", (LoopKind.VECTORIZED, LoopKind.UNROLLED)),
            )
        ]
        stmts = [self.stored(number) for number in range(pick((1, 1, 2, 3)))]
        kind = pick((LoopKind.SERIAL, LoopKind.PARALLEL))
        self.body = For(self.x, const(tiles * rows), kind, seq(*stmts))

    def stored(self, number: int) -> Stmt:
        """Return loops around a store under guards; a parallel loop stores in places of its own."""
        index: Expr = self.x
        for var, extent, _ in self.inner:
            index = index * extent + var
        value: Expr = ops.binary("+", Load(OUT, index), ops.convert(number + 1))
        if self.random.random() < 0.4:
            value = ops.if_then_else(self.guard(), value, Load(OUT, index))
        stmt: Stmt = Store(OUT, index, value)
        for _ in range(self.random.choice((1, 1, 2, 3))):
            stmt = If(likely(self.guard()), stmt)
        for var, extent, kind in reversed(self.inner):
            stmt = For(var, const(extent), kind, stmt)
        return stmt

    def guard(self) -> Expr:
        """Return the guard of an axis in tiles, or another sum of some variables below a limit."""
        pick = self.random.choice
        (r, _, _), (u, several, _), (v, lanes, _) = self.inner
        if self.random.random() < 0.6:
            return (self.tile * several + u) * lanes + v < self.random.randint(
                1, 4 * several * lanes
            )
        terms: list[Expr] = [r, u, v, self.x, self.tile]
        total = const(self.random.randint(-4, 2))
        for term in self.random.sample(terms, pick((1, 2, 3))):
            total = ops.binary("+", total, ops.binary("*", term, const(pick((1, 2, 4, -1, -4)))))
        return total < self.random.randint(-2, 6)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_splitting_random_nests_changes_no_result(first: int) -> None:
    for seed in range(first, first + 50):
        function = verify(PrimFunc("f", (OUT,), frozenset({OUT}), RandomNest(seed).body))
        split = function
        for step in PASSES:
            split = step(split)
        results = [np.zeros(SIZE, "int32"), np.zeros(SIZE, "int32")]
        for form, out in zip((function, verify(split)), results, strict=True):
            interpret(form, [out], {})
        np.testing.assert_array_equal(*results, err_msg=f"seed {seed}: {function}")
