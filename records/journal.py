"""Journal: a log as a run sees it that shares it with others, each configuration once.

Only what was appended since the last look is read.
"""

from __future__ import annotations

import os

from records.record import Record, config_key, workload_key
from records.store import RecordStore, encode


class Journal:
    """Tells what is new in a log, and adds what is not there yet.

    A record is there if one of the same workload, target and knob values is, made by the same
    template as its fingerprint says.

    Parameters
    ----------
    store : RecordStore
        The log.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._keys: set[tuple[str, str, str]] = set()
        self._untold: list[Record] = []
        self._file = (0, 0)
        self._end = 0
        self._lines = 0

    def news(self) -> list[Record]:
        """Return, oldest first, what was neither told before nor added here.

        Raises
        ------
        RecordError
            As `RecordStore.load`.
        """
        with self._store.reading() as fd:
            if fd is not None:
                self._look(fd)
        news, self._untold = self._untold, []
        return news

    def add(self, record: Record) -> bool:
        """Append a record unless it is there; return whether it was appended.

        Raises
        ------
        RecordError
            If the file cannot be read or written.
        """
        key = _key(record)
        with self._store.appending() as fd:
            self._look(fd)
            if key in self._keys:
                return False
            data = encode([record])
            self._store.write(fd, data)
        self._keys.add(key)
        self._end += len(data)
        self._lines += 1
        return True

    def _look(self, fd: int) -> None:
        """Take in what others have appended to the locked log."""
        status = os.fstat(fd)
        file = (status.st_dev, status.st_ino)
        if file != self._file or status.st_size < self._end:  # the first look, or another file
            self._file, self._end, self._lines = file, 0, 0
        known = self._keys.copy() if self._end == 0 else set()
        data = os.pread(fd, status.st_size - self._end, self._end)
        *lines, tail = data.split(b"\n")
        fresh = self._store.parse((line + b"\n" for line in lines), self._lines + 1)
        self._lines += len(lines)
        # A last line that only lacks its newline counts; a torn one will be removed.
        last = self._store.parse([tail], self._lines + 1) if tail else []
        self._end += len(data) - (0 if last else len(tail))
        self._untold += [record for record in fresh + last if _key(record) not in known]
        self._keys.update(map(_key, fresh + last))


def _key(record: Record) -> tuple[str, str, str]:
    template = (record.fingerprints or {}).get("template", "")
    return workload_key(record), config_key(record), template
