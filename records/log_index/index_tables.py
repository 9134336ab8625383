"""The tables of an index beside a log, and the digests by which damage is detected.

Every row that is read has a digest, which is checked. Groups are hashed into buckets by their
arguments. The single row of `covered` has the digest of each bucket, so that a look-up checks this
row, one bucket, and the lines of the groups that it uses; missing rows are noticed, too. New rows
are made only of checked ones, so that damage does not spread.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from records.best_of_group import MOST_TRIALS
from records.groups import RecordGroup, args_key
from records.log_index.index_members import Members

_VERSION = 3

BUCKETS = 256
_DIGITS = 32  # Of a digest.

_TABLES = """
DROP TABLE IF EXISTS covered;
DROP TABLE IF EXISTS groups;
DROP TABLE IF EXISTS lines;
CREATE TABLE covered (
    end INTEGER, lines INTEGER, head TEXT, tail TEXT, size INTEGER, modified_ns INTEGER,
    inode TEXT, skipped TEXT, groups INTEGER, buckets TEXT, digest TEXT
);
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, bucket INTEGER, key TEXT UNIQUE, template TEXT, args TEXT,
    common TEXT, trials INTEGER, ok INTEGER, finals INTEGER, best_s REAL, first_s REAL,
    last_s REAL, digest TEXT
);
CREATE TABLE lines (number INTEGER, final INTEGER, cost_s REAL, start INTEGER, length INTEGER);
CREATE INDEX of_bucket ON groups (bucket, number);
CREATE INDEX of_group ON lines (number, final, cost_s, start);
"""

# One query, so that no other process changes the index between two.
_LINES_OF = """
SELECT groups.digest, lines.final, lines.cost_s, lines.start, lines.length
FROM groups LEFT JOIN lines ON lines.number = groups.number WHERE groups.key = ?
ORDER BY lines.final DESC, lines.cost_s, lines.start
"""

# Errors of SQLite that do not mean that the file is damaged: it is not removed.
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


# Exceptions that a faulty index may cause.
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
    """Whether one of `FAULTS` means that the index is damaged and must be removed."""
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
    groups: int  # Number of groups.
    buckets: str  # Digests of the groups in each bucket, one after the other.

    def digest_of(self, bucket: int) -> str:
        """Return the digest of the groups in a bucket."""
        return self.buckets[bucket * _DIGITS : (bucket + 1) * _DIGITS]


class GroupRow(NamedTuple):
    """A group; a row of the table."""

    number: int  # They count from 1 on, in order of first appearance.
    bucket: int
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


def read_covered(database: sqlite3.Connection) -> Covered | None:
    """Return up to where an index knows its log; None if it is empty or of another version.

    WrongIndexError if it is not as it was written.
    """
    if database.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        return None
    row = database.execute(f"SELECT digest, {', '.join(Covered._fields)} FROM covered").fetchone()
    if row is None:
        return None
    covered = Covered(*row[1:])
    if row[0] != _digest([covered]):
        raise WrongIndexError("it is not as it was written")
    return covered


def bucket_of(args: str) -> int:
    """Return in which bucket groups with these arguments are.

    `args`: as `args_key` returns them.
    """
    return hashlib.blake2b(args.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0]


def read_bucket(database: sqlite3.Connection, covered: Covered, bucket: int) -> list[GroupRow]:
    """Return the groups in a bucket, in order of first appearance.

    WrongIndexError if they are not those that were written.
    """
    columns = ", ".join(GroupRow._fields)
    statement = f"SELECT {columns} FROM groups WHERE bucket = ? ORDER BY number"
    rows = [GroupRow(*row) for row in database.execute(statement, (bucket,))]
    if covered.digest_of(bucket) != _digest(rows):
        raise WrongIndexError("some groups are not those that were written")
    return rows


def places_of(database: sqlite3.Connection, key: str) -> list[LinePlace] | None:
    """Return where the lines of a group stand; None if there is no such group.

    WrongIndexError if they are not those that were written.
    """
    rows = database.execute(_LINES_OF, (key,)).fetchall()
    if not rows:
        return None
    places = [LinePlace(*row[1:]) for row in rows if row[3] is not None]
    if rows[0][0] != _digest([(key,), *places]):
        raise WrongIndexError("the lines of a group are not those that were written")
    return places


def write_covered(database: sqlite3.Connection, covered: Covered) -> None:
    """Store up to where an index knows its log."""
    database.execute("DELETE FROM covered")
    columns = (*Covered._fields, "digest")
    _insert(database, "INSERT INTO covered", columns, [(*covered, _digest([covered]))])


def write_members(
    database: sqlite3.Connection, covered: Covered | None, members: Mapping[str, Members]
) -> tuple[int, str]:
    """Add new lines, given by the keys of groups, to these groups.

    Returns `groups` and `buckets` of what is covered then.
    """
    args = {key: args_key(new.common["args"]) for key, new in members.items()}
    groups, digests = 0, [_digest([])] * BUCKETS
    known: dict[int, dict[str, GroupRow]] = {bucket_of(own): {} for own in args.values()}
    if covered is not None:
        groups, digests = covered.groups, [*map(covered.digest_of, range(BUCKETS))]
        for bucket, rows in known.items():
            rows |= {row.key: row for row in read_bucket(database, covered, bucket)}
    for key, new in members.items():
        rows = known[bucket_of(args[key])]
        groups += key not in rows
        rows[key] = _write_group(database, rows.get(key), groups, key, args[key], new)
    for bucket, rows in known.items():
        digests[bucket] = _digest(rows.values())
    return groups, "".join(digests)


def _write_group(
    database: sqlite3.Connection,
    row: GroupRow | None,
    number: int,
    key: str,
    args: str,
    new: Members,
) -> GroupRow:
    """Add new lines to their group, and return its row; only lines a build may need are kept.

    `row`: that it had, if it had one.
    `number`: of a new group.
    """
    places = list[LinePlace]()
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
    made = GroupRow(
        number if row is None else row.number,
        bucket_of(args),
        key,
        new.common["template"],
        args,
        json.dumps(new.common) if row is None else row.common,
        new.best.trials + (0 if row is None else row.trials),
        new.best.ok + (0 if row is None else row.ok),
        len(finals),
        trials[0].cost_s if trials else None,
        float(new.best.first_s if row is None else min(row.first_s, new.best.first_s)),
        float(new.best.last_s if row is None else max(row.last_s, new.best.last_s)),
        _digest([(key,), *places]),
    )
    _insert(database, "INSERT OR REPLACE INTO groups", GroupRow._fields, [made])
    database.execute("DELETE FROM lines WHERE number = ?", (made.number,))
    rows = [(made.number, *place) for place in places]
    _insert(database, "INSERT INTO lines", ("number", *LinePlace._fields), rows)
    return made


def _insert(
    database: sqlite3.Connection,
    what: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
) -> None:
    marks = ", ".join("?" * len(columns))
    database.executemany(f"{what} ({', '.join(columns)}) VALUES ({marks})", rows)


def _digest(rows: Iterable[tuple[Any, ...]]) -> str:
    """Return a digest of rows of numbers and texts."""
    text = repr([tuple(row) for row in rows]).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=_DIGITS // 2).hexdigest()
