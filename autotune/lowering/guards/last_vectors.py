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

`partition` ends the loops of a copy by its test. What is computed for other vectors is not stored,
so compilers leave it out.
"""

from __future__ import annotations

from dataclasses import replace

from autotune.ir.expr import Const, Expr, SizeVar, Var
from autotune.ir.ops import binary, const, likely
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import free_vars, substitute, walk
from autotune.lowering.guards.loop_partition import Sizes
from autotune.lowering.guards.loop_splitting import FIXED, Splitter, inside

_LOOPS = (LoopKind.SERIAL, LoopKind.PARALLEL)
#: Limits of the nodes of all copies: a multiple of the function's, and what compiles soon.
_TIMES, _AT_MOST = 4, 6_000


def split_last_vectors(function: PrimFunc) -> PrimFunc:
    """Return the function with copies of tiles for fewer vectors, if rows are of open sizes."""
    if not function.sizes:
        return function
    return function.with_body(_LastVectors(function.body).run())


class _LastVectors(Splitter):
    def __init__(self, body: Stmt) -> None:
        super().__init__(body)
        self._sizes = Sizes()
        self._left = min(_TIMES * self._sizes.of(body), _AT_MOST)

    def split(self, loop: For) -> Stmt:
        """Return the loop with copies of its body."""
        body = loop.body
        if loop.kind in _LOOPS:
            for excess, (lanes, vectors) in self._rows(loop).items():
                body = self._copies(body, excess, lanes, vectors)
        return loop.with_body(body)

    def _rows(self, loop: For) -> dict[Expr, tuple[int, int]]:
        """Return the lanes and the number of vectors in each row that an iteration computes.

        Keys are at most 0 where the first element of the row exists.
        """
        found: dict[Expr, tuple[int, int]] = {}
        for stmt, loops in inside(loop.body, {}, self.choices.is_plain):
            for _, over in self.choices.parts_of(stmt):
                if over is None or not any(v is loop.var for v in free_vars(over)):
                    continue
                row = self._row(over, [loops[v] for v in free_vars(over) if v in loops])
                if row is not None:
                    first, lanes, vectors = row
                    _, known = found.get(first, (lanes, 0))
                    found[first] = lanes, max(vectors, known)
        return found

    def _row(self, over: Expr, within: list[For]) -> tuple[Expr, int, int] | None:
        """Return what `_rows` does for one guard of lanes, with loops inside that it depends on."""
        kinds = {loop.kind: loop for loop in within}
        if len(within) != len(FIXED) or kinds.keys() != {*FIXED}:
            return None
        vector, lane = kinds[LoopKind.UNROLLED], kinds[LoopKind.VECTORIZED]
        if not (isinstance(vector.extent, Const) and isinstance(lane.extent, Const)):
            return None
        lanes, vectors = int(lane.extent.value), int(vector.extent.value)
        if (self.factor(over, lane.var), self.factor(over, vector.var)) != (1, lanes):
            return None
        start = {own.var: const(0, own.var.dtype) for own in within}
        first = self.simplifier.expr(substitute(over, start))
        is_open = any(isinstance(v, SizeVar) for v in free_vars(first))
        return (first, lanes, vectors) if is_open else None

    def _copies(self, body: Stmt, excess: Expr, lanes: int, vectors: int) -> Stmt:
        """Return the body in a copy for each number of vectors."""
        match body:
            case Allocate() | For(kind=LoopKind.PARALLEL):  # they stay directly inside
                return replace(body, body=self._copies(body.body, excess, lanes, vectors))
        nodes = (vectors - 1) * self._sizes.of(body)
        if nodes > self._left or any(isinstance(stmt, Allocate) for stmt in walk(body)):
            return body
        self._left -= nodes
        found = body
        for full in range(1, vectors):
            more = binary("<=", binary("+", excess, const(full * lanes, excess.dtype)), const(0, excess.dtype))
            found = If(likely(self.simplifier.expr(more)), body, found)
        return found
