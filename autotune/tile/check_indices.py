"""Checks arithmetic over dimensions, and that index expressions are linear."""

from __future__ import annotations

from autotune.tile.affine import is_index
from autotune.tile.dimensions import division_by_zero, literal
from autotune.tile.printer import expr_code
from autotune.tile.scope import Scope
from autotune.tile.syntax import COMPARISONS, Binary, Expr, Name, Negate, Number, names_in


def check_dimension(scope: Scope, expr: Expr, what: str) -> None:
    """Check that an expression is arithmetic over dimensions; `what` it is, for messages."""
    match expr:
        case Number(value) if isinstance(value, int):
            return None
        case Name(text) if is_index(text):
            raise scope.wrong(
                expr.span, f"{text} is an index and cannot be in {what}",
                "sizes and bounds are made of dimensions and whole numbers",
            )  # fmt: skip
        case Name(text):
            if scope.read(expr)[0] == "tensor":
                raise scope.wrong(expr.span, f"{text} is a tensor and cannot be in {what}")
            return None
        case Negate(value):
            return check_dimension(scope, value, what)
        case Binary(op, left, right) if op not in COMPARISONS:
            check_dimension(scope, left, what)
            check_dimension(scope, right, what)
            return check_division(
                scope, expr, "sizes, bounds and what stands beside an index are whole"
            )
    raise scope.wrong(
        expr.span, f"{what} is arithmetic over dimensions: {expr_code(expr)} is not"
    )


def check_index(scope: Scope, expr: Expr) -> bool:
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
        case Binary(op, left, right) if op not in COMPARISONS:
            indexed = check_index(scope, left), check_index(scope, right)
            return _linear(scope, expr, op, *indexed)
    raise scope.wrong(expr.span, f"an index is a linear polynomial, {expr_code(expr)} is not")


def _linear(scope: Scope, expr: Binary, op: str, left: bool, right: bool) -> bool:
    if (op == "*" and left and right) or (op == "/" and right):
        raise scope.wrong(
            expr.span,
            f"{expr_code(expr)} is not linear in the indices",
            "indices are multiplied by and divided by numbers only",
        )
    return left or right


def check_division(scope: Scope, expr: Binary, advice: str) -> None:
    """Refuse 1 / 2 where it is no coefficient of an index: it could mean 0 or a half."""
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
