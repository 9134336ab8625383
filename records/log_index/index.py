"""An index beside a large log, so that a look-up reads a few of its lines.

The index only repeats what the log has, so it may be deleted at any time. It grows with the log,
and is made again if the log was replaced or changed otherwise than by appending. Where it cannot be
written, it is made in memory.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from records.best_of_group import MOST_TRIALS
from records.groups import RecordGroup, RecordList, RecordSource, args_key, group_key, merged
from records.log_index.index_members import Members, read_members
from records.log_index.index_tables import (
    BUCKETS,
    FAULTS,
    Covered,
    GroupRow,
    WrongIndexError,
    bucket_of,
    is_damage,
    make_tables,
    places_of,
    read_bucket,
    read_covered,
    transaction,
    write_covered,
    write_members,
)
from records.log_index.log_reader import LogReader
from records.record import Record
from records.record_errors import RecordError
from records.skipped_lines import SkippedLines
from records.storage.append_only_log import RecordStore

_log = logging.getLogger(__name__)

SUFFIX = ".index.sqlite"  # Of the index, behind the whole name of the log.

_WAIT_S = 30.0  # Seconds to wait for another process that writes the index.

T = TypeVar("T")


def open_index(store: RecordStore) -> RecordSource:
    """Return a log as a source of records that makes and uses the index beside it.

    Lines of no record are passed over as by `RecordStore.load`.

    RecordError if the log cannot be read, or holds a record of a newer schema.
    """
    reader = LogReader(store)
    index = IndexedLog(reader)
    if index.is_empty:
        return RecordList(store.load())  # says what is wrong, if something is
    rest = reader.unfinished(index.lines + 1) if index.end == reader.end else []
    if index.skipped.count:
        index.skipped.tell(store.path, True)
    return merged([index, RecordList(rest)]) if rest else index


class IndexedLog:
    """The whole lines of a log as a source of records; see `open_index`."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._path = Path(f"{reader.store.path}{SUFFIX}")
        self._whole: tuple[int, Mapping[str, Members]] | None = None  # What was read last of it.
        self._lock = threading.Lock()  # Threads share the connection.
        self._open()

    @property
    def is_empty(self) -> bool:
        """Whether it knows no record."""
        return not self._covered.groups

    @property
    def lines(self) -> int:
        """Number of lines that it knows."""
        return self._covered.lines

    @property
    def end(self) -> int:
        """Bytes of the log that it knows."""
        return self._covered.end

    @property
    def skipped(self) -> SkippedLines:
        """Lines of no record."""
        return SkippedLines.from_json(self._covered.skipped)

    def groups(
        self, template: str | None = None, args: Mapping[str, Any] | None = None
    ) -> Sequence[RecordGroup]:
        """Return the groups of a template and its arguments: see `RecordSource`."""
        key = None if args is None else args_key(args)
        buckets = range(BUCKETS) if key is None else [bucket_of(key)]
        return [
            group
            for row, group in self._reading(lambda: self._rows(buckets))
            if template in (None, row.template) and key in (None, row.args)
        ]

    def records_of(self, group: RecordGroup, most: int = MOST_TRIALS) -> list[Record]:
        """Return the best records of a group: see `records.groups.useful`.

        The index knows `MOST_TRIALS` trials of a group: for more of them, the log is read.
        """
        return self._reading(lambda: self._records_of(group, most))

    def _reading(self, read: Callable[[], T]) -> T:
        """Return what a function reads of the index, which is made anew if it is wrong."""
        with self._lock:
            try:
                return read()
            except FAULTS as error:
                _log.info("%s is made anew: %s", self._path, error)
                self._database.close()
                if not is_damage(error) or self._remove():
                    self._open()
                else:
                    self._use(self._connected(":memory:"))
            try:
                return read()
            except FAULTS as error:
                raise RecordError(
                    f"{self._reader.store.path} was changed while it was read: try again"
                ) from error

    def _rows(self, buckets: Iterable[int]) -> list[tuple[GroupRow, RecordGroup]]:
        """Return the groups in some buckets, in order of first appearance."""
        with transaction(self._database, "BEGIN"):
            covered = self._covered_by(self._database)
            if covered is None:
                raise WrongIndexError("it is of another log now")
            for bucket in buckets:
                if bucket not in self._buckets:
                    rows = read_bucket(self._database, covered, bucket)
                    self._buckets[bucket] = [(row, row.group()) for row in rows]
        found = [pair for bucket in buckets for pair in self._buckets[bucket]]
        return sorted(found, key=lambda pair: pair[0].number)

    def _records_of(self, group: RecordGroup, most: int) -> list[Record]:
        places = places_of(self._database, group.key)
        if places is None or most > MOST_TRIALS:
            in_bucket = self._rows([bucket_of(args_key(group.args))])
            known = next((known for row, known in in_bucket if row.key == group.key), None)
            if known is not None and places is None:
                raise WrongIndexError("a group is missing")
            if known is not None and min(known.ok, most) > MOST_TRIALS:
                best = self._members_of_log(most)[group.key].best
                return [self._read(group, *place) for place in best.kept(most)]
        return [self._read(group, place.start, place.length) for place in places or ()]

    def _members_of_log(self, most: int) -> Mapping[str, Members]:
        """Return where `most` or more of the best lines of each group stand, from the log."""
        if self._whole is None or self._whole[0] < most:
            self._whole = most, read_members(self._reader, 0, 0, SkippedLines(), most).members
        return self._whole[1]

    def _read(self, group: RecordGroup, start: int, length: int) -> Record:
        # The log may have grown since, and others may have taken that in.
        if not 0 <= start < start + length <= os.fstat(self._reader.fd).st_size:
            raise WrongIndexError(f"the line at byte {start} is not in the log")
        record = Record.from_line(self._reader.bytes_at(start, length))
        if group_key(record) != group.key:
            raise WrongIndexError(f"the line at byte {start} is of something else")
        return record

    # -- making and growing it -------------------------------------------------------------

    def _remove(self) -> bool:
        """Remove the index; return whether it is gone."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
            return True
        return False

    def _open(self) -> None:
        """Open the index, up to date; one in memory where none can be written beside the log."""
        self._whole = None
        memory: sqlite3.Connection | None = None
        for _ in range(2):
            database: sqlite3.Connection | None = None
            try:
                database = self._connected(self._path)
                self._use(database)
                return
            except RecordError:
                raise  # the log itself cannot be used
            except FAULTS as error:
                _log.info("%s: %s", self._path, error)
                damaged = is_damage(error)
                if database is not None:
                    memory = None if damaged else self._copy(database)
                    database.close()
            if not damaged:
                break
            self._remove()
        if memory is not None:
            with contextlib.suppress(sqlite3.Error, WrongIndexError):
                self._use(memory)
                return
        self._use(self._connected(":memory:"))

    def _use(self, database: sqlite3.Connection) -> None:
        self._covered = self._caught_up(database)
        self._database = database
        # The groups of the buckets that were looked into.
        self._buckets: dict[int, list[tuple[GroupRow, RecordGroup]]] = {}

    def _connected(self, where: Path | str) -> sqlite3.Connection:
        # Transactions are begun and ended below.
        database = sqlite3.connect(
            where, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, database.close)
        return database

    def _copy(self, database: sqlite3.Connection) -> sqlite3.Connection | None:
        """Return what an index holds that cannot be written, in memory; None without success."""
        memory = self._connected(":memory:")
        try:
            database.backup(memory)
        except sqlite3.Error:
            memory.close()
            return None
        return memory

    def _caught_up(self, database: sqlite3.Connection) -> Covered:
        """Take in what the log has got since; start anew if it is another one.

        sqlite3.Error or WrongIndexError if the index is damaged or cannot be written; it stays as
        it was then.
        """
        database.execute("PRAGMA trusted_schema = OFF")
        with transaction(database, "BEGIN"):
            covered = self._covered_by(database)
        if covered is not None and self._is_current(covered):
            return covered
        with transaction(database, "BEGIN IMMEDIATE"):
            covered = self._covered_by(database)
            if covered is None:
                make_tables(database)
            if covered is None or not self._is_current(covered):
                covered = self._take(database, covered)
        return covered

    def _covered_by(self, database: sqlite3.Connection) -> Covered | None:
        """Return up to where an index knows the log; None if it is of another log or version."""
        covered = read_covered(database)
        return covered if covered is not None and self._is_of_log(covered) else None

    def _is_of_log(self, covered: Covered) -> bool:
        log = self._reader
        if covered.inode != str(log.inode):
            return False
        if covered.size == log.size:
            return covered.modified_ns == log.modified_ns  # changed without growing otherwise
        return (covered.head, covered.tail) == log.ends(covered.end)

    def _is_current(self, covered: Covered) -> bool:
        """Whether there is nothing to take in; others may have read more than there was."""
        return covered.size == self._reader.size or covered.end > self._reader.end

    def _take(self, database: sqlite3.Connection, before: Covered | None) -> Covered:
        """Read the lines that an index does not know yet, and store what they are."""
        log = self._reader
        if before is None:
            news = read_members(log, 0, 0, SkippedLines())
        else:
            skipped = SkippedLines.from_json(before.skipped)
            news = read_members(log, before.end, before.lines, skipped)
        covered = Covered(
            log.end,
            news.lines,
            *log.ends(log.end),
            log.size,
            log.modified_ns,
            str(log.inode),
            news.skipped.to_json(),
            *write_members(database, before, news.members),
        )
        write_covered(database, covered)
        return covered
