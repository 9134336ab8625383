"""Parses Tile code to a syntax tree; only this file imports lark."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from autotune.errors import ArgumentError
from autotune.tile.syntax.error_locations import tile_error_in
from autotune.tile.syntax.parse_errors import ParseFailure, unexpected, unknown_character
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    Assignment,
    BinaryExpr,
    CallExpr,
    Conditional,
    Contraction,
    Expr,
    Function,
    IndexConstraint,
    Input,
    Name,
    Negate,
    Number,
    Span,
    children,
    expressions,
    substituted,
)

#: Largest nesting of expressions, so that traversals of trees may be recursive.
MAX_DEPTH: Final = 100
#: Largest number of digits of whole numbers, which must fit in 64 bits with room for arithmetic.
MAX_DIGITS: Final = 18


def parse(code: str, name: str = "tile") -> Function:
    """Return the syntax tree of a Tile function.

    Parameters
    ----------
    code
        One function: ``function (A[M, L], B[L, N]) -> (C) { ... }``.
    name
        Name of the text in messages, such as the path of its file.

    Raises
    ------
    TileError
        If the text is not a Tile function; it says where, what was expected and, for common
        mistakes, what to write.
    ArgumentError
        If it is no text.
    """
    if not isinstance(code, str):
        raise ArgumentError(f"Tile code is a str, got a {type(code).__name__}")
    try:
        read: Function = _parser().parse(code)  # type: ignore[assignment]  # of the transformer
    except UnexpectedToken as stop:
        raise unexpected(code, name, _stop(code, stop)) from None
    except UnexpectedCharacters as stop:
        raise unknown_character(code, name, stop.pos_in_stream or 0) from None
    function = Function(read.inputs, read.outputs, read.statements, code, name)
    _check_literals(function)
    return function


def expression(text: str, **values: Expr) -> Expr:
    """Return the tree of an element-wise expression, with others in the place of some names."""
    return substituted(_expression(text), values)


@functools.cache
def _expression(text: str) -> Expr:
    (statement,) = parse(f"function (X) -> (Y) {{ Y = {text}; }}").statements
    assert isinstance(statement, Assignment)
    return statement.value


class _Builder(Transformer[Token, Any]):
    """Makes the nodes of the tree while the text is parsed, from the leaves up.

    The items of a rule are its tokens and the nodes of its parts.
    """

    def name(self, items: list[Any]) -> Name:
        return Name(str(items[0]), _span(items))

    def number(self, items: list[Any]) -> Number:
        text = str(items[0])
        whole = text.isdigit() and len(text) <= MAX_DIGITS
        return Number(int(text) if whole else float(text), _span(items))

    def group(self, items: list[Any]) -> Expr:
        inner: Expr = items[1]
        return inner

    def negate(self, items: list[Any]) -> Negate:
        return Negate(items[1], _span(items))

    def invert(self, items: list[Any]) -> CallExpr:
        return CallExpr(Name(str(items[0]), _span(items[:1])), (items[1],), _span(items))

    def binary(self, items: list[Any]) -> BinaryExpr:
        return BinaryExpr(str(items[1]), items[0], items[2], _span(items))

    def conditional(self, items: list[Any]) -> Conditional:
        return Conditional(items[0], items[2], items[4], _span(items))

    def call(self, items: list[Any]) -> CallExpr:
        return CallExpr(items[0], _listed(items[2:]), _span(items))

    def listed(self, items: list[Any]) -> tuple[Any, ...]:
        return _listed(items)

    sums = sizes = listed

    def access(self, items: list[Any]) -> AccessExpr:
        return AccessExpr(items[0], items[2], _span(items))

    def constraint(self, items: list[Any]) -> IndexConstraint:
        return IndexConstraint(items[0], items[2], _span(items))

    def combination(self, items: list[Any]) -> tuple[str, tuple[AccessExpr, ...]]:
        signs = [str(item) for item in items if isinstance(item, Token)]
        return signs[-1] if signs else "", _listed(items)

    def written(self, items: list[Any]) -> tuple[AccessExpr, tuple[Expr, ...]]:
        sizes = next((item for item in items[3:] if not isinstance(item, Token)), ())
        return AccessExpr(items[0], items[2], _span(items)), sizes

    def aggregation(self, items: list[Any]) -> str:
        return str(items[0])

    def behind(self, items: list[Any]) -> tuple[Name | None]:
        return (next(iter(_listed(items)), None),)

    def contraction(self, items: list[Any]) -> Contraction:
        (output, sizes), aggregation, (sign, inputs) = items[0], items[2], items[4]
        *constraints, (default,) = _listed(items[6:])
        return Contraction(
            output, sizes, aggregation, sign, inputs, tuple(constraints), default,
            Span(output.span.start, items[-1].end_pos),
        )  # fmt: skip

    def assignment(self, items: list[Any]) -> Assignment:
        return Assignment(items[0], items[2], _span(items))

    def input(self, items: list[Any]) -> Input:
        return Input(items[0], items[2] if len(items) > 1 else None, _span(items))

    def start(self, items: list[Any]) -> Function:
        return Function(
            tuple(i for i in items if isinstance(i, Input)),
            tuple(i for i in items if isinstance(i, Name)),
            tuple(i for i in items if isinstance(i, Assignment | Contraction)),
        )


def _listed(items: list[Any]) -> tuple[Any, ...]:
    """Return the items between commas and brackets."""
    return tuple(item for item in items if not isinstance(item, Token))


def _span(items: list[Any]) -> Span:
    first, last = items[0], items[-1]
    start = first.start_pos or 0 if isinstance(first, Token) else first.span.start
    return Span(start, last.end_pos or 0 if isinstance(last, Token) else last.span.end)


@functools.cache
def _parser() -> Lark:
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        parser="lalr",
        transformer=_Builder(),
        keep_all_tokens=True,
        maybe_placeholders=False,
    )


def _check_literals(function: Function) -> None:
    """Raise an error for too deep expressions, and for numbers that no type can represent."""
    pending = [(e, 1) for declared in function.inputs for e in declared.dimensions or ()]
    pending += [(e, 1) for statement in function.statements for e in expressions(statement)]
    while pending:
        expr, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise tile_error_in(
                function.source,
                function.name,
                expr.span.start,
                f"an expression nests more than {MAX_DEPTH} operations",
                "give part of it a name in a statement of its own",
            )
        if isinstance(expr, Number):
            _check_number(function, expr)
        pending += [(child, depth + 1) for child in children(expr)]


def _check_number(function: Function, number: Number) -> None:
    text = function.source[number.span.start : number.span.end]
    if text.isdigit() and len(text) > MAX_DIGITS:
        problem = f"a whole number may have at most {MAX_DIGITS} digits"
    elif not math.isfinite(number.value):
        problem = "the number is larger than any float64"
    else:
        return
    raise tile_error_in(function.source, function.name, number.span.start, problem)


def _stop(code: str, error: UnexpectedToken) -> ParseFailure:
    """Return the facts for a diagnosis, without lark's classes."""
    token = error.token
    expected = frozenset(error.accepts or error.expected)
    if token.type == "$END":
        return ParseFailure("$END", "", len(code), expected)
    return ParseFailure(token.type, str(token), token.start_pos or 0, expected)
