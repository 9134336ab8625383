"""Sizes of tensors that a function defines, and their limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from autotune.tile.check.dimension_arithmetic import dimension
from autotune.tile.syntax.error_locations import tile_error
from autotune.tile.syntax.syntax_tree import Expr, Function, Number, Span
from autotune.tile.syntax.unparser import expr_code

#: Tensors with more elements than this are refused.
MAX_ELEMENTS: Final = 2**40


def shape_of(
    function: Function, name: str, sizes: Sequence[Expr], known: Mapping[str, int]
) -> tuple[int, ...]:
    """Return the shape of a tensor of some sizes.

    Raises TileError if one is less than 1.
    """
    shape = tuple(dimension(function, size, known) for size in sizes)
    for axis, (expr, size) in enumerate(zip(sizes, shape, strict=True)):
        if size < 1:
            said = str(size) if isinstance(expr, Number) else f"{expr_code(expr)} = {size}"
            raise tile_error(
                function, expr.span,
                f"dimension {axis} of {name} would be {said}: sizes are at least 1",
            )  # fmt: skip
    return shape


def check_elements(function: Function, span: Span, name: str, shape: Sequence[int]) -> None:
    """Refuse a tensor with too many elements."""
    if math.prod(shape) > MAX_ELEMENTS:
        raise tile_error(function, span, f"{name} would have {math.prod(shape)} elements")
