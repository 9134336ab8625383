"""Numbers in a log that no float holds: their line is skipped, the others are used."""

from __future__ import annotations

import json

import pytest

from records import Record, RecordError, RecordStore, RecordWarning

HUGE = 10**400


def plain(index: int) -> dict:
    record = Record(
        workload={"template": "add", "args": {"n": 64}},
        target="llvm",
        config={"index": index, "values": {"k": index}},
        costs_s=[1e-3 * (1 + index)],
        seed=0,
        timestamp=1.0,
        build_s=0.5,
        run_s=0.5,
        noise=0.1,
        max_error=0.0,
        clocks={"sm_mhz": 1980},
    )
    return record.to_json()


def with_value(data: dict, path: str, value: object) -> dict:
    *folders, name = path.split(".")
    place = data
    for folder in folders:
        place = place[folder]
    place[name] = value
    return data


PLACES = [
    *("costs_s", "timestamp", "noise", "max_error", "build_s", "run_s", "seed"),
    *("config.index", "config.values.k", "workload.args.n", "clocks.sm_mhz"),
]


@pytest.mark.parametrize("value", [HUGE, -HUGE], ids=["huge", "-huge"])
@pytest.mark.parametrize("path", PLACES)
def test_a_number_that_no_float_holds_costs_its_line_and_not_the_log(tmp_path, path, value):
    number = [value] if path == "costs_s" else value
    lines = [plain(0), with_value(plain(1), path, number), plain(2)]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.warns(RecordWarning, match=r"skipped 1 line \(number 2\) of no record: .*1\.8e308"):
        found = RecordStore(log).load()
    assert [record.index for record in found] == [0, 2]
    with pytest.raises(RecordError, match=path.split(".")[0]):
        Record.from_json(lines[1])


@pytest.mark.parametrize("cost", [5e-324, 1e-19, 1e19, 1.7e308, 10**30])
def test_a_cost_of_which_no_speed_can_be_told_is_none(cost):
    with pytest.raises(RecordError, match=r"costs_s must be seconds from 1e-18 to 1e\+18"):
        Record.from_json(plain(0) | {"costs_s": [cost]})


def test_an_integer_that_cannot_even_be_printed_is_one_line():
    with pytest.raises(RecordError, match="of type int that cannot be printed"):
        Record.from_json(plain(0) | {"seed": 10**5000})


@pytest.mark.parametrize("levels", [65, 900])
def test_lists_in_lists_in_lists_are_one_line(levels):
    value: list = []
    for _ in range(levels):
        value = [value]
    with pytest.raises(RecordError, match="steps is nested more than 64 levels deep"):
        Record.from_json(plain(0) | {"steps": value})


def test_a_knob_whose_value_is_an_object_is_one_line():
    with pytest.raises(RecordError, match="knob 'k' must be a number, text or list of such"):
        Record.from_json(with_value(plain(0), "config.values.k", [{"a": 1}]))


def test_an_integer_beyond_64_bits_stays_one_where_records_are_told_apart_by_it():
    workload = {"template": "t", "args": {"n": 2**70 + 1, "sizes": [3, [2**64]]}}
    config = {"index": 0, "values": {"k": -(2**64)}}
    record = Record(workload=workload, target="x", config=config, costs_s=[1.0], seed=0)
    assert Record.from_line(record.to_json_line().encode()) == record
