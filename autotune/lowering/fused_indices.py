"""Simplifies indices over fused loops of symbolic lengths: joins a quotient and its remainder.

    S[(x // k)*k + x % k]      ->      S[x]

`ir.algebra.simplify_expr` joins constant lengths; listings keep the symbolic ones, as TVM v0.8
prints them.
"""

from __future__ import annotations

from autotune.ir.algebra.polynomials import joined, to_expr, to_poly
from autotune.ir.expr import BinaryOp, Const, Expr
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import AccessRewriter, stmt_exprs, walk, walk_expr


def rejoin(function: PrimFunc) -> PrimFunc:
    """Return an analysed function with quotients and remainders in indices joined."""
    exprs = (expr for stmt in walk(function.body) for expr in stmt_exprs(stmt))
    if not any(_is_symbolic_remainder(node) for expr in exprs for node in walk_expr(expr)):
        return function
    joining = AccessRewriter(lambda buffer, index: (buffer, _joined(index)))
    return function.with_body(joining.stmt(function.body))


def _joined(index: Expr) -> Expr:
    if index.lanes > 1:
        return index
    poly = to_poly(index)
    found = joined(poly, _is_symbolic_remainder)
    return index if found is poly else to_expr(found, index.dtype)


def _is_symbolic_remainder(node: Expr) -> bool:
    return isinstance(node, BinaryOp) and node.op == "%" and not isinstance(node.b, Const)
