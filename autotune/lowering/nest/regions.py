"""Symbolic interval analysis: the region of a tensor that some loops access.

An interval is its lowest point, over variables that are fixed, and a width without these variables,
so that the size of a region does not depend on its position. Knobs and sizes count as positive
unknowns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autotune.ir import dtypes
from autotune.ir.algebra.polynomials import (
    Monomial,
    Poly,
    add,
    exact_quotient,
    multiply,
    normal,
    split_multiple,
    to_expr,
    to_poly,
)
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import (
    BinaryOp,
    Call,
    Cast,
    Const,
    Expr,
    KnobVar,
    Load,
    Read,
    Select,
    SizeVar,
    Var,
)
from autotune.ir.ops import binary, cast, const, fold, gcd, select
from autotune.ir.visitor import Rewriter, free_vars, walk_expr


@dataclass(frozen=True, eq=False)
class Interval:
    """The integers low, ..., low + width."""

    low: Expr
    width: Expr


def is_loop_free(node: Expr) -> bool:
    """Whether an expression depends only on knobs and sizes, not on loops or memory."""
    return not any(
        isinstance(n, (Read, Load))
        or (isinstance(n, Var) and not isinstance(n, (KnobVar, SizeVar)))
        for n in walk_expr(node)
    )


def is_knob_only(node: Expr) -> bool:
    """Whether an expression is one number once the knobs have values."""
    return not any(
        isinstance(n, (Read, Load)) or (isinstance(n, Var) and not isinstance(n, KnobVar))
        for n in walk_expr(node)
    )


class _AsIndex(Rewriter):
    """Rewrites indices of both widths as `dtypes.INDEX`, the one type of interval analysis.

    A cast to fewer bits may wrap and stays, as does arithmetic of other types.
    """

    def expr(self, node: Expr) -> Expr:
        result = super().expr(node)
        return cast(dtypes.INDEX, result) if dtypes.is_index(result.dtype) else result

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        return fold(node.op, self.expr(node.a), self.expr(node.b))

    def visit_Cast(self, node: Cast) -> Expr:
        return self.expr(node.a) if _keeps_index(node) else node

    def visit_Select(self, node: Select) -> Expr:
        return select(*map(self.expr, node.children))

    def visit_Call(self, node: Call) -> Expr:
        return node

    def visit_Read(self, node: Read) -> Expr:
        return node


def _keeps_index(node: Cast) -> bool:
    """Whether a cast is of an index to a type of indices no narrower."""
    return dtypes.is_index(node.a.dtype) and dtypes.holds(node.dtype, node.a.dtype)


def as_index(node: Expr) -> Expr:
    """Return an index expression with all its arithmetic in `dtypes.INDEX`."""
    wide = any(n.dtype != dtypes.INDEX and dtypes.is_index(n.dtype) for n in walk_expr(node))
    return _AsIndex().expr(node) if wide else node


class Relaxer:
    """Finds the interval of index expressions when some variables vary and others are fixed.

    `extents`: the variables that vary, each from 0 to its extent - 1.
    """

    def __init__(self, extents: Mapping[Var, Expr]) -> None:
        self.extents = dict(extents)
        self._simplifier = Simplifier()
        self._memo: dict[Expr, Interval | None] = {}
        self._ranging: dict[Expr, bool] = {}

    def interval(self, node: Expr) -> Interval | None:
        """Return the interval of `node`, or None if none is known."""
        if node not in self._memo:
            self._memo[node] = self._of_poly(to_poly(node), node.dtype)
        return self._memo[node]

    def _ranges(self, node: Expr) -> bool:
        found = self._ranging.get(node)
        if found is None:
            found = self._ranging[node] = any(v in self.extents for v in free_vars(node))
        return found

    def _of_poly(self, poly: Poly, dtype: str) -> Interval | None:
        fixed: Poly = {}
        low: Poly = {}
        width: Poly = {}
        for monomial, coefficient in poly.items():
            if not any(self._ranges(atom) for atom in monomial):
                fixed[monomial] = coefficient
                continue
            ends = self._monomial(monomial, coefficient)
            if ends is None:
                return None
            low, width = add(low, ends[0]), add(width, ends[1])
        return Interval(to_expr(add(fixed, low), dtype), to_expr(width, dtype))

    def _monomial(self, monomial: Monomial, coefficient: int) -> tuple[Poly, Poly] | None:
        """Return low and width of one term, whose ranging atom has a non-negative cofactor."""
        ranging = [atom for atom in monomial if self._ranges(atom)]
        rest = [atom for atom in monomial if not self._ranges(atom)]
        if len(ranging) != 1 or not all(is_loop_free(atom) for atom in rest):
            return None
        if any(self._simplifier.bounds(atom)[0] < 0 for atom in rest):
            return None
        inner = self._atom(ranging[0])
        if inner is None:
            return None
        scale: Poly = {tuple(rest): abs(coefficient)}
        low, width = multiply(to_poly(inner.low), scale), multiply(to_poly(inner.width), scale)
        if coefficient < 0:
            low = add({}, add(low, width), -1)
        return low, width

    def _atom(self, node: Expr) -> Interval | None:
        if isinstance(node, Var):
            return Interval(const(0, node.dtype), self.extents[node] - 1)
        if isinstance(node, Cast) and _keeps_index(node):
            return self.interval(node.a)
        if isinstance(node, Select) and not self._ranges(node.condition):
            return self._choice(node)
        if isinstance(node, BinaryOp):
            if node.op in ("//", "%") and is_loop_free(node.b):
                return self._division(node)
            if node.op in ("min", "max"):
                return self._extremum(node)
        return None

    def _choice(self, node: Select) -> Interval | None:
        a, b = self.interval(node.true), self.interval(node.false)
        if a is None or b is None:
            return None
        low = select(node.condition, a.low, b.low)
        if is_loop_free(node.condition):
            return Interval(low, select(node.condition, a.width, b.width))
        return Interval(low, binary("max", a.width, b.width))

    def _extremum(self, node: BinaryOp) -> Interval | None:
        a, b = self.interval(node.a), self.interval(node.b)
        if a is None or b is None:
            return None
        low = binary(node.op, a.low, b.low)
        if isinstance(low, Const) and isinstance(a.low, Const) and isinstance(b.low, Const):
            return Interval(low, fold(node.op, a.low + a.width, b.low + b.width) - low)
        return Interval(low, binary("max", a.width, b.width))

    def _division(self, node: BinaryOp) -> Interval | None:
        """Quotient and remainder of low + r, 0 <= r <= width, by a positive divisor.

        `low` is a multiple of `step` plus its constant part, so that low % divisor is at most
        divisor - gcd(step, divisor) + constant % gcd.
        """
        inner = self.interval(node.a)
        if inner is None:
            return None
        divisor = node.b
        if self._simplifier.bounds(divisor)[0] < 1:
            return None
        step, offset = _alignment(to_poly(inner.low), node.dtype)
        grain = divisor if step is None else _common(step, divisor)
        reach = binary("+", inner.width, binary("%", offset, grain))
        whole, rest = split_multiple(to_poly(inner.low), to_poly(divisor))
        if node.op == "//":
            quotient = binary("//", to_expr(rest, node.dtype), divisor)
            low = binary("+", to_expr(whole, node.dtype), quotient)
            over = normal(binary("+", binary("-", divisor, grain), reach))
            if self._simplifier.bounds(normal(divisor - over))[0] >= 1:
                return Interval(low, const(0, node.dtype))
            return Interval(low, normal(binary("//", over, divisor)))
        # Without a carry the remainders are consecutive; with a carry, any remainder may occur.
        stays = binary("<", reach, grain)
        zero = const(0, node.dtype)
        low = select(stays, binary("%", to_expr(rest, node.dtype), divisor), zero)
        width = select(stays, inner.width, binary("-", divisor, const(1, node.dtype)))
        least, most = self._simplifier.bounds(node.a)
        if least >= 0 and most < dtypes.max_value(node.dtype):
            below = binary("<", const(int(most), node.dtype), divisor)
            low, width = select(below, inner.low, low), select(below, inner.width, width)
        return Interval(low, width)


def _alignment(poly: Poly, dtype: str) -> tuple[Expr | None, Expr]:
    """Return a number that divides every loop-dependent term, and the loop-free remainder.

    Terms in the same loops count as one: (f + 1) * i is a multiple of f + 1.
    """
    factors: dict[Monomial, Poly] = {}
    for monomial, coefficient in poly.items():
        loops = tuple(atom for atom in monomial if not is_loop_free(atom))
        free = tuple(atom for atom in monomial if is_loop_free(atom))
        factors.setdefault(loops, {})[free] = coefficient
    offset = to_expr(factors.pop((), {}), dtype)
    step: Expr | None = None
    for factor in factors.values():
        size = _absolute(factor, dtype)
        step = size if step is None else _common(step, size)
    return step, offset


def _common(a: Expr, b: Expr) -> Expr:
    """Return the greatest common divisor of two sizes: one of them, if it divides the other."""
    for this, other in ((a, b), (b, a)):
        if not isinstance(this, Const) and exact_quotient(other, this) is not None:
            return this
    return gcd(a, b)


def _absolute(poly: Poly, dtype: str) -> Expr:
    if all(coefficient > 0 for coefficient in poly.values()):
        return to_expr(poly, dtype)
    negated = to_expr(add({}, poly, -1), dtype)
    if all(coefficient < 0 for coefficient in poly.values()):
        return negated
    return binary("max", to_expr(poly, dtype), negated)


def union(intervals: Iterable[Interval | None]) -> Interval | None:
    """Return an interval that covers all of them, or None if none is known."""
    total: Interval | None = None
    for interval in intervals:
        if interval is None:
            return None
        total = interval if total is None else _union_two(total, interval)
        if total is None:
            return None
    return total


def _union_two(a: Interval, b: Interval) -> Interval | None:
    if a.low is b.low and a.width is b.width:
        return a
    shift = normal(b.low - a.low)
    if not is_loop_free(shift):
        return None
    zero = const(0, shift.dtype)
    below = shift if isinstance(shift, Const) and shift.value < 0 else binary("min", shift, zero)
    low = normal(a.low + below)
    width = binary("-", binary("max", a.width, b.width + shift), below)
    return Interval(low, normal(width))
