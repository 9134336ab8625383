"""The index beside a large log: it gives what reading the whole log gives, whatever happens."""

import contextlib
import gzip
import os
import random
import shutil
import sqlite3
import threading
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records import Record, RecordError, RecordStore, RecordWarning, log_set
from records.groups import RecordList, merged
from records.log_index import index
from records.log_index.index import IndexedLog, open_index
from records.log_set import open_logs
from records.storage import append_only_log

ERROR = {"code": "RUN_TIMEOUT", "stage": "run", "message": "too slow"}


def make(
    number,
    cost_s=1e-3,
    template="matmul",
    n=64,
    device="Intel",
    final=None,
    target="llvm",
    print_="a",
):
    return Record(
        workload={"template": template, "args": {"n": n, "dtype": "float32"}},
        target="llvm",
        config={"index": number, "values": {"tile": number}},
        costs_s=None if cost_s is None else [cost_s],
        error=ERROR if cost_s is None else None,
        device={"kind": "cpu", "name": device} if device else {},
        seed=0,
        timestamp=float(number),
        fingerprints=None if print_ is None else {"template": print_},
        final=final,
        steps=[["split", "C", number]],
    )


def some(random_, count):
    """Records of several groups: trials with equal costs, failures, duplicates, comparisons."""
    found = []
    for _ in range(count):
        record = make(
            random_.randrange(40),
            random_.choice([None, 0.1, 0.2, 0.2, 0.3, random_.random() + 1e-3]),
            random_.choice(["matmul", "conv"]),
            random_.choice([64, 128]),
            random_.choice(["Intel", "AMD", ""]),
            random_.choice([None] * 9 + [{"comparison": random_.choice("xy"), "rank": 1}]),
            print_=random_.choice(["a", "b", None]),
        )
        found += [record] * random_.choice([1, 1, 1, 2])
    return found


def contents(source):
    """All that a source can be asked."""
    groups = list(source.groups())
    one, none = source.groups("conv"), source.groups("conv", {"n": 64.0, "dtype": "no"})
    both = source.groups("matmul", {"n": 64.0, "dtype": "float32"})
    assert both or not source.groups("matmul", {"dtype": "float32", "n": 64})
    keys = [[group.key for group in some] for some in (one, none, both)]
    best = [source.records_of(group, most) for group in groups for most in (64, 100, 5000)]
    return groups, best, keys


def looked_up(source, n=64):
    """What a build asks a source: the records of its own arguments, and of no others."""
    groups = source.groups("matmul", {"n": n, "dtype": "float32"})
    return groups, [source.records_of(group) for group in groups]


def check(path):
    """The index of a log gives what the whole log gives."""
    assert contents(open_index(RecordStore(path))) == contents(RecordList(RecordStore(path).load()))


@pytest.fixture
def log(tmp_path):
    """A log with an index."""
    store = RecordStore(tmp_path / "log.jsonl")
    store.append(some(random.Random(1), 300))
    open_index(store)
    assert beside(store.path).is_file()
    return store


def beside(path):
    return Path(f"{path}.index.sqlite")


def bytes_read(monkeypatch):
    """Count the bytes of the log that are read to make or grow an index."""
    read = []
    original = index.read_members

    def counting(log, start, *more):
        read.append(log.end - start)
        return original(log, start, *more)

    monkeypatch.setattr(index, "read_members", counting)
    return read


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=int(os.environ.get("AUTOTUNE_EXAMPLES", 40)), deadline=None)
def test_an_index_that_grows_in_steps_gives_what_the_whole_log_gives(tmp_path_factory, seed):
    random_ = random.Random(seed)
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    for _ in range(random_.randint(1, 4)):
        with path.open("ab") as file:
            file.write(append_only_log.encode(some(random_, random_.choice([1, 5, 60]))))
            file.write(random_.choice([b"", b"", b"\n", b"no record\n", b'{"schema":1}\n']))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecordWarning)
            check(path)


