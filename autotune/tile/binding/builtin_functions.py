"""Built-in functions that expand to several statements, written as Tile functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from autotune.tile.binding.bound_program import TensorType
from autotune.tile.binding.random_generator import random_code
from autotune.tile.syntax.fresh_names import TileNameSupply
from autotune.tile.syntax.parser import parse
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    Assignment,
    Contraction,
    Expr,
    Function,
    IndexConstraint,
    Name,
    Number,
    Span,
    Statement,
    with_operands,
)

_SOFTMAX: Final = """function (X, Rows, Columns) -> (Y) {
    V = reshape(X, Rows, Columns);
    Most[i, 0: Rows, 1] = >(V[i, j]);
    E = exp(V - Most);
    Sum[i, 0: Rows, 1] = +(E[i, j]);
    Y = E / Sum;
}"""
_LOG_SOFTMAX: Final = """function (X, Rows, Columns) -> (Y) {
    V = reshape(X, Rows, Columns);
    Most[i, 0: Rows, 1] = >(V[i, j]);
    Centred = V - Most;
    E = exp(Centred);
    Sum[i, 0: Rows, 1] = +(E[i, j]);
    Y = Centred - log(Sum);
}"""


def _scatter(rows: TensorType, numbers: TensorType, like: TensorType) -> str:
    """Return code that sums rows by their numbers: each row of the result reads all rows."""
    count, places = like.shape[0], len(numbers.shape)
    at = [f"i{k}" for k in range(len(rows.shape))]
    within = "".join(f", {name}" for name in at[places:])
    sizes = "".join(f", {size}" for size in rows.shape[places:])
    return f"""function (E, Numbers, L) -> (Y) {{
        At = max(min(as_int(Numbers, 64), {count - 1}), 0);
        Zero = as_int(0, 32);
        Zeros[r: {count}] = +(Zero[]);
        Own = index(Zeros, 0);
        Y[r{within}: {count}{sizes}] =
            +(Own[r] == At[{", ".join(at[:places])}] ? E[{", ".join(at)}]);
    }}"""


#: The code of each function for arguments of some types; sizes are inserted as they are.
_CODE: Final[dict[str, Callable[..., str]]] = {
    "builtin_softmax": lambda x: _SOFTMAX,
    "builtin_logsoftmax": lambda x: _LOG_SOFTMAX,
    "scatter": _scatter,
}
#: Functions that `statements_of` and `random_statements` expand.
EXPANDED_FUNCTIONS: Final = (*_CODE, "prng_step")


def statements_of(
    name: str,
    arguments: Sequence[Expr],
    types: Sequence[TensorType],
    names: TileNameSupply,
    span: Span,
) -> tuple[list[Statement], list[Name]]:
    """Return the expansion of a call, and the name of its result.

    `name`: "builtin_softmax", "builtin_logsoftmax", "scatter" or "prng_step", which has two
    results: numbers and the next state.
    `arguments`: names of tensors, then sizes.
    `types`: those of the tensors; for "prng_step" of the result.
    `span`: place of the call, for messages.
    """
    code = random_code(math.prod(types[0].shape)) if name == "prng_step" else _CODE[name](*types)
    function = _parsed(code)
    stem = "".join(word.capitalize() for word in name.removeprefix("builtin_").split("_"))
    known: dict[str, Expr] = {
        i.name.text: argument for i, argument in zip(function.inputs, arguments, strict=False)
    }
    for statement in function.statements:
        text = statement.target.text
        known[text] = Name(names.numbered(f"{stem}{text}"), span)
    found = [_placed(statement, known, span) for statement in function.statements]
    results = [known[output.text] for output in function.outputs]
    return found, [result for result in results if isinstance(result, Name)]


@functools.lru_cache(maxsize=64)
def _parsed(code: str) -> Function:
    return parse(code, "built-in function")


def _placed(statement: Statement, known: dict[str, Expr], span: Span) -> Statement:
    """Return a statement with names replaced by expressions, all with one source position."""

    def expr(own: Expr) -> Expr:
        if isinstance(own, Name):
            return replace(known.get(own.text, own), span=span)
        if isinstance(own, Number):
            return replace(own, span=span)
        return replace(with_operands(own, expr), span=span)

    def name(own: Name) -> Name:
        found = expr(own)
        assert isinstance(found, Name)
        return found

    def access(own: AccessExpr) -> AccessExpr:
        return AccessExpr(name(own.tensor), tuple(map(expr, own.indices)), span)

    if isinstance(statement, Assignment):
        return Assignment(name(statement.target), expr(statement.value), span)
    return Contraction(
        access(statement.output),
        tuple(map(expr, statement.sizes)),
        statement.aggregation,
        statement.combination,
        tuple(map(access, statement.inputs)),
        tuple(IndexConstraint(expr(c.form), expr(c.bound), span) for c in statement.constraints),
        None if statement.default is None else name(statement.default),
        span,
    )
