"""RecordStore: an append-only log of records, one line of JSON each.

Several processes may append at the same time; a crash during an append loses at most the line being
written. Reading executes no code.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from records.json_lines import parse_json
from records.record import Record
from records.record_errors import NewerSchemaError, RecordError
from records.skipped_lines import SkippedLines, warn_and_log
from records.storage.files import (
    READING_WAITS_S,
    LockedError,
    leads_to,
    lines_until,
    lock_file,
    open_regular,
    open_to_read,
    sync_folder,
)

_log = logging.getLogger(__name__)

MIN_WAIT_S = 2.0  # Seconds to wait after the end of the time, to append the last measurement.
_BEGINNING = b'{"schema":'  # The beginning of all lines that are appended here.

_TAIL_BLOCK = 1 << 16


class RecordStore:
    """The log at `path`; the file need not exist yet.

    Parameters
    ----------
    path : str or path
        A JSON Lines file.
    left_s : callable, optional
        Returns the seconds there are to wait while another process has locked the log, None for
        any. By default reading waits for `files.READING_WAITS_S`, and appending for any time. After
        a second a `RecordWarning` names the process that holds the lock.
    """

    def __init__(
        self, path: str | os.PathLike[str], left_s: Callable[[], float | None] | None = None
    ) -> None:
        self.path = Path(path)
        self._left_s = left_s

    def __repr__(self) -> str:
        return f"RecordStore({str(self.path)!r})"

    def append(self, records: Iterable[Record]) -> None:
        """Append records under a lock and force them to disk; all of them or none.

        A torn last line, left by a crash, is removed first. The file and its folder are made if
        needed.

        Raises
        ------
        RecordError
            If the file cannot be written, or another process has locked it for too long.
        """
        data = encode(records)
        if data:
            self.appending(lambda fd: self.write(fd, data))

    def load(self, must_exist: bool = False) -> list[Record]:
        """Read all records, oldest first.

        A torn last line, and lines that are no records, are skipped with a `RecordWarning` (also
        logged) that names them. A missing file reads as empty.

        Raises
        ------
        RecordError
            If the file cannot be read, holds a record of a newer schema, has lines of which none
            is a record, another process has locked it for too long, or, with `must_exist`, it is
            missing.
        """
        found: list[Record] = []

        def parse(fd: int) -> None:
            with open(fd, "rb", closefd=False) as lines:
                found.extend(self.parse(lines))

        if not self.reading(parse) and must_exist:
            raise RecordError(f"there is no record log at {self.path}; check the path")
        return found

    def stream(self) -> Iterator[Record]:
        """Yield the present records one by one; otherwise as `load`.

        Few are in memory at a time, and writers need not wait. A log that is cut meanwhile is a
        RecordError.
        """
        ends: list[int] = []

        def look(fd: int) -> None:
            size = os.fstat(fd).st_size
            ends.extend((size, last_line_start(fd, size)))

        if not self.reading(look):
            raise RecordError(f"there is no record log at {self.path}; check the path")
        try:
            with open_to_read(self.path) as file:
                yield from self.parse_each(lines_until(file, *ends))
        except OSError as error:
            raise RecordError(f"cannot read {self.path}: {error.strerror}") from error

    # -- for the other classes of this package ---------------------------------------------

    # The action under a lock is an argument. A context manager written in Python could be
    # interrupted before its block begins, or at its end. Then the log stays locked as long as the
    # exception exists, and its readers wait forever.

    def reading(self, use: Callable[[int], object]) -> bool:
        """Lock the log for reading and pass its descriptor on; False if there is no log."""
        try:
            self._locked(os.O_RDONLY, fcntl.LOCK_SH, use)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._refused("read", error) from error
        return True

    def appending(self, use: Callable[[int], object]) -> None:
        """Lock the log, made if needed, for writing and pass its descriptor on, healed."""

        def heal(fd: int) -> None:
            _heal(fd, self.path)
            use(fd)

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._locked(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX, heal)
        except OSError as error:
            raise self._refused("append to", error) from error

    def replacing(self, use: Callable[[int], object]) -> None:
        """Lock the log for writing, as it is, and pass its descriptor on; it may be replaced."""
        try:
            self._locked(os.O_RDWR, fcntl.LOCK_EX, use)
        except OSError as error:
            raise self._refused("rewrite", error) from error

    def _refused(self, what: str, error: OSError) -> RecordError:
        remedy = "; wait for it, or end it" if isinstance(error, LockedError) else ""
        return RecordError(f"cannot {what} {self.path}: {error.strerror}{remedy}")

    def write(self, fd: int, data: bytes) -> None:
        """Write whole lines at the end of the locked log, and force them to disk."""
        _write_whole(fd, data)
        if os.fstat(fd).st_size == len(data):  # it may be a new file: sync its name, too
            sync_folder(self.path.parent)

    def parse(self, lines: Iterable[bytes], first: int = 1) -> list[Record]:
        """Return the records in some lines of the log, the first of which has this number."""
        return list(self.parse_each(lines, first))

    def parse_each(self, lines: Iterable[bytes], first: int = 1) -> Iterator[Record]:
        """Yield what `parse` returns, and warn at the end."""
        found, skipped = first > 1, SkippedLines()
        torn: int | None = None
        for number, line in enumerate(lines, first):
            if line.isspace():
                continue
            try:
                record = Record.from_line(line)
            except NewerSchemaError as error:
                raise RecordError(f"{self.path}, line {number}: {error}") from error
            except (ValueError, RecursionError) as error:
                whole = line.endswith(b"\n") or isinstance(error, RecordError)
                if whole or not may_be_torn(line):
                    skipped.add(number, error)
                else:
                    torn = number
            else:
                found = True
                yield record
        skipped.tell(self.path, found)
        if torn is not None:
            self.warn(f"line {torn} is torn (a crash while appending?); skipped")

    def warn(self, what: str) -> None:
        """Warn about the log by a `RecordWarning` and in the logging."""
        warn_and_log(f"{self.path}: {what}")

    def _locked(self, flags: int, lock: int, use: Callable[[int], object]) -> None:
        """Open and lock the log and call a function; closing the file releases the lock."""
        while True:
            fd = open_regular(self.path, flags)
            try:
                lock_file(fd, lock, self._wait_s(lock), self.warn)
                if leads_to(self.path, fd):  # it may have been replaced meanwhile
                    use(fd)
                    return
            finally:
                os.close(fd)

    def _wait_s(self, lock: int) -> float:
        """Return the seconds to wait for a lock."""
        if self._left_s is None:
            return READING_WAITS_S if lock == fcntl.LOCK_SH else math.inf
        left_s = self._left_s()
        return math.inf if left_s is None else max(MIN_WAIT_S, left_s)


def encode(records: Iterable[Record]) -> bytes:
    """Return records as lines of a log."""
    return "".join(f"{record.to_json_line()}\n" for record in records).encode()


def _heal(fd: int, path: Path) -> None:
    """End the file in a newline: complete a last line that is whole, remove one that is torn.

    A tail that this class cannot have written is not removed but ended with a newline.
    """
    end = os.fstat(fd).st_size
    start = last_line_start(fd, end)
    if start == end:
        return
    tail = os.pread(fd, end - start, start)
    try:
        parse_json(tail)
        torn = False
    except (ValueError, RecursionError):
        torn = may_be_torn(tail)
    if not torn:
        os.pwrite(fd, b"\n", end)
    else:
        os.ftruncate(fd, start)
        # Readers have warned of it.
        _log.info("%s: removed a torn last line of %d bytes", path, end - start)


def may_be_torn(tail: bytes) -> bool:
    """Whether an interrupted append of this class can have left these bytes."""
    return tail.startswith(_BEGINNING[: len(tail)]) or not tail.strip(b"\0")


def last_line_start(fd: int, end: int) -> int:
    """Offset just after the last newline, 0 if there is none."""
    while end > 0:
        begin = max(0, end - _TAIL_BLOCK)
        newline = os.pread(fd, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def _write_whole(fd: int, data: bytes) -> None:
    """Write at the end of the file and sync; if that fails, leave the file as it was."""
    start = os.lseek(fd, 0, os.SEEK_END)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    except BaseException:
        os.ftruncate(fd, start)
        raise
