"""Moves guards out of loops that they do not depend on, so that inner loops run without guards.

`sink_conditions` moves them inwards, so that statements between guarded ones run without guards.
"""

from __future__ import annotations

from dataclasses import replace

from autotune.errors import LoweringError
from autotune.ir.expr import Const, Expr
from autotune.ir.ops import binary, if_then_else, logical_not
from autotune.ir.stmt import (
    Allocate,
    For,
    If,
    LoopKind,
    PrimFunc,
    Produce,
    Seq,
    Stmt,
    WarpReduce,
    seq,
    split_guards,
    under_guards,
)
from autotune.ir.visitor import StmtRewriter, all_written, loads_in, mentions


def hoist_guards(function: PrimFunc) -> PrimFunc:
    """Return the function with every guard as far out as its variables allow."""
    return function.with_body(_Hoist().stmt(function.body))


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
        if mentions(guard, loop.var):
            continue
        read = [load.buffer for load in loads_in(guard)]
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
        # Those that read memory may have another value elsewhere.
        common = [
            g
            for g in first
            if not loads_in(g) and all(any(g is h for h in guards) for guards, _ in parts[1:])
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


def sink_conditions(stmt: If) -> Stmt | None:
    """Return a guarded statement with its condition moved one level inwards.

    ::

        if c:                    for i in n:
          for i in n:      ->      if c:
            f(i); g(i)               f(i); g(i)

    It is None if the condition guards a single store. Threads that the condition excludes from a
    warp reduction take part in it with the neutral element.

    Raises LoweringError if the condition reads what the guarded statements write.
    """
    written = all_written(stmt)
    for load in loads_in(stmt.condition):
        if load.buffer in written:
            raise LoweringError(
                f"the condition `{stmt.condition}` differs between threads and depends on values "
                f"that the guarded statements change, and these contain a barrier; compute the "
                f"values of {load.buffer.name!r} before, in a stage of their own"
            )
    if stmt.orelse is not None:
        otherwise = If(logical_not(stmt.condition), stmt.orelse)
        return seq(If(stmt.condition, stmt.then), otherwise)
    return _inside(stmt.condition, stmt.then)


def _inside(condition: Expr, stmt: Stmt) -> Stmt | None:
    match stmt:
        case Seq(stmts):
            return seq(*(If(condition, inner) for inner in stmts))
        case For() | Allocate() | Produce():
            return replace(stmt, body=If(condition, stmt.body))
        case If(other, then, None):
            return If(binary("and", condition, other), then)
        case If(other, then, orelse):
            assert orelse is not None
            first = If(binary("and", condition, other), then)
            return seq(first, If(binary("and", condition, logical_not(other)), orelse))
        case WarpReduce(combiner, operands, results, index, width):
            pairs = zip(operands, combiner.identity, strict=True)
            values = tuple(if_then_else(condition, value, neutral) for value, neutral in pairs)
            return WarpReduce(combiner, values, results, index, width)
        case _:
            return None
