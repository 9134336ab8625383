"""Element-wise functions and conditions of the tensor-expression language."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.expr import Call, Const, Expr
from autotune.ir.ops import binary, convert


def _float_call(name: str, *args: Any) -> Expr:
    exprs = [convert(arg) for arg in args]
    for expr in exprs:
        if not dtypes.is_float(expr.dtype):
            raise IRError(f"te.{name} takes floats, got `{expr}` of type {expr.dtype}")
        if expr.dtype != exprs[0].dtype:
            raise IRError(f"te.{name}: types differ: {exprs[0].dtype} and {expr.dtype}")
    return Call(name, tuple(exprs), exprs[0].dtype)


def const(value: float, dtype: str | None = None) -> Const:
    """Constant of the given type (int32, float32 or bool by its Python type if None).

    Raises
    ------
    IRError
        If an integer type cannot hold the value.
    """
    own = dtypes.check(dtype or dtypes.of_value(value))
    whole = math.isfinite(value) and value == math.floor(value)
    fits = dtypes.min_value(own) <= value <= dtypes.max_value(own)
    if dtypes.is_integer(own) and not (whole and fits):
        raise IRError(f"te.const: {value!r} does not fit in {own}")
    return Const(value, own)


def exp(x: Any) -> Expr:
    """Exponential."""
    return _float_call("exp", x)


def log(x: Any) -> Expr:
    """Natural logarithm."""
    return _float_call("log", x)


def sqrt(x: Any) -> Expr:
    """Square root."""
    return _float_call("sqrt", x)


def tanh(x: Any) -> Expr:
    """Hyperbolic tangent."""
    return _float_call("tanh", x)


def sigmoid(x: Any) -> Expr:
    """Logistic function 1 / (1 + exp(-x))."""
    return _float_call("sigmoid", x)


def floor(x: Any) -> Expr:
    """Largest whole number not above x."""
    return _float_call("floor", x)


def ceil(x: Any) -> Expr:
    """Smallest whole number not below x."""
    return _float_call("ceil", x)


def power(x: Any, y: Any) -> Expr:
    """Return x to the power y."""
    base = convert(x)
    return _float_call("pow", base, convert(y, base.dtype))


def abs(x: Any) -> Expr:
    """Absolute value of a float or an integer."""
    expr = convert(x)
    if dtypes.is_float(expr.dtype):
        return Call("abs", (expr,), expr.dtype)
    return binary("max", expr, -expr)


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
