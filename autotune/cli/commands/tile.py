"""`autotune tile`: checks Tile functions, and shows their loops, code and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autotune.cli.options.task_arguments import parse_settings
from autotune.cli.options.tile_arguments import tile_arguments
from autotune.cli.terminal.output import print_line
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.tile import Program
    from autotune.tile.check.scope import Symbol
    from autotune.tile.to_te.program_to_te import Tensors


def check_command(file: str) -> None:
    """Print what a Tile function takes and gives.

    Raises
    ------
    UsageError
        If the file cannot be read, or (a TileError) is no Tile function that can be right.
    """
    from autotune.operators.tile_template import read_function
    from autotune.tile import check
    from autotune.tile.syntax.unparser import input_code

    function = read_function(file)
    symbols = check(function)
    inputs = ", ".join(map(input_code, function.inputs))
    outputs = ", ".join(_ranked(symbols[name.text]) for name in function.outputs)
    print_line(f"{file}: ({inputs}) -> ({outputs})")


def show_command(
    file: str, settings: Sequence[str], shapes: Sequence[str], target: str, views: Sequence[str]
) -> None:
    """Print a Tile function at some sizes: "te", "ir" (the default) or "source".

    Raises
    ------
    UsageError
        If an argument is not what it should be.
    """
    from autotune.builder import build, lower
    from autotune.operators.tile_template import default_schedule
    from autotune.target import Target
    from autotune.tile.to_te.program_to_te import to_te

    if len(views) > 1:
        asked = " and ".join(f"--{view}" for view in views)
        raise UsageError(f"{asked} cannot be asked for at once: choose one")
    view, wanted = views[0] if views else "ir", Target.of(target)
    program = _bound(file, settings, shapes)
    if view == "te":
        print_line(_expressions(to_te(program)))
        return
    schedule, parameters = default_schedule(program, wanted)
    if view == "ir":
        print_line(str(lower(schedule, parameters, simple_mode=True, name="tile")).rstrip())
    else:
        print_line(build(schedule, parameters, wanted, name="tile").source.rstrip())


def grad_command(
    file: str, wrt: Sequence[str], ranks: Sequence[str], shapes: Sequence[str]
) -> None:
    """Print the gradients of a Tile function, in Tile; by all inputs if `wrt` is empty.

    Raises
    ------
    UsageError
        If an argument is not what it should be, or (a TileError) the function has no gradient.
    """
    from autotune.operators.tile_template import read_function, shape_of
    from autotune.tile import gradient, to_code

    given = parse_settings(shapes, "--shape")
    known = {name: len(shape_of(name, text)) for name, text in given.items()}
    for name, text in parse_settings(ranks, "--rank").items():
        if known.setdefault(name, _rank(name, text)) != _rank(name, text):
            raise UsageError(f"--shape gives {name} {known[name]} dimensions, --rank {text}")
    print_line(to_code(gradient(read_function(file), wrt or None, ranks=known)).rstrip())


def _rank(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 2:
        raise UsageError(f"--rank {name}={text}: a rank is a whole number, as in {name}=2")
    return int(text)


def _bound(file: str, settings: Sequence[str], shapes: Sequence[str]) -> Program:
    from autotune.operators.tile_template import bound_program, read_function, tile_template

    function = read_function(file)
    template = tile_template(function, function.name, "llvm")
    given = parse_settings(settings), parse_settings(shapes, "--shape")
    return bound_program(function, template.parse_args(tile_arguments(template, file, *given)))


def _ranked(symbol: Symbol) -> str:
    if symbol.rank is None:
        return f"{symbol.name} of any rank"
    return f"{symbol.name} of rank {symbol.rank}"


def _expressions(tensors: Tensors) -> str:
    """Return the tensor expressions, one line each."""
    from autotune.te.tensor import ComputeOp

    lines = [f"{t.name} = placeholder({_shape(t.shape)}, {t.dtype})" for t in tensors.inputs]
    for stage in tensors.stages:
        axes = ", ".join(str(axis.var) for axis in stage.op.axis)
        assert isinstance(stage.op, ComputeOp)
        value = stage.op.body[0]
        lines.append(f"{stage.name}[{axes}] = {value}    # ({_shape(stage.shape)}) {stage.dtype}")
    return "\n".join(lines)


def _shape(shape: Sequence[object]) -> str:
    return ", ".join(map(str, shape))
