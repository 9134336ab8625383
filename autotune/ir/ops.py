"""Constructors of expressions: conversion of Python values, type promotion, constant folding."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.expr import (
    ARITHMETIC,
    COMPARISON,
    LOGIC,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Not,
    Select,
)

_SCALARS = (bool, int, float, np.generic)


def is_convertible(value: object) -> bool:
    """Whether `convert` accepts `value`."""
    return isinstance(value, (Expr, *_SCALARS)) or hasattr(value, "__expr__")


def convert(value: Any, dtype: str | None = None) -> Expr:
    """Return `value` as an expression.

    `value`: an expression, an axis, a symbolic knob, or a Python or NumPy scalar.
    `dtype`: type for a scalar; chosen by its value if None. Expressions keep their type.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, _SCALARS):
        scalar: Any = value
        own = dtype or dtypes.of_value(scalar)
        if own == "int64" and not dtypes.fits(scalar, own):
            raise IRError(f"the number {dtypes.number_text(value)} does not fit in int64")
        return Const(value, own)
    if hasattr(value, "__expr__"):
        expr: Expr = value.__expr__()
        return expr
    raise IRError(f"cannot use a {type(value).__name__} ({value!r}) in an expression")


def const(value: Any, dtype: str | None = None) -> Const:
    """Constant of the given type (int32, float32 or bool by its Python type if None)."""
    return Const(value, dtype or dtypes.of_value(value))


def _matched(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Convert two operands to one type; a bare Python number takes the other's type."""
    x: Expr
    y: Expr
    if isinstance(a, Expr) and isinstance(b, Expr):
        x, y = a, b
    elif isinstance(a, _SCALARS) and not isinstance(b, _SCALARS):
        y = convert(b)
        x = const(a, _scalar_type(a, y.dtype))
    elif isinstance(b, _SCALARS) and not isinstance(a, _SCALARS):
        x = convert(a)
        y = const(b, _scalar_type(b, x.dtype))
    else:
        x, y = convert(a), convert(b)
    if x.dtype != y.dtype:
        dtype = dtypes.promote(x.dtype, y.dtype)
        x, y = cast(dtype, x), cast(dtype, y)
    if x.lanes != y.lanes:
        lanes = max(x.lanes, y.lanes)
        x = x if x.lanes == lanes else Broadcast(x, lanes)
        y = y if y.lanes == lanes else Broadcast(y, lanes)
    return x, y


def _scalar_type(value: Any, other: str) -> str:
    """Return the type of the number `value` beside an operand of type `other`.

    It is `other`, but a float beside an integer, and a large integer beside an index, keep their
    own type.
    """
    own = dtypes.of_value(value)
    if own == dtypes.BOOL:
        return other
    if other == dtypes.BOOL or (dtypes.is_float(own) and not dtypes.is_float(other)):
        return own
    if dtypes.fits(value, other):
        return other
    if dtypes.is_index(other) and dtypes.fits(value, "int64"):
        return "int64"
    raise IRError(
        f"the number {dtypes.number_text(value)} does not fit in {other}, the type of the operand "
        "beside it: convert that operand with .astype first"
    )


#: Each operation except `/` on Python numbers.
FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}


def binary(op: str, a: Any, b: Any) -> Expr:
    """Operation `op` of two operands of any convertible kind, constants folded.

    Division `/` is the division of floats; integers are divided with `//` and `%`, which
    round towards minus infinity as Python's do.
    """
    x, y = _matched(a, b)
    if op == "/" and not dtypes.is_float(x.dtype):
        raise IRError("`/` divides floats: use `//` (rounds down) for integers, or .astype first")
    if op in ("//", "%") and not dtypes.is_integer(x.dtype):
        raise IRError(f"`{op}` divides integers, not {x.dtype}")
    if op in LOGIC and x.dtype != dtypes.BOOL:
        raise IRError(f"`{op}` takes conditions, not {x.dtype}")
    if op in ARITHMETIC and x.dtype == dtypes.BOOL:
        raise IRError(f"`{op}` takes numbers, not conditions: use .astype('int32') first")
    if op in ("//", "%") and isinstance(y, Const) and y.value == 0:
        raise IRError(f"division by zero in `{x} {op} 0`")
    return fold(op, x, y)


def chain(op: str, operands: Iterable[Any], first: Any) -> Expr:
    """Return one operation on `first` and all other operands, from left to right."""
    return functools.reduce(functools.partial(binary, op), operands, convert(first))


def row_major(places: Iterable[Any], lengths: Iterable[Any]) -> Expr:
    """Return the number of an element that lies at `places` along axes of some lengths."""
    number: Expr = const(0)
    for place, length in zip(places, lengths, strict=True):
        number = binary("+", binary("*", number, length), place)
    return number


def fold(op: str, x: Expr, y: Expr) -> Expr:
    """`BinaryOp(op, x, y)` of matched operands, with constants and neutral elements folded.

    A division by zero is kept, because it may be in a loop that never runs.
    """
    if isinstance(x, Const) and isinstance(y, Const):
        folded = _fold_constants(op, x, y)
        if folded is not None:
            return folded
    if dtypes.is_integer(x.dtype):
        simple = _fold_integer(op, x, y)
        if simple is not None:
            return simple
    if op in LOGIC:
        for this, other in ((x, y), (y, x)):
            if isinstance(this, Const):
                return other if bool(this.value) == (op == "and") else this
        if x is y:
            return x
    if op in ("min", "max") and x is y:
        return x
    return BinaryOp(op, x, y)


