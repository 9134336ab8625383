"""Features of many candidates as a function to compile: a loop over vectors of candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from autotune.extract.candidate_vectors import LANES, VectorArithmetic
from autotune.extract.to_loop_nest import LoopNestPlan
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.expr import BinaryOp, Buffer, Cast, Const, Expr, Load, Ramp, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, LoopKind, PrimFunc, Store, seq
from features import itervar_columns

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

    Parameters
    ----------
    knobs : sequence of str
        Names of the knobs.
    intervals : Intervals
        Bounds of expressions.
    columns : callable
        Returns vectors of `VectorArithmetic` and Python numbers.

    Returns
    -------
    Function
        Of ``knobs``, float64 (len(knobs), PITCH), and ``columns``, float32 (number of columns + 1,
        PITCH), whose last row is 1 where the others are not to be used: where a number reached
        2^52 or something was divided by zero. Elements of a row from `ROWS` on are not used.

    Raises
    ------
    IRError
        If a number is of a kind that vectors do not hold, or there are too many.
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
