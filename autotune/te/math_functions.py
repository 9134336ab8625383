"""Element-wise functions and conditions of the tensor-expression language.

Accuracy and special values of every function are in docs/intrinsics.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.expr import Call, Const, Expr, Select
from autotune.ir.intrinsics import INTRINSICS
from autotune.ir.ops import binary, convert
from autotune.te.reduction import max as larger
from autotune.te.reduction import min as smaller

# They leave integers as they are.
_ROUNDINGS = ("floor", "ceil", "round", "trunc")
_Function = TypeVar("_Function", bound=Callable[..., Expr])


def _call(name: str, *args: Any, spelling: str | None = None) -> Expr:
    """Call the intrinsic `name`, which messages call ``te.<spelling>``."""
    exprs = [convert(arg) for arg in args]
    known, dtype = INTRINSICS[name], exprs[0].dtype
    for expr in exprs:
        if not known.accepts(expr.dtype):
            remedy = "float32" if known.takes == "float" else "int32"
            raise IRError(
                f"te.{spelling or name} takes {known.takes}s, got `{expr}` of type {expr.dtype}: "
                f"use .astype({remedy!r}) first"
            )
        if expr.dtype != dtype:
            raise IRError(
                f"te.{spelling or name} takes operands of one type, got `{exprs[0]}` of {dtype} "
                f"and `{expr}` of {expr.dtype}: use .astype first"
            )
    return Call(name, tuple(exprs), known.gives or dtype)


def _pair(x: Any, y: Any) -> tuple[Expr, Expr]:
    """Convert two operands; a bare number takes the type of a float beside it."""
    a, b = convert(x), convert(y)
    if isinstance(a, Const) and not isinstance(x, Expr) and dtypes.is_float(b.dtype):
        return convert(x, b.dtype), b
    if isinstance(b, Const) and not isinstance(y, Expr) and dtypes.is_float(a.dtype):
        return a, convert(y, a.dtype)
    return a, b


def _whole_pair(x: Any, y: Any) -> tuple[Expr, Expr]:
    """Convert two operands; a bare whole number takes the type of an integer beside it."""
    a, b = convert(x), convert(y)
    if isinstance(a, Const) and isinstance(x, int) and dtypes.is_integer(b.dtype):
        return const(x, b.dtype), b
    if isinstance(b, Const) and isinstance(y, int) and dtypes.is_integer(a.dtype):
        return a, const(y, a.dtype)
    return a, b


def const(value: float, dtype: str | None = None) -> Const:
    """Constant of the given type (int32, float32 or bool by its Python type if None).

    Raises
    ------
    IRError
        If the value is no number, an integer type cannot hold it, or a float type is too small.
    """
    natural = dtypes.of_value(value)
    own = dtypes.check(dtype or natural)
    if not dtypes.fits(value, own):
        raise IRError(f"te.const: {dtypes.number_text(value)} does not fit in {own}")
    return Const(value, own)


def min_value(dtype: str) -> Const:
    """Lowest finite value of a type, as a constant of it."""
    return Const(dtypes.min_value(dtype), dtype)


def max_value(dtype: str) -> Const:
    """Highest finite value of a type, as a constant of it."""
    return Const(dtypes.max_value(dtype), dtype)


def _of_one(name: str, doc: str) -> Callable[[Any], Expr]:
    """Return the function of one operand that calls an intrinsic."""

    def call(x: Any) -> Expr:
        expr = convert(x)
        keeps = name in _ROUNDINGS and dtypes.is_integer(expr.dtype)
        return expr if keeps else _call(name, expr)

    return _described(call, name, doc)


def _of_bits(name: str, doc: str) -> Callable[[Any, Any], Expr]:
    """Return the function of two integers that calls an intrinsic."""

    def call(x: Any, y: Any) -> Expr:
        return _call(name, *_whole_pair(x, y))

    return _described(call, name, doc)


def _described(function: _Function, name: str, doc: str) -> _Function:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


exp = _of_one("exp", "Exponential.")
exp2 = _of_one("exp2", "Return 2 to the power of x.")
log = _of_one("log", "Natural logarithm.")
log2 = _of_one("log2", "Logarithm to base 2.")
sqrt = _of_one("sqrt", "Square root, correctly rounded.")
rsqrt = _of_one("rsqrt", "Return 1 / sqrt(x), to the precision of its type.")
sin = _of_one("sin", "Sine of x in radians, of any size.")
cos = _of_one("cos", "Cosine of x in radians, of any size.")
tanh = _of_one("tanh", "Hyperbolic tangent.")
sigmoid = _of_one("sigmoid", "Logistic function 1 / (1 + exp(-x)).")
erf = _of_one("erf", "Error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.")
popcount = _of_one(
    "popcount", "How many bits of an integer are 1, in two's complement, as an integer of its type."
)
floor = _of_one("floor", "Largest whole number not above x; integers stay as they are.")
ceil = _of_one("ceil", "Smallest whole number not below x; integers stay as they are.")
round = _of_one(
    "round", "Nearest whole number, the even one of two as near (as in NumPy); integers stay."
)
trunc = _of_one("trunc", "Nearest whole number on the side of zero; integers stay as they are.")
bitwise_and = _of_bits("bitwise_and", "Bits that are 1 in both of two integers of one type.")
bitwise_or = _of_bits(
    "bitwise_or", "Bits that are 1 in one of two integers of one type, or in both."
)
bitwise_xor = _of_bits("bitwise_xor", "Bits that are 1 in exactly one of two integers of one type.")
shift_left = _of_bits(
    "shift_left", "Bits of an integer, n places up; 0 where n is negative or as large as its width."
)
shift_right_logical = _of_bits(
    "shift_right_logical",
    "Bits of an integer, n places down, zeros above; 0 where n is negative or its width.",
)


def power(x: Any, y: Any) -> Expr:
    """Return x to the power y, both floats; a bare number takes the type of the other."""
    return _call("pow", *_pair(x, y), spelling="power")


pow = power


def fmod(x: Any, y: Any) -> Expr:
    """Exact remainder of x / y with the sign of x, as C's fmod; y must not be 0 to have one."""
    return _call("fmod", *_pair(x, y))


