"""`autotune features export` and `describe`: data sets for research, and what is in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from autotune.cli.options.input_files import check_readable
from autotune.cli.options.task_arguments import closest, make_task
from autotune.cli.terminal.output import NOTHING_FOUND, StopError, print_line, width
from autotune.cli.terminal.signals import ending_signals
from autotune.errors import UsageError

if TYPE_CHECKING:
    from records.table import Field


def export_command(
    logs: Sequence[str],
    out: str,
    layouts: Sequence[str],
    programs: bool,
    templates: Sequence[str],
) -> None:
    """Write a data set, and say in a line what it holds.

    Raises
    ------
    StopError
        3 if the logs hold no record.
    UsageError, RecordError
        If an argument or a log is not what it should be, or the data set cannot be written.
    """
    from autotune.dataset import NothingToExportError, export

    for log in logs:
        check_readable(log, "--log")
    if not out:
        raise UsageError("--out is empty: give the name of a file, such as --out data.parquet")
    _check_layouts(layouts)
    # What a template prints is not what was asked for; what is half written goes at the end.
    with redirect_stdout(sys.stderr), ending_signals():
        try:
            done = export(logs, out, layouts, programs, templates)
        except NothingToExportError as error:
            raise StopError(NOTHING_FOUND, str(error)) from error
    kinds = f"{_count(done.workloads, 'workload')}, {_count(done.features, 'feature')}"
    print_line(f"{done.data}: {_count(done.rows, 'row')}, {kinds}; {done.schema}; {done.card}")


def describe_command(
    template: str | None,
    settings: Sequence[str],
    shapes: Sequence[str],
    target: str,
    layouts: Sequence[str],
    as_json: bool,
) -> None:
    """Print the columns of a data set, in general or for a template's configurations.

    Raises
    ------
    UsageError
        If an argument is not what it should be.
    """
    from autotune.dataset import explain_columns
    from features import FEATURE_LAYOUTS

    for option, given in (("--set", settings), ("--shape", shapes)):
        if template is None and given:
            raise UsageError(f"{option} needs a TEMPLATE whose arguments it gives")
    _check_layouts(layouts)
    with redirect_stdout(sys.stderr):
        task = None if template is None else make_task(template, settings, shapes, target)
        fields = explain_columns(layouts or FEATURE_LAYOUTS, task)
    if as_json:
        print_line(json.dumps([field.to_json() for field in fields]))
    else:
        print_line("\n".join(map(_text, fields)))


def _text(field: Field) -> str:
    from autotune.report.text_tables import wrap

    unit = f", {field.unit}" if field.unit not in ("", "1") else ""
    text = f"{field.name} ({field.role}, {field.dtype}{unit}): {field.meaning}"
    return wrap(text, width(), "    ")


def _check_layouts(layouts: Sequence[str]) -> None:
    from features import FEATURE_LAYOUTS

    for layout in layouts:
        if layout not in FEATURE_LAYOUTS:
            likely = closest(layout, FEATURE_LAYOUTS)
            known = f"expected one of {', '.join(FEATURE_LAYOUTS)}"
            hint = f"did you mean {likely!r}?" if likely else known
            raise UsageError(f"--layout {layout!r} is no layout of features: {hint}")


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
