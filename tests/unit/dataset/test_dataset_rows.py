"""Data sets: every record is a row, with the features of its own loops, and nothing is lost."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.dataset_records import (
    ADD,
    ALL,
    MISSING,
    OWN,
    PINNED,
    assert_same,
    own_features,
    record_of,
    texts,
)

from autotune.builder import BuiltFunction
from autotune.dataset import explain_columns, export, load
from autotune.dataset.dataset_columns import SPLITS, device_splits, fixed_columns, split_of
from autotune.dataset.scan_logs import LogIndex
from autotune.extract.to_loop_nest import loop_nest
from autotune.lowering.finalise import listing
from autotune.task.task import Task, Workload
from autotune.trace.tracer import TracingWarning
from features import explain, flatten_names, flatten_rows, itervar_rows
from records import Record, RecordError, RecordStore
from records.tables.table import SUFFIXES


def test_every_record_is_a_row_in_the_order_of_the_log(frame, records):
    assert [json.loads(text) for text in frame["config"]] == [r.config["values"] for r in records]
    assert frame["config_index"].tolist() == [r.index for r in records]
    assert frame["timestamp"].tolist() == [r.timestamp for r in records]
    assert frame["seed"].tolist() == [3] * len(records)
    assert [json.loads(text) for text in frame["args"]] == [r.args for r in records]
    for key in ("space", "template", "code"):
        expected = [(r.fingerprints or {}).get(key) for r in records]
        assert texts(frame[f"{key}_fingerprint"]) == expected


def test_a_row_has_the_features_of_its_own_loops_and_zeros_for_what_others_have(
    frame, records, tasks
):
    loops = [name for name in frame.columns if ":" in name and not name.startswith("knob")]
    matrix = frame[loops].to_numpy()
    for row, record in zip(matrix, records[:-6], strict=False):
        own = own_features(tasks[record.template], record.index)
        assert set(own) <= set(loops)
        expected = np.array([own.get(name, 0.0) for name in loops], np.float32)
        assert row.tobytes() == expected.tobytes()


def test_a_failure_has_an_error_and_no_cost(frame):
    row = frame.iloc[0]
    assert (row["ok"], row["throughput"], row["relative_throughput"]) == (False, 0.0, 0.0)
    assert np.isnan(row[["cost_s", "cost_min_s", "cost_max_s", "cost_spread"]].astype(float)).all()
    assert (row["error_code"], row["error_stage"]) == ("WRONG_ANSWER", "check")
    assert row["error_message"] == 'off by "1",\nor so'
    assert (row["checked"], row["max_error"], row["repeats"]) == (True, math.inf, 0)


def test_a_success_has_its_costs_and_its_place_among_its_like(frame, records):
    row, record = frame.iloc[1], records[1]
    assert row["cost_s"] == record.cost_s
    assert row["throughput"] == 1 / record.cost_s
    assert pd.isna(row["error_code"])
    assert np.isnan(row["max_error"])
    assert not row["checked"]
    own = frame[(frame["template"] == "own") & frame["ok"]]
    np.testing.assert_allclose(own["gflops"], 40e-9 / own["cost_s"])
    assert frame.loc[frame["template"] == "broadcast_add", "gflops"].isna().all()
    same = frame[(frame["template"] == "own") & (frame["device"] == "Xeon") & frame["ok"]]
    alike = same[same["features_missing"].isna()]
    best = alike["throughput"].max()
    np.testing.assert_allclose(alike["relative_throughput"], alike["throughput"] / best)


def test_a_record_without_a_program_keeps_its_row_and_says_why(frame, records):
    assert texts(frame["features_missing"]) == [None] * (len(records) - 6) + MISSING
    lost = frame[frame["features_missing"].notna()]
    loops = [n for n in frame.columns if n.startswith(("itervar.", "curve.", "autotvm08."))]
    assert lost[loops].isna().to_numpy().all()
    assert frame.loc[frame["features_missing"].isna(), loops].notna().to_numpy().all()
    assert lost["cost_s"].notna().all()
    assert frame["knob.v1:nothing"].dropna().tolist() == [1.0]


def test_what_is_missing_is_told_in_one_line_and_in_the_card(log, own, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        done = export([log], tmp_path / "data.csv", ["curve"], templates=[own])
    assert [r.getMessage() for r in caplog.records] == [f"{done.missing}; see {done.card}"]
    assert done.missing.startswith("5 of 22 rows have no features from loops: 1 template_changed")
    assert "1 no_template (gone)" in done.missing
    card = done.card.read_text()
    assert "22 measurements of 5 workloads (each on one target), 2 of them failures" in card
    assert "| not_in_space | broadcast_add | 1 | the template's knobs do not have these" in card
    assert "| WRONG_ANSWER | 2 |" in card
    assert "1 row (`raced`) stopped early" in card


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_data_set_loads_with_the_documented_dtypes_in_every_format(
    suffix, log, own, frame, tmp_path
):
    done = export([log], tmp_path / f"data{suffix}", ALL, templates=[own])
    schema = json.loads(done.schema.read_text())
    found = load(done.data)
    assert found.columns.tolist() == [column["name"] for column in schema["columns"]]
    assert [str(t) for t in found.dtypes] == [column["dtype"] for column in schema["columns"]]
    assert (schema["rows"], schema["layouts"]) == (len(found), list(ALL))
    assert all(column["meaning"] for column in schema["columns"])
    assert_same(found, frame)
    if suffix == ".parquet":
        plain = pd.read_parquet(done.data)
        assert plain.dtypes.astype(str).tolist() == found.dtypes.astype(str).tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in (done.data, done.schema, done.card)
    )


def test_rows_do_not_depend_on_how_many_are_written_at_a_time(
    monkeypatch, log, own, frame, tmp_path
):
    monkeypatch.setattr("autotune.dataset.dataset_writer._BATCH_NUMBERS", 0)
    monkeypatch.setattr("autotune.dataset.dataset_writer._MIN_ROWS", 5)
    monkeypatch.setattr("autotune.dataset.spill_files.CHUNK", 3)
    found = load(export([log], tmp_path / "data.npz", ALL, True, [own]).data)
    assert_same(found[frame.columns], frame)
    assert found["loops"].notna().sum() == len(frame) - 5


def test_programs_are_the_loops_the_steps_the_source_and_all_repeats(
    log, own, records, tasks, tmp_path
):
    found = load(export([log], tmp_path / "data.csv", ["knob"], True, [own]).data)
    row, record = found.iloc[1], records[1]
    task = tasks[record.template]
    assert json.loads(row["costs_s"]) == list(record.costs_s)
    assert row["loops"] == str(listing(task.function(record.index))).rstrip()
    assert json.loads(row["steps"]) == task.steps_of(record.index)
    source = BuiltFunction(task.final(record.index), task.target).source
    assert row["source_hash"] == hashlib.sha256(source.encode()).hexdigest()[:16]
    assert found["costs_s"].isna().sum() == 2
    assert found["source_hash"].isna().tolist() == found["features_missing"].notna().tolist()


def test_recorded_steps_are_kept_where_the_template_is_gone(tmp_path):
    gone = Record(
        workload={"template": "gone", "args": {}},
        target="llvm",
        config={"index": 2**70, "values": {}},
        costs_s=(1.0,),
        seed=0,
        steps=[["split", "C", "i#0", "factor", 4]],
    )
    RecordStore(tmp_path / "log.jsonl").append([gone])
    done = export([tmp_path / "log.jsonl"], tmp_path / "data.npz", ["knob"], programs=True)
    found = load(done.data)
    assert json.loads(found["steps"][0]) == gone.steps
    assert found["config_index"][0] == -1
    assert found["features_missing"][0] == "no_template"


@pytest.mark.parametrize("traced", ["(", "float("])
def test_templates_of_files_are_found_where_they_are_named_traced_or_not(traced, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN.replace("{traced}", traced))
    reference = f"{file}:own"
    task = Task.from_reference(reference, {"n": 40}, "llvm")

    def run():
        own = [record_of(task, index) for index in (0, 3, 3)]
        RecordStore(tmp_path / "log.jsonl").append(own)
        return own, export([tmp_path / "log.jsonl"], tmp_path / "data.npz", templates=[reference])

    if traced == "(":
        own, done = run()
    else:
        with pytest.warns(TracingWarning):
            own, done = run()
    assert done.missing == ""
    found = load(done.data)
    for row, record in zip(found.itertuples(index=False), own, strict=True):
        function = task.structure(record.index).function
        values = {} if task.untraceable else task.knob_values(record.index)
        rows = itervar_rows(loop_nest(function, values))
        expected = dict(zip(flatten_names(rows), flatten_rows(rows), strict=True))
        features = dict(zip(found.columns, row, strict=True))
        for name in [name for name in found.columns if ":" in name]:
            assert features[name] == expected.get(name.split(":", 1)[1], 0.0)


@pytest.mark.parametrize(("width", "processor"), [(16, "x86-64"), (64, "x86-64-v4")])
def test_a_record_has_the_loops_of_the_processor_it_was_measured_on(width, processor, tmp_path):
    there = Task.from_reference(*ADD, f"llvm -mcpu={processor}")
    index = there.default_index
    device = {"name": "other", "vector_bytes": width}
    RecordStore(tmp_path / "log.jsonl").append(
        [replace(record_of(there, index), target="llvm", device=device)]
    )
    done = export([tmp_path / "log.jsonl"], tmp_path / "data.npz")
    assert done.missing == ""
    row, own = load(done.data).iloc[0], own_features(there, index)
    assert row["target"] == "llvm"
    found = {name: row[name] for name in row.index if ":" in name}
    assert found == {name: own[name] for name in own if name.startswith("itervar")}


def test_a_file_that_only_a_log_names_is_not_run(tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit('it was run')")
    entry = Record(
        workload={"template": f"{tmp_path}/trap.py:f", "args": {}},
        target="llvm",
        config={"index": 0, "values": {}},
        costs_s=(1.0,),
        seed=0,
    )
    RecordStore(tmp_path / "log.jsonl").append([entry])
    done = export([tmp_path / "log.jsonl"], tmp_path / "data.npz")
    assert "1 no_template" in done.missing


def autotvm_line(x, cost, error=0):
    config = {
        "index": x,
        "code_hash": None,
        "entity": [["tile", "sp", [-1, x]], ["unroll", "ot", x > 2], ["kind", "ot", f"k{x}"]],
    }
    args = [["TENSOR", [1, x], "float32"]]
    source = ["cuda -model=v100", "dense.cuda", args, {}]
    return json.dumps({"input": source, "config": config, "result": [[cost], error, 2.5, 1e9],
                       "version": 0.2})  # fmt: skip


def test_logs_of_other_tools_give_what_they_have(log, tmp_path):
    other = tmp_path / "autotvm.log.gz"
    lines = [autotvm_line(1, 1e-3), autotvm_line(2, 2e-3), autotvm_line(4, 1e9, error=4)]
    other.write_bytes(gzip.compress("\n".join(lines).encode()))
    done = export([log, other], tmp_path / "data.parquet", ["knob"])
    assert done.missing == ""
    found = load(done.data)
    theirs = found[found["log"] == str(other)]
    assert theirs["device"].tolist() == ["v100"] * 3
    assert theirs["ok"].tolist() == [True, True, False]
    assert theirs["knob.v1:tile.1"].tolist() == [1, 2, 4]
    assert theirs["knob.v1:unroll"].tolist() == [0, 0, 1]
    assert theirs["knob.v1:kind=k2"].tolist() == [0, 1, 0]
    assert theirs[[n for n in found.columns if n.startswith("knob.v1:tile.0")]].size
    ours = found[found["log"] == str(log)]
    assert ours["knob.v1:tile.1"].isna().all()
    assert set(found["device_split"].dropna()) == set(SPLITS)


def test_most_workloads_train_and_each_is_always_in_the_same_split():
    splits = [split_of(Workload("t", {"n": n}).fingerprint) for n in range(5000)]
    shares = [splits.count(split) / 5000 for split in SPLITS]
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.02)
    assert [split_of(f"{n:016x}") for n in range(3)] == PINNED


def test_devices_are_held_out_where_there_are_several():
    assert device_splits(["a"]) == {}
    assert sorted(device_splits(["a", "b", "a"]).values()) == ["test", "train"]
    kinds = list(device_splits(f"gpu{n}" for n in range(30)).values())
    assert [kinds.count(split) for split in SPLITS] == [24, 3, 3]


def test_no_device_split_for_one_device_and_no_empty_split_column(tasks, tmp_path):
    task = tasks["broadcast_add"]
    RecordStore(tmp_path / "log.jsonl").append([record_of(task, 0)])
    found = load(export([tmp_path / "log.jsonl"], tmp_path / "data.npz", ["curve"]).data)
    assert "device_split" not in found
    assert found["split"].tolist() == [split_of(task.workload.fingerprint)]


def test_the_columns_that_are_explained_are_those_of_an_export(frame, tasks):
    fixed = [column.field.name for column in fixed_columns(programs=False)]
    assert frame.columns[: len(fixed)].tolist() == fixed
    every = explain_columns([])
    assert [f.name for f in every if f.role != "program"] == fixed
    for layout in ALL:
        own = {f.name: f for task in tasks.values() for f in explain_columns([layout], task)}
        exported = [name for name in frame.columns if name.startswith(f"{layout}.")]
        strange = {"knob.v1:nothing", "knob.v1:nothing/log2"}
        assert set(exported) - strange <= set(own)
        for name in exported:
            if name in own:
                assert explain(name) == (own[name].meaning, own[name].unit)


def test_a_log_that_is_cut_during_an_export_is_told(log, tmp_path):
    copy = tmp_path / "log.jsonl"
    copy.write_bytes(log.read_bytes())
    log_index = LogIndex([copy])
    copy.write_bytes(log.read_bytes()[:3000])
    with pytest.warns(match="torn"), pytest.raises(RecordError, match="was cut or replaced"):
        list(log_index.reread())


def test_records_that_come_while_it_is_exported_are_left_out(log, records, tmp_path):
    copy = tmp_path / "log.jsonl"
    copy.write_bytes(log.read_bytes())
    log_index = LogIndex([copy])
    RecordStore(copy).append(records[:1])
    assert len(list(log_index.reread())) == len(log_index) == len(records)
