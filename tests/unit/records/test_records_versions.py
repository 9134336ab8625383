"""Logs as earlier versions wrote them: they are read, without a word, and mean what they meant.

The number of the schema has always been 1: later versions only added fields, without which a
record means the same. So nothing is migrated. Whoever changes the meaning of a field raises
`records.SCHEMA`, converts older lines in `Record.from_json`, and adds a log here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from records import SCHEMA, RecordStore, best, ranked, summary

LOGS = sorted((Path(__file__).parent / "versions").glob("*.jsonl"))


def load(name):
    return RecordStore(next(path for path in LOGS if path.stem.endswith(name))).load()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_line_is_a_record_and_becomes_the_same_line_again(path):
    records = RecordStore(path).load()  # a warning would be an error
    assert [record.to_json_line() for record in records] == path.read_text().splitlines()


def test_the_logs_are_of_all_schemas():
    assert {path.name[0] for path in LOGS} == {str(number) for number in range(1, SCHEMA + 1)}


def test_the_first_lines_had_no_seconds_of_running_and_no_races():
    first, failed, bare = load("first")
    assert (first.cost_s, first.run_s, first.raced, first.noise) == (2.5e-5, None, False, None)
    assert (failed.ok, failed.max_error) == (False, float("inf"))
    assert bare.fingerprints is None
    assert all(record.is_trial for record in (first, failed, bare))


def test_a_candidate_that_lost_a_race_has_a_cost():
    records = load("races")
    assert [record.raced for record in records] == [False, True, False]
    assert best(records).index == 0
    assert summary(records)[0].failures == {"RUN_TIMEOUT": 1}


def test_a_gpu_is_described():
    (record,) = load("gpu")
    assert record.device["arch"] == "sm_90"
    assert record.kernels[0]["registers"] == 64
    assert record.clocks["sm_mhz"] == 1980


@pytest.mark.parametrize(("name", "trials"), [("final", 3), ("final-rounds", 2)])
def test_a_final_comparison_decides_whether_or_not_it_names_its_rounds(name, trials):
    records = load(name)
    assert summary(records)[0].trials == trials
    assert ranked(records)[0].final["rank"] == 0
    assert best(records).index == 1


def test_a_workload_with_constant_inputs_is_another_one():
    records = load("constant")
    assert [row.constant for row in summary(records)] == [(), (1,)]


def test_a_device_told_less_before_the_model_was_recorded():
    (record,) = load("model")
    assert {"model", "max_mhz"} <= record.device.keys()
    assert not {"model", "max_mhz"} & load("constant")[0].device.keys()
