"""Features of many candidates as a function to compile: a loop over vectors of candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from autotune.errors import IRError
from autotune.extract.to_loop_nest import LoopNestPlan
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.evaluate.column_arithmetic import ColumnArithmetic
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Select,
    Var,
)
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, LoopKind, PrimFunc, Store, seq
from features import itervar_columns

LANES = 8  # Candidates side by side.

# Operations of one function, beyond which compiling takes disproportionately long.
MAX_OPERATIONS = 10_000

ROWS = 1024  # Candidates of one call: their inputs and outputs stay in the cache.

# Elements from one column to the next: a power of two would cause cache conflicts.
PITCH = ROWS + LANES

_INDEX = "int64"


def feature_kernel(plan: LoopNestPlan, names: Sequence[str]) -> PrimFunc:
    """Return a `column_kernel` of the itervar features of a plan's candidates.

    They are, bit for bit, what `itervar_columns` works out on arrays.

    `names`: features of the structure.
    """

    def features(lanes: VectorArithmetic) -> Sequence[Any]:
        nest = plan.symbolic(lanes.write)
        return itervar_columns(nest, names=names, arithmetic=lanes)[1]

    return column_kernel(plan.knobs, plan.intervals, features)


def column_kernel(
    knobs: Sequence[str], intervals: Intervals, columns: Callable[[VectorArithmetic], Sequence[Any]]
) -> PrimFunc:
    """Return a function of columns of knobs that gives columns of numbers for `ROWS` candidates.

    `knobs`: names of the knobs.
    `intervals`: bounds of expressions.
    `columns`: returns vectors of `VectorArithmetic` and Python numbers.

    The function is of ``knobs``, float64 (len(knobs), PITCH), and ``columns``, float32 (number of
    columns + 1, PITCH), whose last row is 1 where the others are not to be used: where a number
    reached 2^52 or something was divided by zero. Elements of a row from `ROWS` on are not used.

    Raises IRError if a number is of a kind that vectors do not hold, or there are too many.
    """
    block = Var("block", _INDEX)
    taken = _buffer("knobs", "float64", len(knobs))
    loads: dict[str, Expr] = {
        name: Load(taken, _place(block, row)) for row, name in enumerate(knobs)
    }
    lanes = VectorArithmetic(loads, intervals)
    found = list(columns(lanes))
    doubts = lanes.doubts()
    found.append(reduce(partial(BinaryOp, "max"), doubts) if doubts else 0)
    given = _buffer("columns", "float32", len(found))
    stores = [Store(given, _place(block, row), _single(one)) for row, one in enumerate(found)]
    body = For(block, const(ROWS // LANES, _INDEX), LoopKind.SERIAL, seq(*stores))
    return PrimFunc("columns", (taken, given), frozenset([given]), body)


def _buffer(name: str, dtype: str, count: int) -> Buffer:
    return Buffer(name, dtype, (const(count, _INDEX), const(PITCH, _INDEX)))


def _place(block: Var, row: int) -> Expr:
    """Return the indices of the candidates of a block in a column."""
    first = binary("+", binary("*", block, const(LANES, _INDEX)), const(row * PITCH, _INDEX))
    return Ramp(first, const(1, _INDEX), LANES)


def _single(column: Any) -> Expr:
    """Return a feature as it is stored."""
    return Cast("float32", column) if isinstance(column, Expr) else Const(column, "float32")


class VectorArithmetic(ColumnArithmetic):
    """Writes expressions over knobs as vectors, and does arithmetic on these for `features`.

    The same operations in the same order as on arrays of candidates, so the same numbers.

    `knobs`: the float64 vector of each knob, by name.
    `intervals`: bounds of expressions.
    """

    def __init__(self, knobs: Mapping[str, Expr], intervals: Intervals) -> None:
        super().__init__(knobs, intervals, LANES)
        self._least: dict[Expr, float] = {}
        self._divided_by_zero: dict[Expr, None] = {}

    def write(self, expr: Expr) -> Expr:
        """Return the vector of an expression.

        Raises IRError as `ColumnArithmetic` does; or if all expressions together are too long to be
        compiled.
        """
        found = self.value(expr)
        if len(self._written) > MAX_OPERATIONS:
            raise IRError(f"more than {MAX_OPERATIONS} operations are not compiled")
        undefined = self.undefined(expr)
        if undefined is not None:
            self._divided_by_zero[undefined] = None
        self._least[found] = self.intervals.bounds(expr)[0]
        return found

    def doubts(self) -> list[Expr]:
        """Return conditions, none of which holds for a candidate whose numbers are right."""
        sizes = (Call("abs", (value,), "float64") for value in self.large)
        inexact = (Not(BinaryOp("<", size, _number(self.limit))) for size in sizes)  # or NaN
        return [*self._divided_by_zero, *inexact]

    def gcd(self, node: Expr, a: Expr, b: Expr) -> Expr:
        """Return the greatest common divisor by as many of Euclid's steps as there can be."""
        largest = [max(map(abs, self.intervals.bounds(child))) for child in node.children]
        steps = math.log(min(*largest, self.limit) + 1, (1 + 5**0.5) / 2) + 2  # Lamé's theorem
        a, b = (Call("abs", (operand,), "float64") for operand in (a, b))
        for _ in range(math.ceil(steps)):
            done = BinaryOp("==", b, _number(0))
            quotient = Call("floor", (BinaryOp("/", a, Select(done, _number(1), b)),), "float64")
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
        least = [self._lower_bound(number) for number in (left, right)]
        a, b = _vector(left), _vector(right)
        product = BinaryOp("*", a, b)
        zero = _number(0)
        negative = [BinaryOp("<", e, zero) for e, low in zip((a, b), least, strict=True) if low < 0]
        if not negative:
            return self._bounded(product, 0)
        if not unknown:
            return product
        either = reduce(partial(BinaryOp, "max"), negative)
        return self._bounded(Select(either, _number(-1), product), -1)

    def larger(self, left: Any, right: Any) -> Any:
        """Return the maximum."""
        a, b = _vector(left), _vector(right)
        least = max(map(self._lower_bound, (left, right)))
        return self._bounded(Select(BinaryOp("<", a, b), b, a), least)

    def factors(self, stride: Any, length: Any) -> Any:
        """Return the length and 1, changed over where the stride is 0."""
        still, ones, own = BinaryOp("==", stride, _number(0)), self.ones(), _vector(length)
        least = min(1, self._lower_bound(length))
        found = Select(still, ones, own), Select(still, own, ones)
        return tuple(self._bounded(each, least) for each in found)

    def _bounded(self, vector: Expr, least: float) -> Expr:
        self._least.setdefault(vector, least)
        return vector

    def _lower_bound(self, number: Any) -> float:
        return self._least.get(number, -math.inf) if isinstance(number, Expr) else number


def _number(value: float) -> Expr:
    return Broadcast(Const(float(value), "float64"), LANES)


def _vector(number: Expr | float) -> Expr:
    return number if isinstance(number, Expr) else _number(number)
