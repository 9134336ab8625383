"""Partial derivatives of the operations of element-wise expressions, as expressions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from autotune.tile.syntax.elementwise_functions import ASSERTION
from autotune.tile.syntax.syntax_tree import (
    BITS,
    COMPARISONS,
    BinaryExpr,
    CallExpr,
    Conditional,
    Expr,
    Name,
    Negate,
    Number,
    children,
)

_ZERO, _ONE, _TWO = Number(0), Number(1), Number(2)
#: Functions with derivative 0, or with results that are not numbers.
_FLAT: Final = (
    "ceil", "floor", "round", "as_int", "as_uint", "as_bool", "index", "shape", "~",
    "prng_step", "prng_value", "prng_state",
)  # fmt: skip
#: Functions of whole tensors: `tensor_function_gradients.py` differentiates by the first operand.
OF_FIRST: Final = ("reshape", "gather", "scatter", "builtin_softmax", "builtin_logsoftmax")


def differentiable(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands by which an operation can be differentiated."""
    match expr:
        case BinaryExpr(op) if op in (*COMPARISONS, *BITS):
            return ()
        case Conditional(_, then, otherwise):
            return (then, otherwise)
        case CallExpr(Name(function), arguments):
            if function in _FLAT or function.startswith(ASSERTION):
                return ()
            if function == "builtin_binary_crossentropy":
                return arguments[:2]
            return arguments[:1] if function in (*OF_FIRST, "as_float") else arguments
    return children(expr)


def partial(expr: Expr, position: int, result: Expr, gradient: Expr) -> Expr:
    """Return the contribution of an operation to the gradient of one operand.

    Parameters
    ----------
    expr
        One operation on names and numbers; none of `OF_FIRST`.
    position
        Index of the operand among the `differentiable` ones.
    result
        The name of its value.
    gradient
        Gradient of its value, of the value's shape.

    Returns
    -------
    Expr
        Of the value's shape, even where the operand was broadcast.
    """
    match expr:
        case Negate():
            return Negate(gradient)
        case BinaryExpr(op, left, right):
            return _ARITHMETIC[op][position](gradient, left, right, result)
        case Conditional(condition):
            sides = (gradient, _ZERO) if position == 0 else (_ZERO, gradient)
            return Conditional(condition, *sides)
        case CallExpr(Name("as_float")):
            return gradient
        case CallExpr(Name("pow"), (base, exponent)):
            by = _by_base if position == 0 else _by_exponent
            return by(gradient, base, exponent, result)
        case CallExpr(Name("builtin_binary_crossentropy"), (x, wanted, _)):
            return _crossentropy(gradient, x, wanted, position)
        case CallExpr(Name("max" | "min" as function), (a, b)):
            own, other = (a, b) if position == 0 else (b, a)
            wins = BinaryExpr(">" if function == "max" else "<", own, other)
            tie = Conditional(BinaryExpr("==", own, other), _over(gradient, _TWO), _ZERO)
            return Conditional(wins, gradient, tie)
        case CallExpr(Name(function), (x,)):
            return _FUNCTIONS[function](gradient, x, result)
    raise AssertionError(f"not an operation: {expr}")


def _times(a: Expr, b: Expr) -> Expr:
    return BinaryExpr("*", a, b)


def _over(a: Expr, b: Expr) -> Expr:
    return BinaryExpr("/", a, b)


def _call(function: str, *arguments: Expr) -> Expr:
    return CallExpr(Name(function), arguments)


def _square(x: Expr) -> Expr:
    return _times(x, x)


_Operator = Callable[[Expr, Expr, Expr, Expr], Expr]
_ARITHMETIC: Final[dict[str, tuple[_Operator, _Operator]]] = {
    "+": (lambda g, a, b, y: g, lambda g, a, b, y: g),
    "-": (lambda g, a, b, y: g, lambda g, a, b, y: Negate(g)),
    "*": (lambda g, a, b, y: _times(g, b), lambda g, a, b, y: _times(g, a)),
    "/": (
        lambda g, a, b, y: _over(g, b),
        lambda g, a, b, y: _over(_times(Negate(g), y), b),
    ),
}


