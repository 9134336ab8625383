"""Claims on a log: who measures what just now; they end with their process and leave nothing."""

import errno
import os
import signal
import subprocess
import sys

import pytest
from support.sample_records import made

from records import Entry, Journal, RecordError, RecordStore
from records.storage import claims

WORKLOAD = {"template": "matmul", "args": {"n": 64}}


def make(index):
    return made(index, workload=WORKLOAD, device={}, fingerprints={"template": "aa"})


def entry(index, template="aa"):
    return Entry.make(WORKLOAD, "llvm", {"k": index}, template, {})


@pytest.fixture
def two(store):
    store.append([make(99)])
    return Journal(store), Journal(store)


def test_an_entry_is_that_of_its_record_whatever_the_order_of_names():
    assert Entry.of(make(3)) == entry(3)
    one = Entry.make(WORKLOAD, "llvm", {"a": 1, "b": (2, 3)}, "aa", {})
    assert one == Entry.make(WORKLOAD, "llvm", {"b": [2, 3], "a": 1}, "aa", {})


def test_what_one_has_claimed_the_other_may_not_measure_until_it_is_released(two):
    mine, other = two
    assert mine.claim(entry(0))
    assert mine.claim(entry(0))
    assert not other.claim(entry(0))
    assert other.claim(entry(1))
    assert other.claim(entry(0, template="bb"))
    mine.release(entry(0))
    assert other.claim(entry(0))


def test_what_is_recorded_cannot_be_claimed_and_is_still_told(two):
    mine, other = two
    assert mine.claim(entry(0))
    assert other.new_records() == [make(99)]
    assert mine.add(make(0))
    assert not other.claim(entry(0))
    assert other.new_records() == [make(0)]
    assert not mine.claim(entry(0))


def test_adding_or_closing_ends_claims(two):
    mine, other = two
    assert mine.claim(entry(0))
    assert mine.claim(entry(1))
    mine.add(make(0))
    mine.close()
    assert other.claim(entry(1))
    assert mine.claim(entry(2))
    assert not other.claim(entry(2))


def test_appending_and_loading_do_not_wait_for_claims_nor_end_them(two, store):
    mine, other = two
    assert mine.claim(entry(0))
    assert other.add(make(1))
    store.load()
    assert mine.add(make(2))
    assert not other.claim(entry(0))


def test_a_log_that_claims_have_made_vanishes_if_it_remains_empty(store):
    journal = Journal(store)
    assert journal.claim(entry(0))
    assert store.path.exists()
    journal.close()
    assert not store.path.exists()


def test_an_empty_log_stays_if_it_was_there_before_or_somebody_uses_it(store):
    mine, other = Journal(store), Journal(store)
    assert mine.claim(entry(0))
    assert other.claim(entry(1))
    mine.close()
    assert store.path.exists()
    assert not mine.claim(entry(1))
    other.close()
    assert store.path.exists()


@pytest.mark.filterwarnings("ignore::records.RecordWarning")  # that it was removed
def test_a_log_that_was_removed_meanwhile_is_claimed_anew(two, store):
    mine, other = two
    assert mine.claim(entry(0))
    store.path.unlink()
    assert other.claim(entry(1))
    assert mine.claim(entry(0))
    assert not other.claim(entry(0))


def test_a_killed_process_claims_nothing(store):
    store.append([make(99)])
    code = (
        "import sys, time; from records import *; "
        "journal = Journal(RecordStore(sys.argv[1])); "
        "work = {'template': 'matmul', 'args': {'n': 64}}; "
        "entry = Entry.make(work, 'llvm', {'k': 0}, 'aa', {}); "
        "print(journal.claim(entry), flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", code, str(store.path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        journal = Journal(store)
        assert not journal.claim(entry(0))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert journal.claim(entry(0))


def test_a_log_that_cannot_be_made_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").touch()
    journal = Journal(RecordStore(tmp_path / "file" / "log.jsonl"))
    with pytest.raises(RecordError, match=r"cannot open .*log\.jsonl: "):
        journal.claim(entry(0))


def test_where_such_locks_would_stop_appending_nothing_is_locked(two, monkeypatch):
    monkeypatch.setattr(claims, "_keeps_locks_apart", lambda folder: False)
    mine, other = two
    assert mine.claim(entry(0))
    assert other.claim(entry(0))
    assert mine.add(make(0))
    assert not other.claim(entry(0))


def test_a_log_in_a_read_only_folder_can_be_used_without_claims(two, monkeypatch):
    def refuse(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(claims.tempfile, "TemporaryFile", refuse)
    mine, other = two
    assert mine.claim(entry(0))
    assert other.claim(entry(0))
    assert mine.add(make(0))
    assert not other.claim(entry(0))
