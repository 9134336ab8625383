"""Cleans up generated Tile functions: removes unused statements, copies and needless names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from autotune.tile.syntax.elementwise_functions import ASSERTION
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    Assignment,
    CallExpr,
    Contraction,
    Expr,
    Function,
    Name,
    Statement,
    children,
    expressions,
    names_in,
    substituted,
)
from autotune.tile.syntax.unparser import statement_code

#: Largest length of a statement into which names are inlined.
_WIDTH: Final = 88


def cleaned_up(function: Function, made: Collection[str], temporaries: Collection[str]) -> Function:
    """Return a function that computes the same in fewer statements.

    `function`: the function to shorten.
    `made`: names that may be replaced by those of their copies.
    `temporaries`: names that may be inlined where they are read, if that is in one place.
    """
    statements = _used(function, function.statements)
    statements = _without_copies(function, statements, made)
    return replace(function, statements=_written_out(statements, temporaries))


def _reads(statement: Statement) -> list[str]:
    names = [name.text for expr in expressions(statement) for name in names_in(expr)]
    if isinstance(statement, Contraction):
        names += [access.tensor.text for access in statement.inputs]
        names += [statement.default.text] if statement.default else []
    return names


def _asserts(expr: Expr) -> bool:
    """Whether an expression contains an assertion, so that it must be kept."""
    own = isinstance(expr, CallExpr) and expr.function.text.startswith(ASSERTION)
    return own or any(map(_asserts, children(expr)))


def _used(function: Function, statements: Iterable[Statement]) -> list[Statement]:
    needed = {name.text for name in function.outputs}
    kept = []
    for statement in reversed(list(statements)):
        checks = isinstance(statement, Assignment) and _asserts(statement.value)
        if statement.target.text in needed or checks:
            needed.update(_reads(statement))
            kept.append(statement)
    return kept[::-1]


def _without_copies(
    function: Function, statements: list[Statement], made: Collection[str]
) -> list[Statement]:
    """Replace the name of a copied tensor by the name of its copy."""
    replaceable = {s.target.text for s in statements if s.target.text in made}
    replaceable -= {name.text for name in function.outputs}
    renamed: dict[str, Expr] = {}
    kept = []
    for s in statements:
        match s:
            case Assignment(target, Name(text)) if text in replaceable:
                renamed[text] = target
                replaceable.remove(text)
            case _:
                kept.append(s)
    for text in reversed(renamed):  # a copy may have a copy
        renamed[text] = substituted(renamed[text], renamed)
    return [_replaced(s, renamed) for s in kept]


def _written_out(
    statements: list[Statement], temporaries: Collection[str]
) -> tuple[Statement, ...]:
    """Inline temporaries into the only statement that reads them, if it stays short."""
    counts = Counter(name for s in statements for name in _reads(s))
    pending: dict[str, Assignment] = {}
    kept: list[Statement] = []
    for s in statements:
        if not isinstance(s, Assignment):
            kept.append(s)
            continue
        for name in [name for name in dict.fromkeys(_reads(s)) if name in pending]:
            longer = _replaced(s, {name: pending[name].value})
            assert isinstance(longer, Assignment)
            if len(statement_code(longer)) <= _WIDTH:
                kept.remove(pending.pop(name))
                s = longer
        if s.target.text in temporaries and counts[s.target.text] == 1:
            pending[s.target.text] = s
        kept.append(s)
    return tuple(kept)


def _replaced(statement: Statement, values: Mapping[str, Expr]) -> Statement:
    """Return a statement with names replaced by expressions, including its own name."""

    def tensor(name: Name) -> Name:
        value = values.get(name.text, name)
        return value if isinstance(value, Name) else name

    target = tensor(statement.target)
    if isinstance(statement, Assignment):
        return Assignment(target, substituted(statement.value, values))
    return replace(
        statement,
        output=AccessExpr(target, statement.output.indices),
        inputs=tuple(AccessExpr(tensor(a.tensor), a.indices) for a in statement.inputs),
        default=None if statement.default is None else tensor(statement.default),
    )
