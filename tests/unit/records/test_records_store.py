import contextlib
import fcntl
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
from support.interrupts import interrupted_at_each_moment
from support.sample_records import made

from records import Journal, RecordError, RecordStore, RecordWarning
from records.storage import append_only_log as stores
from records.storage import journal


def make(index, note=""):
    return made(index, config={"index": index, "values": {"note": note}})


def indices(store):
    return [record.index for record in store.load()]


def test_records_come_back_in_order_of_appending(store):
    store.append([make(1), make(2)])
    store.append(iter([make(3)]))
    assert store.load() == [make(1), make(2), make(3)]


def test_every_line_is_one_json_object_without_header(store):
    store.append([make(1, note="two\nlines"), make(2)])
    lines = store.path.read_text().splitlines()
    assert [json.loads(line)["config"]["index"] for line in lines] == [1, 2]


def test_folders_are_made_and_nothing_is_written_for_no_records(tmp_path):
    store = RecordStore(str(tmp_path / "deep" / "er" / "log.jsonl"))
    store.append([])
    assert not store.path.exists()
    store.append([make(1)])
    assert indices(store) == [1]


def test_a_missing_log_reads_as_empty_unless_it_must_exist(store):
    assert store.load() == []
    with pytest.raises(RecordError, match=r"no record log at .*log\.jsonl; check the path"):
        store.load(must_exist=True)
    assert not store.path.exists()


@pytest.mark.parametrize("action", [lambda s: s.load(), lambda s: s.append([make(1)])])
def test_a_path_that_is_no_file_is_one_line(tmp_path, action):
    with pytest.raises(RecordError, match="Is a directory") as caught:
        action(RecordStore(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_record_that_cannot_be_written_leaves_the_log_alone(store):
    def records():
        yield make(1)
        raise RuntimeError("measuring failed")

    store.append([make(0)])
    with pytest.raises(RuntimeError):
        store.append(records())
    assert indices(store) == [0]


def test_a_write_that_fails_midway_leaves_the_log_as_it_was(store, monkeypatch):
    store.append([make(0)])
    before = store.path.read_bytes()
    write = os.write
    calls = []

    def disk_full(fd, data):
        calls.append(1)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(fd, data[:10])

    monkeypatch.setattr(os, "write", disk_full)
    with pytest.raises(RecordError, match=r"cannot append to .*: No space left on device"):
        store.append([make(1)])
    assert len(calls) == 2
    assert store.path.read_bytes() == before


@pytest.mark.parametrize("kept", [1, 8, 40, -2])
def test_a_torn_last_line_is_skipped_with_a_warning_and_healed_by_the_next_append(
    store, kept, caplog
):
    store.append([make(1)])
    torn = make(2).to_json_line().encode()[:kept]
    with store.path.open("ab") as f:
        f.write(torn)
    with pytest.warns(RecordWarning, match="line 2 is torn"), caplog.at_level(logging.WARNING):
        assert indices(store) == [1]
    assert "line 2 is torn" in caplog.text
    store.append([make(3)])
    assert indices(store) == [1, 3]
    assert store.path.read_bytes().count(b"\n") == 2


def test_a_tail_of_nul_bytes_from_a_power_cut_is_healed(store):
    store.append([make(1)])
    with store.path.open("ab") as f:
        f.write(b"\0" * 100)
    store.append([make(2)])
    assert indices(store) == [1, 2]


def test_a_torn_first_line_is_healed(store):
    store.path.write_bytes(b'{"schema":1,"wor')
    store.append([make(1)])
    assert indices(store) == [1]


def test_a_torn_line_longer_than_a_block_is_healed(store):
    store.append([make(1)])
    with store.path.open("ab") as f:
        f.write(make(2, note="x" * 200_000).to_json_line().encode()[:-1])
    store.append([make(3)])
    assert indices(store) == [1, 3]


def test_a_whole_last_line_without_newline_is_kept(store):
    store.path.write_text(make(1).to_json_line())
    assert indices(store) == [1]
    store.append([make(2)])
    assert indices(store) == [1, 2]


def test_text_that_is_not_ours_is_never_removed(store):
    store.path.write_text("my notes")
    store.append([make(1)])
    assert store.path.read_text().startswith("my notes\n")
    with pytest.warns(RecordWarning, match=r"1 line \(number 1\) of no record: "):
        assert indices(store) == [1]


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b'{"schema":1}',
        b"\xff\xfe",
        b"[" * 100_000,
        make(7).to_json_line().replace("0.001", "NaN").encode(),
        make(7).to_json_line().replace("0.001", "-1.0").encode(),
        make(7).to_json_line().encode()[:50] + make(8).to_json_line().encode(),
    ],
)
def test_a_corrupt_line_in_the_middle_is_skipped_with_its_number(store, line):
    store.append([make(1), make(2)])
    with store.path.open("ab") as f:
        f.write(line + b"\n")
    store.append([make(3)])
    with pytest.warns(RecordWarning, match=r"skipped 1 line \(number 3\) of no record: ") as caught:
        assert indices(store) == [1, 2, 3]
    assert len(caught) == 1
    assert str(store.path) in str(caught[0].message)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\0" * 5000, r"'(\\x00){20}' is not JSON"),
        (b"\xff\xfe{\0}\0", "it is not text in UTF-8"),
        (b"hello", "'hello' is not JSON"),
    ],
)
def test_a_line_that_is_no_json_is_described_without_terms_of_python(store, line, reason):
    store.path.write_bytes(line + b"\n")
    store.append([make(1)])
    with pytest.warns(RecordWarning, match=rf"of no record: {reason}$"):
        assert indices(store) == [1]