def test_only_the_fastest_trials_of_a_group_are_kept_and_earlier_ones_if_equal(tmp_path):
    path = tmp_path / "log.jsonl"
    for step in range(3):
        RecordStore(path).append(make(100 * step + i, 1.0 + (i % 5)) for i in range(100))
        check(path)
    database = sqlite3.connect(beside(path))
    assert database.execute("SELECT count(*) FROM lines").fetchone() == (64,)
    database.close()


def test_an_index_is_used_again_and_only_grows_with_its_log(log, monkeypatch):
    read = bytes_read(monkeypatch)
    check(log.path)
    assert read == []
    before = log.path.stat().st_size
    log.append([make(7)])
    check(log.path)
    assert read == [log.path.stat().st_size - before]


def test_an_index_that_knows_more_than_there_was_is_not_made_anew(log, monkeypatch):
    with log.path.open("ab") as file:
        file.write(make(3).to_json_line().encode())
    earlier = index.LogReader(log)
    log.append([make(4)])  # completes the last line
    wanted = contents(open_index(log))
    read = bytes_read(monkeypatch)
    monkeypatch.setattr(index, "LogReader", lambda _: earlier)
    assert contents(open_index(log)) == wanted
    assert read == []


def test_a_last_line_counts_without_its_newline_and_not_if_it_is_torn(log):
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + make(3).to_json_line().encode())
    check(log.path)
    log.path.write_bytes(whole + make(3).to_json_line().encode()[:50])
    with pytest.warns(RecordWarning, match="line .* is torn"):
        check(log.path)
    log.append([make(4)])
    check(log.path)


def test_lines_of_no_record_are_told_each_time_as_loading_does(log):
    with log.path.open("ab") as file:
        file.write(b"no record\n")
    for _ in range(2):
        with pytest.warns(RecordWarning) as told:
            open_index(log)
        with pytest.warns(RecordWarning) as wanted:
            log.load()
        assert [str(w.message) for w in told] == [str(w.message) for w in wanted]


def test_what_cannot_be_a_log_is_refused_as_loading_does(tmp_path, log):
    path = tmp_path / "notes"
    for content in (b"no\nlog\n", b'{"schema":99}\n', b"cut"):
        path.write_bytes(content)
        with pytest.raises(RecordError) as wanted:
            RecordStore(path).load()
        with pytest.raises(RecordError) as told:
            open_index(RecordStore(path))
        assert str(told.value) == str(wanted.value)
    with log.path.open("ab") as file:
        file.write(b'{"schema":99}\n')
    for _ in range(2):
        with pytest.raises(RecordError, match=r"log\.jsonl, line \d+: record of schema 99"):
            open_index(log)
    with pytest.raises(RecordError, match="there is no record log"):
        open_index(RecordStore(tmp_path / "missing"))


def test_a_file_without_records_is_one_error_without_a_warning(tmp_path):
    path = tmp_path / "rub.jsonl"
    path.write_text("rubbish\n" * 23 + "rubbish")
    with pytest.raises(RecordError, match=r"none of its lines is one \(line 1: "):
        open_index(RecordStore(path))


def test_the_index_of_another_log_is_thrown_away(log):
    others = RecordStore(log.path.with_name("other"))
    others.append(some(random.Random(2), 400))
    os.replace(others.path, log.path)  # longer
    check(log.path)
    log.path.write_bytes(log.path.read_bytes()[:5000].rpartition(b"\n")[0] + b"\n")  # cut
    check(log.path)
    text = log.path.read_bytes()
    log.path.write_bytes(text.replace(b'"conv"', b'"cony"'))  # as long as before
    os.utime(log.path, ns=(1, 1))
    check(log.path)


def test_a_log_replaced_by_one_as_large_and_as_old_is_noticed(log):
    before = log.path.stat()
    other = log.path.with_name("other")
    other.write_bytes(log.path.read_bytes().replace(b'"conv"', b'"cony"'))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, log.path)
    check(log.path)


def test_an_index_may_be_deleted(log):
    beside(log.path).unlink()
    check(log.path)
    assert beside(log.path).is_file()


