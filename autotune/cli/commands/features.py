"""`autotune features export` and `describe`: data sets for research, and what is in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Annotated

import typer

from autotune.cli.options.input_files import check_logs
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import Json, Set, Shape, TargetText, command_app
from autotune.cli.options.task_arguments import make_task
from autotune.cli.terminal.output import NOTHING_FOUND, StopError, print_line, width
from autotune.cli.terminal.signals import ending_signals
from autotune.dataset import NothingToExportError, explain_columns, export
from autotune.errors import UsageError
from autotune.report.text_tables import wrap
from autotune.system.words import counted, did_you_mean
from features import FEATURE_LAYOUTS
from records.tables.table import Field

app = command_app()


@app.command("export", cls=Command)
def export_logs(
    logs: Annotated[
        list[str],
        typer.Option(
            "--log",
            metavar="FILE ...",
            help="Our logs, folders of them, AutoTVM logs, Kernel Tuner caches, T4 results.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", metavar="FILE", help="What to write: a .parquet, .csv or .npz file."
        ),
    ],
    layout: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME ...", help="Features: itervar, curve, knob, autotvm08.  [itervar]"
        ),
    ] = None,
    with_programs: Annotated[
        bool,
        typer.Option(
            "--with-programs", help="Add loops, steps, the source's hash and all repeats."
        ),
    ] = False,
    template: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE ...", help="Templates without a name, file.py:function or file.tile."
        ),
    ] = None,
) -> None:
    """Write logs and features as a table for pandas, one row per record.

    Failures are rows, too. A schema file and a data card stand beside the table; the card counts
    what is missing and why.
    """
    layouts = layout or ["itervar"]
    check_logs(logs, "--log")
    if not out:
        raise UsageError("--out is empty: give the name of a file, such as --out data.parquet")
    _check_layouts(layouts)
    # What a template prints is not what was asked for; what is half written goes at the end.
    with redirect_stdout(sys.stderr), ending_signals():
        try:
            done = export(logs, out, layouts, with_programs, template or [])
        except NothingToExportError as error:
            raise StopError(NOTHING_FOUND, str(error)) from error
    kinds = f"{counted(done.workloads, 'workload')}, {counted(done.features, 'feature')}"
    print_line(f"{done.data}: {counted(done.rows, 'row')}, {kinds}; {done.schema}; {done.card}")


@app.command(cls=Command)
def describe(
    template: Annotated[
        str | None,
        typer.Argument(
            metavar="TEMPLATE", help="Template whose columns to show.  [patterns for all templates]"
        ),
    ] = None,
    settings: Set = None,
    shapes: Shape = None,
    target: TargetText = "llvm",
    layout: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME ...", help="itervar, curve, knob, autotvm08.  [all of them]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain every column of an export: name, dtype, unit, meaning."""
    for option, given in (("--set", settings), ("--shape", shapes)):
        if template is None and given:
            raise UsageError(f"{option} gives arguments of a template: name the TEMPLATE")
    _check_layouts(layout or ())
    with redirect_stdout(sys.stderr):
        task = None if template is None else make_task(template, settings, shapes, target)
        fields = explain_columns(layout or FEATURE_LAYOUTS, task)
    if as_json:
        print_line(json.dumps([field.to_json() for field in fields]))
    else:
        print_line("\n".join(map(_text, fields)))


def _text(field: Field) -> str:
    unit = f", {field.unit}" if field.unit not in ("", "1") else ""
    text = f"{field.name} ({field.role}, {field.dtype}{unit}): {field.meaning}"
    return wrap(text, width(), "    ")


def _check_layouts(layouts: Sequence[str]) -> None:
    for layout in layouts:
        if layout not in FEATURE_LAYOUTS:
            hint = did_you_mean(layout, FEATURE_LAYOUTS)
            raise UsageError(f"--layout {layout!r} is not a layout of features: {hint}")
