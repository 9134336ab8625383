"""Checks every line of a log: whether it is a record, or why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from records.record import Record
from records.record_errors import RecordError
from records.tools.log_lines import LogLine


class CheckedLine(NamedTuple):
    """A line of a log, and the record in it or what is wrong with it; see `LogLine`."""

    path: Path
    number: int
    found: Record | str


def check_lines(lines: Iterable[LogLine]) -> Iterator[CheckedLine]:
    """Yield every line with its record, or with what is wrong with it."""
    for line in lines:
        found: Record | str
        if isinstance(line.found, RecordError):
            found = str(line.found)
        else:
            try:  # the outline looks at fewer fields
                found = Record.from_line(line.data)
            except (ValueError, RecursionError) as error:
                found = str(error)
        yield CheckedLine(line.path, line.number, found)
