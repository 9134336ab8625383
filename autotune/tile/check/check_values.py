"""Checks element-wise expressions: names, functions and their arguments, ranks."""

from __future__ import annotations

from autotune.errors import TileError
from autotune.tile.check.check_indices import (
    check_assertion,
    check_division,
    count_arguments,
    refuse_unknown,
)
from autotune.tile.check.check_tensor_functions import CHECKED
from autotune.tile.check.scope import DIMENSION, Kind, Rank, SymbolTable, broadcast
from autotune.tile.syntax import elementwise_functions
from autotune.tile.syntax.syntax_tree import (
    COMPARISONS,
    BinaryExpr,
    CallExpr,
    Conditional,
    Expr,
    Name,
    Negate,
    Number,
)
from autotune.tile.syntax.unparser import expr_code


def check_value(scope: SymbolTable, expr: Expr) -> Kind:
    """Check an element-wise expression and return its kind."""
    match expr:
        case Number(value):
            return DIMENSION if isinstance(value, int) else Kind("tensor")
        case Name():
            return scope.read(expr)
        case Negate(value):
            return check_operand(scope, value)
        case BinaryExpr(op, left, right):
            return _binary(scope, expr, op, check_operand(scope, left), check_operand(scope, right))
        case Conditional(condition, then, otherwise):
            parts = [check_operand(scope, part) for part in (condition, then, otherwise)]
            return Kind("tensor", broadcast(part.rank for part in parts))
        case CallExpr():
            return _call(scope, expr)


def check_operand(scope: SymbolTable, expr: Expr) -> Kind:
    """Check an operand and return its kind."""
    kind = check_value(scope, expr)
    if kind.what == "random":
        raise random_is_no_tensor(scope, expr)
    return kind


def random_is_no_tensor(scope: SymbolTable, expr: Expr) -> TileError:
    """Return the error for a result of `prng_step` in the place of a tensor."""
    code = expr_code(expr)
    return scope.wrong(
        expr.span,
        f"{code} is what prng_step gives, not a tensor",
        f"its numbers are prng_value({code}), the next state is prng_state({code})",
    )


def _binary(scope: SymbolTable, expr: BinaryExpr, op: str, left: Kind, right: Kind) -> Kind:
    if left.what == right.what == "dimension" and op not in COMPARISONS:
        check_division(scope, expr, "for a fraction use a decimal point, as in 1.0 / 2")
        return DIMENSION
    return Kind("tensor", broadcast((left.rank, right.rank)))


def _call(scope: SymbolTable, call: CallExpr) -> Kind:
    name, arguments = call.function.text, call.arguments
    if name.startswith(elementwise_functions.ASSERTION):
        check_assertion(scope, call)
        return DIMENSION
    refuse_unknown(scope, call)
    if name in elementwise_functions.WHOLE:
        count_arguments(scope, call, *elementwise_functions.WHOLE[name])
        return CHECKED[name](scope, call, check_value)
    if name in elementwise_functions.CASTS:
        return _cast(scope, call)
    count_arguments(scope, call, elementwise_functions.ELEMENT_WISE[name].arguments)
    kinds = [check_operand(scope, argument) for argument in arguments]
    if name in elementwise_functions.OF_DIMENSIONS and all(
        kind.what == "dimension" for kind in kinds
    ):
        return DIMENSION
    if name == "builtin_binary_crossentropy" and kinds.pop().rank != Rank():
        raise scope.wrong(
            arguments[2].span,
            f"the last argument of {name} is a number: how many elements there are",
        )
    return Kind("tensor", broadcast(kind.rank for kind in kinds))


def _cast(scope: SymbolTable, call: CallExpr) -> Kind:
    name = call.function.text
    widths = elementwise_functions.CASTS[name]
    words = ", ".join(map(str, widths))
    if name != "as_bool" and len(call.arguments) == 1:
        raise scope.wrong(
            call.span, f"{name} needs a width in bits, one of {words}",
            f"write {name}({expr_code(call.arguments[0])}, 32)",
        )  # fmt: skip
    count_arguments(scope, call, 1 if name == "as_bool" else 2, 2)
    for width in call.arguments[1:]:
        if not isinstance(width, Number) or width.value not in widths:
            problem = f"{name} takes a width of {words} bits, not {expr_code(width)}"
            raise scope.wrong(width.span, problem)
    return Kind("tensor", check_operand(scope, call.arguments[0]).rank)
