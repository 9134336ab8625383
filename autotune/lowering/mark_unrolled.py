"""Marks the loops that pragmas unroll, limited by the number of stores after unrolling.

A loop under a pragma is unrolled if all its inner loops are, and if it has at most the stores that
the pragma allows (the rules are those of TVM's UnrollLoop).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from autotune.ir.expr import Const, Expr, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import with_parts

#: Largest depth of nested loops that are unrolled automatically.
MAX_DEPTH = 8

_NO_LOOPS = (LoopKind.VECTORIZED, LoopKind.THREAD, LoopKind.VTHREAD)


@dataclass(frozen=True)
class _Rule:
    """The pragmas around a statement."""

    max_steps: int = 0
    explicit: bool = True


@dataclass(frozen=True)
class _Count:
    """Counts of a statement after unrolling: stores, unrolled loops, other loops."""

    steps: int = 0
    depth: int = 0
    has_loop: bool = False

    def __add__(self, other: _Count) -> _Count:
        return _Count(
            self.steps + other.steps,
            max(self.depth, other.depth),
            self.has_loop or other.has_loop,
        )


def mark_unrolled(function: PrimFunc) -> PrimFunc:
    """Return an analysed function with the loops marked that its pragmas unroll."""
    pragmas = function.info.loop_pragmas
    if not pragmas:
        return function
    body, _ = _Unroll(pragmas).visit(function.body, _Rule())
    return function.with_body(body)


class _Unroll:
    def __init__(self, pragmas: Mapping[Var, Mapping[str, Expr]]) -> None:
        self.pragmas = pragmas

    def visit(self, stmt: Stmt, rule: _Rule) -> tuple[Stmt, _Count]:
        """Return a statement with its loops marked, and its counts."""
        if isinstance(stmt, For):
            return self._loop(stmt, rule)
        if not stmt.STMTS:
            return stmt, _Count(steps=1)
        counts: list[_Count] = []

        def inside(child: Stmt) -> Stmt:
            marked, count = self.visit(child, rule)
            counts.append(count)
            return marked

        marked = with_parts(stmt, None, inside)
        return marked, reduce(_Count.__add__, counts, _Count())

    def _loop(self, loop: For, rule: _Rule) -> tuple[Stmt, _Count]:
        given = self.pragmas.get(loop.var, {})
        if "auto_unroll_max_step" in given:
            rule = replace(rule, max_steps=_number(given["auto_unroll_max_step"]))
        if "unroll_explicit" in given:
            rule = replace(rule, explicit=bool(_number(given["unroll_explicit"])))
        body, count = self.visit(loop.body, rule)
        extent = int(loop.extent.value) if isinstance(loop.extent, Const) else None
        kind = loop.kind
        if extent is not None and self._unrolls(kind, extent, count, rule):
            kind = LoopKind.UNROLLED if rule.explicit else LoopKind.UNROLL_HINTED
            count = _Count(extent * count.steps, count.depth + (extent > 1), count.has_loop)
        elif kind not in _NO_LOOPS and extent != 1:
            count = replace(count, has_loop=True)
        return For(loop.var, loop.extent, kind, body, loop.thread_tag), count

    def _unrolls(self, kind: LoopKind, extent: int, count: _Count, rule: _Rule) -> bool:
        if kind is LoopKind.UNROLLED:
            return True
        few = extent * count.steps <= rule.max_steps
        return kind is LoopKind.SERIAL and few and not count.has_loop and count.depth <= MAX_DEPTH


def _number(value: Expr) -> int:
    assert isinstance(value, Const)
    return int(value.value)
