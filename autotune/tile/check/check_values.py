"""Checks element-wise expressions and functions of whole tensors: names, arguments, ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from autotune.errors import TileError
from autotune.system.words import counted
from autotune.tile.check.check_indices import (
    check_assertion,
    check_dimension,
    check_division,
    count_arguments,
    refuse_unknown,
)
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

_Check: TypeAlias = Callable[[SymbolTable, Expr], Kind]


def _tensor(scope: SymbolTable, call: CallExpr, place: int, check: _Check) -> Rank:
    """Check that an argument is a tensor, and return its rank."""
    argument = call.arguments[place]
    kind = check(scope, argument)
    if kind.what == "tensor":
        return kind.rank
    what = "a number" if kind.what == "dimension" else "what prng_step gives"
    raise scope.wrong(
        argument.span, f"{call.function.text} takes a tensor, {expr_code(argument)} is {what}"
    )


def _index(scope: SymbolTable, call: CallExpr, check: _Check) -> Kind:
    rank, axis = _tensor(scope, call, 0, check), call.arguments[1]
    if not isinstance(axis, Number) or not isinstance(axis.value, int):
        raise scope.wrong(
            axis.span, f"the axis of index is a whole number, not {expr_code(axis)}",
            "axes are counted from 0",
        )  # fmt: skip
    if rank.known is not None and axis.value >= rank.known:
        raise scope.wrong(
            axis.span,
            f"axis {axis.value} of {expr_code(call.arguments[0])}, which has "
            f"{counted(rank.known, 'dimension')}",
            "axes are counted from 0",
        )
    return Kind("tensor", rank)


def _reshape(scope: SymbolTable, call: CallExpr, check: _Check) -> Kind:
    if not call.arguments:
        raise scope.wrong(call.span, "reshape takes a tensor and its new sizes, got nothing")
    _tensor(scope, call, 0, check)
    return Kind("tensor", _sizes(scope, call))


def _sizes(scope: SymbolTable, call: CallExpr) -> Rank:
    """Check that the arguments from the second on are sizes; return how many there are."""
    for size in call.arguments[1:]:
        check_dimension(scope, size, f"a size of {call.function.text}")
    return Rank(len(call.arguments) - 1)


def _shape(scope: SymbolTable, call: CallExpr, check: _Check) -> Kind:
    rank = _tensor(scope, call, 0, check)
    if rank.known == 0:
        raise scope.wrong(call.span, f"{expr_code(call.arguments[0])} is a scalar and has no sizes")
    return Kind("tensor", Rank(1))


def _gather(scope: SymbolTable, call: CallExpr, check: _Check) -> Kind:
    rows, numbers = (_tensor(scope, call, place, check) for place in range(2))
    if rows.known == 0:
        raise _no_rows(scope, call, 0)
    if rows.known is None or numbers.known is None:
        return Kind("tensor", _open(call))
    return Kind("tensor", Rank(rows.known - 1 + numbers.known))


def _scatter(scope: SymbolTable, call: CallExpr, check: _Check) -> Kind:
    rows, numbers, like = (_tensor(scope, call, place, check) for place in range(3))
    if like.known == 0:
        raise _no_rows(scope, call, 2)
    if rows.known is None or numbers.known is None:
        return Kind("tensor", _open(call))
    if rows.known < numbers.known:
        raise scope.wrong(
            call.span,
            f"scatter takes rows and a number for each: {expr_code(call.arguments[0])} has "
            f"{counted(rows.known, 'dimension')}, {expr_code(call.arguments[1])} {numbers.known}",
        )
    return Kind("tensor", Rank(rows.known - numbers.known + 1))


def _no_rows(scope: SymbolTable, call: CallExpr, place: int) -> TileError:
    argument = call.arguments[place]
    return scope.wrong(argument.span, f"{expr_code(argument)} is a scalar and has no rows")


def _open(call: CallExpr) -> Rank:
    """Return a rank that depends on the caller's arrays."""
    return Rank(0, frozenset([f"{call.function.text}@{call.span.start}"]))


def _random(scope: SymbolTable, call: CallExpr, check: _Check) -> Kind:
    rank = _tensor(scope, call, 0, check)
    if rank.known not in (None, 2):
        raise scope.wrong(
            call.arguments[0].span,
            f"the state of prng_step has 2 dimensions, uint32[3, 2048], "
            f"{expr_code(call.arguments[0])} has {rank.known}",
        )
    return Kind("random", _sizes(scope, call))


def _of_random(scope: SymbolTable, call: CallExpr, check: _Check) -> Kind:
    name, (argument,) = call.function.text, call.arguments
    kind = check(scope, argument)
    if kind.what != "random":
        raise scope.wrong(
            argument.span,
            f"{name} takes what prng_step gives, {expr_code(argument)} is a {kind.what}",
            "call prng_step in the same function, as in T = prng_step(State, N);",
        )
    return Kind("tensor", kind.rank if name == "prng_value" else Rank(2))


#: By function of `elementwise_functions.WHOLE`: check a call with as many arguments as it takes.
CHECKED: Final[dict[str, Callable[[SymbolTable, CallExpr, _Check], Kind]]] = {
    "index": _index, "reshape": _reshape, "shape": _shape, "gather": _gather, "scatter": _scatter,
    "builtin_softmax": _reshape, "builtin_logsoftmax": _reshape,
    "prng_step": _random, "prng_value": _of_random, "prng_state": _of_random,
}  # fmt: skip


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
