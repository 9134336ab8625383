"""An index beside a large log, so that a look-up reads a few of its lines; only here is sqlite3.

The log alone counts. The index may be deleted at any time; it is thrown away if the log is no
longer the file that it was made of, or not as it was written, and grows with the log. Where it
cannot be written, one is made in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from records.append_only_log import RecordStore
from records.groups import (
    MOST_TRIALS,
    RecordGroup,
    RecordList,
    RecordSource,
    args_key,
    group_key,
    merged,
)
from records.index_members import Members, read_members
from records.log_reader import LogReader, Skipped
from records.record import Record
from records.record_errors import RecordError

_log = logging.getLogger(__name__)

SUFFIX = ".index.sqlite"  # Of the index, behind the whole name of the log.

_VERSION = 2
_WAIT_S = 30.0  # Seconds to wait for another process that writes the index.

_TABLES = """
DROP TABLE IF EXISTS covered;
DROP TABLE IF EXISTS groups;
DROP TABLE IF EXISTS lines;
CREATE TABLE covered (
    end INTEGER, lines INTEGER, head TEXT, tail TEXT, size INTEGER, modified_ns INTEGER,
    inode TEXT, skipped TEXT, digest TEXT
);
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, key TEXT UNIQUE, template TEXT, args TEXT, common TEXT,
    trials INTEGER, ok INTEGER, finals INTEGER, best_s REAL, first_s REAL, last_s REAL, digest TEXT
);
CREATE TABLE lines (number INTEGER, final INTEGER, cost_s REAL, start INTEGER, length INTEGER);
CREATE INDEX of_group ON lines (number, final, cost_s, start);
"""

# Without the help of an index of SQLite's: what it does not find would be missed.
_GROUPS = """
SELECT key, template, args, common, trials, ok, finals, best_s, first_s, last_s, digest
FROM groups NOT INDEXED ORDER BY number
"""

# All in one, so that nobody changes the index in between.
_LINES_OF = """
SELECT groups.digest, lines.final, lines.start, lines.length
FROM groups LEFT JOIN lines ON lines.number = groups.number WHERE groups.key = ?
ORDER BY lines.final DESC, lines.cost_s, lines.start
"""

# SQLite's errors that say nothing of the file itself: it stays where it is.
_ELSEWHERE = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
}


class _WrongIndexError(Exception):
    """An index that does not fit its log."""


# What shows that something is wrong with an index.
_FAULTS = (
    sqlite3.Error,
    _WrongIndexError,
    ValueError,
    KeyError,
    TypeError,
    OSError,
    MemoryError,
    OverflowError,
)


class _Covered(NamedTuple):
    """Up to where an index knows its log; a row of the table, without its digest."""

    end: int  # Bytes.
    lines: int
    head: str  # Digest of its first bytes.
    tail: str  # Digest of the last ones before `end`.
    size: int  # Of the file at that time.
    modified_ns: int
    inode: str  # It may be too large for an integer of SQLite's.
    skipped: str  # Lines of no record, as JSON.


class _Row(NamedTuple):
    """A group, as an index has it."""

    key: str
    template: str
    args: str
    common: str
    trials: int
    ok: int
    finals: int
    best_s: float | None
    first_s: float
    last_s: float
    digest: str  # Of its lines.

    def group(self) -> RecordGroup:
        common: dict[str, Any] = json.loads(self.common)
        common["constant"] = tuple(common["constant"])
        return RecordGroup(
            **common,
            trials=self.trials,
            ok=self.ok,
            finals=self.finals,
            best_s=self.best_s,
            first_s=self.first_s,
            last_s=self.last_s,
        )


class _Known(NamedTuple):
    """All that an index knows, but the places of lines."""

    covered: _Covered
    groups: list[_Row]

    def digest(self) -> str:
        return _digest([tuple(self.covered), [tuple(row) for row in self.groups]])


def open_index(store: RecordStore) -> RecordSource:
    """Return a log as a source of records that makes and uses the index beside it.

    Lines of no record are passed over as by `RecordStore.load`.

    RecordError if the log cannot be read, or holds a record of a newer schema.
    """
    reader = LogReader(store)
    index = LogIndex(reader)
    rest = reader.unfinished(index.lines + 1) if index.end == reader.end else []
    if index.skipped.first and not rest and not index.groups():
        store.refuse(index.skipped.first)
    store.tell_skipped(index.skipped.first, index.skipped.count)
    return merged([index, RecordList(rest)]) if rest else index


class LogIndex:
    """The whole lines of a log as a source of records; see `open_index`."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._path = Path(f"{reader.store.path}{SUFFIX}")
        self._open()

    @property
    def lines(self) -> int:
        """Number of lines that it knows."""
        return self._known.covered.lines

    @property
    def end(self) -> int:
        """Bytes of the log that it knows."""
        return self._known.covered.end

    @property
    def skipped(self) -> Skipped:
        """Lines of no record."""
        return Skipped.from_json(self._known.covered.skipped)

    def groups(
        self, template: str | None = None, args: Mapping[str, Any] | None = None
    ) -> Sequence[RecordGroup]:
        """Return the groups of a template and its arguments: see `RecordSource`."""
        key = None if args is None else args_key(args)
        return [
            row.group()
            for row in self._known.groups
            if template in (None, row.template) and key in (None, row.args)
        ]

    def records_of(self, group: RecordGroup) -> list[Record]:
        """Return those of a group that may be used: see `records.groups.useful`."""
        try:
            return self._records_of(group)
        except _FAULTS as error:
            _log.info("%s is made anew: %s", self._path, error)
            self._database.close()
            if _is_damage(error):
                self._remove()
            self._open()
        try:
            return self._records_of(group)
        except _FAULTS as error:
            raise RecordError(
                f"{self._reader.store.path} was changed while it was read: try again"
            ) from error

    def _records_of(self, group: RecordGroup) -> list[Record]:
        rows = self._database.execute(_LINES_OF, (group.key,)).fetchall()
        if not rows:
            if any(row.key == group.key for row in self._known.groups):
                raise _WrongIndexError("a group is missing")
            return []
        if rows[0][0] != _digest([row[1:] for row in rows]):
            raise _WrongIndexError("the lines of a group are not those that were written")
        lines = [(start, length) for _, _, start, length in rows if start is not None]
        return [self._read(group, *line) for line in lines]

    def _read(self, group: RecordGroup, start: int, length: int) -> Record:
        # The log may have grown since, and others may have taken that in.
        if not 0 <= start < start + length <= os.fstat(self._reader.fd).st_size:
            raise _WrongIndexError(f"the line at byte {start} is not in the log")
        record = Record.from_line(self._reader.bytes_at(start, length))
        if group_key(record) != group.key:
            raise _WrongIndexError(f"the line at byte {start} is of something else")
        return record

    # -- making and growing it -------------------------------------------------------------

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _open(self) -> None:
        """Open the index, up to date; one in memory where none can be written beside the log."""
        memory: sqlite3.Connection | None = None
        for _ in range(2):
            database: sqlite3.Connection | None = None
            try:
                database = self._connected(self._path)
                self._use(database)
                return
            except RecordError:
                raise  # the log itself cannot be used
            except _FAULTS as error:
                _log.info("%s: %s", self._path, error)
                damaged = _is_damage(error)
                if database is not None:
                    memory = None if damaged else self._copy(database)
                    database.close()
            if not damaged:
                break
            self._remove()
        if memory is not None:
            with contextlib.suppress(sqlite3.Error, _WrongIndexError):
                self._use(memory)
                return
        self._use(self._connected(":memory:"))

    def _use(self, database: sqlite3.Connection) -> None:
        self._known = self._caught_up(database)
        self._database = database

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

    def _caught_up(self, database: sqlite3.Connection) -> _Known:
        """Take in what the log has got since; start anew if it is another one.

        sqlite3.Error or _WrongIndexError if the index is damaged or cannot be written; it stays as
        it was then.
        """
        database.execute("PRAGMA trusted_schema = OFF")
        with _transaction(database, "BEGIN"):
            known = self._known_of(database)
        if known is not None and self._is_current(known.covered):
            return known
        with _transaction(database, "BEGIN IMMEDIATE"):
            known = self._known_of(database)
            if known is None:
                for statement in filter(str.strip, _TABLES.split(";")):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {_VERSION}")
            if known is None or not self._is_current(known.covered):
                known = self._take(database, None if known is None else known.covered)
        return known

    def _known_of(self, database: sqlite3.Connection) -> _Known | None:
        """Return what of the log an index knows; None if it is of another log or version.

        _WrongIndexError if it is not what was written.
        """
        if database.execute("PRAGMA user_version").fetchone() != (_VERSION,):
            return None
        columns = ", ".join(_Covered._fields)
        row = database.execute(f"SELECT digest, {columns} FROM covered").fetchone()
        if row is None:
            return None
        known = _Known(_Covered(*row[1:]), _groups_of(database))
        if row[0] != known.digest():
            raise _WrongIndexError("it is not as it was written")
        return known if self._is_of_log(known.covered) else None

    def _is_of_log(self, covered: _Covered) -> bool:
        log = self._reader
        if covered.inode != str(log.inode):
            return False
        if covered.size == log.size:
            return covered.modified_ns == log.modified_ns  # changed without growing otherwise
        return (covered.head, covered.tail) == log.ends(covered.end)

    def _is_current(self, covered: _Covered) -> bool:
        """Whether there is nothing to take in; others may have read more than there was."""
        return covered.size == self._reader.size or covered.end > self._reader.end

    def _take(self, database: sqlite3.Connection, before: _Covered | None) -> _Known:
        """Read the lines that an index does not know yet, and store what they are."""
        log = self._reader
        if before is None:
            news = read_members(log, 0, 0, Skipped())
        else:
            news = read_members(log, before.end, before.lines, Skipped.from_json(before.skipped))
        for key, members in news.members.items():
            _store(database, key, members)
        covered = _Covered(
            log.end,
            news.lines,
            *log.ends(log.end),
            log.size,
            log.modified_ns,
            str(log.inode),
            news.skipped.to_json(),
        )
        known = _Known(covered, _groups_of(database))
        database.execute("DELETE FROM covered")
        row = (*covered, known.digest())
        columns = ", ".join((*_Covered._fields, "digest"))
        marks = ", ".join("?" * len(row))
        database.execute(f"INSERT INTO covered ({columns}) VALUES ({marks})", row)
        return known


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection, begin: str) -> Iterator[None]:
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


