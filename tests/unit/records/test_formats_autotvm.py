"""AutoTVM's logs: kinds of knobs, error numbers, pickles, and the form of what is written."""

import json

import pytest
from support.foreign_logs import (
    ENTITIES,
    TASK,
    as_lines,
    autotvm_1,
    autotvm_2,
    pickled,
    shared_file,
)

from records import Record, RecordError, RecordWarning
from records.formats import parse_any, read_any, write_records

OK = [[1e-5, 3e-5, 2e-5], 0, 4.5, 60.0]


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def exported(records, tmp_path):
    """Return the lines that records become, and the records that these become."""
    path = tmp_path / "out.log"
    write_records(records, "autotvm", path)
    return lines_of(path), read_any(path)


def assert_published_form(line):
    """Check a line against `encode` of `tvm.autotvm.record` and `ConfigEntity.to_json_dict`."""
    assert list(line) == ["input", "config", "result", "version", "tvm_version"]
    target, name, args, kwargs = line["input"]
    assert (type(target), type(name), type(args), type(kwargs)) == (str, str, list, dict)
    config = line["config"]
    assert list(config) == ["index", "code_hash", "entity"]
    assert type(config["index"]) is int
    assert config["code_hash"] is None or isinstance(config["code_hash"], str)
    for name, kind, value in config["entity"]:
        assert type(name) is str
        assert kind in ("sp", "re", "an", "ot")
        if kind in ("sp", "re"):
            assert all(type(item) is int for item in value)
        if kind == "an":
            assert all(type(item) is str for item in value)
    costs, error, all_s, timestamp = line["result"]
    assert error in range(9)
    assert all(type(cost) is float for cost in costs)
    assert error == 0 or costs == [1e9]
    assert type(all_s) is float
    assert type(timestamp) is float
    assert line["version"] == 0.2
    assert type(line["tvm_version"]) is str


@pytest.mark.parametrize("version", [autotvm_1, autotvm_2])
def test_every_kind_of_knob_goes_and_comes(version, tmp_path):
    (record,) = parse_any(as_lines([version(OK)]), "file")
    assert record.config["values"] == {
        "tile": [-1, 8],
        "order": [1, 0],
        "marks": ["none", "unroll"],
        "unroll": True,
    }
    assert "kinds" not in record.config  # they follow from the values
    ((line,), back) = exported([record], tmp_path)
    assert_published_form(line)
    assert line["input"] == TASK
    assert line["config"]["entity"] == ENTITIES
    assert back == [record]


def test_a_kind_that_does_not_follow_from_the_value_is_restored(tmp_path):
    entities = [["tile", "sp", [0, 1]], ["pair", "ot", [4, 4]], ["none", "an", []], ["n", "ot", 3]]
    (record,) = parse_any(as_lines([autotvm_2(OK, entities)]), "file")
    assert record.config["kinds"] == {"tile": "sp", "pair": "ot", "none": "an"}
    ((line,), back) = exported([record], tmp_path)
    assert line["config"]["entity"] == entities
    assert back == [record]


def test_the_variant_of_a_template_in_version_1_is_part_of_its_name():
    records = parse_any(as_lines([autotvm_1(OK), autotvm_1(OK, kind="winograd")]), "file")
    assert [r.template for r in records] == ["conv2d.cuda", "conv2d.cuda.winograd"]


@pytest.mark.parametrize("number", range(1, 9))
def test_every_error_number_has_its_code_and_goes_back(number, tmp_path):
    (record,) = parse_any(as_lines([autotvm_2([[1e9], number, 1.5, 60.0])]), "file")
    assert not record.ok
    assert record.error["message"] == "AutoTVM keeps no message"
    ((line,), back) = exported([record], tmp_path)
    assert_published_form(line)
    assert line["result"] == [[1e9], number, 1.5, 60.0]
    assert back[0].error["code"] == record.error["code"]


def test_the_cost_of_a_failure_is_none_of_a_success():
    (record,) = parse_any(as_lines([autotvm_2([[1e9], 0, 1.5, 60.0])]), "file")
    assert record.error["code"] == "UNKNOWN"


def test_an_unknown_error_number_is_an_unknown_error():
    for number in (9, -1, 1000):
        (record,) = parse_any(as_lines([autotvm_2([[1e9], number, 1.5, 60.0])]), "file")
        assert record.error["code"] == "UNKNOWN"


def test_a_pickled_line_is_refused_and_counted_and_never_loaded(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(pickled() + b"\n" + as_lines([autotvm_2(OK)]) + pickled() + b"\n")
    with pytest.warns(RecordWarning, match=r"skipped 2 of 3 \(line 1, 3\).* it is pickled") as told:
        assert len(read_any(path)) == 1
    assert len(told) == 1
    path.write_bytes(pickled() + b"\n")
    with pytest.raises(RecordError, match="line 1: no AutoTVM measurement: it is pickled"):
        read_any(path)


def test_the_reasons_of_lines_that_are_passed_over_are_counted():
    good, odd = autotvm_2(OK), autotvm_2(OK, [["tile", "xx", [1]]])
    twice = autotvm_2(OK, [["tile", "ot", 1], ["tile", "ot", 2]])
    data = as_lines([good, odd, odd, twice, good])
    with pytest.warns(RecordWarning, match=r"skipped 3 of 5 \(line 2, 3, 4\)") as told:
        assert len(parse_any(data, "file")) == 2
    assert "knob 'tile' is of the unknown kind 'xx' (2); two knobs are named 'tile' (1)" in str(
        told[0].message
    )


def test_a_record_of_ours_becomes_a_line_of_the_published_form(tmp_path):
    record = Record(
        workload={"template": "matmul", "args": {"m": 64, "dtype": "float32"}},
        target="llvm -mcpu=znver4 -threads=4",
        config={"index": 3, "values": {"tile": [4, 16], "order": [1, 0], "nt": 32, "fast": True}},
        costs_s=[1e-3, 2e-3],
        seed=1,
        timestamp=100.0,
        build_s=0.5,
        run_s=0.25,
        fingerprints={"template": "0123456789abcdef"},
    )
    ((line,), (back,)) = exported([record], tmp_path)
    assert_published_form(line)
    assert line["input"] == [record.target, "matmul", [], {"m": 64, "dtype": "float32"}]
    assert [kind for _, kind, _ in line["config"]["entity"]] == ["sp", "re", "ot", "ot"]
    assert line["config"]["code_hash"] == "0123456789abcdef"
    assert line["result"] == [[1e-3, 2e-3], 0, 0.75, 100.0]
    assert (back.workload, back.target, back.config) == (
        record.workload,
        record.target,
        record.config,
    )
    assert back.fingerprints == record.fingerprints


@pytest.mark.parametrize(
    ("name", "count"),
    [("cuda_v0.10", 825), ("cuda_v0.03", 480), ("llvm_v0.04", 35)],
)
def test_published_logs_load_whole_and_go_back(name, count, tmp_path):
    records = read_any(shared_file(f"tuning_logs/tophub_{name}.log.gz"))
    assert len(records) == count
    assert all(record.ok for record in records)
    lines, back = exported(records, tmp_path)
    for line in lines:
        assert_published_form(line)
    assert back == records
