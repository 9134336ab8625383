"""Checks element-wise expressions: names, functions and their arguments, ranks."""

from __future__ import annotations

from autotune.tile import functions
from autotune.tile.check_indices import check_dimension, check_division
from autotune.tile.mistakes import counted, nearest
from autotune.tile.printer import expr_code
from autotune.tile.scope import DIMENSION, Kind, Scope
from autotune.tile.syntax import (
    COMPARISONS,
    Binary,
    Call,
    Conditional,
    Expr,
    Name,
    Negate,
    Number,
)


def check_value(scope: Scope, expr: Expr) -> Kind:
    """Check an element-wise expression and say what it is."""
    match expr:
        case Number(value):
            return DIMENSION if isinstance(value, int) else ("tensor", 0)
        case Name():
            return scope.read(expr)
        case Negate(value):
            return check_value(scope, value)
        case Binary(op, left, right):
            return _binary(scope, expr, op, check_value(scope, left), check_value(scope, right))
        case Conditional(condition, then, otherwise):
            ranks = [check_value(scope, part)[1] for part in (condition, then, otherwise)]
            return "tensor", _broadcast(ranks)
        case Call():
            return _call(scope, expr)


def _binary(scope: Scope, expr: Binary, op: str, left: Kind, right: Kind) -> Kind:
    if left[0] == right[0] == "dimension" and op not in COMPARISONS:
        check_division(scope, expr, "for a fraction use a decimal point, as in 1.0 / 2")
        return DIMENSION
    return "tensor", _broadcast([left[1], right[1]])


def _call(scope: Scope, call: Call) -> Kind:
    name, arguments = call.function.text, call.arguments
    if name not in functions.KNOWN:
        known = nearest(name, functions.KNOWN)
        raise scope.wrong(
            call.function.span,
            f"there is no function {name}",
            known or f"there are {', '.join(functions.KNOWN)}",
        )
    if name == "index":
        return _index(scope, call)
    if name == "reshape":
        return _reshape(scope, call)
    if name in functions.CASTS:
        return _cast(scope, call)
    _count(scope, call, functions.ELEMENT_WISE[name].arguments)
    return "tensor", _broadcast([check_value(scope, argument)[1] for argument in arguments])


def _count(scope: Scope, call: Call, expected: int) -> None:
    if len(call.arguments) != expected:
        raise scope.wrong(
            call.span,
            f"{call.function.text} takes {counted(expected, 'argument')}, "
            f"got {len(call.arguments)}",
        )


def _cast(scope: Scope, call: Call) -> Kind:
    name = call.function.text
    widths = functions.CASTS[name]
    words = ", ".join(map(str, widths))
    if widths and len(call.arguments) == 1:
        raise scope.wrong(
            call.span, f"{name} needs a width in bits, one of {words}",
            f"write {name}({expr_code(call.arguments[0])}, 32)",
        )  # fmt: skip
    _count(scope, call, 2 if widths else 1)
    if widths:
        width = call.arguments[1]
        if not isinstance(width, Number) or width.value not in widths:
            problem = f"{name} takes a width of {words} bits, not {expr_code(width)}"
            raise scope.wrong(width.span, problem)
    return "tensor", check_value(scope, call.arguments[0])[1]


def _index(scope: Scope, call: Call) -> Kind:
    _count(scope, call, 2)
    tensor, axis = call.arguments
    kind, rank = check_value(scope, tensor)
    if kind == "dimension":
        raise scope.wrong(tensor.span, f"index takes a tensor, {expr_code(tensor)} is a number")
    if not isinstance(axis, Number) or not isinstance(axis.value, int):
        raise scope.wrong(
            axis.span, f"the axis of index is a whole number, not {expr_code(axis)}",
            "axes are counted from 0",
        )  # fmt: skip
    if rank is not None and axis.value >= rank:
        raise scope.wrong(
            axis.span,
            f"axis {axis.value} of {expr_code(tensor)}, which has {counted(rank, 'dimension')}",
            "axes are counted from 0",
        )
    return "tensor", rank


def _reshape(scope: Scope, call: Call) -> Kind:
    if not call.arguments:
        raise scope.wrong(call.span, "reshape takes a tensor and its new sizes, got nothing")
    if check_value(scope, call.arguments[0])[0] == "dimension":
        raise scope.wrong(call.arguments[0].span, "reshape takes a tensor, not a number")
    for size in call.arguments[1:]:
        check_dimension(scope, size, "a size of reshape")
    return "tensor", len(call.arguments) - 1


def _broadcast(ranks: list[int | None]) -> int | None:
    known = [rank for rank in ranks if rank is not None]
    return max(known) if len(known) == len(ranks) else None
