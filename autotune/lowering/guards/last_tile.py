"""Gives the last tile of an axis code of its own where several axes share a loop.

::

    parallel x in 42:                        parallel x in 42:
      unrolled i in 4:                         if x % 7 < 6:
        if (x % 7)*32 + i*8 < 200:     ->        unrolled i in 4:
          C[...] = ...                             C[...] = ...
                                               else:
                                                 unrolled i in 4:
                                                   if 192 + i*8 < 200:
                                                     C[...] = ...   with 6 for x % 7

`partition` cannot split such a loop, but it can end the loops of a tile whose number is known: what
remains there are shorter loops without guards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autotune.ir.algebra.canonical_sums import INF, Sum, Term, term_expr
from autotune.ir.expr import Expr
from autotune.ir.ops import binary, const, likely
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Produce, Stmt
from autotune.ir.visitor import free_vars, mentions, substitute_stmt
from autotune.lowering.guards.loop_splitting import FIXED, Splitter, inside

_LOOPS = (LoopKind.SERIAL, LoopKind.PARALLEL)


def split_last_tiles(function: PrimFunc) -> PrimFunc:
    """Return the function with a branch for the last tile of each axis whose tiles share a loop."""
    return function.with_body(_LastTiles(function.body).run())


class _LastTiles(Splitter):
    TIMES, AT_MOST = 3, 6_000  # what compiles soon

    def split(self, loop: For) -> Stmt:
        """Return the loop with branches for the last tiles."""
        if loop.kind not in _LOOPS:
            return loop
        body = loop.body
        for tile, last in dict(self._tiles(loop)).items():
            body = self._split(body, tile, last)
        return loop.with_body(body)

    def _tiles(self, loop: For) -> Iterator[tuple[Expr, int]]:
        """Yield the numbers of tiles of which a guard leaves out part of the last one, with it."""
        simplifier = self.simplifier
        for stmt, loops in inside(loop.body, {}, self.choices.is_plain):
            fixed = {var for var, inner in loops.items() if inner.kind in FIXED}
            for part, over in self.choices.parts_of(stmt):
                if over is None or not mentions(over, loop.var):
                    continue
                if fixed.isdisjoint(free_vars(over)):  # serial loops can be shorter
                    continue
                form = simplifier.form(over)
                own = [term for term in form.terms if mentions(term.atom, loop.var)]
                if len(own) != 1 or own[0].scale <= 0 or not _is_tile(own[0], loop):
                    continue
                rest = Sum(tuple(term for term in form.terms if term is not own[0]), form.base)
                most = simplifier.sum_bounds(rest)[1]
                tile = term_expr(own[0]._replace(scale=1), 1, loop.var.dtype)
                last = simplifier.bounds(tile)[1]
                if INF in (most, last) or -int(most) // own[0].scale != last - 1:
                    continue
                if mentions(part, tile):  # so that it can be substituted
                    yield tile, int(last)

    def _split(self, body: Stmt, tile: Expr, last: int) -> Stmt:
        """Return the body with a branch for the last tile."""
        match body:
            case Allocate() | Produce() | For(kind=LoopKind.PARALLEL):  # they stay directly inside
                return replace(body, body=self._split(body.body, tile, last))
        if not self.may_copy(body):
            return body
        number = const(last, tile.dtype)
        before = likely(binary("<", tile, number))
        return If(before, body, substitute_stmt(body, {tile: number}))


def _is_tile(term: Term, loop: For) -> bool:
    """Whether a term is a number of a tile that `partition` cannot end the loop at."""
    if term.atom is not loop.var:
        return False
    return loop.kind is LoopKind.PARALLEL or term.lower != 1 or term.upper != INF
