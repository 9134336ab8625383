"""Shapes of function results as expressions over dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from autotune.tile.binding.random_generator import GENERATORS, WORDS
from autotune.tile.gradient.symbolic_shapes import Shape
from autotune.tile.syntax.syntax_tree import Expr, Number

_Of = Callable[[Expr], Shape]
_Arguments = tuple[Expr, ...]


def _first(of: _Of, arguments: _Arguments) -> Shape:
    return of(arguments[0])


def _sizes(of: _Of, arguments: _Arguments) -> Shape:
    return arguments[1:]


def _gather(of: _Of, arguments: _Arguments) -> Shape:
    return (*of(arguments[1]), *of(arguments[0])[1:])


def _scatter(of: _Of, arguments: _Arguments) -> Shape:
    rows, numbers, like = map(of, arguments)
    return (like[0], *rows[len(numbers) :])


#: By function, given the shape of expressions and its arguments; others have that of their operands
#: together.
SHAPES: Final[dict[str, Callable[[_Of, _Arguments], Shape]]] = {
    **dict.fromkeys(("index", "as_float", "as_int", "as_uint", "as_bool", "prng_value"), _first),
    **dict.fromkeys(("reshape", "builtin_softmax", "builtin_logsoftmax", "prng_step"), _sizes),
    "shape": lambda of, arguments: (Number(len(of(arguments[0]))),),
    "gather": _gather,
    "scatter": _scatter,
    "prng_state": lambda of, arguments: (Number(WORDS), Number(GENERATORS)),
}