def _groups_of(database: sqlite3.Connection) -> list[_Row]:
    return [_Row(*row) for row in database.execute(_GROUPS)]


def _digest(value: object) -> str:
    """Return a digest of numbers and texts."""
    text = repr(value).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _store(database: sqlite3.Connection, key: str, members: Members) -> None:
    """Add new lines to their group; only lines that a build may need are kept."""
    known = database.execute(
        "SELECT number, trials, ok, finals, best_s, first_s, last_s FROM groups WHERE key = ?",
        (key,),
    ).fetchone()
    if known is None:
        number = database.execute(
            "INSERT INTO groups (key, template, args, common) VALUES (?, ?, ?, ?)",
            (
                key,
                members.common["template"],
                args_key(members.common["args"]),
                json.dumps(members.common),
            ),
        ).lastrowid
        before: tuple[Any, ...] = (0, 0, 0, None, None, None)
    else:
        number, *rest = known
        before = tuple(rest)
    trials, ok, finals, best_s, first_s, last_s = before
    counts = (trials + members.trials, ok + members.ok, finals + len(members.finals))
    times = (
        min((s for s in (best_s, members.best_s) if s is not None), default=None),
        members.first_s if first_s is None else min(first_s, members.first_s),
        members.last_s if last_s is None else max(last_s, members.last_s),
    )
    database.execute(
        "UPDATE groups SET trials = ?, ok = ?, finals = ?, best_s = ?, first_s = ?, last_s = ? "
        "WHERE number = ?",
        (*counts, *times, number),
    )
    database.executemany(
        "INSERT INTO lines (number, final, cost_s, start, length) VALUES (?, ?, ?, ?, ?)",
        [(number, 0, *line) for line in members.fastest()]
        + [(number, 1, None, *line) for line in members.finals],
    )
    database.execute(
        "DELETE FROM lines WHERE rowid IN (SELECT rowid FROM lines WHERE number = ? AND final = 0 "
        f"ORDER BY cost_s, start LIMIT -1 OFFSET {MOST_TRIALS})",
        (number,),
    )
    lines = database.execute(_LINES_OF, (key,)).fetchall()
    digest = _digest([row[1:] for row in lines])
    database.execute("UPDATE groups SET digest = ? WHERE number = ?", (digest, number))


def _is_damage(error: Exception) -> bool:
    """Whether an index is to be removed."""
    if not isinstance(error, sqlite3.Error):
        return True
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF not in _ELSEWHERE
