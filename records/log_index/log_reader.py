"""Reads a log as it is now, while others append to it or replace it."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Iterator

from records.record import Record
from records.record_errors import RecordError
from records.storage.append_only_log import RecordStore, last_line_start
from records.storage.files import open_regular

_ENDS = 1 << 12  # Bytes at the beginning, and at the end of what was read, that identify a log.
_BLOCK = 1 << 17  # Larger ones leave the caches before they are split.


class LogReader:
    """A log as it was when this object was made; what is appended later is not read.

    RecordError if it cannot be read.
    """

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        descriptors: list[int] = []
        statuses: list[os.stat_result] = []

        def look(fd: int) -> None:
            # Under the lock, so that nobody is in the middle of a line. The descriptor is another
            # one: closing a copy of this one would release the lock.
            statuses.append(os.fstat(fd))
            descriptors.append(open_regular(store.path, os.O_RDONLY))

        if not store.reading(look):
            raise RecordError(f"there is no record log at {store.path}; check the path")
        self.fd, status = descriptors[0], statuses[0]
        weakref.finalize(self, os.close, self.fd)
        if not os.path.samestat(os.fstat(self.fd), status):
            raise RecordError(f"{store.path} was replaced while it was read: try again")
        self.size = status.st_size
        self.modified_ns = status.st_mtime_ns
        self.inode = status.st_ino
        self.end = last_line_start(self.fd, self.size)  # Behind the last whole line.

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the whole lines from byte `start` on, without newlines."""
        return lines_between(self.fd, start, self.end)

    def bytes_at(self, start: int, length: int) -> bytes:
        """Return some bytes of the log."""
        return os.pread(self.fd, length, start)

    def ends(self, end: int) -> tuple[str, str]:
        """Return digests of the first bytes and of the last ones before `end`."""
        length = min(_ENDS, end)
        parts = self.bytes_at(0, length), self.bytes_at(end - length, length)
        head, tail = (hashlib.sha256(part).hexdigest() for part in parts)
        return head, tail

    def unfinished(self, number: int) -> list[Record]:
        """Return the record in a last line without newline, if there is one.

        `number`: of that line.
        """
        rest = self.bytes_at(self.end, self.size - self.end)
        return self.store.parse([rest], number) if rest else []


def lines_between(fd: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines between two bytes of an open file, the last newline before `end`."""
    rest = b""
    while start < end and (block := os.pread(fd, min(_BLOCK, end - start), start)):
        start += len(block)
        *lines, rest = (rest + block).split(b"\n")
        yield from lines


def whole_line_from(fd: int, place: int, end: int) -> int:
    """Return where the first line begins that does so at a byte or behind it."""
    while 0 < place < end:
        block = os.pread(fd, min(_BLOCK, end - place + 1), place - 1)
        if not block:
            break
        newline = block.find(b"\n")
        if newline >= 0:
            return place + newline
        place += len(block)
    return min(place, end)
