"""Exact constant bounds of integer and bool expressions over knobs.

Bounds are Python integers, so nothing overflows. A bool is 0 or 1. If a divisor may be zero, a
division is bounded over the other divisors.
"""

from __future__ import annotations

import math

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.expr import (
    COMPARISON,
    LOGIC,
    BinaryOp,
    Call,
    Cast,
    Const,
    Expr,
    KnobVar,
    Not,
    Select,
)
from autotune.ir.printer import excerpt
from autotune.ir.visitor import post_order

Bounds = tuple[int, int]
_FLIP = {">": "<", ">=": "<="}


def interval(expr: Expr) -> Bounds:
    """Smallest and largest value that `expr` may take over the ranges of its knobs.

    The bounds are safe, not always tight: operands are taken as independent.

    Raises
    ------
    IRError
        If the expression is not of integers, bools and knobs alone.
    """
    return Intervals().bounds(expr)


class Intervals:
    """Bounds of many expressions, each distinct subexpression visited once."""

    def __init__(self) -> None:
        self._memo: dict[Expr, Bounds] = {}

    def bounds(self, node: Expr) -> Bounds:
        """Return the bounds of `node`, however deep it is."""
        found = self._memo.get(node)
        if found is None:
            for part in post_order(node, self._unknown) if self._unknown(node) else (node,):
                found = self._memo[part] = _in_type(self._of(part), part.dtype)
        assert found is not None
        return found

    def _unknown(self, node: Expr) -> list[Expr]:
        return [child for child in node.children if child not in self._memo]

    def _of(self, node: Expr) -> Bounds:
        if node.lanes != 1 or dtypes.is_float(node.dtype):
            raise IRError(f"`{excerpt(node)}` is not one integer or condition")
        match node:
            case Const():
                return int(node.value), int(node.value)
            case KnobVar():
                return node.low, node.high
            case BinaryOp():
                if node.dtype == dtypes.BOOL and node.op in ("+", "-", "*"):
                    raise IRError(f"`{node.op}` has no meaning on conditions: `{excerpt(node)}`")
                return _binary(node.op, self.bounds(node.a), self.bounds(node.b))
            case Not():
                low, high = self.bounds(node.a)
                return 1 - high, 1 - low
            case Select() | Call(name="if_then_else"):
                test, true, false = (self.bounds(child) for child in node.children)
                if test[0] == test[1]:
                    return true if test[0] else false
                return _union(true, false)
            case Cast():
                bounds = self.bounds(node.a)
                return bounds if node.dtype != dtypes.BOOL else _binary("!=", bounds, (0, 0))
            case Call(name="likely"):
                return self.bounds(node.children[0])
            case Call(name="gcd"):
                return _gcd(*(self.bounds(child) for child in node.children))
            case _:
                raise IRError(
                    f"`{excerpt(node)}` has no bounds: only integers and conditions over knobs have"
                )


def _in_type(bounds: Bounds, dtype: str) -> Bounds:
    """Return bounds of values, which wrap if `dtype` is not a type of indices."""
    if dtype == dtypes.BOOL or dtypes.is_index(dtype):
        return bounds
    low, high = int(dtypes.min_value(dtype)), int(dtypes.max_value(dtype))
    return bounds if low <= bounds[0] and bounds[1] <= high else (low, high)


def _union(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), max(a[1], b[1])


def _gcd(a: Bounds, b: Bounds) -> Bounds:
    if a[0] == a[1] and b[0] == b[1]:
        return math.gcd(a[0], b[0]), math.gcd(a[0], b[0])
    largest = [max(abs(low), abs(high)) for low, high in (a, b)]
    nonzero = [low > 0 or high < 0 for low, high in (a, b)]
    high = min(largest) if all(nonzero) else max(largest)
    return int(any(nonzero)), high


def _divisors(b: Bounds) -> list[int]:
    """Divisors at which a quotient takes its extreme values."""
    return [d for d in {*b, -1, 1} if d != 0 and b[0] <= d <= b[1]]


def _binary(op: str, a: Bounds, b: Bounds) -> Bounds:
    if op in COMPARISON:
        return _comparison(op, a, b)
    if op in LOGIC or op in ("min", "max"):
        choose = min if op in ("and", "min") else max
        return choose(a[0], b[0]), choose(a[1], b[1])
    match op:
        case "+":
            return a[0] + b[0], a[1] + b[1]
        case "-":
            return a[0] - b[1], a[1] - b[0]
        case "*":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "//":
            corners = [x // d for x in a for d in _divisors(b)] or [0]
            return min(corners), max(corners)
        case "%":
            if a[0] >= 0 and a[1] < b[0]:
                return a
            if a[0] == a[1] and b[0] == b[1] != 0:
                return a[0] % b[0], a[0] % b[0]
            return min(b[0] + 1, 0), max(b[1] - 1, 0)
        case _:
            raise IRError(f"`{op}` has no bounds over integers")


def _comparison(op: str, a: Bounds, b: Bounds) -> Bounds:
    if op in _FLIP:
        op, a, b = _FLIP[op], b, a
    if op in ("==", "!="):
        apart = a[1] < b[0] or b[1] < a[0]
        same = a[0] == a[1] == b[0] == b[1]
        low, high = int(same), int(not apart)
        return (low, high) if op == "==" else (1 - high, 1 - low)
    strict = op == "<"
    always = a[1] < b[0] if strict else a[1] <= b[0]
    never = a[0] >= b[1] if strict else a[0] > b[1]
    return int(always), int(not never)