def isnan(x: Any) -> Expr:
    """Whether a float is no number; an integer always is one."""
    expr = convert(x)
    return Const(False, dtypes.BOOL) if dtypes.is_integer(expr.dtype) else _call("isnan", expr)


def bitwise_not(x: Any) -> Expr:
    """Bits of an integer, each one turned over."""
    expr = convert(x)
    ones = dtypes.max_value(expr.dtype) if dtypes.is_unsigned(expr.dtype) else -1
    return (
        bitwise_xor(expr, Const(ones, expr.dtype))
        if dtypes.is_integer(expr.dtype)
        else _call("bitwise_xor", expr, expr, spelling="bitwise_not")
    )


def shift_right(x: Any, n: Any) -> Expr:
    """Bits of an integer, n places down, its sign above; nothing but the sign where n is too large.

    A negative n counts as too large.
    """
    value, places = _whole_pair(x, n)
    if not dtypes.is_integer(value.dtype) or dtypes.is_unsigned(value.dtype):
        return _call("shift_right_logical", value, places, spelling="shift_right")
    zero, ones = Const(0, value.dtype), Const(-1, value.dtype)
    sign = Select(binary("<", value, zero), ones, zero)
    moved = _call("shift_right_logical", bitwise_xor(value, sign), places, spelling="shift_right")
    return bitwise_xor(moved, sign)


def abs(x: Any) -> Expr:
    """Absolute value of a float or an integer (the smallest signed integer has none: it stays)."""
    expr = convert(x)
    if dtypes.is_integer(expr.dtype):
        return expr if dtypes.min_value(expr.dtype) == 0 else binary("max", expr, -expr)
    return _call("abs", expr)


def all(*conditions: Any) -> Expr:
    """Whether every condition holds."""
    return _chain("and", "all", conditions)


def any(*conditions: Any) -> Expr:
    """Whether at least one condition holds."""
    return _chain("or", "any", conditions)


def _chain(op: str, name: str, conditions: tuple[Any, ...]) -> Expr:
    if not conditions:
        raise IRError(f"te.{name} takes at least one condition")
    return reduce(lambda a, b: binary(op, a, b), map(convert, conditions))


def Max(a: Any, b: Any) -> Any:
    """Larger of two values, element by element; a NaN on either side wins."""
    return larger(a, b)


def Min(a: Any, b: Any) -> Any:
    """Smaller of two values, element by element; a NaN on either side wins."""
    return smaller(a, b)
