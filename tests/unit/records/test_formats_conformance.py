"""What holds for every format: records survive a round trip, odd files end in records or a line.

`AUTOTUNE_EXAMPLES=n` tries n sets of records for each format.
"""

from __future__ import annotations

import gzip
import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import foreign_logs

from records import Record, RecordError, RecordWarning, config_key, workload_key
from records.formats import (
    EXPORT_FORMATS,
    foreign_format,
    parse_any,
    read_any,
    stream_any,
    write_records,
)

NAMES = st.text("abcdefgxyz_.0 é", min_size=1, max_size=6)
SCALARS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.booleans(),
    st.floats(-1e12, 1e12),
    st.text(max_size=6),
    st.sampled_from(["InvalidConfig", "2.5", "nan", "", "a,b"]),
)
LISTS = st.one_of(
    st.lists(st.integers(-1, 64), max_size=4),
    st.lists(st.sampled_from(["none", "unroll"]), max_size=3),
    st.permutations(range(3)),
    st.lists(SCALARS, max_size=3),
)
CODES = {
    "INSTANTIATION_ERROR": "instantiate",
    "COMPILE_HOST": "compile",
    "COMPILE_DEVICE": "compile",
    "RUNTIME_DEVICE": "run",
    "WRONG_ANSWER": "check",
    "BUILD_TIMEOUT": "build",
    "RUN_TIMEOUT": "run",
    "UNKNOWN": "run",
}
ERRORS = st.builds(
    lambda code, message: {"code": code, "stage": CODES[code], "message": message},
    st.sampled_from(list(CODES)),
    st.text(max_size=20),
)
COSTS = st.lists(st.floats(1e-12, 1e6) | st.floats(1e-18, 1e18), min_size=1, max_size=4)
SECONDS = st.none() | st.floats(0.0, 1e4)


@st.composite
def drawn_records(draw: st.DrawFn, lists: bool = True) -> list[Record]:
    """Draw records of one workload with the same knobs and as many items in each list."""
    workload: dict[str, Any] = {"template": draw(NAMES)}
    workload["args"] = draw(st.dictionaries(NAMES, SCALARS | LISTS, max_size=3))
    target = draw(st.sampled_from(["llvm", "cuda -arch=sm_90", "recorded", ""]))
    device = {"name": draw(NAMES), "threads": 2} if draw(st.booleans()) else {}
    first = draw(st.dictionaries(NAMES, SCALARS | LISTS if lists else SCALARS, max_size=4))
    found = []
    for index in range(draw(st.integers(1, 4))):
        values = {knob: _like(draw, value) if index else value for knob, value in first.items()}
        outcome: dict[str, Any] = (
            {"costs_s": draw(COSTS)} if draw(st.booleans()) else {"error": draw(ERRORS)}
        )
        found.append(
            Record(
                workload=workload,
                target=target,
                device=device,
                config={"index": index, "values": values},
                seed=0,
                timestamp=draw(st.floats(0.0, 4e9)),
                build_s=draw(SECONDS),
                run_s=draw(SECONDS),
                **outcome,
            )
        )
    return found


def _like(draw: st.DrawFn, value: Any) -> Any:
    """Draw a value of a knob that has this one, too."""
    if not isinstance(value, list):
        return draw(SCALARS)
    return [draw(SCALARS) for _ in value]


EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "30"))

OTHERS = ("autotvm", "kernel-tuner", "t4")  # what holds records that are not its own
SAID = {
    "autotune": None,
    "autotvm": "an AutoTVM log",
    "metaschedule": "a MetaSchedule database",
    "kernel-tuner": "a Kernel Tuner cache",
    "t4": "T4 results",
}


def imported(folder: Path) -> list[Record]:
    """Return records that came from MetaSchedule, whose modules only they have."""
    workloads, records = foreign_logs.metaschedule(1)
    folder.mkdir(exist_ok=True)
    (folder / "database_workload.json").write_bytes(foreign_logs.as_lines(workloads))
    (folder / "database_tuning_record.json").write_bytes(foreign_logs.as_lines(records))
    return read_any(folder)


def told(error: RecordError) -> None:
    """Check that users read an error in one line."""
    assert "\n" not in str(error)
    assert len(str(error)) < 500


def assert_the_same(before: list[Record], after: list[Record]) -> None:
    """Compare what a round trip has to keep."""
    assert [config_key(r) for r in after] == [config_key(r) for r in before]
    assert [list(r.config["values"]) for r in after] == [list(r.config["values"]) for r in before]
    assert [workload_key(r) for r in after] == [workload_key(r) for r in before]
    for one, other in zip(before, after, strict=True):
        assert one.ok == other.ok
        if one.ok:
            assert other.costs_s == pytest.approx(one.costs_s, rel=3e-16, abs=0.0)
        else:
            assert other.error["code"] == one.error["code"]


@pytest.mark.parametrize("format_name", OTHERS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=drawn_records())
def test_a_round_trip_keeps_configurations_costs_and_kinds_of_errors(
    format_name, data, tmp_path_factory
):
    path = tmp_path_factory.getbasetemp() / f"{format_name}.out"
    path.unlink(missing_ok=True)
    try:
        written = write_records(data, format_name, path)
    except RecordError as error:
        told(error)
        assert not path.exists()
        return
    assert written.count + written.left_out.total() == len(data)
    back = read_any(path)
    assert len(back) == written.count
    if not written.left_out:
        assert_the_same(data, back)
    # What came back goes and comes again as it is.
    write_records(back, format_name, path)
    assert_the_same(back, read_any(path))


