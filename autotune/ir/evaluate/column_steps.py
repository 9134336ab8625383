"""Lists of NumPy calls that evaluate expressions: the compiler of `column_programs`.

Every distinct subexpression is one call; its result lies in a scratch array that is free again
after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.evaluate.column_arithmetic import LIMIT, ColumnArithmetic
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, KnobVar, Not, Var
from autotune.ir.printer import excerpt
from autotune.ir.visitor import post_order

Array = npt.NDArray[Any]


def _check(undefined: Array, out: Array, expr: Expr) -> None:
    """Refuse undefined values of `expr`, but in marked rows: these are computed again."""
    count = np.count_nonzero(undefined & ~out)
    if count:
        raise IRError(f"`{excerpt(expr)}` divides by zero in {count} of {len(undefined)} rows")


def _note(values: Array, out: Array) -> None:
    """Mark the rows in which a value is too large to be exact."""
    if not (np.maximum.reduce(values) < LIMIT and np.minimum.reduce(values) > -LIMIT):
        out |= ~(np.abs(values) < LIMIT)


def _gcd(a: Array, b: Array, out: Array) -> None:
    """Write the greatest common divisor of whole float64 values; 0 where one is too large."""
    small = (np.abs(a) < LIMIT) & (np.abs(b) < LIMIT)
    out[...] = np.gcd(*(np.where(small, values, 0).astype(np.int64) for values in (a, b)))


def _copy(values: Array, out: Array) -> None:
    out[...] = values


CALLS: dict[str, Callable[..., object]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "floor": np.floor,
    "gcd": _gcd,
}


class ArrayCall(NamedTuple):
    """One call, ``run(first, second, out=out)``; `second` is None where there is one operand.

    What it takes and gives are positions in a list of arrays.
    """

    run: Callable[..., object]
    first: int
    second: int | None
    out: int


class _ArrayArithmetic(ColumnArithmetic):
    """Writes choices as arithmetic, far faster than branching on a mixed condition."""

    def choice(self, test: Expr, true: Expr, false: Expr) -> Expr:
        """Return one of two numbers or conditions by a condition."""
        if true.dtype == dtypes.BOOL:
            either = BinaryOp("min", test, true), BinaryOp("min", Not(test), false)
            return BinaryOp("max", *either)
        if false is self.number(0):
            return BinaryOp("*", true, Cast("float64", test))
        if true is self.number(0):
            return BinaryOp("*", false, Cast("float64", Not(test)))
        difference = BinaryOp("-", true, false)
        return BinaryOp("+", BinaryOp("*", difference, Cast("float64", test)), false)


class ColumnSteps:
    """The calls that evaluate expressions over knobs.

    Their arrays are, in this order: the columns of knobs, the results that are not constant, the
    marks of rows in which numbers are too large to be exact, literals, and scratch arrays.

    `exprs`: scalar integer or bool expressions over `KnobVar` variables.
    `knobs`: the knobs that occur.
    """

    def __init__(self, exprs: Sequence[Expr], knobs: Sequence[KnobVar]) -> None:
        columns = {knob.name: Var(knob.name, "float64") for knob in knobs}
        self._arithmetic = _ArrayArithmetic(columns, Intervals())
        for knob in knobs:
            self._arithmetic.value(knob)  # refuses what columns cannot hold
        #: For each expression its value if it is the same in all rows, else None.
        self.constants = tuple(self._constant(expr) for expr in exprs)
        varying = [e for e, value in zip(exprs, self.constants, strict=True) if value is None]
        if varying and not knobs:
            raise IRError(f"`{excerpt(varying[0])}` divides by zero")
        results = [Var("result", expr.dtype) for expr in varying]
        self._large = Var("large", dtypes.BOOL)
        given = [*(columns[knob.name] for knob in knobs), *results, self._large]
        self._places: dict[Expr, int] = {var: place for place, var in enumerate(given)}
        self._first_literal = len(given)
        self._calls: list[tuple[Callable[..., object], tuple[Expr, ...], Expr]] = []
        self._computed: set[Expr] = set()
        #: Constants, of shape ().
        self.literals: list[npt.NDArray[Any]] = []
        for expr, result in zip(varying, results, strict=True):
            self._evaluate(expr, result)
        #: Types of the scratch arrays.
        self.scratch: list[type] = []
        self.steps = self._with_scratch()

    def _constant(self, expr: Expr) -> int | bool | None:
        value = self._arithmetic.constant(expr)
        if value is None or self._arithmetic.undefined(expr) is not None:
            return None
        return bool(value) if expr.dtype == dtypes.BOOL else value

    def _evaluate(self, expr: Expr, result: Var) -> None:
        """Add the calls that evaluate one expression."""
        value, undefined = self._arithmetic.value(expr), self._arithmetic.undefined(expr)
        self._compute(value)
        if undefined is not None:
            self._compute(undefined)
            self._calls.append((partial(_check, expr=expr), (undefined,), self._large))
        if expr.dtype == dtypes.BOOL:
            self._calls.append((_copy, (value,), result))
        else:  # adding 0 makes 0 of a negative zero
            zero = self._arithmetic.number(0)
            self._compute(zero)
            self._calls.append((np.add, (value, zero), result))

    def _compute(self, value: Expr) -> None:
        for node in post_order(value, self._uncomputed):
            if node in self._computed or node in self._places:
                continue
            if isinstance(node, Const):
                self._places[node] = self._first_literal + len(self.literals)
                self.literals.append(np.array(node.value))
                continue
            self._computed.add(node)
            if isinstance(node, Cast):  # NumPy multiplies by conditions as they are
                continue
            self._calls.append((_call(node), node.children, node))
            if node in self._arithmetic.large:
                self._calls.append((_note, (node,), self._large))

    def _uncomputed(self, node: Expr) -> Sequence[Expr]:
        return [child for child in node.children if child not in self._computed]

    def _with_scratch(self) -> list[ArrayCall]:
        """Give results scratch arrays, each free again after its last use."""
        last: dict[Expr, int] = {}
        for position, (_, operands, _) in enumerate(self._calls):
            last.update(dict.fromkeys(map(_uncast, operands), position))
        places = dict(self._places)
        free: dict[type, list[int]] = {np.float64: [], np.bool_: []}
        first_scratch = self._first_literal + len(self.literals)
        steps = []
        for position, (run, operands, result) in enumerate(self._calls):
            sources = [_uncast(operand) for operand in operands]
            taken = [places[source] for source in sources]
            for source in dict.fromkeys(sources):
                if source not in self._places and last[source] == position:
                    free[_kind(source)].append(places.pop(source))
            if result not in places:
                kind = _kind(result)
                if not free[kind]:
                    free[kind].append(first_scratch + len(self.scratch))
                    self.scratch.append(kind)
                places[result] = free[kind].pop()
            second = taken[1] if len(taken) > 1 else None
            steps.append(ArrayCall(run, taken[0], second, places[result]))
        return steps


def _call(node: Expr) -> Callable[..., object]:
    """Return what computes a node from its operands."""
    match node:
        case BinaryOp(op="min" | "max") if node.dtype == dtypes.BOOL:
            return CALLS["and" if node.op == "min" else "or"]
        case BinaryOp():
            return CALLS[node.op]
        case Not():
            return np.logical_not
        case _:
            assert isinstance(node, Call)
            return CALLS[node.name]


def _uncast(node: Expr) -> Expr:
    return node.a if isinstance(node, Cast) else node


def _kind(node: Expr) -> type:
    return np.bool_ if node.dtype == dtypes.BOOL else np.float64
