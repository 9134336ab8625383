"""Drops records from logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from records.outline import Outline
from records.record_errors import NewerSchemaError, RecordError
from records.tools.log_lines import LogLine, TornLineError


class Pruning:
    """Iterates over all lines but the records that are to be dropped, and a torn last line.

    `counts`: the numbers of records "kept" and "dropped", and of lines that are "none", which are
    kept; complete at the end of the iteration.

    RecordError if a later version wrote one of the lines.

    Parameters
    ----------
    lines : iterable of LogLine
        All lines of some logs.
    drops : callable
        Returns whether to drop a record.
    """

    def __init__(self, lines: Iterable[LogLine], drops: Callable[[LogLine], bool]) -> None:
        self._lines, self._drops = lines, drops
        self.counts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[LogLine]:
        for line in self._lines:
            if isinstance(line.found, NewerSchemaError):
                raise RecordError(f"{line.path}, line {line.number}: {line.found}") from line.found
            if isinstance(line.found, TornLineError):
                continue
            if not isinstance(line.found, Outline):
                self.counts["none"] += 1
            elif self._drops(line):
                self.counts["dropped"] += 1
                continue
            else:
                self.counts["kept"] += 1
            yield line
