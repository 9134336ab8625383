"""Checks arithmetic over dimensions, and that index expressions are linear."""

from __future__ import annotations

from autotune.system.words import counted
from autotune.tile.check.dimension_arithmetic import dimension, division_by_zero, literal
from autotune.tile.check.scope import SymbolTable
from autotune.tile.index_sets.affine_forms import is_index
from autotune.tile.syntax.elementwise_functions import (
    ASSERTION,
    ELEMENT_WISE,
    INSTEAD,
    KNOWN,
    OF_DIMENSIONS,
)
from autotune.tile.syntax.error_locations import nearest
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
    names_in,
)
from autotune.tile.syntax.unparser import expr_code


def check_dimension(scope: SymbolTable, expr: Expr, what: str) -> None:
    """Check that an expression is arithmetic over dimensions; `what` names it in messages."""
    match expr:
        case Number(value) if isinstance(value, int):
            return
        case Name(text) if is_index(text):
            raise scope.wrong(
                expr.span, f"{text} is an index and cannot be in {what}",
                "sizes and bounds are made of dimensions and whole numbers",
            )  # fmt: skip
        case Name(text):
            if scope.read(expr).what != "dimension":
                raise scope.wrong(
                    expr.span, f"{text} is a tensor and cannot be in {what}",
                    "sizes follow from shapes, or are inputs without dimensions that nothing "
                    "reads as a tensor",
                )  # fmt: skip
            return
        case Negate(value):
            check_dimension(scope, value, what)
            return
        case BinaryExpr(op, left, right) if op not in COMPARISONS:
            check_dimension(scope, left, what)
            check_dimension(scope, right, what)
            if op == "/" and is_zero(scope, right):
                raise division_by_zero(scope.function, right)
            return
        case Conditional(condition, then, otherwise):
            check_condition(scope, condition, what)
            check_dimension(scope, then, what)
            check_dimension(scope, otherwise, what)
            return
        case CallExpr(Name(function), arguments) if function in OF_DIMENSIONS:
            count_arguments(scope, expr, ELEMENT_WISE[function].arguments)
            for argument in arguments:
                check_dimension(scope, argument, what)
            return
        case CallExpr(Name(function)) if function.startswith(ASSERTION):
            check_assertion(scope, expr)
            return
        case CallExpr():
            refuse_unknown(scope, expr)
    raise scope.wrong(expr.span, f"{what} is arithmetic over dimensions: {expr_code(expr)} is not")


def check_condition(scope: SymbolTable, expr: Expr, what: str) -> None:
    """Check that an expression is a condition over dimensions."""
    if isinstance(expr, BinaryExpr) and expr.op in (*COMPARISONS, *BITS):
        check_condition(scope, expr.left, what)
        check_condition(scope, expr.right, what)
    else:
        check_dimension(scope, expr, what)


def check_assertion(scope: SymbolTable, call: CallExpr) -> None:
    """Check a call of an assertion on dimensions."""
    count_arguments(scope, call, 1)
    check_condition(scope, call.arguments[0], f"what {call.function.text} checks")


def count_arguments(scope: SymbolTable, call: CallExpr, least: int, most: int | None = -1) -> None:
    """Refuse a call with too few or too many arguments; exactly `least` if `most` is not given."""
    given, most = len(call.arguments), least if most == -1 else most
    if least <= given and (most is None or given <= most):
        return
    expected = counted(least, "argument")
    if most != least:
        expected = f"{expected} or more" if most is None else f"{least} or {most} arguments"
    raise scope.wrong(call.span, f"{call.function.text} takes {expected}, got {given}")


def refuse_unknown(scope: SymbolTable, call: CallExpr) -> None:
    """Raise an error for a call of an unknown function."""
    name = call.function.text
    if name in (*KNOWN, "~") or name.startswith(ASSERTION):
        return
    known = INSTEAD.get(name) or nearest(name, KNOWN)
    raise scope.wrong(
        call.function.span,
        f"there is no function {name}",
        known or f"there are {', '.join(KNOWN)} and {ASSERTION}...",
    )


def is_zero(scope: SymbolTable, expr: Expr) -> bool:
    """Whether an expression is 0 for all sizes: it consists of numbers only."""
    return next(names_in(expr), None) is None and dimension(scope.function, expr, {}) == 0


def check_index(scope: SymbolTable, expr: Expr) -> bool:
    """Check that an expression is linear in indices; return whether it has any."""
    names = list(names_in(expr))
    for name in names:
        if not is_index(name.text) and name.text not in scope.symbols:
            raise scope.undefined(name, in_index=True)
    if names and not any(is_index(name.text) for name in names):
        check_dimension(scope, expr, "an index expression")
        return False
    match expr:
        case Number(value) if isinstance(value, int):
            return False
        case Number(value):
            raise scope.wrong(
                expr.span, f"{value} in an index expression: coefficients are exact",
                "write a fraction, such as i / 2 or 3 * i / 2",
            )  # fmt: skip
        case Name():
            return True
        case Negate(value):
            return check_index(scope, value)
        case BinaryExpr(op, left, right) if op in "+-*/":
            indexed = check_index(scope, left), check_index(scope, right)
            return _linear(scope, expr, op, *indexed)
    if not any(is_index(name.text) for name in names):
        check_dimension(scope, expr, "an index expression")
        return False
    raise scope.wrong(expr.span, f"an index is a linear polynomial, {expr_code(expr)} is not")


def _linear(scope: SymbolTable, expr: BinaryExpr, op: str, left: bool, right: bool) -> bool:
    if (op == "*" and left and right) or (op == "/" and right):
        raise scope.wrong(
            expr.span,
            f"{expr_code(expr)} is not linear in the indices",
            "indices are multiplied by and divided by numbers only",
        )
    return left or right


def check_division(scope: SymbolTable, expr: BinaryExpr, advice: str) -> None:
    """Refuse 1 / 2 outside of sizes and indices, because it could mean 0 or a half."""
    if expr.op != "/" or next(names_in(expr), None) is not None:
        return
    divisor = literal(scope.function, expr.right)
    if divisor == 0:
        raise division_by_zero(scope.function, expr.right)
    if (literal(scope.function, expr.left) / divisor).denominator != 1:
        raise scope.wrong(
            expr.span,
            f"{expr_code(expr)} is not whole, and whole numbers divide into whole numbers",
            advice,
        )
