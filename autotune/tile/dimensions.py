"""Arithmetic over dimensions: whole numbers, division rounds down."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from autotune.errors import TileError
from autotune.tile.affine import Affine, affine
from autotune.tile.mistakes import mistake
from autotune.tile.printer import expr_code
from autotune.tile.syntax import Binary, Expr, Function, Name, Negate, Number, names_in

#: Sizes and all that is computed from them stay below this.
LIMIT: Final = 2**62


def dimension(function: Function, expr: Expr, sizes: Mapping[str, int]) -> int:
    """Return the value of an expression over dimensions.

    Raises
    ------
    TileError
        For a division by 0, or a value that does not fit in 63 bits.
    """
    value = _value(function, expr, sizes)
    if abs(value) >= LIMIT:
        raise mistake(function, expr.span, f"{expr_code(expr)} is too large: {value}")
    return value


def _value(function: Function, expr: Expr, sizes: Mapping[str, int]) -> int:
    match expr:
        case Number(value):
            return int(value)
        case Name(text):
            return sizes[text]
        case Negate(value):
            return -dimension(function, value, sizes)
        case Binary(op, left, right):
            a, b = dimension(function, left, sizes), dimension(function, right, sizes)
            if op == "/":
                if b == 0:
                    raise division_by_zero(function, right)
                return a // b
            return a + b if op == "+" else a - b if op == "-" else a * b
    raise AssertionError(f"not a dimension: {expr}")


def division_by_zero(function: Function, divisor: Expr) -> TileError:
    """Return the error for a divisor that is 0."""
    return mistake(function, divisor.span, f"division by {expr_code(divisor)}, which is 0")


def literal(function: Function, expr: Expr) -> Fraction:
    """Return the exact value of an expression of whole literals."""
    match expr:
        case Number(value):
            return Fraction(value)
        case Negate(value):
            return -literal(function, value)
        case Binary(op, left, right):
            a, b = literal(function, left), literal(function, right)
            if op == "/":
                if b == 0:
                    raise division_by_zero(function, right)
                return a / b
            return a + b if op == "+" else a - b if op == "-" else a * b
    raise AssertionError(f"not a number: {expr}")


def index_form(
    function: Function, expr: Expr, sizes: Mapping[str, int] | None = None
) -> Affine:
    """Return an index expression as a polynomial; without sizes, its coefficients only.

    Divisions are exact, but for those of dimensions by dimensions or numbers, which round down as
    everywhere else.

    Raises
    ------
    SizeNeeded
        If sizes are not given and a coefficient depends on one.
    TileError
        For a division by 0, or coefficients that do not fit in 63 bits.
    """

    def valued(part: Expr) -> Fraction | None:
        if next(names_in(part), None) is None:
            return literal(function, part)
        return None if sizes is None else Fraction(dimension(function, part, sizes))

    try:
        form = affine(expr, valued)
    except ZeroDivisionError:
        raise mistake(function, expr.span, f"division by 0 in {expr_code(expr)}") from None
    terms, constant, d = form.whole()
    if max(abs(constant), d, *map(abs, terms.values())) >= LIMIT:
        raise mistake(function, expr.span, "the index expression has a coefficient above 2^62")
    return form
