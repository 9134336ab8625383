"""Drops records from logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from records.outline import Outline
from records.record_errors import NewerSchemaError, RecordError
from records.tools.log_lines import LogLine, TornLineError
from records.tools.new_logs import Lines


def prune(
    lines: Lines, drops: Callable[[LogLine], bool], counts: Counter[str]
) -> Iterator[LogLine]:
    """Yield all lines but the records that are to be dropped, and a torn last line.

    `drops`: whether a record is to go.
    `counts`: gets the numbers of records "kept" and "dropped", and of lines that are "none", which
        are kept.

    RecordError if a later version wrote one of the lines.
    """
    for line in lines():
        if isinstance(line.found, NewerSchemaError):
            raise RecordError(f"{line.path}, line {line.number}: {line.found}") from line.found
        if isinstance(line.found, TornLineError):
            continue
        if not isinstance(line.found, Outline):
            counts["none"] += 1
        elif drops(line):
            counts["dropped"] += 1
            continue
        else:
            counts["kept"] += 1
        yield line
