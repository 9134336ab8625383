"""Moves guards out of loops that they do not depend on, so that inner loops run without guards."""

from __future__ import annotations

from dataclasses import replace

from autotune.ir.expr import Const, Expr, Load
from autotune.ir.stmt import (
    Allocate,
    For,
    If,
    LoopKind,
    PrimFunc,
    Produce,
    Seq,
    Stmt,
    seq,
    split_guards,
    under_guards,
)
from autotune.ir.visitor import StmtRewriter, all_written, walk_expr


def hoist_guards(function: PrimFunc) -> PrimFunc:
    """Return the function with every guard as far out as its variables allow."""
    return function.with_body(_Hoist().stmt(function.body))


def _movable(guard: Expr) -> bool:
    """Whether a condition reads no memory, so that its value is the same anywhere in scope."""
    return not any(isinstance(node, Load) for node in walk_expr(guard))


def _fixed(guards: list[Expr], loop: For) -> list[Expr]:
    """Return the guards of a loop's whole body that can be tested before the loop.

    A guard that reads memory can if the loop runs, the loop does not write that memory, and no
    guard that remains inside protects the read.
    """
    if not guards:
        return []
    runs = isinstance(loop.extent, Const) and loop.extent.value > 0
    written = all_written(loop.body)
    fixed: list[Expr] = []
    for place, guard in enumerate(guards):
        nodes = list(walk_expr(guard))
        if any(node is loop.var for node in nodes):
            continue
        read = [node.buffer for node in nodes if isinstance(node, Load)]
        if not read or (runs and len(fixed) == place and written.isdisjoint(read)):
            fixed.append(guard)
    return fixed


class _Hoist(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        rewritten = self.stmt(node.body)
        guards, body = split_guards(rewritten)
        # A thread axis remains outermost, because all threads of a block must enter its body.
        is_thread = node.kind in (LoopKind.THREAD, LoopKind.VTHREAD)
        fixed = [] if is_thread else _fixed(guards, node)
        if not fixed and rewritten is node.body:
            return node
        own = [g for g in guards if not any(g is f for f in fixed)]
        inner = under_guards(own, body) if fixed else rewritten
        return under_guards(fixed, node.with_body(inner))

    def visit_Seq(self, node: Seq) -> Stmt:
        rewritten = [self.stmt(stmt) for stmt in node.stmts]
        parts = [split_guards(stmt) for stmt in rewritten]
        first = parts[0][0] if parts else []
        common = [
            g
            for g in first
            if _movable(g) and all(any(g is h for h in guards) for guards, _ in parts[1:])
        ]
        if not common:
            unchanged = all(a is b for a, b in zip(rewritten, node.stmts, strict=True))
            return node if unchanged else seq(*rewritten)
        stmts = [
            under_guards([g for g in guards if not any(g is c for c in common)], body)
            for guards, body in parts
        ]
        return under_guards(common, seq(*stmts))

    def visit_Allocate(self, node: Allocate | Produce) -> Stmt:
        guards, body = split_guards(self.stmt(node.body))
        return node if body is node.body else under_guards(guards, replace(node, body=body))

    visit_Produce = visit_Allocate

    def visit_If(self, node: If) -> Stmt:
        rebuilt = self.rebuild_stmt(node)
        guards, body = split_guards(rebuilt)
        unique = [g for i, g in enumerate(guards) if not any(g is h for h in guards[:i])]
        return rebuilt if len(unique) == len(guards) else under_guards(unique, body)