def test_an_index_moves_with_its_log(log, tmp_path, monkeypatch):
    moved = tmp_path / "moved.jsonl"
    log.path.rename(moved)
    beside(log.path).rename(beside(moved))
    read = bytes_read(monkeypatch)
    check(moved)
    assert read == []


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
@settings(max_examples=int(os.environ.get("AUTOTUNE_EXAMPLES", 100)), deadline=None)
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


def test_an_index_that_others_let_grow_or_made_anew_while_it_is_used_is_of_the_log(log):
    early = open_index(log)
    log.append(some(random.Random(4), 40))
    open_index(log)
    assert contents(early) == contents(RecordList(log.load()))
    early = open_index(log)
    wanted = contents(RecordList(log.load()))
    other = RecordStore(log.path.with_name("other"))
    other.append(some(random.Random(2), 50))
    os.replace(other.path, log.path)
    open_index(log)
    assert contents(early) == wanted
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


def test_a_log_may_be_appended_to_replaced_and_deleted_while_it_is_used(log):
    source, wanted = open_index(log), contents(RecordList(log.load()))
    log.append([make(1, 1e-9)])
    assert contents(source) == wanted
    other = RecordStore(log.path.with_name("other"))
    other.append([make(2)])
    os.replace(other.path, log.path)
    assert contents(source) == wanted
    log.path.unlink()
    assert contents(source) == wanted


def test_readers_and_a_writer_at_the_same_time_agree_with_the_log(tmp_path):
    store = RecordStore(tmp_path / "log.jsonl")
    store.append(some(random.Random(1), 50))
    wrong = []

    def read():
        for _ in range(10):
            source = open_index(RecordStore(store.path))
            for group in source.groups():
                found = source.records_of(group)
                if len(found) < min(group.ok, 64) + group.finals:
                    wrong.append(group)

    def write():
        for step in range(20):
            store.append(some(random.Random(step), 10))

    threads = [threading.Thread(target=read) for _ in range(3)] + [threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    check(store.path)


@given(st.integers(0, 2**32 - 1))
def test_several_sources_give_what_their_records_give_one_after_the_other(seed):
    random_ = random.Random(seed)
    parts = [some(random_, random_.choice([0, 3, 40])) for _ in range(3)]
    whole = RecordList([record for part in parts for record in part])
    assert contents(merged(map(RecordList, parts))) == contents(whole)


def test_logs_of_all_kinds_are_one_source(tmp_path, monkeypatch):
    parts = [some(random.Random(seed), 60) for seed in range(3)]
    folder = tmp_path / "folder"
    RecordStore(folder / "b.jsonl").append(parts[1])
    RecordStore(folder / "a.jsonl").append(parts[0])
    packed = RecordStore(tmp_path / "packed")
    packed.append(parts[2])
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(packed.path.read_bytes()))
    wanted = contents(RecordList([*parts[0], *parts[1], *parts[2]]))
    assert contents(open_logs([folder, tmp_path / "c.jsonl.gz"])) == wanted
    assert not beside(folder / "a.jsonl").exists()
    monkeypatch.setattr(log_set, "LARGE", 0)
    assert contents(open_logs([folder, tmp_path / "c.jsonl.gz"])) == wanted
    assert beside(folder / "a.jsonl").exists()
    assert contents(open_logs(str(folder))) == contents(RecordList([*parts[0], *parts[1]]))


def test_files_of_other_tools_are_no_source_for_builds(tmp_path):
    path = tmp_path / "t4.json"
    path.write_text('{"results": []}')
    with pytest.raises(RecordError, match="is T4 results, which this cannot use"):
        open_logs(path)


def test_an_index_is_of_its_file_descriptor_alone(log):
    """Objects that are gone leave no open file."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        open_index(log)
        IndexedLog(index.LogReader(log))
    assert len(os.listdir("/proc/self/fd")) <= before


def test_the_copy_of_a_log_and_its_index_is_current_or_made_anew(log, tmp_path):
    copy = tmp_path / "copy.jsonl"
    shutil.copy(log.path, copy)
    shutil.copy(beside(log.path), beside(copy))
    check(copy)
