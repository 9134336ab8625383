"""Expands built-in functions to several statements, which are written as Tile functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from autotune.ir.name_supply import NameSupply
from autotune.tile.binding.bound_program import TensorType
from autotune.tile.binding.random_generator import GENERATORS, WORDS, random_code
from autotune.tile.binding.size_limits import check_elements, shape_of
from autotune.tile.binding.type_inference import whole_number
from autotune.tile.syntax.error_locations import tile_error
from autotune.tile.syntax.parser import parse
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    Assignment,
    CallExpr,
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
#: Functions that `statements_of` and `random_generator.py` expand.
EXPANDED_FUNCTIONS: Final = (*_CODE, "prng_step")


def statements_of(
    name: str,
    arguments: Sequence[Expr],
    types: Sequence[TensorType],
    names: NameSupply,
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


_OF_RANDOM: Final = ("prng_value", "prng_state")


class BuiltinExpander:
    """Expands built-in functions while a function is bound.

    `function`: the function, for messages.
    `names`: supplies names for new tensors.
    `sizes`, `types`: sizes and types that are known so far; `bind` adds to them.
    `bind`: binds a statement.
    """

    def __init__(
        self,
        function: Function,
        names: NameSupply,
        sizes: Mapping[str, int],
        types: Mapping[str, TensorType],
        bind: Callable[[Statement], None],
    ) -> None:
        self.function = function
        self.names = names
        self.sizes = sizes
        self.types = types
        self.bind = bind
        self.random: dict[str, tuple[Name, Name]] = {}

    def plain(self, expr: Expr) -> Expr:
        """Return an expression with its built-in functions expanded."""
        if not isinstance(expr, CallExpr) or expr.function.text not in (
            *EXPANDED_FUNCTIONS,
            *_OF_RANDOM,
        ):
            return replace(with_operands(expr, self.plain), span=expr.span)
        name, arguments = expr.function.text, expr.arguments
        if name in _OF_RANDOM:
            return replace(self.step_of(arguments[0])[_OF_RANDOM.index(name)], span=expr.span)
        count = len(arguments) if name == "scatter" else 1
        tensors = [self.named(argument) for argument in arguments[:count]]
        types = [self.types[tensor.text] for tensor in tensors]
        if name == "scatter":
            self.scattered(expr, types)
        (result,) = self.written_out(name, (*tensors, *arguments[count:]), types, expr.span)
        return result

    def written_out(
        self, name: str, arguments: Sequence[Expr], types: Sequence[TensorType], span: Span
    ) -> list[Name]:
        """Bind the expansion of a call; return the name of its result."""
        statements, results = statements_of(name, arguments, types, self.names, span)
        for statement in statements:
            self.bind(statement)
        return results

    def named(self, expr: Expr) -> Name:
        """Return a name for a tensor."""
        if isinstance(expr, Name):
            return expr
        name = Name(self.names.numbered("Argument"), expr.span)
        self.bind(Assignment(name, expr, expr.span))
        return name

    def random_step(self, name: str, expr: Expr) -> None:
        """Record the name of a step of random numbers."""
        self.random[name] = self.step_of(expr)

    def step_of(self, expr: Expr) -> tuple[Name, Name]:
        """Return the numbers and the state after a step of random numbers."""
        if isinstance(expr, Name):
            return self.random[expr.text]
        assert isinstance(expr, CallExpr)
        state = self.named(expr.arguments[0])
        own, wanted = self.types[state.text], TensorType((WORDS, GENERATORS), "uint32")
        if own != wanted:
            raise tile_error(
                self.function,
                expr.arguments[0].span,
                f"the state of prng_step is uint32{list(wanted.shape)}, "
                f"got {own.dtype}{list(own.shape)}",
            )
        shape = shape_of(self.function, "the result", expr.arguments[1:], self.sizes)
        check_elements(self.function, expr.span, "the result", shape)
        result = TensorType(shape, "float32")
        value, state = self.written_out("prng_step", (state,), (result,), expr.span)
        shaped = Name(self.names.numbered("PrngNumbers"), expr.span)
        sizes = (Number(size, expr.span) for size in shape)
        call = CallExpr(Name("reshape", expr.span), (value, *sizes), expr.span)
        self.bind(Assignment(shaped, call, expr.span))
        return shaped, state

    def scattered(self, call: CallExpr, types: Sequence[TensorType]) -> None:
        """Raise an error unless each row has one number."""
        rows, numbers, _ = types
        whole_number(self.function, call.arguments[1], numbers)
        if rows.shape[: len(numbers.shape)] != numbers.shape:
            raise tile_error(
                self.function,
                call.span,
                f"scatter takes rows and a number for each: shapes {list(rows.shape)} and "
                f"{list(numbers.shape)} do not begin alike",
                "scatter(Rows, Numbers, Like) has as many rows as Like",
            )
