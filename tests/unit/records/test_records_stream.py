"""Reading logs record by record, of any format, as they were when reading began."""

import fcntl
import gzip
import os

import pytest
from support.sample_records import made as make

from records import NewerSchemaError, RecordError, RecordStore
from records.formats import stream_any


@pytest.fixture
def store(tmp_path):
    made = RecordStore(tmp_path / "log.jsonl")
    made.append(make(index) for index in range(8))
    return made


def test_a_stream_is_what_loading_gives(store):
    assert list(store.stream()) == list(stream_any(store.path)) == store.load()
    packed = store.path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(store.path.read_bytes()))
    assert list(stream_any(packed)) == store.load()


def test_a_stream_ends_where_the_log_ended_and_keeps_no_writer_waiting(store):
    stream = store.stream()
    first = next(stream)
    with store.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    store.append([make(99)])
    assert [first, *stream] == [make(index) for index in range(8)]


def test_a_stream_of_a_log_that_is_cut_meanwhile_says_so(store):
    store.append(make(index) for index in range(8, 200))  # more than is read ahead
    stream = store.stream()
    next(stream)
    os.truncate(store.path, 0)
    with pytest.raises(RecordError, match=r"cannot read .*: it was cut while it was read: try"):
        list(stream)


def test_lines_that_are_no_records_are_skipped_and_told_once(store):
    lines = store.path.read_bytes().splitlines(keepends=True)
    lines[0], lines[4], lines[7] = b"{\n", b"[]\n", lines[7][:20]
    store.path.write_bytes(b"".join(lines))
    with pytest.warns(match=r"number 1, 5\)|line 8 is torn") as told:
        found = list(stream_any(store.path))
    assert len(told) == 2
    assert [record.index for record in found] == [1, 2, 3, 5, 6]


def test_an_empty_file_streams_nothing_and_a_missing_one_is_an_error(tmp_path):
    (tmp_path / "empty").touch()
    assert list(stream_any(tmp_path / "empty")) == []
    with pytest.raises(RecordError, match="cannot read"):
        list(stream_any(tmp_path / "missing"))
    with pytest.raises(RecordError, match="there is no record log"):
        list(RecordStore(tmp_path / "missing").stream())


def test_a_newer_log_is_refused_as_such(tmp_path):
    (tmp_path / "newer").write_text('{"schema": 99}\n')
    with pytest.raises(RecordError, match="line 1: record of schema 99") as told:
        list(stream_any(tmp_path / "newer"))
    assert isinstance(told.value.__cause__, NewerSchemaError)
