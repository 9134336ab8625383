"""An index beside a large log, so that a look-up reads a few of its lines; only here is sqlite3.

The log alone counts. The index may be deleted at any time; it is thrown away if the log is no
longer the file that it was made of, and grows with the log. Where it cannot be written, one is made
in memory.
"""

from __future__ import annotations

import contextlib
import json
import logging
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
from records.log_reader import LogReader
from records.record import Record
from records.record_errors import RecordError
from records.skipped_lines import SkippedLines

_log = logging.getLogger(__name__)

SUFFIX = ".index.sqlite"  # Of the index, behind the whole name of the log.

_VERSION = 1
_WAIT_S = 30.0  # Seconds to wait for another process that writes the index.

_TABLES = """
DROP TABLE IF EXISTS covered;
DROP TABLE IF EXISTS groups;
DROP TABLE IF EXISTS lines;
CREATE TABLE covered (
    end INTEGER, lines INTEGER, head TEXT, tail TEXT, size INTEGER, modified_ns INTEGER,
    skipped TEXT
);
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, key TEXT UNIQUE, template TEXT, args TEXT, common TEXT,
    trials INTEGER, ok INTEGER, finals INTEGER, best_s REAL, first_s REAL, last_s REAL
);
CREATE INDEX workloads ON groups (template, args);
CREATE TABLE lines (number INTEGER, final INTEGER, cost_s REAL, start INTEGER, length INTEGER);
CREATE INDEX of_group ON lines (number, final, cost_s, start);
"""

# All in one, so that nobody changes the index in between.
_LINES_OF = """
SELECT groups.finals, groups.ok, lines.start, lines.length
FROM groups LEFT JOIN lines ON lines.number = groups.number WHERE groups.key = ?
ORDER BY lines.final DESC, lines.cost_s, lines.start
"""

# Of SQLite's errors those that say that a file is no index of this version.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}


class _WrongIndexError(Exception):
    """An index that does not fit its log."""


# What shows that something is wrong with an index.
_FAULTS = (sqlite3.Error, _WrongIndexError, ValueError, KeyError, TypeError)


class _Covered(NamedTuple):
    """Up to where an index knows its log; a row of the table."""

    end: int  # Bytes.
    lines: int
    head: str  # Digest of its first bytes.
    tail: str  # Digest of the last ones before `end`.
    size: int  # Of the file at that time.
    modified_ns: int
    skipped: str  # Lines of no record, as JSON.


def open_index(store: RecordStore) -> RecordSource:
    """Return a log as a source of records that makes and uses the index beside it.

    Lines of no record are passed over as by `RecordStore.load`.

    RecordError if the log cannot be read, or holds a record of a newer schema.
    """
    reader = LogReader(store)
    index = LogIndex(reader)
    rest = reader.unfinished(index.lines + 1) if index.end == reader.end else []
    if index.skipped.count:
        index.skipped.tell(store.path, bool(rest or index.groups()))
    return merged([index, RecordList(rest)]) if rest else index


