"""The tables of an index beside a log, and how it is told that they are as they were written.

Digests are kept of all that is read: of the groups with what is known of the log, and of the lines
of each group. What is written is made of what was checked, so that damage is never taken over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from records.best_of_group import MOST_TRIALS
from records.groups import RecordGroup, args_key
from records.log_index.index_members import Members

_VERSION = 2

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

# All in one, so that nobody changes the index in between.
_LINES_OF = """
SELECT groups.digest, lines.final, lines.cost_s, lines.start, lines.length
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


class WrongIndexError(Exception):
    """An index that is not as it was written, or does not fit its log."""


# What shows that something is wrong with an index.
FAULTS = (
    sqlite3.Error,
    WrongIndexError,
    ValueError,
    KeyError,
    TypeError,
    OSError,
    MemoryError,
    OverflowError,
)


def is_damage(error: Exception) -> bool:
    """Whether one of `FAULTS` is that of the index, which is to be removed."""
    if not isinstance(error, sqlite3.Error):
        return True
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF not in _ELSEWHERE


class Covered(NamedTuple):
    """Up to where an index knows its log; a row of the table, without its digest."""

    end: int  # Bytes.
    lines: int
    head: str  # Digest of its first bytes.
    tail: str  # Digest of the last ones before `end`.
    size: int  # Of the file at that time.
    modified_ns: int
    inode: str  # It may be too large for an integer of SQLite's.
    skipped: str  # Lines of no record, as JSON.


class GroupRow(NamedTuple):
    """A group; a row of the table."""

    number: int
    key: str
    template: str
    args: str
    common: str  # As JSON.
    trials: int
    ok: int
    finals: int
    best_s: float | None
    first_s: float
    last_s: float
    digest: str  # Of its lines.

    def group(self) -> RecordGroup:
        """Return it as a group of records."""
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


class LinePlace(NamedTuple):
    """Where a line that a build may need stands; a row of the table, without its group."""

    final: int  # 1 if it is of a final comparison, else 0.
    cost_s: float | None  # Of a trial.
    start: int
    length: int


class Known(NamedTuple):
    """All that an index knows, but the places of lines."""

    covered: Covered
    groups: dict[str, GroupRow]  # By their keys, in order of first appearance.

    def digest(self) -> str:
        """Return what is equal for equal contents."""
        return _digest([self.covered, *self.groups.values()])


@contextlib.contextmanager
def transaction(database: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit what the block does, or undo it if it fails."""
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


def make_tables(database: sqlite3.Connection) -> None:
    """Make empty tables in place of what is there."""
    for statement in filter(str.strip, _TABLES.split(";")):
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {_VERSION}")


def read_known(database: sqlite3.Connection) -> Known | None:
    """Return what an index knows; None if it is empty or of another version.

    WrongIndexError if it is not as it was written.
    """
    if database.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        return None
    row = database.execute(f"SELECT digest, {', '.join(Covered._fields)} FROM covered").fetchone()
    if row is None:
        return None
    # Without the help of an index of SQLite's: what it does not find would be missed.
    columns = ", ".join(GroupRow._fields)
    rows = database.execute(f"SELECT {columns} FROM groups NOT INDEXED ORDER BY number")
    known = Known(Covered(*row[1:]), {row[1]: GroupRow(*row) for row in rows})
    if row[0] != known.digest():
        raise WrongIndexError("it is not as it was written")
    return known


def places_of(database: sqlite3.Connection, key: str) -> list[LinePlace] | None:
    """Return where the lines of a group stand; None if there is no such group.

    WrongIndexError if they are not those that were written.
    """
    rows = database.execute(_LINES_OF, (key,)).fetchall()
    if not rows:
        return None
    places = [LinePlace(*row[1:]) for row in rows if row[3] is not None]
    if rows[0][0] != _digest(places):
        raise WrongIndexError("the lines of a group are not those that were written")
    return places


def write_known(database: sqlite3.Connection, known: Known) -> None:
    """Store what an index knows; the groups are there already."""
    database.execute("DELETE FROM covered")
    columns = (*Covered._fields, "digest")
    _insert(database, "INSERT INTO covered", columns, [(*known.covered, known.digest())])


def write_group(
    database: sqlite3.Connection, groups: dict[str, GroupRow], key: str, new: Members
) -> None:
    """Add new lines to their group; only lines that a build may need are kept.

    `groups`: those that there are; the new row is put there, too.
    """
    row, places = groups.get(key), list[LinePlace]()
    if row is not None:
        known = places_of(database, key)
        if known is None:
            raise WrongIndexError("a group is missing")
        places = known
    finals = [place for place in places if place.final]
    finals += [LinePlace(1, None, *place) for place in new.best.finals]
    trials = [place for place in places if not place.final]
    trials += [LinePlace(0, float(cost_s), *place) for cost_s, place in new.best.fastest()]
    trials.sort(key=lambda place: (place.cost_s, place.start))
    places = finals + trials[:MOST_TRIALS]
    number = len(groups) + 1 if row is None else row.number
    groups[key] = GroupRow(
        number,
        key,
        new.common["template"],
        args_key(new.common["args"]),
        json.dumps(new.common) if row is None else row.common,
        new.best.trials + (0 if row is None else row.trials),
        new.best.ok + (0 if row is None else row.ok),
        len(finals),
        trials[0].cost_s if trials else None,
        float(new.first_s if row is None else min(row.first_s, new.first_s)),
        float(new.last_s if row is None else max(row.last_s, new.last_s)),
        _digest(places),
    )
    _insert(database, "INSERT OR REPLACE INTO groups", GroupRow._fields, [groups[key]])
    database.execute("DELETE FROM lines WHERE number = ?", (number,))
    rows = [(number, *place) for place in places]
    _insert(database, "INSERT INTO lines", ("number", *LinePlace._fields), rows)


def _insert(
    database: sqlite3.Connection,
    what: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
) -> None:
    marks = ", ".join("?" * len(columns))
    database.executemany(f"{what} ({', '.join(columns)}) VALUES ({marks})", rows)


def _digest(rows: Sequence[tuple[Any, ...]]) -> str:
    """Return a digest of rows of numbers and texts."""
    text = repr([tuple(row) for row in rows]).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()
