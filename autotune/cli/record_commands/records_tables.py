"""The tables that `autotune records list` and `summary` write as CSV: columns and rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.cli.options.output_files import check_output
from autotune.cli.options.record_filters import RecordChoice
from autotune.cli.terminal.output import print_line
from autotune.cli.terminal.signals import ending_signals
from autotune.errors import UsageError
from autotune.system.words import counted
from records import SummaryRow
from records.outline import Outline
from records.record_errors import TableError
from records.tables.table import Field, Values, as_text, new_table
from records.tools.log_lines import LogLine

Csv = Annotated[str | None, typer.Option(metavar="FILE.csv", help="Write a table instead.")]

_BLOCK = 1024  # Rows that are written at a time.

_NAN = float("nan")

_WORKLOAD = (
    Field("template", "string", "", "name of the template"),
    Field("args", "string", "", "arguments of the template, as JSON"),
    Field("constant", "string", "", "positions of the inputs that did not change, as JSON"),
    Field("target", "string", "", "target"),
    Field("device", "string", "", "name of the device"),
    Field("threads", "float64", "1", "threads of a parallel loop"),
)

RECORD_COLUMNS = (
    Field("timestamp", "float64", "s", "Unix time when it was measured"),
    *_WORKLOAD,
    Field("fingerprint", "string", "", "of the template"),
    Field("seed", "string", "", "seed of the run"),
    Field("index", "string", "", "index of the configuration"),
    Field("values", "string", "", "knob values, as JSON"),
    Field("cost_s", "float64", "s", "median of the times, none of a failure"),
    Field("error", "string", "", "error code of a failure"),
    Field("final_rank", "string", "", "rank in a final comparison, none of a trial"),
    Field("comparison", "string", "", "the final comparison"),
    Field("log", "string", "", "the log that it is in"),
    Field("line", "int64", "1", "number of its line in there"),
)

SUMMARY_COLUMNS = (
    *_WORKLOAD,
    Field("trials", "int64", "1", "number of trials"),
    Field("ok", "int64", "1", "number of trials that succeeded"),
    Field("failures", "string", "", "number of other trials by error code, as JSON"),
    Field("finals", "int64", "1", "number of records of final comparisons"),
    Field("best_cost_s", "float64", "s", "time of the best record"),
    Field("best_index", "string", "", "index of its configuration"),
    Field("compared", "bool", "", "whether a final comparison has chosen it"),
    Field("first_s", "float64", "s", "Unix time of the earliest record"),
    Field("last_s", "float64", "s", "Unix time of the latest record"),
    Field("gone", "bool", "", "whether the template no longer exists"),
)


def checked_table(csv: str | None, as_json: bool, chosen: RecordChoice) -> Path | None:
    """Return the path of the table to be written; None if none is asked for.

    UsageError if it cannot be written.
    """
    if csv is None:
        return None
    if as_json:
        raise UsageError("--csv and --json exclude each other: choose one")
    if csv and not csv.endswith(".csv"):
        raise UsageError(f"--csv {csv}: give the name of a table to write, such as table.csv")
    return check_output(csv, True, chosen.paths, "--csv")


def write_table(path: Path, fields: Sequence[Field], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table, which replaces the file at `path` when it is complete, and say so.

    TableError if it cannot be written.
    """
    rest, count = iter(rows), 0
    try:
        with ending_signals(), new_table(path, fields) as writer:
            while block := list(itertools.islice(rest, _BLOCK)):
                writer.write([*map(_column, fields, zip(*block, strict=True))])
                count += len(block)
    except OSError as error:
        raise TableError(f"cannot write {path}: {error.strerror}") from error
    print_line(f"{path}: {counted(count, 'row')}")


def _column(field: Field, values: Sequence[Any]) -> Values:
    import numpy as np

    return [*map(as_text, values)] if field.is_text else np.array(values, field.dtype)


def record_row(line: LogLine) -> tuple[Any, ...]:
    """Return the values of `RECORD_COLUMNS` of a record."""
    found = line.outline
    final = found.final
    return (
        found.timestamp,
        *_workload(found),
        found.fingerprint,
        str(found.seed),
        str(found.config["index"]),
        json.dumps(found.config["values"]),
        _NAN if found.cost_s is None else found.cost_s,
        None if found.error is None else str(found.error["code"]),
        None if final is None else str(final["rank"]),
        None if final is None else final["comparison"],
        str(line.path),
        line.number,
    )


def summary_row(row: SummaryRow, gone: bool) -> tuple[Any, ...]:
    """Return the values of `SUMMARY_COLUMNS` of a row."""
    return (
        *_workload(row),
        row.trials,
        row.ok,
        json.dumps(row.failures),
        row.finals,
        _NAN if row.best_cost_s is None else row.best_cost_s,
        None if row.best_index is None else str(row.best_index),
        row.compared,
        row.first_s,
        row.last_s,
        gone,
    )


def _workload(of: Outline | SummaryRow) -> tuple[Any, ...]:
    name, threads = of.device.get("name"), of.device.get("threads")
    return (
        of.template,
        json.dumps(of.args),
        json.dumps(of.constant),
        of.target,
        name if isinstance(name, str) else None,
        float(threads) if type(threads) is int and threads < 1 << 31 else _NAN,
    )
