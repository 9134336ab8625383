"""The command line: its commands by name. The module of a command is imported when it is called.

`autotune --help` imports none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from autotune.cli.options.config_file import load_defaults
from autotune.cli.options.shared_options import command_app
from autotune.cli.terminal.output import print_line
from autotune.system.environment_variables import load_numpy_for_one_thread
from autotune.system.version import __version__

# The help text of each command by its name, which is also the name of its module.
COMMANDS = {
    "run": "Search for the fastest configuration; log measurements.",
    "best": "Print the configuration that logs have shown to be best.",
    "bench": "Compare schedules with one another and with NumPy or CuPy, over sizes or over two "
    "knobs.",
    "build": "Compile the best configuration into a shared library.",
    "dispatch": "Make one library for many shapes, of the fewest kernels that suit all of them.",
    "templates": "List the named templates and their arguments.",
    "show": "Print a search space, or a configuration's schedule, loops or code.",
    "doctor": "Check what is installed and which targets work here, and measure a small kernel.",
    "records": "Look into logs of measurements, and make new logs of them.",
    "cache": "Look into the cache of compiled code.",
    "replay": "Run tuners on recorded measurements.",
    "features": "Data sets of features for research.",
    "tile": "Look into functions in the Tile language.",
}


class _Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            text = COMMANDS[name]
            if name == "bench":  # it times kernels; `run` has something to start before
                load_numpy_for_one_thread()
            module = importlib.import_module(f"autotune.cli.commands.{name}")
            command = self._loaded[name] = typer.main.get_command(module.app)
            command.help = command.help or text  # a group has no docstring
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _LazyGroup(TyperGroup):
    """A group of commands that are imported when they are called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands; nothing is imported for it."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what each command does; nothing is imported for it."""
        brief = {name: TyperCommand(name, help=text) for name, text in COMMANDS.items()}
        TyperGroup(name="autotune", commands=brief).format_commands(ctx, formatter)  # type: ignore[arg-type]


app = command_app(cls=_LazyGroup)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"autotune {__version__}")
        raise typer.Exit


def _say_more(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.obj.say_more()


@app.callback()
def _autotune(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            callback=_say_more,
            help="Log to the standard error; may stand after the command, too.",
        ),
    ] = False,
) -> None:
    """Tune kernels for this machine, and use what was measured.

    autotune run matmul --set m=512 --set n=512 --set k=512

    Exit codes: 0 done, 2 a mistake in the command or its inputs (one line says which),
    3 nothing valid was found, 130 interrupted (128 + its number for another signal).
    1: `doctor` found a problem, `records validate` a bad line, `records diff` a difference.
    """
    if context.invoked_subcommand != "doctor":  # it reports errors of config.toml itself
        context.default_map = load_defaults(context.command)
