"""`autotune records summary`: what a log holds, by workload and target."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer

from autotune.cli.options.input_files import check_readable
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import MEASUREMENTS_HELP, Json, command_app
from autotune.cli.options.task_arguments import load_log
from autotune.cli.terminal.output import print_line, width
from autotune.report.progress import failures_text
from autotune.report.text_tables import wrap
from autotune.report.units import time_text
from autotune.system.words import counted
from autotune.task.workload import Workload
from records import SummaryRow, summary
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


def log_summary_text(row: SummaryRow, width: int) -> str:
    """Return what a log holds of one workload, as a block of lines."""
    workload = Workload(row.template, row.args, row.constant)
    lines = [wrap(f"{workload} on {row.target}", width, "    ")]
    counts = f"{counted(row.trials, 'trial')}, {row.ok} ok"
    if row.failures:
        counts += f", {failures_text(row.failures)}"
    lines.append(wrap(f"  {counts}", width, "    "))
    if row.best_cost_s is not None:
        how = "" if row.compared else ", of trials: no final comparison"
        lines.append(f"  best {time_text(row.best_cost_s)}, config {row.best_index}{how}")
    lines.append(f"  {_moment(row.first_s)} to {_moment(row.last_s)}")
    return "\n".join(lines)


def _moment(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):  # no calendar reaches as far
        return f"{seconds:g} s"
