"""`autotune records list`: one line per record, or a table of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Annotated

import typer

from autotune.cli.options.record_filters import RecordChoice, takes_records
from autotune.cli.record_commands.records_summary import moment_text
from autotune.cli.record_commands.records_tables import (
    RECORD_COLUMNS,
    Csv,
    checked_table,
    record_row,
    write_table,
)
from autotune.cli.terminal.output import (
    NOTHING_FOUND,
    StopError,
    output_works,
    print_line,
    print_raw,
)
from autotune.report.units import time_text
from autotune.reuse.grades import device_text
from autotune.system.words import one_line
from autotune.task.workload import Workload
from records.best_of_group import MOST_TRIALS
from records.groups import group_key
from records.outline import Outline
from records.tools.best_lines import BestLines, best_first
from records.tools.log_lines import LogLine

Top = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        min=1,
        help="The K best of each workload, target and device, the best first.",
    ),
]

_BLOCK = 256  # Records that are printed at a time.


@takes_records
def list_records(
    chosen: RecordChoice,
    top: Top = None,
    csv: Csv = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the records as they are in a log, one a line.")
    ] = False,
) -> None:
    """Print records, one a line."""
    table = checked_table(csv, as_json, chosen)
    found, count = chosen_lines(chosen, top), 0
    if table is not None:
        write_table(table, RECORD_COLUMNS, map(record_row, found))
        return
    while block := list(itertools.islice(found, _BLOCK)):
        count += len(block)
        if not output_works():  # whoever read it has seen enough
            return
        if as_json:
            print_raw("\n".join(ascii_json(line.data) for line in block))
        else:
            print_line("\n".join(map(line_text, block)))
    if not count:
        raise StopError(NOTHING_FOUND, f"{chosen.name}: {nothing(chosen)}")


def nothing(chosen: RecordChoice) -> str:
    """Return why nothing was found."""
    if not chosen.is_filtered:
        return "there are no records"
    return "no record is what the options ask for; `autotune records summary` tells what there is"


def chosen_lines(chosen: RecordChoice, top: int | None) -> Iterator[LogLine]:
    """Yield the records that are meant; with `top`, the best of each group, the best first."""
    lines = chosen.records()
    if top is None:
        return lines
    return _best(lines, top)


def _best(lines: Iterable[LogLine], top: int) -> Iterator[LogLine]:
    # No fewer than builds look at: the fastest ones may have failed since.
    best = BestLines[LogLine](max(top, MOST_TRIALS), partial(group_key, any_version=True))
    for line in lines:
        best.add(line.outline, line)
    for group in best.each():
        yield from best_first(group, top)


def line_text(line: LogLine) -> str:
    """Return a record as a line: when, how fast, which configuration of what, where."""
    found = line.outline
    outcome = _failure(found) if found.cost_s is None else time_text(found.cost_s)
    config = f"config {found.config['index']}"
    final = "" if found.final is None else f", final {found.final['rank']}"
    workload = Workload(found.template, found.args, found.constant)
    what = f"{workload} on {found.target}, {device_text(found.device)}"
    why = "" if found.error is None else f": {one_line(found.error['message'])}"
    text = f"{moment_text(found.timestamp)}  {outcome:>9}  {config:<13}  {what}{final}{why}"
    return " ".join(text.split("\n"))


def ascii_json(line: bytes) -> str:
    """Return a line of a log in characters that steer no terminal."""
    if line.isascii() and b"\x7f" not in line:
        return line.decode()
    text = line.decode("utf-8-sig", "surrogatepass")
    return json.dumps(json.loads(text), separators=(",", ":")).replace("\x7f", "\\u007f")


def _failure(found: Outline) -> str:
    return str((found.error or {}).get("code", "")).lower().replace("_", " ")
