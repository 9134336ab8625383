"""Merges logs: every record once, in the order of time; contradicting ones stay and are marked."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from records.record_errors import RecordError
from records.tools.keys import content_digest, is_marked, marked, measurement_digest
from records.tools.log_lines import LogLine


@dataclass(frozen=True)
class Merged:
    """The result of merging some logs.

    `records`: number of records that were written.
    `duplicates`: number of records that were there already, word for word.
    `conflicts`: number of measurements whose records have different results.
    """

    records: int
    duplicates: int
    conflicts: int


def merge(lines: Iterable[LogLine], out: BinaryIO, folder: Path) -> Merged:
    """Write the records of some logs as one log, in the order of their time stamps.

    Those of equal time stamps keep their order. A record that is there already is left out. If
    records of one measurement differ, all of them are written, with the mark of the measurement
    under the key "conflict"; readers pass over it.

    `folder`: where the records are kept meanwhile; they are not held in memory.

    RecordError if there is no room for them.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as spool:
            return _Merge(spool).run(lines, out)
    except OSError as error:
        raise RecordError(f"cannot merge in {folder}: {error.strerror or error}") from error


class _Merge:
    """One merge; `spool` is a file for the lines."""

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._times = array("d")
        self._ends = array("q", [0])  # of each line in the spool
        self._contents: set[bytes] = set()
        self._first: dict[bytes, int] = {}  # The first line of each measurement.
        self._marks: dict[int, bytes] = {}  # The measurements of the lines that contradict others.

    def run(self, lines: Iterable[LogLine], out: BinaryIO) -> Merged:
        duplicates = sum(not self._keep(line) for line in lines)
        self._write(out)
        conflicts = len(set(self._marks.values()))
        return Merged(len(self._times), duplicates, conflicts)

    def _keep(self, line: LogLine) -> bool:
        """Take in a line; return whether it is new."""
        content = content_digest(line.data)
        if content in self._contents:
            return False
        self._contents.add(content)
        number, measurement = len(self._times), measurement_digest(line.outline)
        first = self._first.setdefault(measurement, number)
        if first != number:
            self._marks[first] = self._marks[number] = measurement
        elif is_marked(line.data):
            self._marks[number] = measurement
        self._spool.write(line.data)
        self._times.append(line.outline.timestamp)
        self._ends.append(self._ends[-1] + len(line.data))
        return True

    def _write(self, out: BinaryIO) -> None:
        self._spool.flush()
        for number in sorted(range(len(self._times)), key=self._times.__getitem__):
            start, end = self._ends[number : number + 2]
            line = os.pread(self._spool.fileno(), end - start, start)
            mark = self._marks.get(number)
            out.write((line if mark is None else marked(line, mark)) + b"\n")
