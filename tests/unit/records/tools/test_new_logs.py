"""New logs appear when they are complete; a log is rewritten under its lock."""

import fcntl
import gzip
import os
import threading

import pytest
from support.sample_records import log_of, made

from records import Journal, RecordError, RecordStore, RecordWarning
from records.tools.log_lines import LogFile
from records.tools.new_logs import new_log, rewrite, write_lines


def first_two(lines):
    return list(lines())[:2]


@pytest.fixture
def log(tmp_path):
    return log_of(tmp_path / "log.jsonl", *map(made, range(4)))


def write_and_call(path, replace, call):
    with new_log(path, replace) as file:
        file.write(b"mine\n")
        call()


def interrupt(*_):
    raise KeyboardInterrupt


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_log_that_is_not_completed_leaves_nothing(tmp_path, log):
    before = log.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_and_call(log, True, interrupt)
    assert (names(tmp_path), log.read_bytes()) == (["log.jsonl"], before)


def test_a_log_that_has_come_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "new.jsonl"
    with pytest.raises(RecordError, match="is there already"):
        write_and_call(path, False, lambda: path.write_bytes(b"theirs\n"))
    assert (names(tmp_path), path.read_bytes()) == (["new.jsonl"], b"theirs\n")


def test_a_folder_that_is_not_there_is_an_error_of_one_line(tmp_path):
    with pytest.raises(RecordError, match=r"cannot write .*No such file"):
        write_and_call(tmp_path / "no" / "x.jsonl", False, interrupt)


def test_a_rewritten_log_keeps_its_mode_and_its_links(tmp_path, log):
    log.chmod(0o640)
    link = tmp_path / "link.jsonl"
    link.symlink_to(log.name)
    rewrite(link, first_two)
    assert link.is_symlink()
    assert log.stat().st_mode & 0o777 == 0o640
    assert [record.index for record in RecordStore(log).load()] == [0, 1]


def test_a_compressed_log_stays_compressed(tmp_path, log):
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    rewrite(packed, first_two)
    assert gzip.decompress(packed.read_bytes()).count(b"\n") == 2


def test_a_rewrite_that_fails_leaves_the_log_as_it_was(tmp_path, log):
    before = log.read_bytes()

    def fail(lines):
        yield from first_two(lines)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rewrite(log, fail)
    assert (names(tmp_path), log.read_bytes()) == (["log.jsonl"], before)
    with log.open("rb") as file:  # and unlocked
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_others_append_during_a_rewrite_is_in_the_new_log(log):
    begun, writers = threading.Event(), []

    def append(number):
        begun.wait()
        RecordStore(log).append([made(100 + number)])

    def choose(lines):
        writers.extend(threading.Thread(target=append, args=(n,)) for n in range(4))
        for writer in writers:
            writer.start()
        begun.set()
        for line in first_two(lines):
            writers[0].join(0.05)  # they wait for the lock
            yield line
        assert all(writer.is_alive() for writer in writers)

    rewrite(log, choose)
    for writer in writers:
        writer.join()
    found = [record.index for record in RecordStore(log).load()]
    assert found[:2] == [0, 1]
    assert sorted(found[2:]) == [100, 101, 102, 103]


@pytest.mark.parametrize(
    "change",
    [
        lambda log, other: os.replace(other, log),
        lambda log, other: log.write_bytes(log.read_bytes() + other.read_bytes()),
        lambda log, other: log.write_bytes(log.read_bytes().replace(b"0.001", b"0.002")),
        lambda log, other: log.unlink(),
    ],
    ids=["replaced", "appended to", "written over", "deleted"],
)
def test_a_log_that_is_changed_without_the_lock_during_a_rewrite_stays(tmp_path, log, change):
    other = log_of(tmp_path / "other.jsonl", made(8), made(9))
    os.utime(log, (1000.0, 1000.0))  # clocks of files tick in milliseconds
    left = []

    def choose(lines):
        found = first_two(lines)
        change(log, other)
        left.extend(log.read_bytes() for _ in range(log.exists()))
        return found

    with pytest.raises(RecordError, match=r"cannot rewrite .*: (it was changed|No such file)"):
        rewrite(log, choose)
    assert [log.read_bytes() for _ in range(log.exists())] == left


def test_a_log_is_read_as_it_was_when_it_was_opened(log):
    opened = LogFile(log)
    RecordStore(log).append([made(9)])
    assert [line.number for line in opened.lines()] == [1, 2, 3, 4]
    os.replace(log_of(log.with_name("other.jsonl"), made(0)), log)
    with pytest.raises(RecordError, match="was replaced while it was read"):
        list(opened.lines())


def test_a_log_that_is_cut_while_it_is_read_is_said_to_be(tmp_path):
    log = log_of(tmp_path / "log.jsonl", *map(made, range(100)))  # more than is read at once
    opened, before = LogFile(log), log.read_bytes()
    lines = RecordStore(log).stream()
    next(lines)
    os.truncate(log, len(before) - 1000)
    with pytest.raises(RecordError, match=r"cannot read .*log.jsonl: it was cut while it was read"):
        list(opened.lines())
    with pytest.raises(RecordError, match=r"cannot read .*log.jsonl: it was cut while it was read"):
        list(lines)
    log.write_bytes(before)

    def cut(lines):
        for line in lines():
            os.truncate(log, 100)
            yield line

    with pytest.raises(RecordError, match=r"cannot rewrite .*: it was cut while it was read"):
        rewrite(log, cut)
    assert (names(tmp_path), log.read_bytes()) == (["log.jsonl"], before[:100])


def test_a_torn_line_that_a_writer_removes_meanwhile_is_no_cut(log):
    with log.open("ab") as file:
        file.write(log.read_bytes()[:100])
    opened = LogFile(log)
    os.truncate(log, log.read_bytes().rindex(b"\n") + 1)  # as at the beginning of an append
    assert [line.number for line in opened.lines()] == [1, 2, 3, 4]


def test_lines_are_written_as_they_are(tmp_path, log):
    with new_log(tmp_path / "copy.jsonl") as file:
        write_lines(file, LogFile(log).lines())
    assert (tmp_path / "copy.jsonl").read_bytes() == log.read_bytes()


def test_a_missing_log_is_not_rewritten(tmp_path):
    with pytest.raises(RecordError, match=r"cannot rewrite .*No such file"):
        rewrite(tmp_path / "missing.jsonl", first_two)
    assert names(tmp_path) == []


def test_a_run_adds_its_own_records_again_that_were_dropped_from_its_log(tmp_path):
    log = log_of(tmp_path / "log.jsonl", made(0), made(1))
    journal = Journal(RecordStore(log))
    journal.new_records()
    journal.add(made(2))
    journal.add(made(3))
    rewrite(log, lambda lines: [line for line in lines() if line.number in (2, 3)])
    with pytest.warns(RecordWarning, match="1 record of this run will be added to it again"):
        journal.add(made(4))
    with pytest.warns(RecordWarning, match="the log holds 4 records now"):
        journal.close()
    assert [record.index for record in RecordStore(log).load()] == [1, 2, 3, 4]
