"""Lowers virtual threads: moves their loops inwards to the statements that differ between them.

    for vthread in 2:                       for k in 8:
      for k in 8:                             S = f(k)
        S = f(k)                     ->       for vthread in 2:
        L = L + S*g(vthread)                    L[vthread] = L[vthread] + S*g(vthread)

One thread executes several virtual threads. They execute each statement together, so that shared
values are ready for all of them. Local storage that differs between them is widened; statements
that are equal for all are executed once.
"""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.ops import binary
from autotune.ir.stmt import (
    Allocate,
    Barrier,
    For,
    If,
    LoopKind,
    PrimFunc,
    Produce,
    Seq,
    Stmt,
    Store,
    WarpReduce,
)
from autotune.ir.visitor import (
    AccessRewriter,
    all_allocated,
    child_stmts,
    mentions,
    stmt_exprs,
    substitute_stmt,
    transform,
    walk,
    walk_expr,
    with_parts,
    written,
)
from autotune.lowering.guards.hoist_guards import sink_conditions
from autotune.lowering.storage_rewrite import elements


def inject_virtual_threads(function: PrimFunc) -> PrimFunc:
    """Return the function with virtual threads as unrolled loops around single statements."""
    return function.with_body(_injected(function.body))


def _injected(stmt: Stmt) -> Stmt:
    """Inject the loops over virtual threads in a statement, outer ones first."""

    def spread(node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is LoopKind.VTHREAD:
            return _injected(_Spread(node).body())
        return None

    return transform(stmt, before=spread)


class _Spread(AccessRewriter):
    """Spreads one loop over virtual threads over its body."""

    def __init__(self, loop: For) -> None:
        super().__init__(self._widened)
        self.loop = loop
        self.wide: dict[Buffer, Buffer] = {}
        self.offsets: dict[Buffer, Expr] = {}
        for old in differing(loop):
            shape = (loop.extent, *old.shape)
            self.wide[old] = Buffer(old.name, old.dtype, shape, old.scope)
            self.offsets[old] = binary("*", loop.var, elements(old))

    def body(self) -> Stmt:
        """Return the statement that replaces the loop."""
        return self._spread(self.stmt(self.loop.body))

    # -- storage -----------------------------------------------------------------------------------

    def _widened(self, buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        offset = self.offsets.get(buffer)
        place = index if offset is None else binary("+", offset, index)
        return self.wide.get(buffer, buffer), place

    def visit_WarpReduce(self, node: WarpReduce) -> Stmt:
        _, index = self._widened(node.results[0], self.expr(node.index))
        results = tuple(self.wide.get(buffer, buffer) for buffer in node.results)
        operands = tuple(map(self.expr, node.operands))
        return WarpReduce(node.combiner, operands, results, index, node.width)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        return Allocate(self.wide.get(node.buffer, node.buffer), self.stmt(node.body))

    # -- loops -------------------------------------------------------------------------------------

    def _spread(self, stmt: Stmt) -> Stmt:
        """Return a statement for all virtual threads; loops and sequences are kept."""
        var = self.loop.var
        if not any(mentions(e, var) for s in walk(stmt) for e in stmt_exprs(s)):
            return stmt
        match stmt:
            case Seq() | Allocate() | Produce():
                return with_parts(stmt, None, self._spread)
            case For(extent=tested) | If(condition=tested) if not mentions(tested, var):
                return with_parts(stmt, None, self._spread)
            case If() if not _is_simple(stmt) and (inner := sink_conditions(stmt)) is not None:
                return self._spread(inner)
            case For() if not _is_simple(stmt):
                raise LoweringError(
                    f"loop {stmt.var.name!r} is of another length in each virtual thread and holds "
                    "what they share; give it a constant length"
                )
        fresh = Var(var.name, var.dtype)
        one = substitute_stmt(stmt, {var: fresh})
        return For(fresh, self.loop.extent, LoopKind.UNROLL_HINTED, one)


def differing(loop: For) -> set[Buffer]:
    """Return the local storage of a loop's body that differs between its iterations."""
    own = set(all_allocated(loop.body, "local"))
    found: set[Buffer] = set()

    def differs(expr: Expr) -> bool:
        return any(
            node is loop.var or (isinstance(node, Load) and node.buffer in found)
            for node in walk_expr(expr)
        )

    def visit(stmt: Stmt, around: bool) -> None:
        around = around or any(map(differs, stmt_exprs(stmt)))
        if around:
            found.update(own.intersection(written(stmt)))
        for child in child_stmts(stmt):
            visit(child, around)

    known = -1
    while known != len(found):
        known = len(found)
        visit(loop.body, False)
    return found


def _is_simple(stmt: Stmt) -> bool:
    """Whether nothing in a statement is shared by virtual threads."""
    return not any(
        (isinstance(inner, Store) and inner.buffer.scope == "shared")
        or isinstance(inner, (Barrier, WarpReduce))
        or (isinstance(inner, For) and inner.kind is LoopKind.VTHREAD)
        for inner in walk(stmt)
    )
