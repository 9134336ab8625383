"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

TEMPLATE_HELP = "A template's name, path/to/file.py:function or path/to/file.tile."
TemplateName = Annotated[
    str,
    typer.Argument(metavar="TEMPLATE", help=TEMPLATE_HELP),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An argument of the template; repeat it."),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SIZE,SIZE",
        help="Shape of a Tile function's input without dimensions in the header; repeat it.",
    ),
]
TargetText = Annotated[
    str, typer.Option(metavar="TARGET", help="What for, such as 'llvm -mcpu=native'.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Patience = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Stop when all further measurements are expected to gain less, such as 0.01.",
    ),
]
Transfer = Annotated[
    list[str] | None,
    typer.Option(metavar="LOG ...", help="Measurements of other sizes, operators or devices."),
]
Timeout = Annotated[
    float, typer.Option(metavar="S", help="Seconds a candidate may build, and may run.")
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
