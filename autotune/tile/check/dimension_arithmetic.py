"""Arithmetic over dimensions: whole numbers, division rounds down, conditions are 0 or 1."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

from autotune.errors import TileError
from autotune.ir.ops import FOLD
from autotune.tile.index_sets.affine_forms import Affine, affine
from autotune.tile.syntax.elementwise_functions import ASSERTION
from autotune.tile.syntax.error_locations import tile_error
from autotune.tile.syntax.syntax_tree import (
    BinaryExpr,
    CallExpr,
    Conditional,
    Expr,
    Function,
    Name,
    Negate,
    Number,
    names_in,
)
from autotune.tile.syntax.unparser import expr_code

#: Limit of sizes and of all values computed from them.
LIMIT: Final = 2**62


def dimension(function: Function, expr: Expr, sizes: Mapping[str, int]) -> int:
    """Return the value of an expression over dimensions.

    Raises TileError for a division by 0, an assertion that fails, or a value that does not fit in
    63 bits.
    """
    value = _value(function, expr, sizes)
    if abs(value) >= LIMIT:
        raise tile_error(function, expr.span, f"{expr_code(expr)} is too large: {value}")
    return value


def _value(function: Function, expr: Expr, sizes: Mapping[str, int]) -> int:
    match expr:
        case Number(value):
            return int(value)
        case Name(text):
            return sizes[text]
        case Conditional(condition, then, otherwise):
            chosen = then if dimension(function, condition, sizes) else otherwise
            return dimension(function, chosen, sizes)
        case CallExpr(Name(name), (condition,)) if name.startswith(ASSERTION):
            return _asserted(function, expr, condition, sizes)
        case Negate(value):
            return -dimension(function, value, sizes)
        case BinaryExpr("/", left, right):
            a, b = dimension(function, left, sizes), dimension(function, right, sizes)
            if b == 0:
                raise division_by_zero(function, right)
            return a // b
        case BinaryExpr("<<" | ">>" as op, left, right):
            return _shifted(op, dimension(function, left, sizes), dimension(function, right, sizes))
        case BinaryExpr(op, left, right):
            operation: Callable[..., int] = _OPERATORS[op]
            return int(
                operation(dimension(function, left, sizes), dimension(function, right, sizes))
            )
        case CallExpr(Name(name), arguments):
            return _FUNCTIONS[name](*(dimension(function, a, sizes) for a in arguments))
    raise AssertionError(f"not a dimension: {expr}")


_OPERATORS: Final[dict[str, Callable[[int, int], int]]] = {
    **FOLD, "&": operator.and_, "|": operator.or_, "^": operator.xor
}  # fmt: skip
_FUNCTIONS: Final[dict[str, Callable[..., int]]] = {
    "max": max, "min": min, "~": operator.invert,
}  # fmt: skip


def _shifted(op: str, a: int, places: int) -> int:
    """Shift a number like 64 bits: a shift by 64 or more, or by less than 0, gives no bits."""
    if not 0 <= places < 64:
        return -1 if op == ">>" and a < 0 else 0
    return a << places if op == "<<" else a >> places


def _asserted(function: Function, call: Expr, condition: Expr, sizes: Mapping[str, int]) -> int:
    """Return the value of an assertion, which must not be 0."""
    value = dimension(function, condition, sizes)
    if value:
        return value
    names = dict.fromkeys(name.text for name in names_in(condition))
    where = " and ".join(f"{name} = {sizes[name]}" for name in names)
    raise tile_error(
        function, call.span, f"{expr_code(call)} fails" + (f": {where}" if where else "")
    )


def division_by_zero(function: Function, divisor: Expr) -> TileError:
    """Return the error for a divisor that is 0."""
    return tile_error(function, divisor.span, f"division by {expr_code(divisor)}, which is 0")


def literal(function: Function, expr: Expr) -> Fraction:
    """Return the exact value of an expression of whole literals."""
    match expr:
        case Number(value):
            return Fraction(value)
        case Negate(value):
            return -literal(function, value)
        case BinaryExpr("+" | "-" | "*" | "/" as op, left, right):
            a, b = literal(function, left), literal(function, right)
            if op == "/":
                if b == 0:
                    raise division_by_zero(function, right)
                return a / b
            return a + b if op == "+" else a - b if op == "-" else a * b
    return Fraction(dimension(function, expr, {}))


def index_form(function: Function, expr: Expr, sizes: Mapping[str, int] | None = None) -> Affine:
    """Return an index expression as a polynomial; without sizes, its coefficients only.

    Divisions are exact, except those of dimensions by dimensions or numbers, which round down as
    everywhere.

    Raises SizeNeeded if sizes are not given and a coefficient depends on one. Raises TileError for
    a division by 0, or coefficients that do not fit in 63 bits.
    """

    def valued(part: Expr) -> Fraction | None:
        if next(names_in(part), None) is None:
            return literal(function, part)
        return None if sizes is None else Fraction(dimension(function, part, sizes))

    try:
        form = affine(expr, valued)
    except ZeroDivisionError:
        raise tile_error(function, expr.span, f"division by 0 in {expr_code(expr)}") from None
    terms, constant, d = form.whole()
    if max(abs(constant), d, *map(abs, terms.values())) >= LIMIT:
        raise tile_error(function, expr.span, "the index expression has a coefficient above 2^62")
    return form
