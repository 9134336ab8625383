"""Disks that are full or read-only, and logs that others change during a run: said at once."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys

import pytest
from support.sample_records import made as make

from records import Journal, Record, RecordError, RecordStore, RecordWarning
from records.storage import files

FILL = """
import sys
from records import Journal, Record, RecordError, RecordStore
journal = Journal(RecordStore(sys.argv[1]))
for index in range(1000):
    record = Record(workload={"template": "matmul", "args": {}}, target="llvm", seed=0,
                    config={"index": index, "values": {"k": index, "text": "x" * 1000}},
                    costs_s=[1e-3])
    try:
        journal.add(record)
    except RecordError as error:
        print(error)
        break
    print(index, flush=True)
"""


def test_a_file_that_may_not_grow_keeps_what_was_appended_and_can_be_continued(tmp_path):
    log = tmp_path / "log.jsonl"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(log)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
    )
    *acknowledged, said = done.stdout.splitlines()
    assert said == f"cannot append to {log}: File too large"
    assert acknowledged
    store = RecordStore(log)
    assert [record.index for record in store.load()] == [int(index) for index in acknowledged]
    assert log.read_bytes().endswith(b"\n")
    store.append([make(7)])
    assert store.load()[-1] == make(7)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_record_that_could_not_be_written_is_neither_in_the_log_nor_taken_for_added(
    tmp_path, monkeypatch, code, call
):
    store = RecordStore(tmp_path / "log.jsonl")
    journal = Journal(store)
    assert journal.add(make(0))
    with monkeypatch.context() as broken:

        def fail(*_):
            raise OSError(code, os.strerror(code))

        broken.setattr(os, call, fail)
        with pytest.raises(RecordError, match=f"cannot append to .*: {os.strerror(code)}"):
            journal.add(make(1))
    assert store.load() == [make(0)]
    assert journal.add(make(1))  # there is room again
    assert store.load() == [make(0), make(1)]
    journal.close()


def test_a_log_that_became_read_only_is_one_line_and_can_still_be_read(tmp_path, monkeypatch):
    store = RecordStore(tmp_path / "log.jsonl")
    journal = Journal(store)
    assert journal.add(make(0))
    open_file = os.open

    def read_only(path, flags, *mode, **rest):
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return open_file(path, flags, *mode, **rest)

    monkeypatch.setattr(files.os, "open", read_only)
    with pytest.raises(RecordError, match=r"cannot append to .*: Read-only file system"):
        journal.add(make(1))
    assert store.load() == [make(0)]


@pytest.mark.parametrize("grown", [b"not a record\n", b'{"a": 1}\n', b"no newline"])
def test_a_log_to_which_others_append_something_else_goes_on(tmp_path, grown):
    store = RecordStore(tmp_path / "log.jsonl")
    journal = Journal(store)
    assert journal.add(make(0))
    with store.path.open("ab") as file:
        file.write(grown)
    with pytest.warns(RecordWarning, match="skipped 1 line"):
        assert journal.add(make(1))
    assert journal.add(make(2))
    journal.close()
    found = store.path.read_bytes()
    assert grown in found  # what is not ours stays
    lines = [line for line in found.splitlines() if line.startswith(b'{"schema"')]
    assert [Record.from_line(line).index for line in lines] == [0, 1, 2]
