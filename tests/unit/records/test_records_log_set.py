"""Several logs as one: files, folders of logs, compressed logs, the records that ship."""

import gzip
import os

import pytest
from support.sample_records import made as make

from records import RecordError, RecordStore, RecordWarning, log_set
from records.log_set import log_files, log_to_append, open_logs, stream_logs


@pytest.fixture
def folder(tmp_path):
    """Three logs, of which one is compressed, and what is no log."""
    folder = tmp_path / "logs"
    RecordStore(folder / "b.jsonl").append([make(2), make(3)])
    RecordStore(folder / "a.jsonl").append([make(0), make(1)])
    packed = RecordStore(tmp_path / "c.jsonl")
    packed.append([make(4)])
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(packed.path.read_bytes()))
    (folder / "b.jsonl.index").write_bytes(b"SQLite")
    (folder / "notes.txt").write_text("no log")
    (folder / "d.jsonl").mkdir()
    return folder


def test_a_folder_stands_for_the_logs_in_it_by_name(folder):
    assert [path.name for path in log_files([folder])] == ["a.jsonl", "b.jsonl", "c.jsonl.gz"]
    assert [record.index for record in stream_logs(str(folder))] == [0, 1, 2, 3, 4]


def test_a_log_that_is_named_twice_counts_once(folder):
    b = folder / "b.jsonl"
    assert [path.name for path in log_files([b, folder, str(b)])] == [
        "b.jsonl",
        "a.jsonl",
        "c.jsonl.gz",
    ]


def test_pretuned_stands_for_the_records_that_ship(tmp_path, monkeypatch):
    RecordStore(tmp_path / "records" / "pretuned" / "cpu.jsonl").append([make(7)])
    monkeypatch.setattr(log_set, "__file__", str(tmp_path / "records" / "log_set.py"))
    assert [record.index for record in stream_logs("pretuned")] == [7]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("missing.jsonl", "there is no record log at missing.jsonl; check the path"),
        ("", "the path of a log is empty"),
        ("empty", "empty is a folder without logs"),
        ("a\0b", "cannot read"),
        ("file/inside", "cannot read file/inside: Not a directory"),
    ],
)
def test_what_is_no_log_is_an_error_of_one_line(tmp_path, monkeypatch, path, why):
    monkeypatch.chdir(tmp_path)
    os.mkdir("empty")
    (tmp_path / "file").touch()
    with pytest.raises(RecordError) as told:
        log_files([path])
    assert why in str(told.value)
    assert "\n" not in str(told.value)


def test_a_log_that_is_named_by_another_path_or_a_link_counts_once(folder):
    b = folder / "b.jsonl"
    (folder / "e.jsonl").symlink_to(b)
    other = folder / "d.jsonl" / ".." / "b.jsonl"
    assert log_files([b, other, folder / "e.jsonl"]) == [b]
    assert [record.index for record in stream_logs(folder)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("given", [3, [3], [None], None])
def test_what_is_no_path_is_an_error_of_one_line(given):
    with pytest.raises(RecordError, match=r"must be a .*path.*, not (3|None)"):
        log_files(given)


def test_without_records_that_ship_one_line_says_so(tmp_path, monkeypatch):
    (tmp_path / "pretuned").mkdir()
    monkeypatch.setattr(log_set, "__file__", str(tmp_path / "log_set.py"))
    own = RecordStore(tmp_path / "own.jsonl")
    own.append([make(1)])
    with pytest.raises(RecordError, match=r"^pretuned: no records ship with this version yet$"):
        log_files("pretuned")
    with pytest.warns(RecordWarning, match="no records ship with this version yet"):
        assert open_logs("pretuned").groups() == []
    with pytest.warns(RecordWarning, match="no records ship with this version yet"):
        assert len(open_logs([own.path, "pretuned"]).groups()) == 1


def test_nothing_is_appended_to_the_records_that_ship():
    with pytest.raises(RecordError, match="pretuned stands for the records that ship"):
        log_to_append("pretuned")


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_what_can_be_no_path_is_no_log_to_append_to(tmp_path, name):
    with pytest.raises(RecordError, match="cannot be"):
        log_to_append(tmp_path / name)
