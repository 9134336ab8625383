"""Simplifies indices over fused loops of symbolic lengths: joins a quotient and its remainder.

    S[(x // k)*k + x % k]      ->      S[x]

`ir.algebra.simplify_expr` joins constant lengths; listings keep the symbolic ones, as TVM
v0.8 prints them.
"""

from __future__ import annotations

from autotune.ir.algebra.polynomials import joined, to_expr, to_poly
from autotune.ir.expr import BinaryOp, Const, Expr, Load
from autotune.ir.stmt import PrimFunc, Stmt, Store
from autotune.ir.visitor import Rewriter, walk_expr


def rejoin(function: PrimFunc) -> PrimFunc:
    """Return an analysed function with quotients and remainders in indices joined."""
    return function.with_body(_Rejoin().stmt(function.body))


class _Rejoin(Rewriter):
    def visit_Load(self, node: Load) -> Expr:
        index = _joined(self.expr(node.index))
        return node if index is node.index else Load(node.buffer, index)

    def visit_Store(self, node: Store) -> Stmt:
        index, value = _joined(self.expr(node.index)), self.expr(node.value)
        same = index is node.index and value is node.value
        return node if same else Store(node.buffer, index, value)


def _joined(index: Expr) -> Expr:
    if index.lanes > 1 or not any(map(_is_symbolic_remainder, walk_expr(index))):
        return index
    poly = to_poly(index)
    found = joined(poly, _is_symbolic_remainder)
    return index if found is poly else to_expr(found, index.dtype)


def _is_symbolic_remainder(node: Expr) -> bool:
    return isinstance(node, BinaryOp) and node.op == "%" and not isinstance(node.b, Const)
