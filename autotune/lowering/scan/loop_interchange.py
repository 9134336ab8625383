"""Loop interchange of scans: parallel loops around the steps, unrolled steps into column loops.

    for (t, 0, m)                                parallel (x, 0, 8)
      parallel (x, 0, 8)               ->          for (t, 0, m)
        for (i, 0, 32) S[t, x*32 + i] = ...          for (i, 0, 32) S[t, x*32 + i] = ...

Threads are then started once and not in every step. This is legal if all stores of the scan are in
parallel loops of one length, and an iteration reads only columns that it wrote.

    unrolled (t, 0, 4)                           for (i, 0, 32)
      for (i, 0, 32)                     ->        unrolled (t, 0, 4)
        S[t + 1, i] = S[t, i] + X[t, i]              S[t + 1, i] = S[t, i] + X[t, i]

Values that one step passes to the next then stay in registers.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.expr import Expr, Var
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Produce, Seq, Stmt, Store
from autotune.ir.visitor import (
    all_allocated,
    all_written,
    child_stmts,
    free_vars,
    substitute_stmt,
    transform,
    walk,
)
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.dependence.dependence_test import DependenceTest


def interchange_parallel_loops(function: PrimFunc) -> PrimFunc:
    """Return an analysed function with loops over steps inside parallel loops where it is legal."""
    states = function.info.scan_states
    change = _Scans(states, function.info.num_threads).interchanged
    return function.with_body(transform(function.body, before=change)) if states else function


class _Scans:
    def __init__(self, states: Mapping[str, bool], num_threads: Mapping[Var, Expr]) -> None:
        self.states = states
        self.num_threads = num_threads

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
        if any(inner in loops for loop in loops for inner in walk(loop.body)):
            return None
        if not _covers(body):
            return None
        var, extent = loops[0].var, loops[0].extent
        var = next((loop.var for loop in loops if loop.var in self.num_threads), var)

        def without_loop(node: Stmt) -> Stmt | None:
            return node.body if isinstance(node, For) and node in loops else None

        body = substitute_stmt(transform(body, before=without_loop), {x.var: var for x in loops})
        written = all_written(body).difference(all_allocated(body))
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


def interchange_steps(function: PrimFunc) -> PrimFunc:
    """Return an analysed function with unrolled steps inside loops over independent columns."""
    states = function.info.scan_states

    def interchanged(steps: Stmt) -> Stmt | None:
        if isinstance(steps, For) and steps.kind is LoopKind.UNROLLED:
            return _interchanged(steps, states)
        return None

    return function.with_body(transform(function.body, after=interchanged)) if states else function


def _interchanged(steps: For, states: Mapping[str, bool]) -> For:
    """Return unrolled steps inside the loops over columns that are all they hold."""
    guard, columns = None, steps.body
    if isinstance(columns, If) and columns.orelse is None:
        guard, columns = columns.condition, columns.then
    if not isinstance(columns, For) or columns.kind is not LoopKind.SERIAL:
        return steps
    inner = steps.with_body(columns.body)
    written = all_written(inner)
    carries = any(buffer.name in states for buffer in written)
    if not carries or any(var is steps.var for var in free_vars(columns.extent)):
        return steps
    found = [access for access in accesses(inner) if access.buffer in written]
    if DependenceTest({columns.var: columns.extent}, states).shared(found) is not None:
        return steps
    if guard is not None:
        inner = steps.with_body(If(guard, columns.body))
    return columns.with_body(_interchanged(inner, states))
