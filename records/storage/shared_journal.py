"""One journal for several workloads of a run: the log is read once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from records.groups import args_key
from records.record import Record
from records.storage.append_only_log import RecordStore
from records.storage.journal import Entry, Journal

_Key = tuple[str, str, str, tuple[int, ...]]


class SharedJournal:
    """Hands each workload its own part of a journal; see `part`.

    Otherwise each of many workloads would read, parse and remember what all the others have logged,
    and have the log open.

    store: the log.
    """

    def __init__(self, store: RecordStore) -> None:
        self._journal = Journal(store)
        self._untold: dict[_Key, list[Record]] = {}
        self._open: set[_Key] = set()
        self._is_read = False

    def part(
        self, template: str, args: Mapping[str, Any], target: str, constant: Sequence[int] = ()
    ) -> JournalPart | None:
        """Return the journal of one workload; None if it has one, or the log is read already."""
        key = _key(template, args, target, constant)
        if key in self._open or self._is_read:
            return None
        self._open.add(key)
        self._untold[key] = []
        return JournalPart(self, self._journal, key)

    def take(self, key: _Key) -> list[Record]:
        """Read what is new in the log; return what is untold of a workload."""
        self._is_read = True
        for record in self._journal.new_records():
            own = _key(record.template, record.args, record.target, record.constant)
            if own in self._untold:
                self._untold[own].append(record)
        found, self._untold[key] = self._untold[key], []
        return found

    def close(self, key: _Key) -> None:
        """Close the journal with the last of its parts."""
        self._open.discard(key)
        if not self._open:
            self._journal.close()


class JournalPart:
    """What a `Journal` is, of one workload among several; `SharedJournal.part` makes it."""

    def __init__(self, shared: SharedJournal, journal: Journal, key: _Key) -> None:
        self._shared = shared
        self._journal = journal
        self._key = key
        self._claimed: set[Entry] = set()

    def new_records(self) -> list[Record]:
        """Return the new records of this workload; see `Journal.new_records`."""
        return self._shared.take(self._key)

    def claim(self, entry: Entry) -> bool:
        """Return whether this run may measure an entry; see `Journal.claim`."""
        claimed = self._journal.claim(entry)
        if claimed:
            self._claimed.add(entry)
        return claimed

    def release(self, entry: Entry) -> None:
        """Let others measure a claimed entry after all."""
        self._claimed.discard(entry)
        self._journal.release(entry)

    def free(self, entries: Iterable[Entry]) -> None:
        """Let entries be filled again; see `Journal.free`."""
        self._journal.free(entries)

    def add(self, record: Record) -> bool:
        """Append a record unless its entry is filled; see `Journal.add`."""
        return bool(self.add_all([record]))

    def add_all(self, records: Sequence[Record]) -> list[Record]:
        """Append those records whose entries are not filled; see `Journal.add_all`."""
        self._claimed.difference_update(map(Entry.of, records))
        return self._journal.add_all(records)

    def close(self) -> None:
        """Release the claims of this workload; the last of the workloads closes the journal."""
        for entry in self._claimed:
            self._journal.release(entry)
        self._claimed.clear()
        self._shared.close(self._key)


def _key(template: str, args: Mapping[str, Any], target: str, constant: Sequence[int]) -> _Key:
    """Return what is equal for equal workloads, as `select` compares them."""
    return template, args_key(args), target, tuple(constant)
