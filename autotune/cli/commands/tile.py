"""`autotune tile`: checks Tile functions, and shows their loops, code and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from autotune.builder import build, lower
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import (
    Shape,
    TargetText,
    chosen_view,
    command_app,
    parse_settings,
)
from autotune.cli.options.tile_arguments import tile_arguments
from autotune.cli.terminal.output import print_line
from autotune.errors import UsageError
from autotune.operators.tile_template import (
    bound_program,
    default_schedule,
    read_function,
    shape_of,
    tile_template,
)
from autotune.target import Target
from autotune.te.tensor import ComputeOp
from autotune.tile import Program, check, gradient, to_code
from autotune.tile.syntax.unparser import input_code
from autotune.tile.to_te.program_to_te import Tensors, to_te

app = command_app()

_File = Annotated[str, typer.Argument(metavar="FILE", help="A function in the Tile language.")]


@app.command("check", cls=Command)
def check_file(file: _File) -> None:
    """Print the inputs and outputs of a Tile function, or its first error with the place."""
    function = read_function(file)
    symbols = check(function)
    inputs = ", ".join(map(input_code, function.inputs))
    found = (symbols[name.text] for name in function.outputs)
    outputs = (f"{s.name} of {'any rank' if s.rank is None else f'rank {s.rank}'}" for s in found)
    print_line(f"{file}: ({inputs}) -> ({', '.join(outputs)})")


@app.command(cls=Command)
def grad(
    file: _File,
    wrt: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Input to differentiate by; repeat it.  [all]"),
    ] = None,
    ranks: Annotated[
        list[str] | None,
        typer.Option(
            "--rank",
            metavar="NAME=N",
            help="How many dimensions an input has, if the header has none; repeat it.",
        ),
    ] = None,
    shapes: Shape = None,
) -> None:
    """Print the Tile function that computes the gradients of one."""
    given = parse_settings(shapes, "--shape")
    known = {name: len(shape_of(name, text)) for name, text in given.items()}
    for name, text in parse_settings(ranks, "--rank").items():
        if known.setdefault(name, _rank(name, text)) != _rank(name, text):
            raise UsageError(f"--shape gives {name} {known[name]} dimensions, --rank {text}")
    print_line(to_code(gradient(read_function(file), wrt or None, ranks=known)).rstrip())


@app.command(cls=Command)
def show(
    file: _File,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=SIZE ...", help="Sizes of dimensions."),
    ] = None,
    shapes: Shape = None,
    target: TargetText = "llvm",
    te: Annotated[bool, typer.Option("--te", help="Print tensor expressions.")] = False,
    ir: Annotated[bool, typer.Option("--ir", help="Print loops (what is printed anyway).")] = False,
    source: Annotated[bool, typer.Option("--source", help="Print the generated code.")] = False,
) -> None:
    """Print the loops or code of a Tile function of float32 arrays for some sizes."""
    view = chosen_view({"te": te, "ir": ir, "source": source}, "ir")
    wanted = Target.of(target)
    program = _bound(file, settings, shapes)
    if view == "te":
        print_line(_expressions(to_te(program)))
        return
    schedule, parameters = default_schedule(program, wanted)
    if view == "ir":
        print_line(str(lower(schedule, parameters, simple_mode=True, name="tile")).rstrip())
    else:
        print_line(build(schedule, parameters, wanted, name="tile").source.rstrip())


def _rank(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 2:
        raise UsageError(f"--rank {name}={text}: a rank is a whole number, as in {name}=2")
    return int(text)


def _bound(file: str, settings: Sequence[str] | None, shapes: Sequence[str] | None) -> Program:
    function = read_function(file)
    template = tile_template(function, function.name, "llvm")
    given = parse_settings(settings), parse_settings(shapes, "--shape")
    return bound_program(function, template.parse_args(tile_arguments(template, file, *given)))


def _expressions(tensors: Tensors) -> str:
    """Return the tensor expressions, one line each."""
    lines = [f"{t.name} = placeholder({_shape(t.shape)}, {t.dtype})" for t in tensors.inputs]
    for stage in tensors.stages:
        axes = ", ".join(str(axis.var) for axis in stage.op.axis)
        assert isinstance(stage.op, ComputeOp)
        value = stage.op.body[0]
        lines.append(f"{stage.name}[{axes}] = {value}    # ({_shape(stage.shape)}) {stage.dtype}")
    return "\n".join(lines)


def _shape(shape: Sequence[object]) -> str:
    return ", ".join(map(str, shape))
