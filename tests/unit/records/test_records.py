import dataclasses
import json
import math

import numpy as np
import pytest

from records import (
    NewerSchemaError,
    Record,
    RecordError,
    best,
    config_key,
    make_workload_key,
    select,
    summary,
    workload_key,
)

ERROR = {"code": "WRONG_ANSWER", "stage": "check", "message": "max error 3"}


def make(index=0, costs_s=(2e-3, 1e-3, 5e-3), **changes):
    fields = {
        "workload": {"template": "matmul", "args": {"n": 64, "dtype": "float32"}},
        "target": "llvm",
        "config": {"index": index, "values": {"nt": 32 + index, "tile": [4, 8]}},
        "costs_s": costs_s,
        "seed": 3,
        "timestamp": 1000.0 + index,
    }
    return Record(**{**fields, **changes})


def failed(index=0, code="TIMEOUT", **changes):
    return make(index, costs_s=None, error={**ERROR, "code": code}, **changes)


def test_cost_is_the_median_of_the_repeats():
    assert make().cost_s == 2e-3
    assert make(costs_s=[1.0, 2.0]).cost_s == 1.5
    assert make().ok


def test_a_failure_has_no_cost():
    assert not failed().ok
    with pytest.raises(RecordError, match="has no cost"):
        _ = failed().cost_s


@pytest.mark.parametrize(
    "record",
    [
        make(),
        failed(),
        make(
            policy={"repeat": 3},
            device={"name": "cpu", "cores": 2},
            versions={"autotune": "0.1"},
            fingerprints={"space": "00ff", "template": "1", "code": "2"},
            build_s=0.25,
            max_error=1e-6,
            steps=[["split", "x", 8], {"op": "bind"}],
        ),
        make(max_error=math.inf),
        make(raced=True, noise=0.02),
        make(workload={"template": "τ ", "args": {"shape": (1, 2), "flag": None}}),
        make(costs_s=np.array([1e-3, 2e-3]), seed=np.int64(7), config={"index": 1, "values": {}}),
    ],
)
def test_a_record_equals_its_reread_line(record):
    line = record.to_json_line()
    assert "\n" not in line
    again = Record.from_json(json.loads(line))
    assert again == record
    assert hash(again) == hash(record)
    assert again.to_json_line() == line


def test_the_line_has_the_documented_keys_in_order():
    assert list(json.loads(make().to_json_line())) == [
        "schema", "workload", "target", "config", "costs_s", "policy", "device", "versions",
        "seed", "timestamp",
    ]  # fmt: skip
    data = json.loads(failed(build_s=1.5).to_json_line())
    assert data["schema"] == 1
    assert data["error"]["code"] == "TIMEOUT"
    assert data["build_s"] == 1.5
    assert "costs_s" not in data
    data = json.loads(make(raced=True, noise=0.5, max_error=1.0, steps=[]).to_json_line())
    assert list(data)[-4:] == ["max_error", "raced", "noise", "steps"]


def test_the_spread_of_a_record_is_that_of_the_middle_half_of_its_repeats():
    assert make(costs_s=[1.0, 2.0, 4.0, 5.0, 90.0]).spread == pytest.approx(3 / 4)
    assert make(costs_s=[1.0]).spread is None
    assert failed().spread is None


def test_an_error_that_is_not_a_number_survives_without_breaking_json():
    line = make(max_error=np.float32("nan")).to_json_line()
    assert '"max_error":"nan"' in line
    assert math.isnan(Record.from_json(json.loads(line)).max_error)


def test_a_record_does_not_change_with_what_it_was_made_from():
    args = {"n": 64}
    record = make(workload={"template": "t", "args": args})
    args["n"] = 65
    assert record.args == {"n": 64}
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.seed = 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"error": ERROR}, "either costs_s or error"),
        ({"costs_s": None}, "either costs_s or error"),
        ({"costs_s": []}, "non-empty list"),
        ({"costs_s": 0.1}, "non-empty list"),
        ({"costs_s": [0.0]}, "positive seconds, not 0.0"),
        ({"costs_s": [math.inf]}, "costs_s must be finite"),
        ({"costs_s": ["1"]}, "costs_s must be a number"),
        ({"costs_s": [True]}, "costs_s must be a number"),
        ({"target": None}, "target must be of type str"),
        ({"seed": 1.5}, "seed must be of type int, not 1.5"),
        ({"timestamp": "now"}, "timestamp must be a number"),
        ({"workload": {"args": {}}}, r"workload\.template must be of type str, not None"),
        ({"workload": {"template": "t", "args": [1]}}, r"workload\.args must be an object"),
        ({"config": {"index": True, "values": {}}}, r"config\.index must be of type int"),
        ({"config": {"index": 1}}, r"config\.values must be an object"),
        ({"costs_s": None, "error": {"code": "X", "stage": "s"}}, r"error\.message must be"),
        ({"device": {"name": object()}}, "device holds <object"),
        ({"device": {1: 2}}, "keys must be strings"),
        ({"fingerprints": {"space": 1}}, r"fingerprints\.space must be of type str"),
        ({"build_s": "x"}, "build_s must be a number"),
        ({"noise": "x"}, "noise must be a number"),
        ({"raced": 1}, "raced must be true or false, not 1"),
        ({"max_error": "huge"}, "max_error must be a number"),
        ({"steps": {}}, "steps must be of type list"),
    ],
)
def test_a_wrong_field_is_named(changes, said):
    with pytest.raises(RecordError, match=said) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


