"""An index that is damaged or cannot be written: what it gives is still what the log gives."""

import contextlib
import os
import random
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.indexed_logs import beside, bytes_read, check, contents, indexed, looked_up, make, some
from support.slow_cases import every

from records import RecordStore
from records.groups import RecordList
from records.log_index.index import open_index


@pytest.fixture
def log(tmp_path):
    """A log with an index."""
    return indexed(tmp_path / "log.jsonl")


DAMAGE = {
    "emptied": lambda data, _: b"",
    "cut": lambda data, _: data[: len(data) // 2],
    "another file": lambda data, _: b"no database" * 1000,
    "pages of zeros": lambda data, _: data[:4096] + bytes(len(data) - 4096),
    "the first page of zeros": lambda data, _: bytes(4096) + data[4096:],
    "other bytes": lambda data, random_: (
        data[:200]
        + bytes(random_.choice(b"ab\0\xff") if random_.random() < 0.01 else b for b in data[200:])
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_made_anew(log, damage):
    beside(log.path).write_bytes(DAMAGE[damage](beside(log.path).read_bytes(), random.Random(3)))
    check(log.path)
    check(log.path)


STATEMENTS = [
    "UPDATE {table} SET {column} = {value}",
    "UPDATE {table} SET {column} = {value} WHERE rowid % 3 = 1",
    "UPDATE {table} SET {column} = {column} + 1 WHERE rowid = 2",
    "DELETE FROM {table}",
    "DELETE FROM {table} WHERE rowid = 1",
    "DELETE FROM {table} WHERE {column} = (SELECT max({column}) FROM {table})",
    "INSERT INTO {table} ({column}) VALUES ({value})",
    "ALTER TABLE {table} ADD COLUMN more DEFAULT {value}",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "ALTER TABLE {table} RENAME TO other",
    "CREATE UNIQUE INDEX only ON {table} ({column})",
    "CREATE TRIGGER then_ AFTER INSERT ON {table} BEGIN DELETE FROM lines; END",
    "DROP TABLE {table}",
    "PRAGMA user_version = {value}",
    "PRAGMA journal_mode = WAL",
]
COLUMNS = {
    "covered": "end lines head tail size modified_ns inode skipped groups buckets digest",
    "groups": "number bucket key template args common trials ok finals best_s first_s last_s"
    " digest",
    "lines": "number final cost_s start length",
}
VALUES = ["0", "-5", "1", "1000000000000", "1e300", "NULL", "'x'", "'{'", "'[]'", "x'ff00'", "''"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A log of which a part is in its index, the index, and what the log holds."""
    store = RecordStore(tmp_path_factory.mktemp("whole") / "log.jsonl")
    store.append(some(random.Random(5), 100))
    open_index(store)
    store.append(some(random.Random(6), 5))
    data, wanted = beside(store.path).read_bytes(), contents(RecordList(store.load()))
    return lambda: (store, data, wanted)  # Hypothesis prints what tests are given


BYTES = st.tuples(
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=8),
    st.sampled_from([None, None, 5000, 9000]),
)
SQL = st.sampled_from(sorted(COLUMNS)).flatmap(
    lambda table: st.builds(
        str.format,
        st.sampled_from(STATEMENTS),
        table=st.just(table),
        column=st.sampled_from(COLUMNS[table].split()),
        value=st.sampled_from(VALUES),
    )
)


@given(st.booleans(), BYTES | SQL)
@settings(max_examples=int(os.environ.get("AUTOTUNE_EXAMPLES", 16)), deadline=None)
def test_an_index_that_was_damaged_anyhow_gives_what_the_log_gives(whole, is_current, damage):
    store, index_of, wanted = whole()
    path = store.path
    for rest in path.parent.glob("*.index.sqlite*"):
        rest.unlink()
    beside(path).write_bytes(index_of)
    if is_current:
        open_index(RecordStore(path))
    if isinstance(damage, str):
        database = sqlite3.connect(beside(path), isolation_level=None)
        with contextlib.closing(database), contextlib.suppress(sqlite3.Error):
            database.execute(damage)
    else:
        places, end = damage
        data = bytearray(beside(path).read_bytes())
        for place, byte in places:
            data[place % len(data)] = byte
        beside(path).write_bytes(data[:end])
    read = looked_up(RecordList(store.load()))
    assert looked_up(open_index(store)) == read
    used = open_index(RecordStore(path))
    assert contents(used) == wanted
    assert contents(open_index(RecordStore(path))) == wanted
    assert contents(used) == wanted


@pytest.mark.parametrize(
    "change",
    every(
        2,
        [
            "UPDATE covered SET skipped = '{'",
            "UPDATE lines SET start = -5 WHERE final = 1",
            "UPDATE lines SET length = 1000000000000",
            "ALTER TABLE covered ADD COLUMN z",
            "DELETE FROM groups",
            "UPDATE groups SET trials = 'x'",
            "UPDATE groups SET best_s = 1e-12",
            "UPDATE lines SET start = start + 7",
            "UPDATE lines SET number = 1 - number",
            "UPDATE groups SET common = 'no JSON'",
            "UPDATE groups SET common = '{}'",
            "DROP TABLE lines",
            "DROP TABLE covered",
            "ALTER TABLE groups RENAME COLUMN ok TO fine",
            "PRAGMA user_version = 99",
        ],
    ),
)
def test_an_index_that_says_something_wrong_is_made_anew(log, change):
    database = sqlite3.connect(beside(log.path), isolation_level=None)
    database.execute(change)
    database.close()
    check(log.path)
    check(log.path)


def sql(path, *statements):
    with contextlib.closing(sqlite3.connect(beside(path), isolation_level=None)) as database:
        return [database.execute(statement).fetchall() for statement in statements]


def test_a_look_up_reads_the_groups_of_its_arguments_and_others_are_checked_when_read(log):
    (rows,) = sql(log.path, "SELECT bucket, args FROM groups GROUP BY args")
    ours, others = [bucket for bucket, _ in sorted(rows, key=lambda row: '"n":128' in row[1])]
    assert ours != others
    sql(log.path, f"DELETE FROM groups WHERE bucket = {others}")
    wanted, damaged = RecordList(log.load()), beside(log.path).read_bytes()
    assert looked_up(open_index(log)) == looked_up(wanted)
    assert beside(log.path).read_bytes() == damaged
    assert looked_up(open_index(log), 128) == looked_up(wanted, 128)
    assert len(sql(log.path, "SELECT * FROM groups")[0]) == len(wanted.groups())


def test_a_group_that_is_missing_is_noticed_when_its_log_has_grown(log):
    sql(log.path, "DELETE FROM groups WHERE number = 2")
    log.append(some(random.Random(4), 40))
    check(log.path)


@pytest.mark.parametrize("table", ["groups", "lines"])
def test_a_damaged_index_that_cannot_be_removed_is_not_used(log, monkeypatch, table):
    sql(log.path, f"DELETE FROM {table} WHERE number = 1")

    def refuse(*_, **__):
        raise PermissionError("a folder that is only read")

    monkeypatch.setattr(Path, "unlink", refuse)
    check(log.path)


def test_an_index_that_is_damaged_while_it_is_used_is_made_anew(log):
    source = open_index(log)
    wanted = contents(RecordList(log.load()))
    beside(log.path).write_bytes(b"no database" * 1000)
    assert contents(source) == wanted


def test_without_a_place_for_an_index_the_log_is_read(tmp_path, monkeypatch):
    store = RecordStore(tmp_path / "log.jsonl")
    store.append(some(random.Random(1), 100))
    beside(store.path).mkdir()
    check(store.path)
    assert beside(store.path).is_dir()


def failing(error, code):
    """A connection that fails where it would write to a file."""

    class Connection(sqlite3.Connection):
        def execute(self, statement, *more):
            on_disk = self.on_disk
            if on_disk and statement.startswith(("BEGIN IMMEDIATE", "INSERT")):
                found = sqlite3.OperationalError(error)
                found.sqlite_errorcode = code
                raise found
            return super().execute(statement, *more)

        def executemany(self, statement, *more):
            if self.on_disk:
                return self.execute(statement)
            return super().executemany(statement, *more)

    def connect(where, **more):
        made = original(where, factory=Connection, **more)
        made.on_disk = where != ":memory:"
        return made

    original = sqlite3.connect
    return connect


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("attempt to write a readonly database", sqlite3.SQLITE_READONLY),
        ("database or disk is full", sqlite3.SQLITE_FULL),
        ("database is locked", sqlite3.SQLITE_BUSY),
    ],
)
def test_an_index_that_cannot_be_written_is_used_and_grows_in_memory(log, monkeypatch, error, code):
    log.append([make(5, 1e-4)])
    before = beside(log.path).read_bytes()
    read = bytes_read(monkeypatch)
    monkeypatch.setattr(sqlite3, "connect", failing(error, code))
    check(log.path)
    line = len(make(5, 1e-4).to_json_line()) + 1
    assert read == [line]  # no more of the log than the index did not know
    assert beside(log.path).read_bytes() == before


def test_a_full_disk_leaves_no_half_an_index(tmp_path, monkeypatch):
    store = RecordStore(tmp_path / "log.jsonl")
    store.append(some(random.Random(1), 100))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", failing("disk is full", sqlite3.SQLITE_FULL))
        check(store.path)
    check(store.path)
