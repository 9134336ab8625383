"""The records that ship, and how they are made from the logs of runs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import ROOT
from support.measured import measured

import autotune
from autotune.operators.template_lookup import list_templates
from autotune.task.task import Task
from records import RecordStore

SCRIPT = ROOT / "benchmarks" / "pretune.py"
SHIPPED = sorted((ROOT / "records" / "pretuned").glob("*.jsonl"))
DEVICE = {"kind": "cpu", "name": "Fast(R) CPU @ 2 GHz", "threads": 4, "model": "6/85"}


@pytest.fixture(scope="module")
def task():
    return Task.from_reference("reduce", {"m": 1024, "n": 1024}, "llvm")


def pretune(folder, *logs):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, logs), "--out", str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def compared(record, rank, name):
    return replace(record, final={"comparison": name, "rank": rank}, timestamp=float(rank + 10))


def test_the_latest_comparison_and_the_best_trials_of_each_workload_and_device_ship(task, tmp_path):
    runs, out = tmp_path / "runs", tmp_path / "out"
    trials = [measured(task, i, 1e-3 * (9 - i), device=DEVICE, timestamp=86400.0) for i in range(6)]
    final = [compared(trials[i], 1 - i, "b") for i in range(2)]
    final[0] = replace(final[0], timestamp=2 * 86400.0)
    earlier = [replace(compared(trials[5], 0, "a"), timestamp=1.0)]
    failed = [measured(task, 7, None, device=DEVICE)]
    elsewhere = [measured(task, 1, device={**DEVICE, "threads": 8}, timestamp=0.0)]
    own = [replace(trials[0], workload={"template": "mine", "args": {}})]
    unknown = [replace(trials[0], device={})]
    RecordStore(runs / "a.jsonl").append([*earlier, *trials, *failed, *own, *unknown])
    RecordStore(runs / "b.jsonl").append([*final, *elsewhere])
    done = pretune(out, *sorted(runs.iterdir()))
    assert (done.returncode, done.stderr) == (0, "")
    files = {path.name: RecordStore(path).load() for path in out.iterdir()}
    assert files == {
        "fast-r-cpu-2-ghz-6-85-4-threads-1970-01-03.jsonl": [final[1], final[0], *trials[:2:-1]],
        "fast-r-cpu-2-ghz-6-85-8-threads-1970-01-01.jsonl": elsewhere,
    }
    assert autotune.build("reduce", task.args, records=out / next(iter(files)), reuse="any").record


@pytest.mark.parametrize(
    "changes",
    [
        {"versions": {"numpy": "2.0 (/home/somebody/lib)"}},
        {"policy": {"warmup": "~/there/it"}},
        {"versions": {"/opt/it/is": "1"}},
        {"policy": {"where": f"on {os.uname().nodename}"}},
    ],
)
def test_a_record_that_tells_of_the_machine_it_was_made_on_does_not_ship(task, tmp_path, changes):
    log = tmp_path / "log.jsonl"
    RecordStore(log).append([measured(task, 0, device=DEVICE, **changes)])
    done = pretune(tmp_path / "out", log)
    assert done.returncode == 1
    assert "a record of reduce has a path or a name of this machine: " in done.stderr
    assert not (tmp_path / "out").exists()


def test_logs_of_which_nothing_can_ship_are_one_line(task, tmp_path):
    log = tmp_path / "log.jsonl"
    RecordStore(log).append([measured(task, 0, None, device=DEVICE)])
    done = pretune(tmp_path / "out", log)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_ships_is_a_small_log_of_one_device_with_all_that_says_where_it_is_from(path):
    records = RecordStore(path).load()
    known = {entry.name for entry in list_templates()}
    assert path.stat().st_size < 2_000_000
    assert len({str(record.device) for record in records}) == 1
    for record in records:
        assert record.ok
        assert record.template in known
        assert record.device["name"]
        assert {"autotune", "numpy", "python"} <= record.versions.keys()
        assert {"space", "template"} <= record.fingerprints.keys()


def test_the_folder_says_how_its_records_are_made():
    assert "benchmarks/pretune.py" in (Path(ROOT) / "records/pretuned/README.md").read_text()
