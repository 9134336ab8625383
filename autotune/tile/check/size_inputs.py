"""Finds the inputs of a Tile function that are sizes instead of tensors."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.tile.index_sets.affine_forms import is_index
from autotune.tile.syntax.elementwise_functions import ASSERTION
from autotune.tile.syntax.syntax_tree import (
    Assignment,
    CallExpr,
    Contraction,
    Expr,
    Function,
    Statement,
    children,
    names_in,
)

#: Functions whose arguments from the second on are sizes.
_TAKE_SIZES = ("reshape", "prng_step", "builtin_softmax", "builtin_logsoftmax")


def size_inputs(function: Function) -> tuple[str, ...]:
    """Return the inputs that are called with whole numbers, in order.

    These are scalars that a size, a bound or an index expression uses, as in ``function (X[N], M)
    -> (O) { O[i: M] = =(X[i]); }``.
    """
    scalars = [i.name.text for i in function.inputs if not i.dimensions]
    if not scalars:
        return ()
    wanted, read = in_sizes(function), set(_tensors(function))
    return tuple(name for name in scalars if name in wanted and name not in read)


def in_sizes(function: Function) -> frozenset[str]:
    """Return names that a size, a bound or an index expression uses, also indirectly."""
    found = {n.text for i in function.inputs for d in i.dimensions or () for n in names_in(d)}
    for statement in reversed(function.statements):
        for expr in _sizes(statement, statement.target.text in found):
            found |= {name.text for name in names_in(expr) if not is_index(name.text)}
    return frozenset(found)


def _sizes(statement: Statement, is_size: bool) -> Iterator[Expr]:
    """Yield the arithmetic over dimensions in a statement, also its own value if it is needed."""
    if isinstance(statement, Assignment):
        yield from (statement.value,) if is_size else _arguments(statement.value)
        return
    yield from statement.output.indices
    yield from statement.sizes
    for access in statement.inputs:
        yield from access.indices
    for constraint in statement.constraints:
        yield from (constraint.form, constraint.bound)


def _arguments(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, CallExpr):
        name = expr.function.text
        if name in _TAKE_SIZES:
            yield from expr.arguments[1:]
        elif name.startswith(ASSERTION):
            yield from expr.arguments
    for child in children(expr):
        yield from _arguments(child)


def _tensors(function: Function) -> Iterator[str]:
    """Yield names that are read with indices, or element by element."""
    for statement in function.statements:
        if isinstance(statement, Contraction):
            yield from (access.tensor.text for access in statement.inputs)
            yield from [statement.default.text] if statement.default else []
