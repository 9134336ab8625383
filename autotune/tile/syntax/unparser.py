"""Writes a syntax tree as Tile code, with the fewest parentheses that keep the tree."""

from __future__ import annotations

from typing import Final

from autotune.tile.syntax.syntax_tree import (
    COMPARISONS,
    AccessExpr,
    Assignment,
    BinaryExpr,
    CallExpr,
    Conditional,
    Contraction,
    Expr,
    Function,
    Input,
    Name,
    Negate,
    Number,
    Statement,
)

_CONDITIONAL, _BITS, _BOTH, _COMPARISON, _SHIFT, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(9)
_LEVELS: Final = {
    "|": _BITS, "^": _BITS, "&": _BOTH, **dict.fromkeys(COMPARISONS, _COMPARISON),
    "<<": _SHIFT, ">>": _SHIFT, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT,
}  # fmt: skip


def to_code(function: Function) -> str:
    """Return a function as text, one statement per line.

    Parsing the text gives an equal tree. Comments are not part of a tree.
    """
    inputs = ", ".join(map(input_code, function.inputs))
    outputs = ", ".join(name.text for name in function.outputs)
    body = "".join(f"    {statement_code(s)}\n" for s in function.statements)
    return f"function ({inputs}) -> ({outputs}) {{\n{body}}}\n"


def statement_code(statement: Statement) -> str:
    """Return one statement as text, semicolon included."""
    if isinstance(statement, Assignment):
        return f"{statement.target.text} = {expr_code(statement.value)};"
    return _contraction(statement)


def expr_code(expr: Expr, level: int = _CONDITIONAL) -> str:
    """Return an expression as text; in parentheses if it binds less tightly than `level`."""
    own, text = _parts(expr)
    return text if own >= level else f"({text})"


def _parts(expr: Expr) -> tuple[int, str]:
    match expr:
        case Number(value):
            return _PRIMARY, repr(value)
        case Name(text):
            return _PRIMARY, text
        case Negate(value):
            return _UNARY, f"-{expr_code(value, _UNARY)}"
        case CallExpr(Name("~"), (value,)):
            return _UNARY, f"~{expr_code(value, _UNARY)}"
        case CallExpr(function, arguments):
            return _PRIMARY, f"{function.text}({', '.join(map(expr_code, arguments))})"
        case Conditional(condition, then, otherwise):
            chosen = f"{expr_code(then)} : {expr_code(otherwise)}"
            return _CONDITIONAL, f"{expr_code(condition, _BITS)} ? {chosen}"
        case BinaryExpr(op, left, right):
            level = _LEVELS[op]
            alone = level == _COMPARISON or (
                level == _BITS and isinstance(left, BinaryExpr) and left.op != op
            )
            first = level + 1 if alone else level
            return level, f"{expr_code(left, first)} {op} {expr_code(right, level + 1)}"


def input_code(declared: Input) -> str:
    """Return an input as it stands in the header."""
    if declared.dimensions is None:
        return declared.name.text
    return f"{declared.name.text}[{_sums(declared.dimensions)}]"


def _access(access: AccessExpr) -> str:
    return f"{access.tensor.text}[{_sums(access.indices)}]"


def _sums(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(expr_code(e, _SUM) for e in exprs)


def _contraction(statement: Contraction) -> str:
    sizes = f": {_sums(statement.sizes)}" if statement.sizes else ""
    written = f"{statement.target.text}[{_sums(statement.output.indices)}{sizes}]"
    read = [_access(a) for a in statement.inputs]
    if statement.combination == "?":
        combined = f"{read[0]} == {read[1]} ? {read[2]}"
    else:
        combined = f" {statement.combination} ".join(read)
    constraints = "".join(
        f", {expr_code(c.form, _SUM)} < {expr_code(c.bound, _SUM)}" for c in statement.constraints
    )
    default = f" default {statement.default.text}" if statement.default else ""
    return f"{written} = {statement.aggregation}({combined}){constraints}{default};"
