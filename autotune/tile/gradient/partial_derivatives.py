"""Partial derivatives of the operations of element-wise expressions, as expressions."""

from __future__ import annotations

import math
from typing import Final

from autotune.tile.syntax.elementwise_functions import ASSERTION
from autotune.tile.syntax.parser import expression
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

#: Functions whose results do not change where their arguments do a little, or are no numbers.
_FLAT: Final = (
    "ceil", "floor", "round", "as_int", "as_uint", "as_bool", "index", "shape", "~",
    "prng_step", "prng_value", "prng_state",
)  # fmt: skip
#: Functions of whole tensors, which `contraction_gradients.pulled_back` differentiates.
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

    `expr`: one operation on names and numbers; none of `OF_FIRST`.
    `position`: index of the operand among the `differentiable` ones.
    `result`: the name of its value.
    `gradient`: gradient of its value, of the value's shape.

    The result has the value's shape, even where the operand was broadcast.
    """
    match expr:
        case Negate():
            return Negate(gradient)
        case BinaryExpr(op, left, right):
            return expression(_ARITHMETIC[op][position], G=gradient, A=left, B=right, Y=result)
        case Conditional(condition):
            return expression(("C ? G : 0", "C ? 0 : G")[position], C=condition, G=gradient)
        case CallExpr(Name("as_float")):
            return gradient
        case CallExpr(Name("pow"), (base, exponent)):
            if position == 0:
                return _by_base(gradient, base, exponent)
            return _by_exponent(gradient, base, exponent, result)
        case CallExpr(Name("builtin_binary_crossentropy"), (x, wanted, _)):
            return expression(_CROSSENTROPY[position], G=gradient, X=x, T=wanted)
        case CallExpr(Name("max" | "min" as function), (a, b)):
            own, other = (a, b) if position == 0 else (b, a)
            sign = ">" if function == "max" else "<"
            text = f"A {sign} B ? G : (A == B ? G / 2 : 0)"
            return expression(text, A=own, B=other, G=gradient)
        case CallExpr(Name(function), (x,)):
            return expression(_FUNCTIONS[function], G=gradient, X=x, Y=result)
    raise AssertionError(f"not an operation: {expr}")


#: By operator A and B: what each adds to its gradient, given the gradient G of the value Y.
_ARITHMETIC: Final = {
    "+": ("G", "G"), "-": ("G", "-G"), "*": ("G * B", "G * A"), "/": ("G / B", "-G * Y / B"),
}  # fmt: skip
#: The derivatives of ``-T log(X) - (1 - T) log(1 - X)`` by X and by T.
_CROSSENTROPY: Final = ("G * ((1 - T) / (1 - X) - T / X)", "G * (log(1 - X) - log(X))")
#: By function of X.
_FUNCTIONS: Final = {
    "abs": "X > 0 ? G : (X < 0 ? -G : 0)", "relu": "X > 0 ? G : 0", "sqrt": "G / (2 * Y)",
    "exp": "G * Y", "log": "G / X", "sin": "G * cos(X)", "cos": "-G * sin(X)",
    "tan": "G * (1 + Y * Y)", "asin": "G / sqrt(1 - X * X)", "acos": "-G / sqrt(1 - X * X)",
    "atan": "G / (1 + X * X)", "sinh": "G * cosh(X)", "cosh": "G * sinh(X)",
    "tanh": "G * (1 - Y * Y)", "sigmoid": "G * Y * (1 - Y)",
}  # fmt: skip


def _by_base(g: Expr, base: Expr, exponent: Expr) -> Expr:
    """Return ``g * e * pow(x, e - 1)``, and 0 for exponents of 0 whatever the base is."""
    if exponent == Number(2) or exponent == Number(2.0):
        return expression("G * 2 * X", G=g, X=base)
    if isinstance(exponent, Number) and exponent.value >= 1:
        lower: Expr = Number(exponent.value - 1)
    else:
        lower = expression("E - 1", E=exponent)
    slope = expression("G * E * pow(X, L)", G=g, E=exponent, X=base, L=lower)
    if isinstance(exponent, Number) and exponent.value:
        return slope
    return expression("E == 0 ? 0 : S", E=exponent, S=slope)


def _by_exponent(g: Expr, base: Expr, exponent: Expr, y: Expr) -> Expr:
    """Return ``g * y * log(x)``, and 0 for a base of 0."""
    if isinstance(base, Number) and base.value > 0:
        log = math.log(base.value)  # of a literal, so that it has as many digits as its neighbour
        literal = Number(log) if log >= 0 else Negate(Number(-log))
        return expression("G * Y * L", G=g, Y=y, L=literal)
    # A number has the exponent's type beside it, but none alone.
    inside = base if isinstance(base, Name) else expression("E == E ? X : E", E=exponent, X=base)
    return expression("X == 0 ? 0 : G * Y * log(I)", X=base, G=g, Y=y, I=inside)