def test_records_of_metaschedule_go_back_to_it_and_through_our_log(tmp_path):
    records = imported(tmp_path / "database")
    write_records(records, "autotune", tmp_path / "log.jsonl.gz")
    kept = read_any(tmp_path / "log.jsonl.gz")
    assert kept == records
    written = write_records(kept, "metaschedule", tmp_path / "again")
    assert (written.count, written.left_out.total()) == (len(records), 0)
    for name in ("database_workload.json", "database_tuning_record.json"):
        before = (tmp_path / "database" / name).read_text().replace("null", "[1e10]", 1)
        after = (tmp_path / "again" / name).read_text()
        same = [list(map(json.loads, text.splitlines())) for text in (before, after)]
        assert after.count("\n") == before.count("\n")
        assert name == "database_workload.json" or len(same[0]) == len(same[1])
    assert_the_same(records, read_any(tmp_path / "again"))


@pytest.mark.parametrize("format_name", EXPORT_FORMATS)
def test_each_format_is_known_by_its_content_streams_and_is_compressed(format_name, tmp_path):
    records = imported(tmp_path / "database")[::2]  # of one workload and space
    path = tmp_path / "out"
    written = write_records(records, format_name, path)
    assert written.count == len(records)
    assert foreign_format(path) == SAID[format_name]
    assert list(stream_any(path)) == read_any(path)
    if format_name == "metaschedule":
        return
    packed = tmp_path / "out.gz"
    write_records(records, format_name, packed)
    assert gzip.decompress(packed.read_bytes()) == path.read_bytes()
    assert read_any(packed) == read_any(path)
    assert foreign_format(packed) == (SAID[format_name] or "a compressed log")
    first = packed.read_bytes()
    write_records(records, format_name, packed)
    assert packed.read_bytes() == first


ODD = {
    "nothing": b"",
    "white space": b" \n\r\n\t\n",
    "one brace": b"{",
    "a number": b"1",
    "null": b"null\n",
    "NaN": b"NaN",
    "a list": b"[]",
    "an object": b"{}",
    "zeros": bytes(4096),
    "no UTF-8": b"\xff\xfe\x80" * 100,
    "UTF-16": '{"cache": {}}'.encode("utf-16"),
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "a long number": b"9" * 20_000,
    "an endless text": b'"' + b"x" * 1_000_000,
    "a torn archive": gzip.compress(b'{"cache": {}}' * 500)[:40],
    "no archive": b"\x1f\x8b" + bytes(50),
    "an empty archive": gzip.compress(b""),
    "pickles": foreign_logs.pickled() + b"\n",
    "one of two files": foreign_logs.as_lines([foreign_logs.workload()]),
    "a cache of a list": b'{"cache": [], "tune_params_keys": []}',
    "results of an object": b'{"results": {}}',
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_ends_in_one_line(name, tmp_path):
    path = tmp_path / "odd.json"
    path.write_bytes(ODD[name])
    with pytest.raises(RecordError) as caught:
        read_any(path)
    told(caught.value)
    if name != "nothing":
        with pytest.raises(RecordError):
            list(stream_any(path))
    foreign_format(path)


FILES = {
    "AutoTVM": lambda: foreign_logs.as_lines(foreign_logs.autotvm(0)),
    "Kernel Tuner": lambda: foreign_logs.as_lines(foreign_logs.kernel_tuner(0)),
    "T4": lambda: foreign_logs.as_lines(foreign_logs.t4(0)),
}


@pytest.mark.parametrize("name", FILES)
def test_marks_at_the_beginning_and_line_ends_of_windows_change_nothing(name):
    data = FILES[name]()
    expected = parse_any(data, "file")
    assert parse_any(b"\xef\xbb\xbf" + data, "file") == expected
    assert parse_any(data.replace(b"\n", b"\r\n"), "file") == expected
    assert parse_any(data.rstrip(b"\n"), "file") == expected


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_anywhere_is_read_up_to_there_or_refused(name):
    data = FILES[name]()
    whole = len(parse_any(data, "file"))
    most = 0
    for end in range(len(data)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecordWarning)
            try:
                most = max(most, len(parse_any(data[:end], "file")))
            except RecordError as error:
                told(error)
    assert most == whole or name == "T4"  # a cut T4 file is no JSON


def test_an_archive_that_grows_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("records.formats.detect.MAX_DOCUMENT", 1 << 16)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"cache": {' + b" " * (1 << 20)))
    with pytest.raises(RecordError, match="MiB of text"):
        read_any(path)


def test_a_line_without_end_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("records.formats.detect.MAX_LINE", 1 << 12)
    good = foreign_logs.as_lines(foreign_logs.autotvm(0)[:1])
    path = tmp_path / "log"
    path.write_bytes(good + b'{"i": [' + b"1," * (1 << 14) + b"\n" + good)
    with pytest.warns(RecordWarning, match="skipped 1 of 3"):
        assert len(read_any(path)) == 2
