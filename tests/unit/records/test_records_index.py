"""The index beside a large log: it gives what reading the whole log gives, whatever happens."""

import gzip
import os
import random
import shutil
import sqlite3
import threading
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.indexed_logs import beside, bytes_read, check, contents, indexed, make, some

from records import RecordError, RecordStore, RecordWarning, log_set
from records.groups import RecordList, merged
from records.log_index import index
from records.log_index.index import IndexedLog, open_index
from records.log_set import open_logs
from records.storage import append_only_log


@pytest.fixture
def log(tmp_path):
    """A log with an index."""
    return indexed(tmp_path / "log.jsonl")


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=int(os.environ.get("AUTOTUNE_EXAMPLES", 10)), deadline=None)
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
    for content in (b"no\nlog\n", b"no\nlog", b'{"schema":99}\n', b"cut"):
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
