"""Arguments and options that several commands have, and words of the form NAME=VALUE."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from autotune.errors import UsageError

MEASUREMENTS_HELP = "Our logs, folders of them, AutoTVM logs, Kernel Tuner caches, T4 results."
TEMPLATE = typer.Argument(
    metavar="TEMPLATE", help="A template's name, path/to/file.py:function or path/to/file.tile."
)
TemplateName = Annotated[str, TEMPLATE]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE ...", help="Arguments of the template."),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SIZE,SIZE ...",
        help="Shapes of a Tile function's inputs without dimensions in the header.",
    ),
]
Constant = Annotated[
    list[int] | None,
    typer.Option(
        metavar="POSITION ...",
        help="Inputs that do not change, counted from 0: laid out once, before they are timed.",
    ),
]
TargetText = Annotated[
    str, typer.Option(metavar="TARGET", help="What for, such as 'llvm -mcpu=native'.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AnyDevice = Annotated[
    bool, typer.Option("--any-device", help="Use records of the workload from any device, too.")
]
Reuse = Annotated[
    str,
    typer.Option(
        metavar="GRADE",
        help="Most distant records that are used: exact, kind (of device), shape or any.",
    ),
]
Patience = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Stop when all further measurements are expected to gain less, such as 0.01.",
    ),
]
Transfer = Annotated[
    list[str] | None,
    typer.Option(metavar="LOG ...", help="Logs, or folders, of other sizes, operators or devices."),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="S", help="Seconds a candidate may build, and may run."),
]
MinRepeat = Annotated[
    float | None, typer.Option(metavar="MS", help="How long a repeat lasts at least.  [8]")
]
Flush = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN", help="Empty the caches: off, or before each of the repeats.  [off]"
    ),
]


def command_app(**settings: Any) -> typer.Typer:
    """Return an empty group of commands; help and errors are plain text."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **settings,
    )


def chosen_view(asked: Mapping[str, bool], otherwise: str) -> str:
    """Return the view that an option asks for; UsageError if several do."""
    views = [view for view, wanted in asked.items() if wanted]
    if len(views) > 1:
        several = " and ".join(f"--{view}" for view in views)
        raise UsageError(f"{several} exclude each other: choose one")
    return views[0] if views else otherwise


def options_of(
    options: Callable[..., object],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: a command takes the parameters of `options` as options of its own.

    `options`: a function, or a dataclass. What it makes of them is the first argument of the
    command; the other arguments of the command are options that follow.
    """
    shared = inspect.signature(options, eval_str=True).parameters

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(function, eval_str=True).parameters.values()

        def command(**words: Any) -> None:
            function(options(**{name: words.pop(name) for name in shared}), **words)

        command.__doc__ = function.__doc__
        command.__name__ = function.__name__
        # By name, so that those without a default may come last.
        named = [p.replace(kind=p.KEYWORD_ONLY) for p in (*shared.values(), *own)]
        command.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        return command

    return declare


_EXAMPLES = {
    "--set": "NAME=VALUE, such as --set n=512",
    "--shape": "NAME=SIZE,SIZE, such as --shape X=4,5",
    "--knob": "NAME=VALUE, such as --knob nt=128",
    "--rank": "NAME=RANK, such as --rank X=2",
    "--constant": "INPUT=FILE, such as --constant B=weights.npy",
}


def parse_settings(settings: Sequence[str] | None, option: str = "--set") -> dict[str, str]:
    """Read NAME=VALUE words of an option; spaces around the name and the value do not count.

    UsageError if a word is not of that form, or a name is given twice.
    """
    values: dict[str, str] = {}
    for setting in settings or ():
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not name or not equals or not value:
            example = _EXAMPLES[option]
            raise UsageError(f"{option} {setting!r}: expected {example}")
        if name in values:
            raise UsageError(f"{option} gives {name} twice: {values[name]} and {value}")
        values[name] = value
    return values
