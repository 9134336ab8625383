"""Evaluates expressions over knobs for many configurations at once, exactly.

The expressions become one list of NumPy operations on float64 chunks; every distinct subexpression
is one operation, and its result is dropped after its last use. Integers below 2^52 are exact in
float64. If the knobs' ranges allow larger values, chunks are checked, and rows with such values are
computed again in Python integers; a result is then rounded once, to float64. A division by zero is
poison: it is an error unless a select does not choose it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.evaluate.column_arithmetic import LIMIT, ColumnArithmetic
from autotune.ir.evaluate.interpreter import scalar_function
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, KnobVar, Not, Var
from autotune.ir.printer import excerpt
from autotune.ir.visitor import post_order, walk_expr

Array = npt.NDArray[Any]


def _check(undefined: Array, large: Array, expr: Expr) -> None:
    """Refuse undefined values of `expr`, but in marked rows: these are computed again."""
    count = np.count_nonzero(undefined & ~large)
    if count:
        raise IRError(f"`{excerpt(expr)}` divides by zero in {count} of {len(large)} rows")


def _note(values: Array, large: Array) -> None:
    """Mark the rows in which a value is too large to be exact."""
    if not (np.maximum.reduce(values) < LIMIT and np.minimum.reduce(values) > -LIMIT):
        large |= ~(np.abs(values) < LIMIT)


def _gcd(a: Array, b: Array) -> Array:
    """Return the greatest common divisor of whole float64 values; 0 where one is too large."""
    small = (np.abs(a) < LIMIT) & (np.abs(b) < LIMIT)
    whole = (np.where(small, values, 0).astype(np.int64) for values in (a, b))
    return np.gcd(*whole).astype(np.float64)


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


def _fill(out: Array, values: Array) -> None:
    """Write numbers to an array; adding 0 makes 0 of a negative zero."""
    np.add(values, 0.0, out=out)


class _Step(NamedTuple):
    """One operation on a chunk of rows."""

    #: Gets the values of the operands; without a result also the marks of rows.
    run: Callable[..., Any]
    operands: tuple[Expr, ...]
    #: What the operation computes; the number of an array to fill with the operand; or None if it
    #: marks or refuses rows.
    result: Expr | int | None
    #: Operands that no later step reads.
    last: tuple[Expr, ...] = ()


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


class ColumnProgram:
    """A compiled evaluation of expressions over columns of knob values.

    `exprs`: scalar integer or bool expressions over `KnobVar` variables.
    `chunk`: rows evaluated at a time; 8,192 float64 values of a few columns stay in cache.

    Raises IRError if an expression has another type, or contains a constant of 2^52 or more.
    """

    def __init__(self, exprs: Sequence[Expr], chunk: int = 8192) -> None:
        self.exprs = tuple(exprs)
        self.chunk = chunk
        knobs = {k: None for e in self.exprs for k in walk_expr(e) if isinstance(k, KnobVar)}
        self._knobs = tuple(knobs)
        #: Names of the columns that are read.
        self.knobs = tuple(dict.fromkeys(knob.name for knob in self._knobs))
        self._columns: list[Expr] = [Var(knob.name, "float64") for knob in self._knobs]
        columns = dict(zip((knob.name for knob in self._knobs), self._columns, strict=True))
        self._arithmetic = _ArrayArithmetic(columns, Intervals())
        for knob in self._knobs:
            self._arithmetic.value(knob)  # refuses what columns cannot hold
        #: The value of each expression that is the same in all rows, else None.
        self.constants = tuple(map(self._constant, self.exprs))
        varying = [e for e, value in zip(self.exprs, self.constants, strict=True) if value is None]
        if varying and not knobs:
            raise IRError(f"`{excerpt(varying[0])}` divides by zero")
        self._literals: dict[Expr, Array] = {}
        self._computed: set[Expr] = set(self._columns)
        self._steps: list[_Step] = []
        for number, expr in enumerate(varying):
            self._add(expr, number)
        self._drop_early()

    def _constant(self, expr: Expr) -> int | bool | None:
        value = self._arithmetic.constant(expr)
        if value is None or self._arithmetic.undefined(expr) is not None:
            return None
        return bool(value) if expr.dtype == dtypes.BOOL else value

    def _add(self, expr: Expr, number: int) -> None:
        """Add the steps that evaluate one expression."""
        value, undefined = self._arithmetic.value(expr), self._arithmetic.undefined(expr)
        self._compute(value)
        if undefined is not None:
            self._compute(undefined)
            check = functools.partial(_check, expr=expr)
            self._steps.append(_Step(check, (undefined,), None))
        fill = np.copyto if expr.dtype == dtypes.BOOL else _fill
        self._steps.append(_Step(fill, (_uncast(value),), number))

    def _compute(self, value: Expr) -> None:
        for node in post_order(value, self._computed):
            self._computed.add(node)
            if isinstance(node, Const):
                self._literals[node] = np.array(node.value)
            elif not isinstance(node, Cast):  # NumPy multiplies by conditions as they are
                self._steps.append(_Step(_call(node), tuple(map(_uncast, node.children)), node))
                if node in self._arithmetic.large:
                    self._steps.append(_Step(_note, (node,), None))

    def _drop_early(self) -> None:
        """Let each step drop the operands that no later step reads."""
        needed = {*self._columns, *self._literals}
        for place in reversed(range(len(self._steps))):
            step = self._steps[place]
            last = tuple(dict.fromkeys(o for o in step.operands if o not in needed))
            needed.update(last)
            self._steps[place] = step._replace(last=last)

    def __call__(
        self, columns: Mapping[str, Array], out: Sequence[Array] | None = None
    ) -> list[Array | int | bool]:
        """Evaluate all expressions.

        `columns`: values of each knob, within the knob's range.
        `out`: one array per expression to write to, of any strides (columns of a feature matrix,
        say; contiguous ones are filled twice as fast): float32 or float64, or bool for conditions.

        Returns `out`; without it, a float64 array of shape (n,) per expression (bool for a
        condition), or one int or bool where all rows have the same value.

        Raises IRError if a column is missing or holds values outside its knob's range, or if a used
        value of some row is a division by zero.
        """
        inputs, rows = self._inputs(columns)
        results: list[Array | int | bool] = []
        if out is not None:
            self._check_out(out, rows)
            for array, value in zip(out, self.constants, strict=True):
                if value is not None:
                    array[...] = value
            results.extend(out)
        else:
            for expr, value in zip(self.exprs, self.constants, strict=True):
                kind = np.bool_ if expr.dtype == dtypes.BOOL else np.float64
                results.append(np.empty(rows, kind) if value is None else value)
        targets = [r for r, v in zip(results, self.constants, strict=True) if v is None]
        self._evaluate(inputs, targets, rows)
        return results

    def _inputs(self, columns: Mapping[str, Array]) -> tuple[list[Array], int]:
        inputs: list[Array] = []
        for knob in self._knobs:
            if knob.name not in columns:
                raise IRError(f"no column is given for knob {knob.name!r}")
            column = np.asarray(columns[knob.name])
            if column.ndim != 1 or (inputs and len(column) != len(inputs[0])):
                raise IRError(f"column {knob.name!r} has shape {column.shape}: not as the others")
            if column.size and not (knob.low <= column.min() and column.max() <= knob.high):
                raise IRError(
                    f"column {knob.name!r} holds values from {column.min()} to {column.max()}, "
                    f"but its knob has values from {knob.low} to {knob.high}"
                )
            inputs.append(column)
        return inputs, len(inputs[0]) if inputs else 0

    def _check_out(self, out: Sequence[Array], rows: int) -> None:
        if len(out) != len(self.exprs):
            raise IRError(f"{len(self.exprs)} expressions need as many arrays, not {len(out)}")
        for expr, array in zip(self.exprs, out, strict=True):
            kinds = "fb" if expr.dtype == dtypes.BOOL else "f"
            if array.dtype.kind not in kinds or (self._knobs and array.shape != (rows,)):
                raise IRError(
                    f"the array for `{excerpt(expr)}` is {array.dtype} of shape {array.shape}: "
                    f"expected float32 or float64 of shape ({rows},)"
                )

    def _evaluate(self, inputs: list[Array], targets: Sequence[Any], rows: int) -> None:
        for start in range(0, rows, self.chunk):
            stop = min(start + self.chunk, rows)
            part = [column[start:stop].astype(np.float64, copy=False) for column in inputs]
            outs = [target[start:stop] for target in targets]
            large = np.zeros(stop - start, np.bool_)
            held = {**self._literals, **dict(zip(self._columns, part, strict=True))}
            # Rows that an earlier operation made too large may overflow or divide by anything.
            with np.errstate(all="ignore"):
                for run, operands, result, last in self._steps:
                    values = [held[operand] for operand in operands]
                    if result is None:
                        run(*values, large)
                    elif isinstance(result, int):
                        run(outs[result], *values)
                    else:
                        held[result] = run(*values)
                    for operand in last:
                        del held[operand]
            if large.any():
                self._recompute(part, outs, np.flatnonzero(large))

    @functools.cached_property
    def _exactly(self) -> Callable[..., tuple[int | bool, ...]]:
        exprs = [e for e, v in zip(self.exprs, self.constants, strict=True) if v is None]
        return scalar_function(exprs, self._knobs)

    def _recompute(self, part: list[Array], outs: list[Array], rows: Array) -> None:
        for row in rows:
            values = self._exactly(*(int(column[row]) for column in part))
            for out, value in zip(outs, values, strict=True):
                out[row] = value


def _call(node: Expr) -> Callable[..., object]:
    """Return the function that computes a node from its operands."""
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