def _fold_constants(op: str, x: Const, y: Const) -> Expr | None:
    if op in ("//", "%") and y.value == 0:
        return None
    dtype = x.dtype if op not in COMPARISON and op not in LOGIC else dtypes.BOOL
    if dtypes.is_float(x.dtype):
        if op not in ("+", "-", "*", "/", *COMPARISON):
            return None
        # Round once, in the operands' own type, as the running program does.
        a, b = dtypes.rounded(x.value, x.dtype), dtypes.rounded(y.value, y.dtype)
        with np.errstate(all="ignore"):
            return Const(a / b if op == "/" else FOLD[op](a, b), dtype)
    value = FOLD[op](x.value, y.value)
    return Const(value, dtype) if dtype == dtypes.BOOL else _integer(value, dtype)


def _integer(value: int, dtype: str) -> Const | None:
    """Return a constant of an integer type: data wraps, a too large index is not folded.

    The value of such an index depends on its place: exact in an index, wrapped in a stored value.
    """
    if not dtypes.is_index(dtype):
        return Const(dtypes.wrapped(value, dtype), dtype)
    fits = dtypes.min_value(dtype) <= value <= dtypes.max_value(dtype)
    return Const(value, dtype) if fits else None


def _fold_integer(op: str, x: Expr, y: Expr) -> Expr | None:
    if isinstance(x, Const) and op in ("+", "*"):
        x, y = y, x
    if not isinstance(y, Const):
        if x is y and op == "-":
            return Const(0, x.dtype)
        return x if isinstance(x, Const) and x.value == 0 and op in ("//", "%") else None
    if y.value == 0:
        if op in ("+", "-"):
            return x
        if op == "*":
            return y
    if y.value == 1:
        if op in ("*", "//"):
            return x
        if op == "%":
            return Const(0, x.dtype)
    return None


def negate(a: Any) -> Expr:
    """Minus `a`."""
    x = convert(a)
    if not dtypes.is_float(x.dtype):
        return binary("-", Const(0, x.dtype), x)  # this refuses conditions
    return Const(-x.value, x.dtype) if isinstance(x, Const) else fold("*", x, Const(-1.0, x.dtype))


def cast(dtype: str, a: Any) -> Expr:
    """Return `a` converted to `dtype` as C does; cases that C leaves undefined saturate.

    Floats are rounded towards zero to integers, values beyond the range to its nearest limit, a NaN
    to 0; integers wrap to narrower types. To bool is `!= 0`.
    """
    x = convert(a)
    if x.dtype == dtypes.check(dtype):
        return x
    if isinstance(x, Const):
        folded = _cast_constant(dtype, x.value)
        if folded is not None:
            return folded
    if isinstance(x, Broadcast):
        return Broadcast(cast(dtype, x.value), x.lanes)
    return Cast(dtype, x)


def _cast_constant(dtype: str, value: float) -> Const | None:
    if dtype == dtypes.BOOL:
        return Const(value != 0, dtype)
    if dtypes.is_float(dtype):
        return Const(value, dtype)
    if isinstance(value, float):
        return Const(dtypes.saturated(value, dtype), dtype)
    return _integer(int(value), dtype)


def logical_not(a: Any) -> Expr:
    """Negation of a condition."""
    x = convert(a)
    if x.dtype != dtypes.BOOL:
        raise IRError(f"not takes a condition, not {x.dtype}")
    if isinstance(x, Const):
        return Const(not x.value, dtypes.BOOL)
    return x.a if isinstance(x, Not) else Not(x)


def select(condition: Any, true: Any, false: Any) -> Expr:
    """Return `true` where `condition` holds, else `false`; both sides are evaluated."""
    test, x, y = _choice("select", condition, true, false)
    if isinstance(test, Const):
        return x if test.value else y
    return x if x is y else Select(test, x, y)


def if_then_else(condition: Any, true: Any, false: Any) -> Expr:
    """As `select`, but only the chosen side is evaluated, so the other may be out of bounds."""
    test, x, y = _choice("if_then_else", condition, true, false)
    if isinstance(test, Const):
        return x if test.value else y
    return Call("if_then_else", (test, x, y), x.dtype)


def _choice(name: str, condition: Any, true: Any, false: Any) -> tuple[Expr, Expr, Expr]:
    test = convert(condition)
    if test.dtype != dtypes.BOOL:
        raise IRError(f"{name} takes a condition first, not {test.dtype}")
    return (test, *_matched(true, false))


def likely(condition: Expr) -> Expr:
    """Mark a guard that is nearly always true."""
    return condition if isinstance(condition, Const) else Call("likely", (condition,), dtypes.BOOL)


def gcd(a: Expr, b: Expr) -> Expr:
    """Greatest common divisor of two non-negative integers."""
    x, y = _matched(a, b)
    if isinstance(x, Const) and isinstance(y, Const):
        return Const(math.gcd(int(x.value), int(y.value)), x.dtype)
    for this, other in ((x, y), (y, x)):
        if isinstance(this, Const) and this.value in (0, 1):
            return this if this.value == 1 else other
        if isinstance(this, Const) and _factor_of(other) % this.value == 0:
            return this
    return x if x is y else Call("gcd", (x, y), x.dtype)


def _factor_of(expr: Expr) -> int:
    """Return a number that certainly divides an integer expression; 0 if it is 0."""
    match expr:
        case Const():
            return abs(int(expr.value))
        case Cast():
            return _factor_of(expr.a)
        case BinaryOp(op="*"):
            return _factor_of(expr.a) * _factor_of(expr.b)
        case BinaryOp(op="+" | "-" | "min" | "max"):
            return math.gcd(_factor_of(expr.a), _factor_of(expr.b))
    return 1
