"""Canonical forms of stored values, whose integers wrap to their types.

Sums are canonical as in indices, since they hold modulo any power of 2. The other rules are about
integers that do not wrap: they apply where, by the bounds, no step before or after leaves its type.
"""

from __future__ import annotations

from autotune.ir import dtypes
from autotune.ir.canonical import Canonical
from autotune.ir.expr import Binary, Const, Expr, Load, Var
from autotune.ir.ops import fold
from autotune.ir.sum_bounds import Bounds
from autotune.ir.sums import Sum


class Wrapping(Canonical):
    """Rewrites stored values canonically.

    Parameters
    ----------
    indices
        What simplifies the indices of loads, where integers are exact; it tells the ranges.
    """

    def __init__(self, indices: Canonical) -> None:
        super().__init__()
        self.ranges = indices.ranges
        self._indices = indices

    def _atom(self, node: Expr) -> Expr:
        return self._indices.expr(node) if isinstance(node, Load) else super()._atom(node)

    def _bounds_of(self, node: Expr) -> Bounds:
        low, high = super()._bounds_of(node)
        if not isinstance(node, Var):
            return low, high
        return max(low, dtypes.min_value(node.dtype)), min(high, dtypes.max_value(node.dtype))

    def _leaves_type(self, node: Expr) -> bool:
        if super()._leaves_type(node):
            return True
        if not dtypes.is_integer(node.dtype):
            return False
        low, high = self.bounds(node)
        return low < dtypes.min_value(node.dtype) or high > dtypes.max_value(node.dtype)

    def _division(self, node: Binary) -> Sum:
        form = super()._division(node)
        return self._opaque(node) if self.may_wrap(self._to_expr(form, node.dtype)) else form

    def _comparison(self, node: Binary) -> Expr:
        result = super()._comparison(node)
        if isinstance(result, Const) or not self.may_wrap(result):
            return result
        return fold(node.op, self.expr(node.a), self.expr(node.b))