def test_each_reason_for_a_skipped_line_is_said_once(store):
    store.path.write_bytes(b"junk\n[1]\njunk\n")
    store.append([make(1)])
    says = r"3 lines \(number 1, 2, 3\) of no record: 'junk' is not JSON; [^;]+$"
    with pytest.warns(RecordWarning, match=says):
        assert indices(store) == [1]


def test_many_corrupt_lines_make_one_warning(store):
    store.path.write_text("x\n" * 100 + make(1).to_json_line() + "\n")
    with pytest.warns(
        RecordWarning, match=r"skipped 100 lines \(number 1, 2, 3, 4, 5, \.\.\.\) of"
    ) as caught:
        assert indices(store) == [1]
    assert len(caught) == 1


@pytest.mark.parametrize("content", [b"a story\nof two lines\n", b"\x89PNG\r\n\x1a\n", b"[1"])
def test_what_holds_no_record_at_all_is_no_log_and_is_left_alone(store, content):
    store.path.write_bytes(content)
    with pytest.raises(RecordError, match=r"log\.jsonl is not a log of records, .*\(line 1: "):
        store.load()
    assert store.path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"sche', b"\0\0\0"])
def test_what_a_crash_at_the_first_append_leaves_is_an_empty_log(store, content):
    store.path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        assert store.load() == []
        store.append([make(1)])
        assert indices(store) == [1]


def test_blank_lines_are_no_fault(store):
    store.path.write_text(f"\n{make(1).to_json_line()}\n  \n{make(2).to_json_line()}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert indices(store) == [1, 2]


def test_a_newer_schema_is_one_line_naming_the_place(store):
    newer = make(2).to_json_line().replace('"schema":1', '"schema":2')
    store.path.write_text(f"{make(1).to_json_line()}\n{newer}\n")
    with pytest.raises(RecordError, match=r"log\.jsonl, line 2: record of schema 2") as caught:
        store.load()
    assert "\n" not in str(caught.value)


def test_a_log_of_a_newer_schema_without_newline_is_not_cut_on_append(store):
    newer = make(2).to_json_line().replace('"schema":1', '"schema":2')
    store.path.write_text(newer)
    store.append([make(1)])
    assert store.path.read_text().startswith(newer + "\n")


def append_many(path, worker, batches):
    store = RecordStore(path)
    for batch in range(batches):
        store.append([make(worker * 1000 + 2 * batch + k, "y" * 3000) for k in (0, 1)])


def test_concurrent_appends_from_several_processes_lose_nothing(store):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=append_many, args=(str(store.path), w, 15)) for w in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        store.load()  # a torn line seen here would be a warning, hence an error
        time.sleep(0.01)
    assert [worker.exitcode for worker in workers] == [0] * 4
    found = indices(store)
    assert sorted(found) == [w * 1000 + i for w in range(4) for i in range(30)]
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert all(b == a + 1 for a, b in pairs)  # an append is not split by another's


def test_a_log_survives_a_process_killed_while_appending(store):
    code = (
        "import sys\n"
        "from records import Record, RecordStore\n"
        "store = RecordStore(sys.argv[1])\n"
        "for i in range(10**9):\n"
        "    store.append([Record(workload={'template': 't', 'args': {}}, target='x', seed=0,"
        " costs_s=[1.0], config={'index': i, 'values': {'v': 'z' * 100000}})])\n"
        "    print(i, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store.path)], stdout=subprocess.PIPE, env=environment
    ) as process:
        acknowledged = [int(process.stdout.readline()) for _ in range(5)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout.read().splitlines(keepends=True)]
    store.append([make(10**6)])
    found = indices(store)
    assert found[: len(acknowledged)] == acknowledged
    assert found[-1] == 10**6


def test_a_log_replaced_while_waiting_for_its_lock_is_opened_again(store, tmp_path, monkeypatch):
    import fcntl

    store.append([make(1)])
    flock = fcntl.flock
    moved = tmp_path / "rotated.jsonl"

    def rotate_first(fd, operation):
        if not moved.exists():
            store.path.rename(moved)
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", rotate_first)
    store.append([make(2)])
    assert indices(store) == [2]
    assert indices(RecordStore(moved)) == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files left open
@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.append([make(1)]),
        lambda store: store.load(),
        lambda store: list(store.stream()),
        lambda store: Journal(store).new_records(),
        lambda store: Journal(store).add(make(2)),
    ],
    ids=["append", "load", "stream", "news", "add"],
)
def test_no_interrupt_leaves_the_log_locked_for_who_catches_it(store, use):
    store.append([make(0)])

    def fresh():
        os.truncate(store.path, size)
        use(store)

    size = store.path.stat().st_size
    for _ in interrupted_at_each_moment(fresh, [stores, journal, contextlib]):
        with store.path.open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        store.load()
