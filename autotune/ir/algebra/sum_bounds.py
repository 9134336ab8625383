"""Bounds of integer expressions from the ranges of their variables, through canonical sums.

Operations have the bounds of `intervals`, but sums are bounded as sums, so that x - x is 0.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.ir import dtypes
from autotune.ir.algebra.canonical_sums import INF, Sum, add
from autotune.ir.algebra.intervals import (
    ANYTHING,
    Bounds,
    binary_bounds,
    fits_type,
    floor_divided,
    operation_bounds,
    type_bounds,
)
from autotune.ir.expr import BinaryOp, Cast, Const, Expr, KnobVar, Load, SizeVar, Var


class SumBounds:
    """Bounds expressions by the ranges of the variables in scope.

    `form`: returns the canonical sum of an integer scalar expression.
    `ranges`: inclusive bounds of variables; call `forget` after a change.
    `otherwise`: bounds of variables that `ranges` does not name.
    """

    def __init__(
        self,
        form: Callable[[Expr], Sum],
        ranges: dict[Var, Bounds],
        otherwise: Bounds = ANYTHING,
    ) -> None:
        self.form = form
        self.ranges = ranges
        self._otherwise = otherwise
        self._bounds: dict[Expr, Bounds] = {}
        self._wraps: dict[Expr, bool] = {}

    def forget(self) -> None:
        """Clear results that were derived from the ranges known so far."""
        self._bounds.clear()
        self._wraps.clear()

    def bounds(self, node: Expr) -> Bounds:
        """Return inclusive bounds of an integer expression."""
        found = self._bounds.get(node)
        if found is None:
            found = self._bounds[node] = self._bounds_of(node)
        return found

    def sum_bounds(self, form: Sum) -> Bounds:
        """Return inclusive bounds of a sum."""
        low: float = form.base
        high = low
        for term in form.terms:
            a, b = self.bounds(term.atom)
            if term.upper != INF and not (a >= 0 and b < term.upper):
                a, b = 0, term.upper - 1
            if term.lower != 1:
                a, b = floor_divided(a, term.lower), floor_divided(b, term.lower)
            ends = (a * term.scale, b * term.scale)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _bounds_of(self, node: Expr) -> Bounds:
        if dtypes.is_integer(node.dtype) and not dtypes.is_index(node.dtype):
            return self._data_bounds(node)
        match node:
            case KnobVar():
                return self.ranges.get(node, (node.low, node.high))
            case Var():
                size = isinstance(node, SizeVar)
                return self.ranges.get(node, (0, INF) if size else self._otherwise)
            case BinaryOp(op="+" | "-"):
                return self.sum_bounds(self.form(node))
            case Cast() if dtypes.is_integer(node.dtype) and dtypes.is_integer(node.a.dtype):
                bounds = self.bounds(node.a)
                if fits_type(bounds, node.dtype) or dtypes.holds(node.dtype, node.a.dtype):
                    return bounds
                wraps = not dtypes.is_index(node.a.dtype)  # to fewer bits, indices stay exact
                return type_bounds(node.dtype) if wraps else ANYTHING
            case Cast() if node.a.dtype == dtypes.BOOL:
                return 0, 1
        if dtypes.is_float(node.dtype):
            return ANYTHING
        bounds = operation_bounds(node, self.bounds)
        if isinstance(node, BinaryOp) and node.op == "//":
            return self._ceildiv_bounds(node, bounds)
        return bounds

    def _data_bounds(self, node: Expr) -> Bounds:
        """Return bounds of an integer that wraps: its type's, unless it is only converted."""
        if isinstance(node, Const):
            return node.value, node.value
        if isinstance(node, Cast) and dtypes.is_integer(node.a.dtype):
            bounds = self.bounds(node.a)
            if fits_type(bounds, node.dtype):
                return bounds
        return type_bounds(node.dtype)

    def _ceildiv_bounds(self, node: BinaryOp, bounds: Bounds) -> Bounds:
        """Tighten `bounds` of a quotient (b + rest) // b, which is 1 + rest // b."""
        divisor, dividend = self.form(node.b), self.form(node.a)
        positive = self.bounds(node.b)
        rest = add(dividend, divisor, -1)
        if positive[0] < 1 or len(rest.terms) >= len(dividend.terms):
            return bounds
        low, high = binary_bounds("//", self.sum_bounds(rest), positive)
        return max(bounds[0], low + 1), min(bounds[1], high + 1)

    def may_wrap(self, node: Expr) -> bool:
        """Whether a step of the computation may wrap, so that only congruences are valid."""
        found = self._wraps.get(node)
        if found is None:
            found = self._leaves_type(node) or any(map(self.may_wrap, node.children))
            self._wraps[node] = found
        return found

    def _leaves_type(self, node: Expr) -> bool:
        """Whether an operand may be of any size: it is loaded, or cast to a smaller type."""
        return isinstance(node, Load) or (isinstance(node, Cast) and self.bounds(node) == ANYTHING)
