"""Files of data sets: what is refused before anything is done, what the commands write and say."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.dataset_records import ALL

from autotune.cli.main import main
from autotune.dataset import NothingToExportError, dataset_writer, export, load, scan_logs
from autotune.dataset.data_card import FORMAT, VERSION
from autotune.errors import UsageError
from features import versioned
from records import RecordError, RecordStore
from records.tables.table import SUFFIXES


@pytest.mark.parametrize(
    ("out", "layouts", "templates", "said"),
    [
        ("data.xlsx", ["itervar"], [], r"ends in \.parquet, \.csv or \.npz"),
        ("no/data.csv", ["itervar"], [], "there is no folder"),
        ("data.csv", ["itervars"], [], "unknown layout 'itervars': expected one of itervar"),
        ("data.csv", ["knob", "knob"], [], "twice"),
        ("data.csv", ["knob"], ["matmul"], "give path/to/file.py:function"),
        ("data.csv", ["knob"], ["gone.py:f"], "'gone.py' does not exist"),
    ],
)
def test_a_wrong_argument_is_told_before_anything_is_done(
    out, layouts, templates, said, log, tmp_path
):
    with pytest.raises((UsageError, RecordError), match=said):
        export([log], tmp_path / out, layouts, templates=templates)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".csv", ".csv.schema.json", ".csv.card.md"])
def test_a_folder_in_the_place_of_a_file_is_told_before_anything_is_done(suffix, log, tmp_path):
    (tmp_path / f"data{suffix}").mkdir()
    with pytest.raises(UsageError, match=f"data{suffix} is a folder"):
        export([log], tmp_path / "data.csv")
    assert [path.name for path in tmp_path.iterdir()] == [f"data{suffix}"]


def test_a_signal_that_ends_an_export_leaves_nothing_behind(log, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dataset_writer, "split_of", lambda _: signal.raise_signal(signal.SIGTERM))
    out = str(tmp_path / "data.npz")
    assert main(["features", "export", "--log", str(log), "--out", out, "--layout", "knob"]) == 143
    assert "interrupted" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_line_and_leaves_nothing_behind(log, tmp_path, monkeypatch):
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UsageError, match=r"^cannot write .*data\.csv: No space left on device$"):
        export([log], tmp_path / "data.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_foreign_names_that_are_not_unicode_are_escaped(suffix, records, tmp_path):
    values = {"a\ud800": 1, "a\\ud800": 1, "t": "\udcff"}
    odd = {"template": "t\ud800", "args": {"n": "\ud800"}}
    RecordStore(tmp_path / "a.jsonl").append(
        [replace(records[0], workload=odd, config={"index": 0, "values": values})]
    )
    frame = load(export([tmp_path / "a.jsonl"], tmp_path / f"d{suffix}", ["knob"]).data)
    assert frame["template"].tolist() == ["t\\ud800"]
    assert frame["knob.v1:a\\ud800"].tolist() == [1]
    assert frame["knob.v1:t=\\udcff"].tolist() == [1]
    assert "t\\ud800" in (tmp_path / f"d{suffix}.card.md").read_text()


def test_escape_sequences_of_texts_do_not_stand_in_the_card(records, tmp_path):
    workload = {**records[0].workload, "args": {"n": "\x1b]0;title\x07"}}
    failed = {"code": "\x1b[5mfast\x07", "stage": "run", "message": "no"}
    strange = [replace(records[0], workload=workload, costs_s=None, error=failed)]
    RecordStore(tmp_path / "log.jsonl").append(strange)
    export([tmp_path / "log.jsonl"], tmp_path / "data.csv", layouts=["knob"])
    card = (tmp_path / "data.csv.card.md").read_text()
    assert not {"\x1b", "\x07"} & set(card)
    assert r"\x1b[5mfast\x07" in card


def test_a_data_set_is_not_written_over_its_log(log, tmp_path):
    csv = tmp_path / "log.csv"
    csv.write_bytes(log.read_bytes())
    with pytest.raises(UsageError, match="is one of the logs"):
        export([csv], csv)
    assert csv.read_bytes() == log.read_bytes()


def test_an_empty_log_has_nothing_to_export(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(NothingToExportError, match="there is no record to export"):
        export([tmp_path / "empty.jsonl"], tmp_path / "data.csv")


def test_a_data_set_without_a_schema_of_this_version_is_not_loaded(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("a\n1\n")
    with pytest.raises(UsageError, match="the schema stands beside its data set"):
        load(data)
    schema = tmp_path / "data.csv.schema.json"
    for text, said in (
        ("{", "is not valid JSON"),
        ("{}", "is not a schema of a data set"),
        ('{"format": "autotune data set", "version": 99}', "version 99, this autotune reads 1"),
    ):
        schema.write_text(text)
        with pytest.raises(UsageError, match=said):
            load(data)


def test_exporting_to_csv_or_npz_loads_no_pandas_no_model_and_no_compiler(log, tmp_path):
    code = (
        "import sys; from autotune.cli.main import main\n"
        f"for out in ('a.csv', 'a.npz'): main(['features', 'export', '--log', {str(log)!r}, "
        f"'--out', {str(tmp_path)!r} + '/' + out, '--layout', 'curve', 'knob'])\n"
        "assert not {'pandas', 'pyarrow', 'xgboost', 'llvmlite'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert Path(tmp_path / "a.npz").exists()


def test_the_command_says_what_it_wrote(log, own, tmp_path, capsys):
    out, copy = tmp_path / "data.npz", tmp_path / "copy.jsonl"
    shutil.copy(log, copy)
    words = ["--log", str(log), str(copy), "--layout", "curve", "knob", "--template", own]
    assert main(["features", "export", *words, "-o", str(out)]) == 0
    captured = capsys.readouterr()
    features = len(load(out).filter(regex=r"\.v\d+:").columns)
    assert captured.out == (
        f"{out}: 44 rows, 5 workloads, {features} features; {out}.schema.json; {out}.card.md\n"
    )
    assert captured.err.startswith("autotune: warning: 10 of 44 rows have no features from loops")
    assert captured.err.count("\n") == 1


def test_describe_prints_a_line_or_an_object_per_column(capsys):
    words = ["features", "describe", "broadcast_add", "--set", "n=16", "--layout", "knob"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "throughput (label, float64, 1/s): runs per second: 1 / cost_s, 0 for a" in printed
    assert "knob.v1:lanes/log2 (feature, float32): sign(x) log2(1 + |x|) of knob lanes" in printed
    assert main([*words, "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)
    assert [column["name"] for column in columns][-1].startswith("knob.v1:")
    assert {tuple(column) for column in columns} == {("name", "dtype", "unit", "meaning", "role")}


def test_describe_without_a_template_explains_every_layout(capsys):
    assert main(["features", "describe"]) == 0
    printed = capsys.readouterr().out
    for layout in ALL:
        assert f"\n{versioned(layout, '')}" in printed
    assert "itervar.v1:ROW/LOOP/ACCESS/stride (feature, float32, elements)" in printed


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["data.csv", "data.csv.schema.json"])
def test_a_data_set_or_schema_that_is_a_pipe_is_one_line_and_not_waited_for(tmp_path, name):
    schema = tmp_path / "data.csv.schema.json"
    schema.write_text(json.dumps({"format": FORMAT, "version": VERSION, "columns": []}))
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises((UsageError, RecordError), match=r"cannot read .* no regular file"):
        load(tmp_path / "data.csv")


@pytest.mark.parametrize("columns", [None, 3, {}, "x"])
def test_a_schema_whose_columns_are_no_list_is_one_line(tmp_path, columns):
    schema = tmp_path / "data.csv.schema.json"
    schema.write_text(json.dumps({"format": FORMAT, "version": VERSION, "columns": columns}))
    with pytest.raises(UsageError, match="it has no list of columns"):
        load(tmp_path / "data.csv")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_line_of_a_later_version_is_refused_before_any_record_is_read(
    log, pack, tmp_path, monkeypatch
):
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = log.read_bytes().splitlines(keepends=True)
    (logs / "a.jsonl").write_bytes(b"".join(lines))
    newer = lines[1].replace(b'{"schema":1,', b'{"schema": 2, ')
    (logs / "b.jsonl").write_bytes(pack(b"".join([lines[0], b'{"schema":0}\n', newer])))
    monkeypatch.setattr(scan_logs, "stream_any", None)
    said = r"b\.jsonl, line 3: record of schema 2, but this version reads up to 1; upgrade"
    with pytest.raises(RecordError, match=said):
        export([logs], tmp_path / "data.csv", ["knob"])
    assert not (tmp_path / "data.csv").exists()
