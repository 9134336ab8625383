"""Reads the columns of a log."""

from __future__ import annotations

from pathlib import Path

from records.append_only_log import RecordStore
from records.formats.detect import foreign_format, stream_any
from records.index_members import LogReader, Skipped
from records.record_columns import Columns
from records.record_errors import NewerSchemaError, RecordError


def read_columns(path: Path) -> Columns:
    """Return the columns of a log, or of a file of another tool.

    RecordError if it cannot be read, or is none.
    """
    found = Columns()
    if foreign_format(path) is not None:
        for record in stream_any(path):
            found.add_record(record)
        return found
    reader, skipped, number = LogReader(RecordStore(path)), Skipped(), 0
    for number, line in enumerate(reader.lines(), 1):
        try:
            found.add_line(line)
        except NewerSchemaError as error:
            raise RecordError(f"{path}, line {number}: {error}") from error
        except (ValueError, RecursionError) as error:
            skipped.add(number, line, error)
    for record in reader.unfinished(number + 1):
        found.add_record(record)
    if not found.count:
        reader.store.refuse(skipped.first)
    reader.store.tell_skipped(skipped.first, skipped.count)
    return found
