"""Journal: a log that several runs share; each configuration is recorded once.

Only newly appended records are read. Candidates that one run has claimed are not measured by
others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from records.record import (
    Record,
    canonical,
    config_key,
    make_workload_key,
    without_node,
    workload_key,
)
from records.record_errors import RecordError
from records.storage.append_only_log import RecordStore, encode
from records.storage.claims import Claims

# Number of last bytes of a log that identify it; they contain most of a line with a time stamp.
_TAIL_BYTES = 1024

Action = Callable[[int], object]  # What is done with the descriptor of a locked log.


class Entry(NamedTuple):
    """A configuration of a workload, of which a run makes at most one record.

    `template` is the fingerprint of the template that makes it; a changed one is another entry.
    So is the same on another kind of device, and each final comparison that the configuration was
    in. In which of several machines a device was does not matter.
    """

    workload: str
    config: str
    template: str
    device: str = ""
    comparison: str = ""

    @classmethod
    def of(cls, record: Record) -> Entry:
        """Return the entry that a record fills."""
        template = (record.fingerprints or {}).get("template", "")
        comparison = "" if record.final is None else record.final["comparison"]
        device = canonical(without_node(record.device))
        return cls(workload_key(record), config_key(record), template, device, comparison)

    @classmethod
    def make(
        cls,
        workload: Mapping[str, Any],
        target: str,
        values: Mapping[str, Any],
        template: str,
        device: Mapping[str, Any],
    ) -> Entry:
        """Return the entry of a workload as records have it, target, knob values and device."""
        constant = workload.get("constant", ())
        key = make_workload_key(workload["template"], workload["args"], target, constant)
        return cls(key, canonical(values), template, canonical(without_node(device)))


class Journal:
    """Tells what is new in a log, and adds what is not there yet.

    store: the log.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._claims = Claims(store.path)
        self._keys: set[Entry] = set()
        self._free: set[Entry] = set()  # of the keys, those that may be filled again
        self._untold: list[Record] = []
        self._lost: set[Entry] = set()
        self._own: dict[Entry, Record] = {}
        self._missing: list[Record] = []
        self._tail = b""
        self._file = (0, 0)
        self._end = 0
        self._lines = 0
        self._failed = False  # whether the log could not be used at the last try

    def new_records(self) -> list[Record]:
        """Return the records that were not returned before and not added here, oldest first.

        RecordError as `RecordStore.load`.
        """
        if not self._is_known():
            self._use(self._store.reading, self._read_new)
        news, self._untold = self._untold, []
        return news

    def claim(self, entry: Entry) -> bool:
        """Return whether this run may measure an entry: it is neither filled nor claimed.

        Other runs cannot claim it until `add`, `release`, `close`, or the end of this process.

        RecordError if the log cannot be read or made.
        """
        if self._is_filled(entry):
            return False
        try:
            if not self._claims.take(str(entry)):
                return False
        except OSError as error:
            self._failed = True
            raise RecordError(f"cannot open {self._store.path}: {error.strerror}") from error
        self._use(self._store.reading, self._read_new)  # another run may have added it just before
        if self._is_filled(entry):
            self._claims.release(str(entry))
            return False
        return True

    def release(self, entry: Entry) -> None:
        """Let others measure a claimed entry after all."""
        self._claims.release(str(entry))

    def free(self, entries: Iterable[Entry]) -> None:
        """Let entries be filled again: what the log holds of them does not count.

        That ends for an entry with the next record of it.
        """
        self._free |= self._keys.intersection(entries)

    def _is_filled(self, entry: Entry) -> bool:
        return entry in self._keys and entry not in self._free

    def close(self) -> None:
        """Release all claims; a log that they created is removed if it is empty.

        The journal can still be used. Overwritten records of this run are added again. If other
        records are lost, a warning says how many records the log has.
        """
        self._claims.close()
        if self._own or (self._keys and (self._lost or not self._is_known())):
            self._read_tail()

    def _read_tail(self) -> None:
        """Warn if the log does not hold what was seen in it."""
        try:
            there = self._store.reading(self._read_new)
            if self._missing:
                self._store.appending(self._read_new_and_restore)
        except RecordError as error:  # the run itself is done
            if not self._failed:  # else that is told already
                self._store.warn(f"what it holds at the end of this run is not known: {error}")
            return
        if not there or self._lost:
            held = len(self._keys - self._lost) if there else 0
            self._store.warn(
                f"the log holds {_counted(held)} now: some that were in it during this run are gone"
            )

    def add(self, record: Record) -> bool:
        """Append a record unless its entry is filled; return whether it was appended.

        A claim on it ends.

        RecordError if the file cannot be read or written.
        """
        return bool(self.add_all([record]))

    def add_all(self, records: Sequence[Record]) -> list[Record]:
        """Append those records whose entries are not filled, all or none; return them.

        Claims on them end.

        RecordError if the file cannot be read or written.
        """
        added: list[Record] = []

        def write(fd: int) -> None:
            self._read_new_and_restore(fd)
            added.extend(record for record in records if not self._is_filled(Entry.of(record)))
            if not added:
                return
            self._write(fd, added)
            self._keys |= set(map(Entry.of, added))
            self._free -= set(map(Entry.of, added))
            self._own |= {Entry.of(record): record for record in added}

        self._use(self._store.appending, write)
        for record in records:
            self._claims.release(str(Entry.of(record)))
        return added

    def _use(self, lock: Callable[[Action], object], action: Action) -> None:
        """Do something with the locked log; remember whether that was possible."""
        try:
            lock(action)
        except RecordError:
            self._failed = True
            raise
        self._failed = False

    def _is_known(self) -> bool:
        """Whether the log still ends where it ended at the last read."""
        try:
            status = os.stat(self._store.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino, status.st_size) == (*self._file, self._end)

    def _write(self, fd: int, records: list[Record]) -> None:
        """Append records to the locked log."""
        data = encode(records)
        self._store.write(fd, data)
        self._end += len(data)
        self._lines += len(records)
        self._remember(fd)

    def _read_new_and_restore(self, fd: int) -> None:
        """Take in what others have appended, and add again what they have overwritten."""
        self._read_new(fd)
        if self._missing:
            self._write(fd, self._missing)
            self._lost -= set(map(Entry.of, self._missing))
            self._missing = []

    def _read_new(self, fd: int) -> None:
        """Take in what others have appended to the locked log."""
        status = os.fstat(fd)
        file = (status.st_dev, status.st_ino)
        # The first look; or another file, or something else in this one.
        if file != self._file or status.st_size < self._end or not self._goes_on(fd):
            self._file, self._end, self._lines = file, 0, 0
        anew = self._end == 0
        known = (self._keys if anew else self._lost).copy()
        data = os.pread(fd, status.st_size - self._end, self._end)
        *lines, tail = data.split(b"\n")
        fresh = self._store.parse((line + b"\n" for line in lines), self._lines + 1)
        self._lines += len(lines)
        # A last line that only lacks its newline counts; a torn one will be removed.
        last = self._store.parse([tail], self._lines + 1) if tail else []
        self._end += len(data) - (0 if last else len(tail))
        self._remember(fd)
        self._untold += [record for record in fresh + last if Entry.of(record) not in known]
        entries = set(map(Entry.of, fresh + last))
        whole, self._lost = not self._lost, (self._lost | known) - entries
        self._keys |= entries
        if not anew:
            self._free -= entries
        self._missing = [record for record in self._missing if Entry.of(record) in self._lost]
        if anew:
            self._miss(emptied=self._end == 0, first=whole)

    def _miss(self, emptied: bool, first: bool) -> None:
        """Warn of records that are gone from the log; of an emptied log only at the `first` loss.

        A deleted, moved or emptied log continues with new records. If another file replaced the
        log, records that were added here will be added again.
        """
        own = [record for entry, record in self._own.items() if entry in self._lost]
        if own and not emptied:
            others = len(self._lost) - len(own)
            self._store.warn(
                "the log was cut, or something else written over it, during this run: "
                f"{_counted(len(own))} of this run will be added to it again"
                + (f", {_counted(others)} that it held else are gone" if others else "")
            )
            self._missing = own
        elif first and self._lost:
            self._store.warn(
                "the log was deleted, replaced or cut during this run: records that were in it are "
                "gone; those to come are appended to what is there now"
            )

    def _goes_on(self, fd: int) -> bool:
        """Whether the log still holds, where it was seen to end, the bytes that it ended with."""
        return os.pread(fd, len(self._tail), self._end - len(self._tail)) == self._tail

    def _remember(self, fd: int) -> None:
        length = min(self._end, _TAIL_BYTES)
        self._tail = os.pread(fd, length, self._end - length)


def _counted(number: int) -> str:
    return "1 record" if number == 1 else f"{number} records"
