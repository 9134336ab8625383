"""Records of logs as a frame of pandas."""

import gzip
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import records
from records import Record, RecordError, RecordStore, RecordWarning
from records.log_index import log_reader
from records.tables import read_columns, record_columns
from records.tables.record_columns import FIELDS

ERROR = {"code": "RUN_TIMEOUT", "stage": "run", "message": "too\nslow"}
FINAL = {"comparison": "c1", "rank": 1, "over_default": None, "range": None}


def make(number, **more):
    given = {
        "workload": {"template": "matmul", "args": {"n": 64}},
        "target": "llvm",
        "config": {"index": number, "values": {"tile": number, "order": "rows", "a": [1, "é"]}},
        "device": {"kind": "cpu", "name": "Xeon", "threads": 2},
        "policy": {"repeats": 3},
        "versions": {"python": "3.11"},
        "seed": 7,
        "timestamp": 1e9 + number,
        "fingerprints": {"space": "s", "template": f"t{number % 2}", "code": f"c{number}"},
        "steps": [["split", "C", "i", number]],
    }
    if "error" not in more:
        given["costs_s"] = [3e-3, 1e-3, 2e-3]
    return Record(**{**given, **more})


RECORDS = [
    make(1),
    make(2, costs_s=[4e-3, 1e-3], noise=0.5, max_error=math.inf, raced=True, build_s=1.5, run_s=2),
    make(3, error=ERROR, fingerprints=None),
    make(4, final=FINAL),
    make(5, workload={"template": "conv", "args": {}, "constant": [0]}, device={}, policy={}),
    make(2**70, target="cuda -arch=sm_90", seed=-(2**70)),
]


def expected(record):
    """What the row of a record holds, by the record itself."""
    final, error, prints = record.final or {}, record.error or {}, record.fingerprints or {}
    costs = record.costs_s or (math.nan,)

    def plain(data):
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False) if data else None

    def fits(number):
        return number if abs(number) < 2**63 else -1

    return {
        "template": record.template,
        "args": plain(record.args),
        "constant": plain(list(record.constant)),
        "target": record.target,
        "device": record.device.get("name"),
        "device_details": plain(record.device),
        "policy": plain(record.policy),
        "versions": plain(record.versions),
        "config_index": fits(record.index),
        "config": plain(record.config["values"]),
        "cost_s": record.cost_s if record.ok else math.nan,
        "cost_min_s": min(costs),
        "cost_max_s": max(costs),
        "repeats": len(record.costs_s or ()),
        "error_code": error.get("code"),
        "error_stage": error.get("stage"),
        "error_message": error.get("message"),
        "comparison": final.get("comparison"),
        "rank": final.get("rank", -1),
        "raced": record.raced,
        "noise": record.noise,
        "max_error": record.max_error,
        "build_s": record.build_s,
        "run_s": record.run_s,
        "seed": fits(record.seed),
        "timestamp": record.timestamp,
        "space_fingerprint": prints.get("space"),
        "template_fingerprint": prints.get("template"),
        "code_fingerprint": prints.get("code"),
    }


def plain(value):
    return None if value is None or value is pd.NA or value != value else value


def check(frame, wanted, log):
    assert list(frame.columns) == [field.name for field in FIELDS]
    assert [str(dtype) for dtype in frame.dtypes] == [field.dtype for field in FIELDS]
    rows = frame.to_dict("records")
    for row, record in zip(rows, wanted, strict=True):
        found = {name: plain(value) for name, value in row.items()}
        values = {name: plain(value) for name, value in expected(record).items()}
        assert found == {"log": str(log), **values}


@pytest.fixture
def log(tmp_path):
    store = RecordStore(tmp_path / "log.jsonl")
    store.append([*RECORDS, *RECORDS])
    return store.path


@pytest.mark.parametrize("block", [1, 5, 1 << 13])
def test_a_row_says_what_its_record_says(log, monkeypatch, block):
    monkeypatch.setattr(record_columns, "_BLOCK", block)
    check(records.to_frame(log), [*RECORDS, *RECORDS], log)


@pytest.mark.parametrize("storage", ["python", "pyarrow"])
def test_texts_are_kept_as_pandas_is_told_to(log, storage):
    if storage == "pyarrow":
        pytest.importorskip("pyarrow")
    with pd.option_context("mode.string_storage", storage):
        frame = records.to_frame(log)
        assert frame["config"].dtype == pd.StringDtype(storage)
        check(frame, [*RECORDS, *RECORDS], log)


def test_unusual_texts_are_as_everywhere_in_tables(tmp_path):
    """NUL and halves of characters as escapes, an empty text as none."""
    texts = ["a\0b", "\ud800", "", "\0"]
    prints = [dict.fromkeys(("space", "template", "code"), text) for text in texts]
    errors = [{**ERROR, "message": text} for text in texts]
    store = RecordStore(tmp_path / "log.jsonl")
    store.append(
        [make(1), *(make(1, fingerprints=f, error=e) for f, e in zip(prints, errors, strict=True))]
    )
    frame = records.to_frame(store.path)[1:]
    for name in ("code_fingerprint", "template_fingerprint", "error_message"):
        assert [plain(text) for text in frame[name]] == ["a\\x00b", "\\ud800", None, "\\x00"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"tile":8,"order":"rows"}', '{"tile":8,"order":"rows"}'),
        ('{"values":3}', '{"values":3}'),
        ('{"é":"\\u00e9"}', '{"é":"é"}'),
        ('{"a":1},"values":{"b":2}', '{"b":2}'),
        ("{}", None),
    ],
)
def test_the_configuration_of_a_line_is_one_json_object(tmp_path, text, wanted):
    line = make(1).to_json_line()
    values = json.dumps(make(1).config["values"], separators=(",", ":"), ensure_ascii="\\u" in line)
    assert f'"values":{values}' in line
    (tmp_path / "log.jsonl").write_text(f"{line}\n{line.replace(values, text)}\n")
    frame = records.to_frame(tmp_path / "log.jsonl")
    assert [plain(text) for text in frame["config"]][1] == wanted


