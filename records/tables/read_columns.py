"""Reads the columns of a log; a large log is read by several processes.

The helper processes run a separate program and are not forked: so the calling script needs no
``if __name__ == "__main__"``, and none of its memory is copied.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from records.formats.detect import foreign_format, stream_any
from records.log_index.log_reader import LogReader, lines_between, whole_line_from
from records.record import Record
from records.record_errors import NewerSchemaError, RecordError
from records.skipped_lines import SkippedLines
from records.storage.append_only_log import RecordStore
from records.tables.record_columns import Column, Columns

MOST_HELPERS = 4  # More gain little, as this process joins what they have read.
HELPED = 64 << 20  # Bytes of a log from which on there are helpers.


@dataclass
class Part:
    """What was read of a part of a log."""

    columns: dict[str, Column]
    count: int  # Of records.
    lines: int = 0
    skipped: SkippedLines = field(default_factory=SkippedLines)
    newer: tuple[int, str] | None = None  # A line of a later version, where reading ended, and why.


def read_columns(path: Path) -> list[Part]:
    """Return the columns of a log, or of a file of another tool, in one or more parts.

    RecordError if it cannot be read, or is none.
    """
    if foreign_format(path) is not None:
        return [_part_of(stream_any(path))]
    reader = LogReader(RecordStore(path))
    parts, lines, skipped = _read(reader), 0, SkippedLines()
    for part in parts:
        if part.newer is not None:
            number, why = part.newer
            raise RecordError(f"{path}, line {lines + number}: {why}")
        skipped.add_all(part.skipped, lines)
        lines += part.lines
    if not sum(part.count for part in parts):
        return [_part_of(reader.store.load())]  # says what is wrong, if something is
    parts.append(_part_of(reader.unfinished(lines + 1)))
    skipped.tell(path, any(part.count for part in parts))
    return parts


def _part_of(records: Iterable[Record]) -> Part:
    found = Columns()
    for record in records:
        found.add_record(record)
    return Part(found.columns(), found.count)


def _read(reader: LogReader) -> list[Part]:
    """Return the columns of the whole lines of a log, in parts that helpers have read."""
    count = min(MOST_HELPERS, _cpus(), 2 * reader.end // HELPED)
    if count < 2 or not sys.executable:
        return [read_part(reader.fd, 0, reader.end)]
    places = [reader.end * number // count for number in range(count)]
    starts = [whole_line_from(reader.fd, place, reader.end) for place in places]
    ranges = list(zip(starts, [*starts[1:], reader.end], strict=True))
    helpers = [_started(reader.fd, *some) for some in ranges]
    try:
        return [
            _received(helper) or read_part(reader.fd, *some)
            for helper, some in zip(helpers, ranges, strict=True)
        ]
    finally:
        for helper in filter(None, helpers):
            helper.kill()  # it has ended, unless this process was interrupted
            cast(BinaryIO, helper.stdout).close()
            helper.wait()


def read_part(fd: int, start: int, end: int) -> Part:
    """Return the columns of the whole lines between two bytes of an open log."""
    found, skipped, number = Columns(), SkippedLines(), 0
    newer = None
    for number, line in enumerate(lines_between(fd, start, end), 1):
        try:
            found.add_line(line)
        except NewerSchemaError as error:
            newer = number, str(error)
            break
        except (ValueError, RecursionError) as error:
            if line and not line.isspace():
                skipped.add(number, error)
    return Part(found.columns(), found.count, number, skipped, newer)


def _started(fd: int, start: int, end: int) -> subprocess.Popen[bytes] | None:
    """Start a helper; None if that is not possible."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        "from records.tables.read_columns import help_reading; help_reading()"
    )
    words = [sys.executable, "-P", "-c", code, *map(str, (fd, start, end))]
    try:
        # In a session of its own, an interrupt of this process does not reach it.
        return subprocess.Popen(
            words,
            pass_fds=[fd],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


def help_reading() -> None:
    """Read a part of a log: what helpers do."""
    gc.disable()  # what is read has no cycles
    part = read_part(*map(int, sys.argv[1:]))
    pickle.dump(part, sys.stdout.buffer, protocol=pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.flush()


def _received(helper: subprocess.Popen[bytes] | None) -> Part | None:
    """Return what a helper has read; None if it has failed."""
    if helper is None:
        return None
    try:
        found = pickle.load(cast(BinaryIO, helper.stdout))  # of a process that we have started
    except (EOFError, pickle.UnpicklingError):
        return None
    return found if isinstance(found, Part) else None


def _cpus() -> int:
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
