"""Records that are passed over hide no others, however many and how fast they claim to be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.measured import measured

import autotune
from autotune.cli.main import main
from autotune.reuse import Grade, choose
from autotune.task.task import Task
from records import RecordStore, log_set
from records.groups import RecordList, merged
from records.log_set import open_logs

SIZES = {"m": 8, "n": 16, "k": 4}
SET = [word for name, size in SIZES.items() for word in ("--set", f"{name}={size}")]
MANY = 1100  # More than a source gives at first, and than it gives then.
SOME = 80  # More than it gives at first.


@pytest.fixture(scope="module")
def task():
    return Task.from_reference("matmul", SIZES, "llvm")


@pytest.fixture(scope="module")
def honest(task):
    return measured(task, task.default_index, 2e-3)


def many(record, count=MANY, **changes):
    return [replace(record, timestamp=float(n), **changes) for n in range(count)]


def foreign(record):
    return {"index": 0, "values": {**record.config["values"], "none_of_ours": 1}}


WRONG = {
    "the time is less than any such device needs": lambda r: many(r, costs_s=(1e-15,)),
    "the configuration is not in today's space": lambda r: many(
        r, costs_s=(1e-3,), config=foreign(r)
    ),
    "the schedule steps are not those of the template": lambda r: many(
        r, SOME, costs_s=(1e-3,), steps=[*r.steps, ["parallel", "nowhere", 0]]
    ),
}


def sources(records, folder):
    """Return the records in memory, in two sources that count as one, and by way of an index."""
    RecordStore(folder / "log.jsonl").append(records)
    half = len(records) // 2
    parts = [RecordList(records[:half]), RecordList(records[half:])]
    return RecordList(records), merged(parts), open_logs(folder / "log.jsonl")


@pytest.mark.parametrize("why", WRONG)
def test_any_number_of_records_that_are_passed_over_hide_no_other(
    task, honest, why, tmp_path, monkeypatch
):
    monkeypatch.setattr(log_set, "LARGE", 0)
    wrong = WRONG[why](honest)
    for source in sources([*wrong, honest], tmp_path):
        told = []
        found = choose(task, source, notify=told.append)
        assert found is not None
        assert found.record == honest
        assert told == [f"{len(wrong)} records of {task.workload} passed over: {why}"]
    assert (tmp_path / "log.jsonl.index.sqlite").is_file()


def test_a_hidden_record_goes_before_a_slower_one_of_another_group(task, honest):
    absurd = WRONG["the time is less than any such device needs"](honest)
    slower = replace(honest, costs_s=(3e-3,), device={**honest.device, "cores": 4096})
    records = [*absurd, slower, honest]
    assert len(RecordList(records).groups()) == 2
    assert choose(task, records, notify=str).record == honest
    faster = replace(slower, costs_s=(1e-3,))
    assert choose(task, [*records, faster], notify=str).record == faster


def test_of_equally_fast_records_of_two_groups_the_one_measured_first_is_built(task, honest):
    slower = replace(honest, costs_s=(3e-3,))
    first = replace(honest, device={**honest.device, "cores": 4096}, timestamp=2.0)
    second = replace(honest, timestamp=3.0)
    assert choose(task, [slower, first, second], notify=str).record == first


def test_absurd_records_of_an_earlier_version_hide_no_other(task, honest):
    old = replace(honest, fingerprints={"template": "0" * 16})
    records = [*many(old, costs_s=(1e-15,)), old]
    assert choose(task, records, notify=str) is None
    found = choose(task, records, Grade.ANY, notify=str)
    assert found.record == old
    assert found.outdated == "measured with an earlier version of this template"


def test_a_group_of_another_version_is_not_read_to_the_end(task, honest, monkeypatch):
    asked = []
    source = RecordList(many(honest, fingerprints={"template": "0" * 16}))
    records_of = source.records_of
    monkeypatch.setattr(source, "records_of", lambda *a: asked.append(a[1:]) or records_of(*a))
    told = []
    assert choose(task, source, notify=told.append) is None
    assert asked == [(64,)]
    assert told[0].startswith(f"{MANY} records of {task.workload} are measured with an earlier")


def test_of_configurations_that_are_not_allowed_no_more_are_looked_at_than_are_read_at_first(
    task, honest, monkeypatch
):
    asked = []
    monkeypatch.setattr(Task, "refusal", lambda *a: asked.append(a) or "it is too wide")
    assert choose(task, many(honest), notify=str) is None
    assert len(asked) == 64


def test_absurd_comparisons_hide_no_other(task, honest):
    final = {"comparison": "latest", "rank": 0, "rounds": [1]}
    absurd = many(honest, costs_s=(1e-15,), final=final)
    assert choose(task, [honest, *absurd], notify=str).record == honest


def test_commands_and_builds_find_the_honest_record_behind_absurd_ones(
    task, honest, tmp_path, monkeypatch, capsys
):
    log = tmp_path / "log.jsonl"
    RecordStore(log).append([*many(honest, costs_s=(1e-15,)), honest])
    said = f"autotune: warning: {MANY} records of {task.workload} passed over: the time is less"
    for large in (1 << 62, 0):
        monkeypatch.setattr(log_set, "LARGE", large)
        assert main(["best", "matmul", *SET, "--log", str(log)]) == 0
        printed = capsys.readouterr()
        assert "2.00 ms" in printed.out
        assert said in printed.err
    words = ["build", "matmul", *SET, "--log", str(log), "-o", str(tmp_path / "f.so")]
    assert main([*words, "--strict"]) == 0
    with pytest.warns(match="passed over: the time is less"):
        built = autotune.build("matmul", SIZES, records=log, missing="error")
    assert built.record == honest
