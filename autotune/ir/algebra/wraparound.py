"""Canonical forms of stored values, whose integers wrap to their types.

Sums are canonical as in indices, because they are valid modulo any power of 2. The other rules are
valid for integers that do not wrap. They apply only if the bounds show that no step before or after
leaves its type. Values that leave it are wrapped by casts, so later rules may take all arithmetic
as exact.
"""

from __future__ import annotations

from autotune.ir import dtypes
from autotune.ir.algebra.canonical_sums import INF, Sum, Term, sum_of
from autotune.ir.algebra.intervals import Bounds, type_bounds
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.algebra.sum_bounds import SumBounds
from autotune.ir.expr import BinaryOp, Cast, Const, Expr, Load, Var
from autotune.ir.ops import cast, fold


class WrappingBounds(SumBounds):
    """Bounds values whose integers wrap: a variable has the range of its type."""

    def _bounds_of(self, node: Expr) -> Bounds:
        low, high = super()._bounds_of(node)
        if not isinstance(node, Var):
            return low, high
        least, most = type_bounds(node.dtype)
        return max(low, least), min(high, most)

    def _leaves_type(self, node: Expr) -> bool:
        if super()._leaves_type(node):
            return True
        return dtypes.is_integer(node.dtype) and not _within(self.bounds(node), node.dtype)


class Wrapping(Canonical):
    """Rewrites stored values canonically.

    `indices`: simplifies the indices of loads, where integers are exact, and has the ranges of
    variables.
    """

    def __init__(self, indices: Canonical) -> None:
        super().__init__(known=WrappingBounds(self.form, indices.known.ranges))
        self._indices = indices

    def _atom(self, node: Expr) -> Expr:
        if isinstance(node, Load):
            return self._indices.expr(node)
        if isinstance(node, Cast) and dtypes.is_index(node.dtype):
            return cast(node.dtype, self._in_type(node.a))
        return super()._atom(node)

    def _in_type(self, node: Expr) -> Expr:
        """Return an operand, wrapped by casts if it is known to leave its type.

        Sizes that are known only at a call are assumed to be small enough.
        """
        simple = self.expr(node)
        if not dtypes.is_index(node.dtype):
            return simple
        bounds = self._indices.known.bounds(simple)
        if -INF in bounds or INF in bounds or _within(bounds, node.dtype):
            return simple
        return cast(node.dtype, cast(f"u{node.dtype}", simple))

    def _opaque(self, node: BinaryOp) -> Sum:
        if node.op == "*":
            return super()._opaque(node)
        return sum_of(Term(fold(node.op, self._in_type(node.a), self._in_type(node.b))))

    def _division(self, node: BinaryOp) -> Sum:
        form = super()._division(node)
        return self._opaque(node) if self.known.may_wrap(self._to_expr(form, node.dtype)) else form

    def _comparison(self, node: BinaryOp) -> Expr:
        if not self.known.may_wrap(node):
            result = super()._comparison(node)
            if isinstance(result, Const) or not self.known.may_wrap(result):
                return result
        return fold(node.op, self._in_type(node.a), self._in_type(node.b))


def _within(bounds: Bounds, dtype: str) -> bool:
    least, most = type_bounds(dtype)
    return least <= bounds[0] and bounds[1] <= most
