"""`autotune records summary`: what a log holds, by workload and target."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from autotune.cli.options.input_files import check_readable
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import MEASUREMENTS_HELP, Json, command_app
from autotune.cli.options.task_arguments import load_log
from autotune.cli.terminal.output import print_line, width
from autotune.report.log_summary import log_summary_text
from records import summary
from records.formats import foreign_format, read_any

app = command_app()


@app.callback()
def _group() -> None: ...


@app.command("summary", cls=Command)
def summary_of(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help=MEASUREMENTS_HELP),
    ],
    as_json: Json = False,
) -> None:
    """Print what a log holds, by workload and target."""
    foreign = foreign_format(check_readable(file)) is not None
    rows = summary(read_any(file) if foreign else load_log(file))
    if as_json:
        print_line(json.dumps([asdict(row) for row in rows]))
        return
    if not rows:
        print_line(f"{file} holds no records")
        return
    print_line("\n".join(log_summary_text(row, width()) for row in rows))
