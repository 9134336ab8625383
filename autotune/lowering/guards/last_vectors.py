"""Gives tiles at the end of rows a copy for each number of vectors, where only calls know it.

::

    parallel x in ceildiv(n, 32):                  parallel x in ceildiv(n, 32):
      unrolled v in 2:                               if x*32 + 16 < n:
        vectorized i in 16:                            unrolled v in 2: ...
          if x*32 + v*16 + i < n:         ->         else:
            C[...] = tile[v*16 + i]                    unrolled v in 1:
                                                         vectorized i in 16:
                                                           if x*32 + i < n:
                                                             C[x*32 + i] = tile[i]

What is computed in other vectors, but not stored, is left out by compilers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autotune.ir.expr import Const, Expr, SizeVar, Var
from autotune.ir.ops import binary, const, likely
from autotune.ir.stmt import NOTHING, Allocate, For, If, LoopKind, PrimFunc, Stmt, is_empty, seq
from autotune.ir.visitor import free_vars, mentions, substitute, substitute_stmt, transform
from autotune.lowering.guards.facts import ConditionRewriter
from autotune.lowering.guards.loop_splitting import FIXED, Splitter, inside

_LOOPS = (LoopKind.SERIAL, LoopKind.PARALLEL)


def split_last_vectors(function: PrimFunc) -> PrimFunc:
    """Return the function with copies of tiles for fewer vectors, if rows are of open sizes."""
    if not function.sizes:
        return function
    return function.with_body(_LastVectors(function.body).run())


@dataclass
class _VectorRow:
    """A row of vectors that an iteration of a loop computes.

    `lanes`: elements of a vector.
    `vectors`: largest number of vectors.
    `guards`: the conditions that lanes exist, by the variable of the loop over vectors.
    """

    lanes: int
    vectors: int = 0
    guards: dict[Var, dict[Expr, None]] = field(default_factory=dict)


class _LastVectors(Splitter):
    TIMES, AT_MOST = 4, 6_000  # what compiles soon

    def split(self, loop: For) -> Stmt:
        """Return the loop with copies of its body."""
        body = loop.body
        if loop.kind in _LOOPS:
            for first, row in self._rows(loop).items():
                body = self._copies(body, first, row)
        return loop.with_body(body)

    def _rows(self, loop: For) -> dict[Expr, _VectorRow]:
        """Return the rows of an iteration.

        Keys are at most 0 where the first element of the row exists.
        """
        found: dict[Expr, _VectorRow] = {}
        for stmt, loops in inside(loop.body, {}, self.choices.is_plain):
            for part, over in self.choices.parts_of(stmt):
                if over is None or not mentions(over, loop.var):
                    continue
                kinds = {loops[v].kind: loops[v] for v in free_vars(over) if v in loops}
                if kinds.keys() != {*FIXED}:
                    continue
                vector, lane = kinds[LoopKind.UNROLLED], kinds[LoopKind.VECTORIZED]
                first = self._first(over, vector, lane)
                if first is None:
                    continue
                row = found.setdefault(first, _VectorRow(lane.length))
                row.vectors = max(row.vectors, vector.length)
                row.guards.setdefault(vector.var, {})[part] = None
        return found

    def _first(self, over: Expr, vector: For, lane: For) -> Expr | None:
        """Return a guard's excess for the first element of a row; None if it is no such guard."""
        if not (isinstance(vector.extent, Const) and isinstance(lane.extent, Const)):
            return None
        if self.factor(over, lane.var) != 1 or self.factor(over, vector.var) != lane.length:
            return None
        start = {loop.var: const(0, loop.var.dtype) for loop in (vector, lane)}
        first = self.simplifier.expr(substitute(over, start))
        return first if any(isinstance(v, SizeVar) for v in free_vars(first)) else None

    def _copies(self, body: Stmt, first: Expr, row: _VectorRow) -> Stmt:
        """Return the body in a copy for each number of vectors."""
        match body:
            case Allocate() | For(kind=LoopKind.PARALLEL):  # they stay directly inside
                return replace(body, body=self._copies(body.body, first, row))
        if not self.may_copy(body, row.vectors - 1):
            return body
        found = self._narrow(body, row, 1)
        for vectors in range(2, row.vectors + 1):
            before = const((vectors - 1) * row.lanes, first.dtype)
            more = binary("<=", binary("+", first, before), const(0, first.dtype))
            wide = body if vectors == row.vectors else self._narrow(body, row, vectors)
            found = If(likely(self.simplifier.expr(more)), wide, found)
        return found

    def _narrow(self, body: Stmt, row: _VectorRow, vectors: int) -> Stmt:
        """Return the body for a number of vectors, of which the last may lack elements."""

        def narrow(node: Stmt) -> Stmt | None:
            guards = row.guards.get(node.var) if isinstance(node, For) else None
            if guards is None:
                return None
            assert isinstance(node, For)
            before = self._iterations(node, 0, vectors - 1, dict.fromkeys(guards, const(True)))
            last = self._iterations(node, vectors - 1, vectors, {})
            after = dict.fromkeys(guards, const(False))
            return seq(before, last, self._iterations(node, vectors, node.length, after))

        return transform(body, after=narrow)

    def _iterations(self, loop: For, low: int, high: int, known: dict[Expr, Const]) -> Stmt:
        """Return some iterations of a loop, in which the values of conditions are known."""
        body = ConditionRewriter(known, self.choices).stmt(loop.body) if known else loop.body
        if high <= low or is_empty(body):
            return NOTHING
        first = const(low, loop.var.dtype)
        if high == low + 1:
            return substitute_stmt(body, {loop.var: first})
        var = Var(loop.var.name, loop.var.dtype)
        within = substitute_stmt(body, {loop.var: binary("+", var, first)})
        return For(var, const(high - low), loop.kind, within)
