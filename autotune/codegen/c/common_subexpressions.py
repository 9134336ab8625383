"""Finds indices that statements compute in several places, to give them names."""

from __future__ import annotations

from collections.abc import Iterator, Set

from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Broadcast, Const, Expr, Load, Ramp, Var
from autotune.ir.stmt import Stmt
from autotune.ir.visitor import free_vars, stmt_exprs, walk, walk_expr

#: Least number of operations of an index without divisions that gets a name.
MIN_OPERATIONS = 3


def repeated(stmt: Stmt, variables: Set[Var]) -> Iterator[Expr]:
    """Yield indices of some of the variables that are part of several others, inner ones first.

    They read no memory and divide only by constants, so they may be computed even if they are not
    needed.
    """
    uses: dict[Expr, int] = {}
    for inner in walk(stmt):
        for root in stmt_exprs(inner):
            _count(root, uses)
    for expr, count in uses.items():
        if count > 1 and _is_worth_it(expr) and not variables.isdisjoint(free_vars(expr)):
            yield expr


def _count(expr: Expr, uses: dict[Expr, int]) -> None:
    """Count a use of an expression; count uses of its operands once.

    Vectors of indices are written as their first lane.
    """
    if isinstance(expr, (Ramp, Broadcast)):
        _count(expr.children[0], uses)
        return
    if expr not in uses:
        for child in expr.children:
            _count(child, uses)
        uses[expr] = 0
    uses[expr] += 1


def _is_worth_it(expr: Expr) -> bool:
    if not isinstance(expr, BinaryOp) or not dtypes.is_index(expr.dtype) or expr.lanes > 1:
        return False
    nodes = list(walk_expr(expr))
    divisions = [n for n in nodes if isinstance(n, BinaryOp) and n.op in ("//", "%")]
    if any(isinstance(node, Load) for node in nodes):
        return False
    if not all(isinstance(node.b, Const) and node.b.value for node in divisions):
        return False
    return bool(divisions) or sum(isinstance(n, BinaryOp) for n in nodes) >= MIN_OPERATIONS
