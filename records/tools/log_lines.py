"""The lines of a log with what they hold, one at a time, also those that are no records."""

from __future__ import annotations

import gzip
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from records.formats import FileFormat, foreign_format, stream_any
from records.outline import Outline
from records.record_errors import NewerSchemaError, RecordError
from records.skipped_lines import SkippedLines
from records.storage.append_only_log import RecordStore, last_line_start, may_be_torn
from records.storage.files import GZIP, lines_until, open_to_read


class TornLineError(RecordError):
    """A last line that a crash has cut; the next append removes it."""

    def __init__(self) -> None:
        super().__init__("it is torn (a crash while appending?)")


class LogLine(NamedTuple):
    """A line of a log.

    `path`, `number`: where it stands; lines count from 1. In a file of another tool, measurements
        are counted.
    `data`: its text without the newline. Of a measurement of another tool it is the line that our
        log would have.
    `found`: what the line holds, or why it is no record.
    """

    path: Path
    number: int
    data: bytes
    found: Outline | RecordError

    @property
    def outline(self) -> Outline:
        """What a line holds that is a record."""
        return cast(Outline, self.found)


class LogFile:
    """A log as it is now: what is appended later is not read.

    It may be compressed, or a file of another tool; `foreign` says what it is then.

    RecordError if it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.foreign = foreign_format(path)
        self._seen: list[tuple[os.stat_result, int]] = []
        if self.foreign not in (None, FileFormat.COMPRESSED):
            return
        if not RecordStore(path).reading(lambda fd: self._seen.append(extent_of(fd))):
            raise RecordError(f"there is no record log at {path}; check the path")

    def lines(self) -> Iterator[LogLine]:
        """Yield all lines but blank ones.

        RecordError if the file was replaced or cut since this object was made, or cannot be read.
        """
        if self.foreign not in (None, FileFormat.COMPRESSED):
            for number, record in enumerate(stream_any(self.path), 1):
                data = record.to_json_line().encode()
                yield LogLine(self.path, number, data, Outline.of_record(record))
            return
        try:
            with open_to_read(self.path) as file:
                known, whole = self._seen[0]
                if not os.path.samestat(os.fstat(file.fileno()), known):
                    raise RecordError(f"{self.path} was replaced while it was read: try again")
                yield from lines_in(self.path, file, known.st_size, whole)
        except OSError as error:
            raise RecordError(f"cannot read {self.path}: {error.strerror or error}") from error


def extent_of(fd: int) -> tuple[os.stat_result, int]:
    """Return the status of an open log that is locked, and the end of its last whole line."""
    status = os.fstat(fd)
    return status, last_line_start(fd, status.st_size)


def lines_in(path: Path, file: BinaryIO, end: int, whole: int) -> Iterator[LogLine]:
    """Yield the lines in the first `end` bytes of an open log, compressed or not.

    `whole`: see `lines_until`.

    OSError if it has been cut meanwhile; RecordError if it is compressed and damaged.
    """
    file.seek(0)
    packed = file.read(len(GZIP)) == GZIP
    file.seek(0)
    if not packed:
        yield from _parsed(path, lines_until(file, end, whole))
        return
    try:
        with gzip.open(file) as lines:
            yield from _parsed(path, cast(BinaryIO, lines))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"cannot read {path}: {error}") from error


def _parsed(path: Path, lines: Iterable[bytes]) -> Iterator[LogLine]:
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        data = line.rstrip(b"\r\n")
        found: Outline | RecordError
        try:
            found = Outline.of_line(data)
        except RecordError as error:
            found = error
        except (ValueError, RecursionError) as error:
            torn = not line.endswith(b"\n") and may_be_torn(line)
            found = TornLineError() if torn else RecordError(str(error))
        yield LogLine(path, number, data, found)


def records_of(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """Yield the lines of logs that are records; the others are counted in a `RecordWarning`.

    RecordError if a later version wrote one of them, or no line of a log is a record.
    """
    for path, own in itertools.groupby(lines, lambda line: line.path):
        yield from _records_of(path, own)


def _records_of(path: Path, lines: Iterable[LogLine]) -> Iterator[LogLine]:
    found, skipped = False, SkippedLines()
    for line in lines:
        if isinstance(line.found, Outline):
            found = True
            yield line
        elif isinstance(line.found, NewerSchemaError):
            raise RecordError(f"{path}, line {line.number}: {line.found}") from line.found
        else:
            skipped.add(line.number, line.found)
    skipped.tell(path, found)


def every_line(logs: Iterable[LogFile]) -> Iterator[LogLine]:
    """Yield the lines of several logs, one log after the other."""
    for log in logs:
        yield from log.lines()