def test_logs_stand_below_each_other_with_sorted_categories(log, tmp_path):
    packed = tmp_path / "b.jsonl.gz"
    other = RecordStore(tmp_path / "other")
    other.append([make(9, workload={"template": "add", "args": {}})])
    packed.write_bytes(gzip.compress(other.path.read_bytes()))
    frame = records.to_frame(tmp_path)
    assert frame["log"].astype(str).tolist() == [str(packed)] + [str(log)] * 2 * len(RECORDS)
    assert list(frame["template"].cat.categories) == ["add", "conv", "matmul"]
    check(records.to_frame([packed]), [make(9, workload={"template": "add", "args": {}})], packed)
    assert list(frame["template"])[1:] == [r.template for r in RECORDS] * 2


def test_files_of_other_tools_are_rows_too(tmp_path):
    cache = {"1": {"x": 1, "time": 2.0}, "2": {"x": 2, "time": "CompilationFailedConfig"}}
    path = tmp_path / "cache.json"
    path.write_text(json.dumps({"kernel_name": "k", "tune_params_keys": ["x"], "cache": cache}))
    frame = records.to_frame(path)
    assert frame["cost_s"].notna().tolist() == [True, False]


def test_an_empty_log_is_a_frame_without_rows(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    frame = records.to_frame(tmp_path)
    assert len(frame) == 0
    assert [str(dtype) for dtype in frame.dtypes] == [field.dtype for field in FIELDS]


def test_lines_of_no_record_are_told_and_a_later_version_is_refused(log):
    with log.open("ab") as file:
        file.write(b"no record\n" + make(8).to_json_line().encode())
    with pytest.warns(RecordWarning, match=r"skipped 1 line \(number 13\) of no record"):
        frame = records.to_frame(log)
    assert frame["config_index"].iloc[-1] == 8
    with log.open("ab") as file:
        file.write(b'\n{"schema":99}\n')
    with pytest.raises(RecordError, match="line 15: record of schema 99"):
        records.to_frame(log)
    with pytest.raises(RecordError, match="there is no record log"):
        records.to_frame(log.with_name("missing"))
    log.write_bytes(b"rubbish\n" * 23 + b"rubbish")
    with pytest.raises(RecordError, match=r"is not a log of records, none of its .* \(line 1: "):
        records.to_frame(log)


@pytest.fixture
def helpers(monkeypatch):
    """Let helpers read small logs, three at a time."""
    monkeypatch.setattr(read_columns, "HELPED", 2)
    monkeypatch.setattr(read_columns, "_cpus", lambda: 3)


def test_several_processes_read_what_one_does(log, helpers):
    with log.open("ab") as file:
        file.write(b"no record\n\n" + make(8).to_json_line().encode())
    with pytest.warns(RecordWarning, match=r"skipped 1 line \(number 13\) of no record"):
        check(records.to_frame(log), [*RECORDS, *RECORDS, make(8)], log)
    with log.open("ab") as file:
        file.write(b'\n{"schema":99}\n')
    with pytest.raises(RecordError, match="line 16: record of schema 99"):
        records.to_frame(log)


@pytest.mark.parametrize("executable", ["/bin/false", "/no/such/python", ""])
def test_what_a_helper_cannot_read_is_read_here(log, helpers, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    check(records.to_frame(log), [*RECORDS, *RECORDS], log)


def test_parts_of_a_log_are_whole_lines(tmp_path):
    path = tmp_path / "text"
    text = b"a\n\nbcd\n" + b"e" * 40 + b"\nf\n"
    path.write_bytes(text)
    with path.open("rb") as file:
        for place in range(len(text) + 1):
            start = log_reader.whole_line_from(file.fileno(), place, len(text))
            assert start >= place
            assert start in (0, len(text)) or text[start - 1 : start] == b"\n"
            assert b"\n" not in text[max(place, 1) - 1 : max(start, 1) - 1]


def test_the_columns_are_those_that_the_documentation_lists():
    page = (Path(__file__).parents[3] / "docs" / "logs.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| (.*) \|$", page, re.MULTILINE)
    units = [field.unit if field.unit not in ("", "1") else "" for field in FIELDS]
    wanted = [(f.name, f.dtype, unit, f.meaning) for f, unit in zip(FIELDS, units, strict=True)]
    assert listed == wanted


def test_memory_of_rows_is_that_of_arrays(log):
    frame = records.to_frame([log])
    assert isinstance(frame["cost_s"].to_numpy(), np.ndarray)
    assert frame["args"].cat.codes.dtype.itemsize <= 4


def test_a_cut_compressed_log_is_told_as_such(tmp_path):
    whole = RecordStore(tmp_path / "whole.jsonl")
    whole.append(make(number) for number in range(50))
    packed = gzip.compress(whole.path.read_bytes())
    path = tmp_path / "cut.jsonl.gz"
    for end in (30, len(packed) - 20):
        path.write_bytes(packed[:end])
        with pytest.raises(RecordError, match=r"cannot read .*cut\.jsonl\.gz: Compressed file"):
            records.to_frame(path)
