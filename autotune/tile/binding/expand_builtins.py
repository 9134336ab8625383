"""Replaces built-in functions in expressions by the results of their expansions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from autotune.tile.binding.bound_program import TensorType
from autotune.tile.binding.builtin_functions import EXPANDED_FUNCTIONS, statements_of
from autotune.tile.binding.random_generator import GENERATORS, WORDS
from autotune.tile.binding.tensor_sizes import check_elements, shape_of
from autotune.tile.binding.type_inference import whole_number
from autotune.tile.syntax.error_locations import tile_error
from autotune.tile.syntax.fresh_names import TileNameSupply
from autotune.tile.syntax.syntax_tree import (
    Assignment,
    CallExpr,
    Expr,
    Function,
    Name,
    Number,
    Span,
    Statement,
    with_operands,
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
        names: TileNameSupply,
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
        rows, numbers, like = types
        whole_number(self.function, call.arguments[1], numbers)
        if not like.shape or rows.shape[: len(numbers.shape)] != numbers.shape:
            raise tile_error(
                self.function,
                call.span,
                f"scatter takes rows and a number for each: shapes {list(rows.shape)} and "
                f"{list(numbers.shape)} do not begin alike",
                "scatter(Rows, Numbers, Like) has as many rows as Like",
            )
