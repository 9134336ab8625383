"""Bounds of integer expressions from the ranges of their variables, through canonical sums.

Unknown bounds are infinite, because variables may have any range, unlike the knobs of `intervals`.
Known bounds are Python integers, so nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.ir import dtypes
from autotune.ir.algebra.canonical_sums import INF, Sum, add
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, KnobVar, Load, Select, SizeVar, Var

#: An inclusive range of integer values; unknown bounds are infinite.
Bounds = tuple[float, float]

ANYTHING: Bounds = (-INF, INF)


class SumBounds:
    """Bounds expressions by the ranges of the variables in scope.

    Parameters
    ----------
    form : function of Expr
        Returns the canonical sum of an integer scalar expression.
    ranges : dict of Var to Bounds
        Inclusive bounds of variables; call `forget` after a change.
    otherwise : Bounds
        Bounds of variables that `ranges` does not name.
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
                a, b = _floordiv(a, term.lower), _floordiv(b, term.lower)
            ends = (a * term.scale, b * term.scale)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _bounds_of(self, node: Expr) -> Bounds:
        if dtypes.is_integer(node.dtype) and not dtypes.is_index(node.dtype):
            return self._data_bounds(node)
        match node:
            case Const():
                return node.value, node.value
            case KnobVar():
                return self.ranges.get(node, (node.low, node.high))
            case Var():
                size = isinstance(node, SizeVar)
                return self.ranges.get(node, (0, INF) if size else self._otherwise)
            case BinaryOp(op="+" | "-"):
                return self.sum_bounds(self.form(node))
            case BinaryOp():
                bounds = binary_bounds(node.op, self.bounds(node.a), self.bounds(node.b))
                return self._ceildiv_bounds(node, bounds) if node.op == "//" else bounds
            case Select():
                (a, b), (c, d) = self.bounds(node.true), self.bounds(node.false)
                return min(a, c), max(b, d)
            case Cast() if dtypes.is_integer(node.dtype) and dtypes.is_integer(node.a.dtype):
                low, high = self.bounds(node.a)
                fits = dtypes.min_value(node.dtype) <= low and high <= dtypes.max_value(node.dtype)
                if fits or dtypes.holds(node.dtype, node.a.dtype):
                    return low, high
                wraps = not dtypes.is_index(node.a.dtype)  # to fewer bits, indices stay exact
                return type_bounds(node.dtype) if wraps else ANYTHING
            case Cast() if node.a.dtype == dtypes.BOOL:
                return 0, 1
            case Call(name="gcd"):
                (a, b), (c, d) = (self.bounds(child) for child in node.children)
                return int(a > 0 or c > 0), max(b, d)
            case _:
                return ANYTHING

    def _data_bounds(self, node: Expr) -> Bounds:
        """Return bounds of an integer that wraps: its type's, unless it is only converted."""
        least, most = type_bounds(node.dtype)
        if isinstance(node, Const):
            return node.value, node.value
        if isinstance(node, Cast) and dtypes.is_integer(node.a.dtype):
            low, high = self.bounds(node.a)
            if least <= low and high <= most:
                return low, high
        return least, most

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


def binary_bounds(op: str, x: Bounds, y: Bounds) -> Bounds:
    """Return bounds of `x op y` for any values of the operands within theirs."""
    (a, b), (c, d) = x, y
    if op == "*":
        ends = [_times(p, q) for p in x for q in y]
        return min(ends), max(ends)
    if op == "min":
        return min(a, c), min(b, d)
    if op == "max":
        return max(a, c), max(b, d)
    if op == "//" and c >= 1:
        ends = [_floordiv(p, q) for p in x for q in y]
        return min(ends), max(ends)
    if op == "%" and c >= 1:
        return (a, b) if a >= 0 and b < c else (0, min(d - 1, b) if a >= 0 else d - 1)
    return ANYTHING


def decide_comparison(op: str, low: float, high: float) -> bool | None:
    """Return the truth of `difference op 0` for low <= difference <= high; None if undecided."""
    if op == "<":
        return True if high < 0 else (False if low >= 0 else None)
    if op == "<=":
        return True if high <= 0 else (False if low > 0 else None)
    if low > 0 or high < 0:
        return op == "!="
    return op == "==" if low == high == 0 else None


def type_bounds(dtype: str) -> Bounds:
    """Return the smallest and the largest value of an integer type."""
    return dtypes.min_value(dtype), dtypes.max_value(dtype)


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _floordiv(a: float, c: float) -> float:
    if abs(c) == INF:
        return 0 if a >= 0 else -1
    return a if abs(a) == INF else int(a) // int(c)
