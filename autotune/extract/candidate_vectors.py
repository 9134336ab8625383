"""Integer expressions over knobs, and arithmetic of features, as float64 vectors of candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.evaluate.column_ops import LIMIT
from autotune.ir.expr import BinaryOp, Broadcast, Call, Cast, Const, Expr, KnobVar, Not, Select
from autotune.ir.printer import excerpt
from autotune.ir.visitor import post_order

LANES = 8
"""Candidates side by side."""

MAX_OPERATIONS = 10_000
"""Operations of one function, beyond which compiling takes disproportionately long."""


class VectorArithmetic:
    """Writes expressions over knobs as vectors, and does arithmetic on these for `features`.

    The same operations in the same order as on arrays of candidates, so the same numbers: whole
    ones below 2^52 are exact. `doubts` tell where one was larger, or something divided by zero.

    Parameters
    ----------
    knobs : mapping of str to Expr
        The float64 vector of each knob, by name.
    intervals : Intervals
        Bounds of expressions.

    Attributes
    ----------
    doubts : list of Expr
        Conditions, none of which holds for a candidate whose numbers are exact.
    """

    def __init__(self, knobs: Mapping[str, Expr], intervals: Intervals) -> None:
        self._knobs = knobs
        self._intervals = intervals
        self._written: dict[Expr, Expr] = {}
        self._least: dict[Expr, float] = {}
        self.doubts: list[Expr] = []

    # -- expressions over knobs ----------------------------------------------------------------

    def write(self, expr: Expr) -> Expr:
        """Return the vector of an expression.

        Raises
        ------
        IRError
            If it is of another kind than vectors hold, or has a number of 2^52 or more; or if all
            expressions together are too long to be compiled.
        """
        for node in post_order(expr, self._unwritten):
            if node not in self._written:
                self._written[node] = self._vector(node)
        if len(self._written) > MAX_OPERATIONS:
            raise IRError(f"more than {MAX_OPERATIONS} operations are not compiled")
        found = self._written[expr]
        self._least[found] = self._intervals.bounds(expr)[0]
        return found

    def _unwritten(self, node: Expr) -> list[Expr]:
        return [child for child in node.children if child not in self._written]

    def _vector(self, node: Expr) -> Expr:
        low, high = self._intervals.bounds(node)
        large = max(-low, high) >= LIMIT
        boolean = node.dtype == dtypes.BOOL
        if not boolean and not dtypes.is_index(node.dtype):
            raise IRError(f"vectors hold indices and conditions, not `{excerpt(node)}`")
        if large and isinstance(node, (KnobVar, Const)):
            raise IRError(f"vectors hold values below 2^52, not `{excerpt(node)}`")
        vector = self._operation(node, boolean)
        if low == high and not large:
            return Broadcast(Const(bool(low), dtypes.BOOL), LANES) if boolean else _number(low)
        if large and isinstance(node, BinaryOp):
            fits = BinaryOp("<", Call("abs", (vector,), "float64"), _number(LIMIT))
            self.doubts.append(Not(fits))  # NaN, too
        return vector

    def _operation(self, node: Expr, boolean: bool) -> Expr:
        operands = [self._written[child] for child in node.children]
        match node:
            case Const():
                return _number(float(node.value))
            case KnobVar():
                return self._knobs[node.name]
            case BinaryOp(op="//" | "%"):
                quotient = self._quotient(node, *operands)
                if node.op == "//":
                    return quotient
                return BinaryOp("-", operands[0], BinaryOp("*", quotient, operands[1]))
            case BinaryOp(op="and" | "or"):  # of lanes, both sides of which are evaluated
                return BinaryOp("min" if node.op == "and" else "max", *operands)
            case BinaryOp():
                return BinaryOp(node.op, *operands)
            case Not():
                return Not(*operands)
            case Select() | Call(name="if_then_else"):
                return Select(*operands)
            case Call(name="likely"):
                return operands[0]
            case Call(name="gcd"):
                return self._gcd(node, *operands)
            case Cast() if boolean:
                return BinaryOp("!=", operands[0], _number(0))
            case Cast() if node.a.dtype == dtypes.BOOL:
                return Select(operands[0], _number(1), _number(0))
            case Cast():
                return operands[0]
        raise IRError(f"no vectors are made of `{excerpt(node)}`")

    def _quotient(self, node: BinaryOp, a: Expr, b: Expr) -> Expr:
        """Return the quotient rounded down, which float64 gives exactly below 2^52."""
        low, high = self._intervals.bounds(node.b)
        if low <= 0 <= high:
            self.doubts.append(BinaryOp("==", b, _number(0)))
        if low == high > 0 and low & (low - 1) == 0:
            return _floor(BinaryOp("*", a, _number(1 / low)))
        return _floor(BinaryOp("/", a, b))

    def _gcd(self, node: Expr, a: Expr, b: Expr) -> Expr:
        """Return the greatest common divisor by as many of Euclid's steps as there can be."""
        largest = [max(map(abs, self._intervals.bounds(child))) for child in node.children]
        steps = math.log(min(*largest, LIMIT) + 1, (1 + 5**0.5) / 2) + 2  # Lamé's theorem
        a, b = (Call("abs", (operand,), "float64") for operand in (a, b))
        for _ in range(math.ceil(steps)):
            done = BinaryOp("==", b, _number(0))
            quotient = _floor(BinaryOp("/", a, Select(done, _number(1), b)))
            rest = BinaryOp("-", a, BinaryOp("*", quotient, b))
            a, b = Select(done, a, b), Select(done, b, rest)
        return a

    # -- the arithmetic of features, as `features.Arithmetic` describes it ---------------------

    def reset(self) -> None:
        """Do nothing."""

    def array(self, number: Any) -> Any:
        """Return a vector as it is."""
        return number

    def least(self, array: Any) -> float:
        """Return a lower bound of the vector of an expression."""
        return self._least[array]

    def ones(self) -> Any:
        """Return the vector of ones."""
        return _number(1)

    def times(self, left: Any, right: Any, unknown: bool) -> Any:
        """Return the product; if `unknown`, -1 where either one is negative."""
        a, b = _vector(left), _vector(right)
        product = BinaryOp("*", a, b)
        if not unknown:
            return product
        return Select(BinaryOp("<", BinaryOp("min", a, b), _number(0)), _number(-1), product)

    def larger(self, left: Any, right: Any) -> Any:
        """Return the maximum."""
        return BinaryOp("max", _vector(left), _vector(right))

    def factors(self, stride: Any, length: Any) -> Any:
        """Return the length and 1, changed over where the stride is 0."""
        still, ones, own = BinaryOp("==", stride, _number(0)), self.ones(), _vector(length)
        return Select(still, ones, own), Select(still, own, ones)


def _floor(vector: Expr) -> Expr:
    return Call("floor", (vector,), "float64")


def _number(value: float) -> Expr:
    return Broadcast(Const(float(value), "float64"), LANES)


def _vector(number: Expr | float) -> Expr:
    return number if isinstance(number, Expr) else _number(number)
