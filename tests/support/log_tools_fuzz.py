"""Gives logs, damaged or not, to all that the commands of `autotune records` do with lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from autotune.cli.record_commands.records_list import ascii_json, line_text
from autotune.cli.record_commands.records_tables import RECORD_COLUMNS, record_row
from records import Record
from records.groups import group_key
from records.tools.append import append_new
from records.tools.best_lines import BestLines, best_first
from records.tools.compact import Compaction
from records.tools.diff import LogDiff
from records.tools.line_filter import LineFilter
from records.tools.log_lines import LogFile, LogLine, every_line, records_of
from records.tools.merge import merge
from records.tools.new_logs import new_log, write_lines
from records.tools.prune import Pruning


def use_tools(paths: Sequence[Path], folder: Path) -> int:
    """Do with logs what the tools do; return the number of their records.

    RecordError if they are refused.
    """
    logs = [LogFile(path) for path in paths]
    lines = list(records_of(every_line(logs)))
    _print(lines)
    merged = folder / "merged.jsonl"
    with new_log(merged, replace=True) as file:
        done = merge(lines, file, folder)
    assert done.records + done.duplicates == len(lines)
    (folder / "appended.jsonl").unlink(missing_ok=True)
    assert append_new(lines, folder / "appended.jsonl").added == done.records
    again = LogFile(merged)
    assert len(list(records_of(again.lines()))) == done.records
    difference = LogDiff(lambda: lines, lambda: records_of(again.lines()))
    assert difference.only == (0, 0)
    with new_log(folder / "small.jsonl", replace=True) as file:
        compaction = Compaction(again.lines, 2)
        write_lines(file, compaction)
        write_lines(file, Pruning(every_line(logs), LineFilter(ok=False)))
    assert compaction.counts.kept + compaction.counts.dropped == done.records
    return len(lines)


def _print(lines: Sequence[LogLine]) -> None:
    best = BestLines[LogLine](2, partial(group_key, any_version=True))
    for line in lines:
        best.add(line.outline, line)
        assert "\n" not in line_text(line)
        Record.from_line(ascii_json(line.data).encode())
        json.loads(ascii_json(line.data))
        assert len(record_row(line)) == len(RECORD_COLUMNS)
    for group in best.each():
        best_first(group, 2)
