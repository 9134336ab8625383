"""Arguments of a Tile function on a command line: sizes by --set, shapes by --shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from autotune.errors import UsageError
from autotune.operators.tile_template import (
    bound_program,
    read_function,
    shape_of,
    shape_text,
    size_of,
    value_of,
)
from autotune.template import Template
from autotune.tile.check.size_inputs import size_inputs
from autotune.tile.syntax.error_locations import nearest


def tile_arguments(
    template: Template, path: str, settings: Mapping[str, str], shapes: Mapping[str, str]
) -> dict[str, str]:
    """Return the arguments of a Tile function's template as texts, shapes and sizes read.

    template: that of the function.
    path: its file.
    settings: sizes of the dimensions in the header and inputs that are sizes, and ``dtype``.
    shapes: shapes of the inputs that have no dimensions there: ``"4,5"``, or ``"scalar"``.

    UsageError if one is missing, not known or no size, or (a TileError) they do not fit the
    function.
    """
    sizes = [p.name for p in template.parameters if p.type is int]
    inputs = [p.name for p in template.parameters if p.type is str and p.required]
    for name, text in settings.items():
        if name in inputs:
            raise UsageError(
                f"{path}: {name} is an input without dimensions in the header: give its shape by "
                f"--shape {name}={text}, not by --set"
            )
        if name not in (*sizes, "dtype", "code"):
            raise UsageError(
                f"{path} has no dimension {name} in its header: {_there_are(name, sizes)}"
            )
    for name in shapes:
        if name not in inputs:
            raise UsageError(
                f"{path}: --shape {name}: it has no input of that name without dimensions in the "
                f"header: {_there_are(name, inputs)}"
            )
    given = size_inputs(read_function(path))
    read = {
        name: str((value_of if name in given else size_of)(name, settings[name]))
        for name in sizes
        if name in settings
    }
    read |= {name: shape_text(shape_of(name, text)) for name, text in shapes.items()}
    missing = [f"--set {name}=SIZE" for name in sizes if name not in settings]
    missing += [f"--shape {name}=SIZE,SIZE" for name in inputs if name not in shapes]
    if missing:
        raise UsageError(f"{path} needs {' '.join(missing)}")
    found = {**settings, **read}
    bound_program(
        read_function(path), template.parse_args(found)
    )  # what does not fit is reported here
    return found


def _there_are(name: str, known: Collection[str]) -> str:
    return nearest(name, known) or f"there are {', '.join(known) or 'none'}"
