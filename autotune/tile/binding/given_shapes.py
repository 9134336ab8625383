"""Values that the caller of a Tile function gives: shapes, and values of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import UsageError
from autotune.tile.check.dimension_arithmetic import LIMIT, dimension
from autotune.tile.check.size_inputs import size_inputs
from autotune.tile.syntax.error_locations import tile_error, unknown
from autotune.tile.syntax.syntax_tree import Function, names_in


def given_sizes(function: Function, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the values of the inputs that are sizes.

    Raises TileError if one is not given, or too large. Raises UsageError if one is given that the
    function does not have.
    """
    wanted = size_inputs(function)
    for name in sizes:
        if name not in wanted:
            raise unknown(function, "size", name, wanted)
    for declared in function.inputs:
        name = declared.name.text
        if name in wanted and name not in sizes:
            raise tile_error(
                function, declared.span,
                f"the value of {name} is not known, of which sizes are made",
                f"{name} is given as a whole number",
            )  # fmt: skip
        if name in wanted and abs(sizes[name]) >= LIMIT:
            raise tile_error(function, declared.span, f"{name} is too large: give less than 2^62")
    return {name: int(sizes[name]) for name in wanted}


def shapes_of(
    function: Function,
    sizes: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of the inputs, given the sizes in the header.

    Parameters
    ----------
    sizes
        Value of each dimension that the header names, and of the inputs that are sizes.
    shapes
        Shapes of the inputs without dimensions; others may be given instead of their sizes.

    Raises
    ------
    UsageError
        If something is missing, or does not belong to the function.
    """
    given = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    scalars = size_inputs(function)
    declared = {d.text for i in function.inputs for d in i.named.values()} | {*scalars}
    inputs = {i.name.text for i in function.inputs} - {*scalars}
    for what, asked, known in (("dimension", sizes, declared), ("input", given, inputs)):
        for name in asked:
            if name not in known:
                raise unknown(function, what, name, known)
    found = {}
    for i in function.inputs:
        name = i.name.text
        if name in scalars:
            continue
        if name in given:
            found[name] = given[name]
        elif i.dimensions is None:
            raise UsageError(
                f"{function.name}: the shape of input {name} is needed, which has no dimensions "
                f"in the header"
            )
        else:
            named = [n.text for d in i.dimensions for n in names_in(d)]
            missing = [text for text in named if text not in sizes]
            if missing:
                raise UsageError(
                    f"{function.name}: the size of dimension {missing[0]} of input {name} is needed"
                )
            found[name] = tuple(dimension(function, d, sizes) for d in i.dimensions)
    return found
