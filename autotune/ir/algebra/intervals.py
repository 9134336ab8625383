"""Interval arithmetic: bounds of integer and bool expressions from the bounds of their operands.

Bounds are Python's integers, so nothing overflows, or infinite where nothing is known. A bool is 0
or 1. A division whose divisor may be zero is bounded over the divisors that are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.algebra.canonical_sums import INF
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

#: An inclusive range of integer values; infinite where nothing is known.
Bounds = tuple[float, float]

ANYTHING: Final[Bounds] = (-INF, INF)


def operation_bounds(node: Expr, of: Callable[[Expr], Bounds]) -> Bounds:
    """Return bounds of an expression from its operands' bounds, `ANYTHING` if there is no rule.

    The bounds are safe, not always tight: operands are taken as independent.
    """
    match node:
        case Const():
            return int(node.value), int(node.value)
        case BinaryOp():
            return binary_bounds(node.op, of(node.a), of(node.b))
        case Not():
            low, high = of(node.a)
            return 1 - high, 1 - low
        case Select() | Call(name="if_then_else"):
            test, true, false = node.children
            low, high = of(test)
            if low == high:
                return of(true if low else false)
            (a, b), (c, d) = of(true), of(false)
            return min(a, c), max(b, d)
        case Call(name="likely"):
            return of(node.children[0])
        case Call(name="gcd"):
            return _gcd(*(of(child) for child in node.children))
        case Call(name="bitwise_xor"):
            (a, b), (c, d) = (of(child) for child in node.children)
            if min(a, c) < 0 or max(b, d) == INF:
                return ANYTHING
            return 0, (1 << int(max(b, d)).bit_length()) - 1
        case _:
            return ANYTHING


class Intervals:
    """Bounds of many expressions over knobs, each distinct subexpression visited once."""

    def __init__(self) -> None:
        self._memo: dict[Expr, tuple[int, int]] = {}

    def bounds(self, node: Expr) -> tuple[int, int]:
        """Return the smallest and the largest value of an expression, however deep it is.

        Raises IRError if the expression is not of integers, bools and knobs alone.
        """
        found = self._memo.get(node)
        if found is None:
            for part in post_order(node, self._memo):
                found = self._memo[part] = _in_type(self._of(part), part.dtype)
        assert found is not None
        return found

    def _of(self, node: Expr) -> Bounds:
        if node.lanes != 1 or dtypes.is_float(node.dtype):
            raise IRError(f"`{excerpt(node)}` is not one integer or condition")
        if isinstance(node, KnobVar):
            return node.low, node.high
        if isinstance(node, Cast):
            bounds = self._memo[node.a]
            return bounds if node.dtype != dtypes.BOOL else binary_bounds("!=", bounds, (0, 0))
        if isinstance(node, BinaryOp) and node.dtype == dtypes.BOOL and node.op in ("+", "-", "*"):
            raise IRError(f"`{node.op}` has no meaning on conditions: `{excerpt(node)}`")
        found = operation_bounds(node, self._memo.__getitem__)
        if found == ANYTHING:
            raise IRError(
                f"`{excerpt(node)}` has no bounds: only integers and conditions over knobs have"
            )
        return found


def _in_type(bounds: Bounds, dtype: str) -> tuple[int, int]:
    """Bounds of values that wrap to `dtype` where it is not a type of indices."""
    if dtype != dtypes.BOOL and not dtypes.is_index(dtype) and not fits_type(bounds, dtype):
        bounds = type_bounds(dtype)
    return int(bounds[0]), int(bounds[1])


def type_bounds(dtype: str) -> Bounds:
    """Return the smallest and the largest value of an integer type."""
    return dtypes.min_value(dtype), dtypes.max_value(dtype)


def fits_type(bounds: Bounds, dtype: str) -> bool:
    """Whether an integer type holds all values within some bounds."""
    return dtypes.min_value(dtype) <= bounds[0] and bounds[1] <= dtypes.max_value(dtype)


def binary_bounds(op: str, x: Bounds, y: Bounds) -> Bounds:
    """Return bounds of `x op y` for any values of the operands within theirs."""
    (a, b), (c, d) = x, y
    if op in COMPARISON:
        return _comparison(op, x, y)
    if op in LOGIC or op in ("min", "max"):
        choose = min if op in ("and", "min") else max
        return choose(a, c), choose(b, d)
    match op:
        case "+":
            return a + c, b + d
        case "-":
            return a - d, b - c
        case "*":
            corners = [_times(p, q) for p in x for q in y]
            return min(corners), max(corners)
        case "//":
            corners = [floor_divided(p, q) for p in x for q in _divisors(y)] or [0]
            return min(corners), max(corners)
        case "%":
            return _remainder(x, y)
        case _:
            return ANYTHING


def decide_comparison(op: str, low: float, high: float) -> bool | None:
    """Truth of `difference op 0` where the difference lies in [low, high]; None if open."""
    false, true = _comparison(op, (low, high), (0, 0))
    return bool(true) if false == true else None


def floor_divided(a: float, c: float) -> float:
    """Return a // c, where either may be infinite."""
    if abs(c) == INF:
        return 0 if a == 0 or (a > 0) == (c > 0) else -1
    if abs(a) == INF:
        return a if c > 0 else -a
    return int(a) // int(c)


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _divisors(y: Bounds) -> list[float]:
    """Divisors at which a quotient takes its extreme values."""
    return [d for d in {*y, -1, 1} if d != 0 and y[0] <= d <= y[1]]


def _remainder(x: Bounds, y: Bounds) -> Bounds:
    (a, b), (c, d) = x, y
    if a >= 0 and b < c:
        return x
    if a == b and c == d != 0:
        return a % c, a % c
    if a >= 0 and c >= 1:
        return 0, min(b, d - 1)
    return min(c + 1, 0), max(d - 1, 0)


def _comparison(op: str, x: Bounds, y: Bounds) -> tuple[int, int]:
    if op in (">", ">="):
        return _comparison("<" if op == ">" else "<=", y, x)
    (a, b), (c, d) = x, y
    if op in ("==", "!="):
        low, high = int(a == b == c == d), int(a <= d and c <= b)
        return (low, high) if op == "==" else (1 - high, 1 - low)
    if op == "<":
        return int(b < c), int(a < d)
    return int(b <= c), int(a <= d)


def _gcd(x: Bounds, y: Bounds) -> Bounds:
    if x[0] == x[1] and y[0] == y[1]:
        return math.gcd(int(x[0]), int(y[0])), math.gcd(int(x[0]), int(y[0]))
    largest = [max(abs(low), abs(high)) for low, high in (x, y)]
    nonzero = [low > 0 or high < 0 for low, high in (x, y)]
    high = min(largest) if all(nonzero) else max(largest)
    return int(any(nonzero)), high