class LogIndex:
    """The whole lines of a log as a source of records; see `open_index`."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._path = Path(f"{reader.store.path}{SUFFIX}")
        self._database = self._opened()
        covered = self._covered(self._database)
        assert covered is not None
        self.lines = covered.lines
        self.end = covered.end
        self.skipped = SkippedLines.from_json(covered.skipped)

    def groups(
        self, template: str | None = None, args: Mapping[str, Any] | None = None
    ) -> Sequence[RecordGroup]:
        """Return the groups of a template and its arguments: see `RecordSource`."""
        key = None if args is None else args_key(args)
        try:
            return self._groups(template, key)
        except _FAULTS as error:
            self._make_anew(error)
            return self._groups(template, key)

    def records_of(self, group: RecordGroup) -> list[Record]:
        """Return those of a group that may be used: see `records.groups.useful`."""
        try:
            return self._records_of(group)
        except _FAULTS as error:
            self._make_anew(error)
        try:
            return self._records_of(group)
        except _FAULTS as error:
            raise RecordError(
                f"{self._reader.store.path} was changed while it was read: try again"
            ) from error

    def _groups(self, template: str | None, args: str | None) -> list[RecordGroup]:
        wanted = {"template": template, "args": args}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = "WHERE " + " AND ".join(f"{name} = ?" for name in given) if given else ""
        rows = self._database.execute(
            "SELECT common, trials, ok, finals, best_s, first_s, last_s FROM groups "
            f"{where} ORDER BY number",
            tuple(given.values()),
        ).fetchall()
        return [
            RecordGroup(
                **_common_of(common),
                trials=trials,
                ok=ok,
                finals=finals,
                best_s=best_s,
                first_s=first_s,
                last_s=last_s,
            )
            for common, trials, ok, finals, best_s, first_s, last_s in rows
        ]

    def _records_of(self, group: RecordGroup) -> list[Record]:
        rows = self._database.execute(_LINES_OF, (group.key,)).fetchall()
        lines = [(start, length) for _, _, start, length in rows if start is not None]
        if rows and len(lines) != rows[0][0] + min(rows[0][1], MOST_TRIALS):
            raise _WrongIndexError(f"it knows {len(lines)} lines of a group of more or fewer")
        return list(self._read(group, lines))

    def _read(self, group: RecordGroup, lines: Sequence[tuple[int, int]]) -> Iterator[Record]:
        for start, length in lines:
            record = Record.from_line(self._reader.bytes_at(start, length))
            if group_key(record) != group.key:
                raise _WrongIndexError(f"the line at byte {start} is of something else")
            yield record

    # -- making and growing it -------------------------------------------------------------

    def _make_anew(self, error: Exception) -> None:
        """Replace an index that does not fit, or cannot be read."""
        _log.info("%s is made anew: %s", self._path, error)
        self._database.close()
        if not isinstance(error, sqlite3.Error) or _is_damage(error):
            self._remove()
        self._database = self._opened()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _opened(self) -> sqlite3.Connection:
        """Return the index, up to date; one in memory where none can be written beside the log."""
        memory: sqlite3.Connection | None = None
        for _ in range(2):
            database: sqlite3.Connection | None = None
            try:
                database = self._connected(self._path)
                self._catch_up(database)
                return database
            except sqlite3.Error as error:
                _log.info("%s: %s", self._path, error)
                damaged = _is_damage(error)
                if database is not None:
                    memory = None if damaged else self._copy(database)
                    database.close()
            if not damaged:
                break
            self._remove()
        if memory is None:
            memory = self._connected(":memory:")
        self._catch_up(memory)
        return memory

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

    def _catch_up(self, database: sqlite3.Connection) -> None:
        """Take in what the log has got since; start anew if it is another one.

        sqlite3.Error if the index is damaged or cannot be written; it stays as it was then.
        """
        database.execute("PRAGMA trusted_schema = OFF")
        if self._is_current(self._covered(database)):
            return
        database.execute("BEGIN IMMEDIATE")
        try:
            covered = self._covered(database)
            if covered is None:
                for statement in filter(str.strip, _TABLES.split(";")):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {_VERSION}")
            if covered is None or not self._is_current(covered):
                self._take(database, covered)
            database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise

    def _covered(self, database: sqlite3.Connection) -> _Covered | None:
        """Return what of the log an index knows; None if it is of another log or version."""
        if database.execute("PRAGMA user_version").fetchone() != (_VERSION,):
            return None
        row = database.execute("SELECT * FROM covered").fetchone()
        if row is None:
            return None
        found, log = _Covered(*row), self._reader
        if (found.size, found.modified_ns) == (log.size, log.modified_ns):
            return found
        if found.size == log.size:
            return None  # changed without growing
        return found if (found.head, found.tail) == log.ends(found.end) else None

    def _is_current(self, covered: _Covered | None) -> bool:
        """Whether there is nothing to take in; others may have read more than there was."""
        if covered is None:
            return False
        log = self._reader
        same = (covered.size, covered.modified_ns) == (log.size, log.modified_ns)
        return same or covered.end > log.end

    def _take(self, database: sqlite3.Connection, covered: _Covered | None) -> None:
        """Read the lines that an index does not know yet, and store what they are."""
        log = self._reader
        if covered is None:
            news = read_members(log, 0, 0, SkippedLines())
        else:
            news = read_members(
                log, covered.end, covered.lines, SkippedLines.from_json(covered.skipped)
            )
        for key, members in news.members.items():
            _store(database, key, members)
        database.execute("DELETE FROM covered")
        skipped = news.skipped.to_json()
        row = _Covered(log.end, news.lines, *log.ends(log.end), log.size, log.modified_ns, skipped)
        database.execute(f"INSERT INTO covered VALUES ({', '.join('?' * len(row))})", row)


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
        "INSERT INTO lines VALUES (?, ?, ?, ?, ?)",
        [(number, 0, *line) for line in members.fastest()]
        + [(number, 1, None, *line) for line in members.finals],
    )
    database.execute(
        "DELETE FROM lines WHERE rowid IN (SELECT rowid FROM lines WHERE number = ? AND final = 0 "
        f"ORDER BY cost_s, start LIMIT -1 OFFSET {MOST_TRIALS})",
        (number,),
    )


def _is_damage(error: sqlite3.Error) -> bool:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF in _DAMAGED


def _common_of(text: str) -> dict[str, Any]:
    common: dict[str, Any] = json.loads(text)
    return {**common, "constant": tuple(common["constant"])}
