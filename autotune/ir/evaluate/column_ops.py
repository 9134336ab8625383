"""Functions that generated column programs call: NumPy's, checks and rarer operations.

A number or condition that comes from a division by zero is NaN; the `maybe_` functions are logic
and comparisons with this third value, on float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import IRError
from autotune.ir.expr import Expr
from autotune.ir.printer import excerpt

Array = npt.NDArray[Any]

#: Integers up to here are exact in float64, and so is floor(a / b): with |a| + |b| <= 2^53, a
#: quotient that is not whole cannot round to the whole number above it.
LIMIT = 2.0**52

UFUNCS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "min": "minimum",
    "max": "maximum",
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "and": "logical_and",
    "or": "logical_or",
}


def note(values: Array, large: Array) -> None:
    """Mark the rows in which a value is too large to be exact."""
    large |= np.abs(values) >= LIMIT


def check(values: Array, large: Array, expr: Expr) -> None:
    """Raise an error for undefined values of `expr` in rows that are not computed again."""
    undefined = np.isnan(values)
    undefined &= ~large
    if undefined.any():
        count = np.count_nonzero(undefined)
        raise IRError(f"`{excerpt(expr)}` divides by zero in {count} of {len(values)} rows")


def gcd(a: Array, b: Array) -> Array:
    """Greatest common divisor of whole float64 values."""
    undefined = ~(np.abs(a) < LIMIT) | ~(np.abs(b) < LIMIT)
    whole = [np.where(undefined, 0, values).astype(np.int64) for values in (a, b)]
    return np.where(undefined, np.nan, np.gcd(*whole))


def maybe_compare(ufunc: Any) -> Any:
    """Return the comparison that is NaN where an operand is."""

    def compare(a: Array, b: Array) -> Array:
        return np.where(np.isnan(a) | np.isnan(b), np.nan, ufunc(a, b))

    return compare


def maybe_logical_and(a: Array, b: Array) -> Array:
    """Return the conjunction: false if one operand is, even if the other is undefined."""
    return np.where((a == 0) | (b == 0), 0.0, np.multiply(a, b, dtype=np.float64))


def maybe_logical_or(a: Array, b: Array) -> Array:
    """Return the disjunction: true if one operand is, even if the other is undefined."""
    return np.where((a == 1) | (b == 1), 1.0, np.add(a, b, dtype=np.float64))


def maybe_not_(a: Array) -> Array:
    """Negation."""
    return 1.0 - a


def maybe_where(condition: Array, true: Array, false: Array) -> Array:
    """Select by a condition that may be undefined."""
    return np.where(condition == 1, true, np.where(condition == 0, false, np.nan))


NAMES: dict[str, Any] = {
    **{name: getattr(np, name) for name in UFUNCS.values()},
    **{
        f"maybe_{name}": maybe_compare(getattr(np, name))
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    },
    **{f"maybe_{name}": maybe_compare(getattr(np, name)) for name in ("minimum", "maximum")},
    "maybe_logical_and": maybe_logical_and,
    "maybe_logical_or": maybe_logical_or,
    "maybe_not_": maybe_not_,
    "maybe_where": maybe_where,
    "not_": np.logical_not,
    "where": np.where,
    "divide": np.divide,
    "floor": np.floor,
    "copyto": np.copyto,
    "top": np.maximum.reduce,
    "note": note,
    "check": check,
    "gcd": gcd,
    "LIMIT": LIMIT,
}
