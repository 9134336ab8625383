"""`autotune records summary`: what logs hold, by workload, target and device."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial

from autotune.cli.options.record_filters import RecordChoice, takes_records
from autotune.cli.options.shared_options import Json
from autotune.cli.record_commands.records_tables import (
    SUMMARY_COLUMNS,
    Csv,
    checked_table,
    summary_row,
    write_table,
)
from autotune.cli.terminal.output import print_line, width
from autotune.report.progress import failures_text
from autotune.report.text_tables import wrap
from autotune.report.units import time_text
from autotune.reuse.grades import told_apart
from autotune.system.words import counted, named
from autotune.task.workload import Workload
from records import SummaryRow
from records.summaries import Summary


@takes_records
def summary_of(
    chosen: RecordChoice,
    csv: Csv = None,
    as_json: Json = False,
) -> None:
    """Print what logs hold, by workload, target and device."""
    table = checked_table(csv, as_json, chosen)
    summary = Summary()
    for line in chosen.records():
        summary.add(line.outline)
    rows = list(summary.by_key().values())
    gone = [chosen.templates.is_gone(row.template, row.target) for row in rows]
    if table is not None:
        write_table(table, SUMMARY_COLUMNS, map(summary_row, rows, gone))
    elif as_json:
        found = zip(rows, gone, strict=True)
        print_line(json.dumps([{**asdict(row), "gone": is_gone} for row, is_gone in found]))
    elif not rows:
        print_line(f"{chosen.name} holds no {'such ' * chosen.is_filtered}records")
    else:
        devices = told_apart(row.device for row in rows)
        blocks = map(partial(log_summary_text, width=width()), rows, devices)
        print_line("\n".join(blocks))
        for text in _all_in_all(rows, devices, gone):
            print_line(wrap(text, width(), "  "))


def _all_in_all(
    rows: Sequence[SummaryRow], named_as: Sequence[str], gone: Sequence[bool]
) -> Iterator[str]:
    """Yield what there is of several devices, and of templates that no longer exist.

    `named_as`: the device of each row in words.
    """
    devices, lost = Counter[str](), Counter[str]()
    for row, device, is_gone in zip(rows, named_as, gone, strict=True):
        devices[device] += row.records
        if is_gone:
            lost[row.template] += row.records
    if len(rows) > 1:
        each = "; ".join(f"{name}: {count}" for name, count in devices.most_common())
        workloads = {(Workload(r.template, r.args, r.constant), r.target) for r in rows}
        total = f"{counted(devices.total(), 'record')} of {counted(len(workloads), 'workload')}"
        yield f"{total} on {counted(len(devices), 'device')} ({each})"
    if lost:
        names = named(name for name, _ in lost.most_common())
        what = f"{counted(lost.total(), 'record')} of templates that are not built in or installed"
        yield f"{what}: {names} (those in files are found by --gone --known FILE.py:NAME)"


def log_summary_text(row: SummaryRow, device: str, width: int) -> str:
    """Return what logs hold of one workload, as a block of lines.

    `device`: its device in words.
    """
    workload = Workload(row.template, row.args, row.constant)
    lines = [wrap(f"{workload} on {row.target}", width, "    ")]
    if row.device:
        lines.append(wrap(f"  {device}", width, "    "))
    counts = f"{counted(row.trials, 'trial')}, {row.ok} ok"
    if row.failures:
        counts += f", {failures_text(row.failures)}"
    lines.append(wrap(f"  {counts}", width, "    "))
    if row.best_cost_s is not None:
        how = "" if row.compared else ", of trials: no final comparison"
        lines.append(f"  best {time_text(row.best_cost_s)}, config {row.best_index}{how}")
    lines.append(f"  {moment_text(row.first_s)} to {moment_text(row.last_s)}")
    return "\n".join(lines)


def moment_text(seconds: float) -> str:
    """Return a Unix time as local date and time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):  # no calendar reaches as far
        return f"{seconds:g} s"
