"""Loop interchange of scans: moves parallel loops around the loop over steps, where it is legal.

    for (t, 0, m)                                parallel (x, 0, 8)
      parallel (x, 0, 8)               ->          for (t, 0, m)
        for (i, 0, 32) S[t, x*32 + i] = ...          for (i, 0, 32) S[t, x*32 + i] = ...

Threads are then started once and not in every step. This is legal if all stores of the scan are in
parallel loops of one length, and an iteration reads only columns that it wrote.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.expr import Var
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Produce, Seq, Stmt, Store
from autotune.ir.visitor import (
    all_written,
    child_stmts,
    substitute_stmt,
    transform,
    walk,
)
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.dependence.dependence_test import DependenceTest


def interchange_parallel_loops(function: PrimFunc) -> PrimFunc:
    """Return an analysed function with loops over steps inside parallel loops where it is legal."""
    states = function.info.scan_states
    change = _Scans(states).interchanged
    return function.with_body(transform(function.body, before=change)) if states else function


class _Scans:
    def __init__(self, states: Mapping[str, bool]) -> None:
        self.states = states

    def interchanged(self, node: Stmt) -> Stmt | None:
        """Return a scan with its parallel loops around its steps; None where that may not be."""
        if not isinstance(node, Produce) or not self._carries(node.body):
            return None
        body = self._side_by_side(node.body)
        return None if body is None else Produce(node.name, body)

    def _carries(self, stmt: Stmt) -> bool:
        """Whether a statement writes a state, other than in a scan inside it."""
        if isinstance(stmt, Store):
            return stmt.buffer.name in self.states
        inside = (s for s in child_stmts(stmt) if not isinstance(s, Produce))
        return any(map(self._carries, inside))

    def _side_by_side(self, body: Stmt) -> Stmt | None:
        """Return a scan with its parallel loops merged into one around it; None if illegal."""
        loops = [s for s in walk(body) if isinstance(s, For) and s.kind is LoopKind.PARALLEL]
        if not loops or any(loop.extent is not loops[0].extent for loop in loops):
            return None
        if not _covers(body):
            return None
        var, extent = Var(loops[0].var.name, loops[0].var.dtype), loops[0].extent

        def without_loop(node: Stmt) -> Stmt | None:
            return node.body if isinstance(node, For) and node in loops else None

        body = substitute_stmt(transform(body, before=without_loop), {x.var: var for x in loops})
        own = {s.buffer for s in walk(body) if isinstance(s, Allocate)}
        written = all_written(body) - own
        found = [access for access in accesses(body) if access.buffer in written]
        if DependenceTest({var: extent}, self.states).shared(found) is not None:
            return None
        return For(var, extent, LoopKind.PARALLEL, body)


def _covers(stmt: Stmt) -> bool:
    """Whether all stores of a scan are in parallel loops."""
    match stmt:
        case For(_, _, LoopKind.PARALLEL, _):
            return True
        case Store():
            return False
        case For() | Seq() | If() | Produce() | Allocate():
            return all(map(_covers, child_stmts(stmt)))
        case _:
            return False
