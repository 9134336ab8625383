"""Integer expressions over knobs, rewritten as float64 arithmetic that is exact below 2^52.

NumPy evaluates the result on arrays (`column_programs`), compiled code on vectors (`extract`).
What float64 cannot tell is kept beside it: which numbers may be too large to be exact, and where a
division by zero counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.expr import BinaryOp, Broadcast, Call, Cast, Const, Expr, KnobVar, Not, Select
from autotune.ir.printer import excerpt
from autotune.ir.visitor import post_order

#: Integers up to here are exact in float64, and so is floor(a / b): with |a| + |b| <= 2^53, a
#: quotient that is not whole cannot round to the whole number above it.
LIMIT: Final = 2.0**52


class ColumnArithmetic:
    """Rewrites integer and bool expressions over knobs.

    Numbers become float64; `and` and `or` become `min` and `max` of conditions, since both sides
    are evaluated. A division by zero gives some number; `undefined` says where it counts.

    `columns`: what stands for each knob, float64, by name.
    `intervals`: bounds of expressions.
    `lanes`: lanes of the result.
    """

    #: Numbers are exact below it.
    limit: ClassVar[float] = LIMIT

    def __init__(self, columns: Mapping[str, Expr], intervals: Intervals, lanes: int = 1) -> None:
        self.intervals = intervals
        #: Results that may reach the limit. If one does for a configuration, all results for that
        #: configuration are unreliable.
        self.large: dict[Expr, None] = {}
        self._columns = columns
        self._lanes = lanes
        self._written: dict[Expr, Expr] = {}
        self._undefined: dict[Expr, Expr | None] = {}

    def number(self, value: float | bool, dtype: str = "float64") -> Expr:
        """Return a constant."""
        constant = Const(float(value) if dtype == "float64" else value, dtype)
        return constant if self._lanes == 1 else Broadcast(constant, self._lanes)

    def constant(self, node: Expr) -> int | None:
        """Return the value of an expression that is one number below the limit, else None."""
        low, high = self.intervals.bounds(node)
        return low if low == high and abs(low) < self.limit else None

    # -- values ----------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Expr:
        """Return an expression in float64 arithmetic.

        Raises IRError if it is not of indices, conditions and knobs alone, or holds a number of
        2^52 or more.
        """
        for node in post_order(expr, self._written, self._operands):
            self._written[node] = self._write(node)
        return self._written[expr]

    def _operands(self, node: Expr) -> tuple[Expr, ...]:
        """Return the operands that the value of `node` is computed from."""
        if self.constant(node) is not None:
            return ()
        if _is_choice(node):
            decided = self.constant(node.children[0])
            if decided is not None:
                return (node.children[1 if decided else 2],)
        return node.children

    def _write(self, node: Expr) -> Expr:
        low, high = self.intervals.bounds(node)
        large = max(-low, high) >= self.limit
        if low == high and not large:
            is_condition = node.dtype == dtypes.BOOL
            return self.number(bool(low), dtypes.BOOL) if is_condition else self.number(low)
        if node.dtype != dtypes.BOOL and not dtypes.is_index(node.dtype):
            what = f"not {node.dtype}: `{excerpt(node)}`"
            raise IRError(f"columns hold indices and conditions, {what}")
        if large and isinstance(node, (KnobVar, Const)):
            raise IRError(f"`{node}` reaches {max(-low, high)}: columns hold values below 2^52")
        written = self._operation(node, [self._written[child] for child in self._operands(node)])
        if large and isinstance(node, BinaryOp) and node.op in ("+", "-", "*"):
            self.large[written] = None
        return written

    def _operation(self, node: Expr, operands: Sequence[Expr]) -> Expr:
        match node:
            case KnobVar():
                return self._columns[node.name]
            case BinaryOp(op="//" | "%"):
                quotient = self._quotient(node, *operands)
                if node.op == "//":
                    return quotient
                return BinaryOp("-", operands[0], BinaryOp("*", quotient, operands[1]))
            case BinaryOp(op="and" | "or"):
                return BinaryOp("min" if node.op == "and" else "max", *operands)
            case BinaryOp():
                return BinaryOp(node.op, *operands)
            case Not():
                return Not(*operands)
            case Call(name="gcd"):
                return self.gcd(node, *operands)
            case Cast() if node.dtype == dtypes.BOOL and node.a.dtype != dtypes.BOOL:
                return BinaryOp("!=", operands[0], self.number(0))
            case Cast() if node.dtype != dtypes.BOOL and node.a.dtype == dtypes.BOOL:
                return self.choice(operands[0], self.number(1), self.number(0))
            case _ if _is_choice(node) and len(operands) == 3:
                return self.choice(*operands)
            case _:  # a decided choice, `likely`, a cast that changes nothing
                return operands[0]

    def _quotient(self, node: BinaryOp, a: Expr, b: Expr) -> Expr:
        """Return the quotient rounded down."""
        divisor = self.constant(node.b)
        if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
            quotient = BinaryOp("*", a, self.number(1 / divisor))
        else:
            if self._may_be_zero(node.b):
                b = self.choice(self._is_zero(b), self.number(1), b)
            quotient = BinaryOp("/", a, b)
        return Call("floor", (quotient,), "float64")

    def choice(self, test: Expr, true: Expr, false: Expr) -> Expr:
        """Return one of two numbers or conditions by a condition."""
        return Select(test, true, false)

    def gcd(self, node: Expr, a: Expr, b: Expr) -> Expr:
        """Return the greatest common divisor `node` of two numbers."""
        return Call("gcd", (a, b), "float64")

    # -- divisions by zero -----------------------------------------------------------------------

    def undefined(self, expr: Expr) -> Expr | None:
        """Return the condition under which a division by zero decides `expr`, None if it is never.

        It does not where a choice leaves it, or where the other side decides an `and` or `or`.
        """
        for node in post_order(expr, self._undefined):
            self._undefined[node] = self._judge(node)
        return self._undefined[expr]

    def _judge(self, node: Expr) -> Expr | None:
        parts = [self._undefined[child] for child in node.children]
        if isinstance(node, BinaryOp) and node.op in ("//", "%") and self._may_be_zero(node.b):
            return _any(*parts, self._is_zero(self.value(node.b)))
        if all(part is None for part in parts):
            return None
        if _is_choice(node):
            decided = self.constant(node.children[0])
            if decided is not None and parts[0] is None:
                return parts[1 if decided else 2]
            test = self.value(node.children[0])
            return _any(parts[0], _all(test, parts[1]), _all(Not(test), parts[2]))
        if isinstance(node, BinaryOp) and node.op in ("and", "or"):
            return self._judge_logic(node, *parts)
        return _any(*parts)

    def _judge_logic(self, node: BinaryOp, a: Expr | None, b: Expr | None) -> Expr | None:
        """Either side leaves it to the other unless it decides: false in `and`, true in `or`."""
        open_sides = []
        for side, unknown in ((node.a, a), (node.b, b)):
            if self.constant(side) == int(node.op == "or") and unknown is None:
                return None
            value = self.value(side)
            open_sides.append(_any(unknown, value if node.op == "and" else Not(value)))
        return _any(_all(open_sides[1], a), _all(open_sides[0], b))

    def _may_be_zero(self, divisor: Expr) -> bool:
        low, high = self.intervals.bounds(divisor)
        return low <= 0 <= high

    def _is_zero(self, divisor: Expr) -> Expr:
        return BinaryOp("==", divisor, self.number(0))


def _is_choice(node: Expr) -> bool:
    return isinstance(node, Select) or (isinstance(node, Call) and node.name == "if_then_else")


def _any(*conditions: Expr | None) -> Expr | None:
    """Return whether any of some conditions holds; None never does."""
    total: Expr | None = None
    for condition in conditions:
        if condition is not None:
            total = condition if total is None else BinaryOp("max", total, condition)
    return total


def _all(first: Expr | None, second: Expr | None) -> Expr | None:
    """Return whether two conditions hold; None never does."""
    return None if first is None or second is None else BinaryOp("min", first, second)