def _sign(g: Expr, x: Expr, y: Expr) -> Expr:
    negative = Conditional(BinaryExpr("<", x, _ZERO), Negate(g), _ZERO)
    return Conditional(BinaryExpr(">", x, _ZERO), g, negative)


def _rest(x: Expr) -> Expr:
    return _call("sqrt", BinaryExpr("-", _ONE, _square(x)))


def _crossentropy(g: Expr, x: Expr, wanted: Expr, position: int) -> Expr:
    """Return the derivative of ``-t log(x) - (1 - t) log(1 - x)`` by x or by t."""
    rest = BinaryExpr("-", _ONE, x)
    if position == 0:
        without = _over(BinaryExpr("-", _ONE, wanted), rest)
        return _times(g, BinaryExpr("-", without, _over(wanted, x)))
    return _times(g, BinaryExpr("-", _call("log", rest), _call("log", x)))


#: For each function: (gradient of the value, argument, value) -> gradient of the argument.
_FUNCTIONS: Final[dict[str, Callable[[Expr, Expr, Expr], Expr]]] = {
    "abs": _sign,
    "relu": lambda g, x, y: Conditional(BinaryExpr(">", x, _ZERO), g, _ZERO),
    "sqrt": lambda g, x, y: _over(g, _times(_TWO, y)),
    "exp": lambda g, x, y: _times(g, y),
    "log": lambda g, x, y: _over(g, x),
    "sin": lambda g, x, y: _times(g, _call("cos", x)),
    "cos": lambda g, x, y: _times(Negate(g), _call("sin", x)),
    "tan": lambda g, x, y: _times(g, BinaryExpr("+", _ONE, _square(y))),
    "asin": lambda g, x, y: _over(g, _rest(x)),
    "acos": lambda g, x, y: _over(Negate(g), _rest(x)),
    "atan": lambda g, x, y: _over(g, BinaryExpr("+", _ONE, _square(x))),
    "sinh": lambda g, x, y: _times(g, _call("cosh", x)),
    "cosh": lambda g, x, y: _times(g, _call("sinh", x)),
    "tanh": lambda g, x, y: _times(g, BinaryExpr("-", _ONE, _square(y))),
    "sigmoid": lambda g, x, y: _times(_times(g, y), BinaryExpr("-", _ONE, y)),
}


def _by_base(g: Expr, base: Expr, exponent: Expr, y: Expr) -> Expr:
    """Return ``g * e * pow(x, e - 1)``, and 0 for exponents of 0 and any base."""
    if exponent == _TWO or exponent == Number(2.0):
        return _times(_times(g, _TWO), base)
    if isinstance(exponent, Number) and exponent.value >= 1:
        lower = _call("pow", base, Number(exponent.value - 1))
    else:
        lower = _call("pow", base, BinaryExpr("-", exponent, _ONE))
    slope = _times(_times(g, exponent), lower)
    if isinstance(exponent, Number) and exponent.value:
        return slope
    return Conditional(BinaryExpr("==", exponent, _ZERO), _ZERO, slope)


def _by_exponent(g: Expr, base: Expr, exponent: Expr, y: Expr) -> Expr:
    """Return ``g * y * log(x)``, and 0 for a base of 0."""
    if isinstance(base, Number) and base.value > 0:
        log = math.log(base.value)  # of a literal, so that it has the type of its neighbour
        return _times(_times(g, y), Number(log) if log >= 0 else Negate(Number(-log)))
    # A number beside the exponent has its type, but a number alone has none.
    typed = Conditional(BinaryExpr("==", exponent, exponent), base, exponent)
    inside = base if isinstance(base, Name) else typed
    slope = _times(_times(g, y), _call("log", inside))
    return Conditional(BinaryExpr("==", base, _ZERO), _ZERO, slope)
