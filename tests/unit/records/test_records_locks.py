"""A log that another process has locked, or that is no file: nobody waits for it for ever."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import pytest
from support.sample_records import made as make

from records import Journal, RecordError, RecordStore, RecordWarning
from records.formats import read_any, stream_any
from records.storage import append_only_log, files
from records.storage.claims import Claims


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    RecordStore(path).append([make(0)])
    return path


class Held:
    """Holds the lock of a log until it is told to let go, or for some seconds."""

    def __init__(self, log: Path) -> None:
        self._file = log.open("rb")

    def __enter__(self):
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_):
        self._file.close()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(files, "SAID_AFTER_S", 0.05)
    monkeypatch.setattr(append_only_log, "READING_WAITS_S", 0.2)
    monkeypatch.setattr(append_only_log, "MIN_WAIT_S", 0.2)


def seconds_until_refused(use, message):
    begin = time.monotonic()
    with pytest.raises(RecordError, match=message):
        use()
    return time.monotonic() - begin


def test_who_only_reads_says_who_has_locked_the_log_and_gives_up(log, impatient):
    who = rf"process {os.getpid()} \(.+\) has locked it"
    refused = rf"cannot read .*log\.jsonl: {who}; wait for it"
    with Held(log), pytest.warns(RecordWarning, match=rf"log\.jsonl: {who}: waiting .* for 0 s"):
        assert 0.2 <= seconds_until_refused(RecordStore(log).load, refused) < 5.0
    assert RecordStore(log).load() == [make(0)]


def test_a_run_waits_for_the_lock_as_long_as_it_has_time(log, impatient):
    left = RecordStore(log, left_s=lambda: 0.4)
    over = RecordStore(log, left_s=lambda: -3.0)
    refused = r"cannot append to .*log\.jsonl: process"
    for patient, least_s in ((left, 0.4), (over, 0.2)):
        append = partial(patient.append, [make(1)])
        with Held(log), pytest.warns(RecordWarning, match="has locked it"):
            assert least_s <= seconds_until_refused(append, refused) < 5.0


def test_what_was_measured_is_appended_when_the_lock_is_free_again(log, impatient):
    held = Held(log)
    held.__enter__()
    threading.Timer(0.5, held.__exit__).start()
    with pytest.warns(RecordWarning, match="waiting until it is free$"):
        RecordStore(log).append([make(1)])
    assert RecordStore(log).load() == [make(0), make(1)]


def test_a_lock_that_is_free_soon_is_not_mentioned(log):
    held = Held(log)
    held.__enter__()
    threading.Timer(0.1, held.__exit__).start()
    assert RecordStore(log).load() == [make(0)]


def test_who_has_locked_a_file_is_known_by_number_and_name(log):
    with log.open("rb") as file:
        assert files.holder_of(file.fileno()) == "another process"
        with Held(log):
            name = Path("/proc/self/comm").read_text().strip()
            assert files.holder_of(file.fileno()) == f"process {os.getpid()} ({name})"


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def socket_file(path):
    folder = os.open(path.parent, os.O_RDONLY)  # paths of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("put", [pipe, device, socket_file, Path.mkdir])
def test_a_log_that_is_replaced_by_something_else_ends_in_a_line_and_not_in_waiting(log, put):
    journal, claims = Journal(RecordStore(log)), Claims(log)
    assert journal.add(make(1))
    log.unlink()
    put(log)
    said = "Is a directory|it is a device or a pipe, and no regular file"
    for use in (
        lambda: RecordStore(log).load(),
        lambda: list(RecordStore(log).stream()),
        lambda: RecordStore(log).append([make(2)]),
        lambda: journal.add(make(2)),
        lambda: journal.new_records(),
        lambda: read_any(log),
        lambda: list(stream_any(log)),
    ):
        with pytest.raises(RecordError, match=said):
            use()
    with pytest.raises(OSError, match=said):
        claims.take("a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        journal.close()  # it is told already