def test_json_without_a_required_key_is_refused_by_name():
    data = make().to_json()
    del data["device"], data["seed"]
    with pytest.raises(RecordError, match="record without device, seed"):
        Record.from_json(data)


@pytest.mark.parametrize("data", [None, [], 3, {}, {"schema": "1"}, {"schema": True}])
def test_json_that_is_no_record_is_refused(data):
    with pytest.raises(RecordError):
        Record.from_json(data)


def test_a_newer_schema_asks_for_an_upgrade():
    with pytest.raises(NewerSchemaError, match="schema 2, but this version reads up to 1; upgrade"):
        Record.from_json({**make().to_json(), "schema": 2})


def test_unknown_keys_are_ignored():
    assert Record.from_json({**make().to_json(), "later": 1}) == make()


def test_time_stamp_is_now_unless_given():
    record = Record(
        workload={"template": "t", "args": {}},
        target="llvm",
        config={"index": 0, "values": {}},
        costs_s=[1.0],
        seed=0,
    )
    assert record.timestamp > 1.6e9


def test_keys_do_not_depend_on_order_or_on_tuples():
    args = {"dtype": "float32", "n": 64}
    one = make(workload={"template": "matmul", "args": args})
    assert workload_key(one) == workload_key(make(5))
    assert workload_key(one) == make_workload_key("matmul", dict(reversed(args.items())), "llvm")
    assert workload_key(one) != workload_key(make(target="cuda"))
    assert config_key(make(1)) != config_key(make(2))
    moved = make(config={"index": 9, "values": {"tile": (4, 8), "nt": 33}})
    assert config_key(moved) == config_key(make(1))


def test_constant_inputs_are_a_part_of_the_workload():
    args = {"dtype": "float32", "n": 64}
    plain = make(workload={"template": "matmul", "args": args})
    fixed = make(workload={"template": "matmul", "args": args, "constant": (1,)})
    assert (plain.constant, fixed.constant) == ((), (1,))
    assert "constant" not in workload_key(plain)
    assert workload_key(fixed) == make_workload_key("matmul", args, "llvm", [1])
    assert workload_key(fixed) != workload_key(plain)
    assert Record.from_json(json.loads(fixed.to_json_line())) == fixed
    assert select([plain, fixed], "matmul") == [plain, fixed]
    assert select([plain, fixed], "matmul", args) == [plain]
    assert select([plain, fixed], "matmul", args, constant=[1]) == [fixed]
    assert [row.constant for row in summary([plain, fixed])] == [(), (1,)]
    with pytest.raises(RecordError, match=r"workload\.constant must be of type int, not 'B'"):
        make(workload={"template": "matmul", "args": args, "constant": ["B"]})


def mixed_log():
    other = {"template": "add", "args": {"shape": [8, 8]}}
    return [
        make(3, [3.0]),
        failed(1),
        make(2, [1.0, 9.0, 2.0]),
        make(4, [2.0]),
        make(0, [0.5], workload=other),
        make(5, [0.1], target="cuda -arch=sm_90"),
        failed(6, "COMPILE", target="cuda -arch=sm_90", fingerprints={"space": "aa"}),
        failed(7, "COMPILE", target="cuda -arch=sm_90", fingerprints={"space": "bb"}),
    ]


def test_select_asks_for_what_is_given():
    log = mixed_log()
    assert select(log) == log
    assert [r.index for r in select(log, "add")] == [0]
    assert [r.index for r in select(log, args={"shape": (8, 8)})] == [0]
    assert [r.index for r in select(log, "matmul", {"n": 64, "dtype": "float32"}, "llvm")] == [
        3, 1, 2, 4,
    ]  # fmt: skip
    assert select(log, "matmul", {"n": 64}) == []


def test_best_is_the_lowest_median_and_never_a_failure():
    log = mixed_log()
    assert best(log, "matmul", target="llvm").index == 2
    assert best(log).index == 5
    assert best([failed(1), failed(2)]) is None
    assert best([]) is None


def test_the_first_of_equally_good_records_wins():
    assert best([make(2), make(1)]).index == 2


def test_summary_has_a_row_per_workload_and_target():
    rows = summary(mixed_log())
    assert [(r.template, r.target, r.trials, r.ok) for r in rows] == [
        ("matmul", "llvm", 4, 3),
        ("add", "llvm", 1, 1),
        ("matmul", "cuda -arch=sm_90", 3, 1),
    ]
    first, _, last = rows
    assert (first.best_cost_s, first.best_index) == (2.0, 2)
    assert first.failures == {"TIMEOUT": 1}
    assert (first.first_s, first.last_s) == (1001.0, 1004.0)
    assert last.failures == {"COMPILE": 2}
    assert summary([failed(1)])[0].best_cost_s is None
    assert summary([]) == []
