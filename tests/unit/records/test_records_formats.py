"""Files that other tools recorded, read as records: units, failures, torn ends."""

import gzip
import json
import re

import pytest

from records import Record, RecordError, RecordStore
from records.formats import foreign_format, load_own, parse_any, read_any


def cache(entries: dict[str, dict], **changes) -> str:
    """Return a Kernel Tuner cache file over the knobs x and kind."""
    document = {
        "device_name": "Card",
        "kernel_name": "add",
        "problem_size": [64, 64],
        "tune_params_keys": ["x", "kind"],
        "tune_params": {"x": [1, 2, 4], "kind": ["a", "b"]},
        "objective": "time",
        "cache": entries,
    }
    return json.dumps({**document, **changes})


def entry(x: int, kind: str, time: object, **more) -> dict:
    return {"x": x, "kind": kind, "time": time, **more}


def read(text: str) -> list[Record]:
    return parse_any(text.encode(), "file")


def test_a_kernel_tuner_cache_gives_seconds_and_the_time_that_building_and_running_took():
    more = {"compile_time": 500.0, "verification_time": 20.0, "benchmark_time": 180.0}
    (record,) = read(cache({"1,a": entry(1, "a", 2.5, times=[2.4, 2.6], **more)}))
    assert record.costs_s == (0.0024, 0.0026)
    assert record.config == {"index": 0, "values": {"x": 1, "kind": "a"}}
    assert record.build_s == 0.5
    assert record.run_s == pytest.approx(0.2)
    assert record.template == "add"
    assert record.args == {"problem_size": [64, 64]}
    assert record.device == {"name": "Card"}


@pytest.mark.parametrize(
    ("time", "code"),
    [
        ("InvalidConfig", "INSTANTIATION_ERROR"),
        ("CompilationFailedConfig", "COMPILE_DEVICE"),
        ("RuntimeFailedConfig", "RUNTIME_DEVICE"),
        ("SomethingNew", "UNKNOWN"),
        (1e20, "UNKNOWN"),
        (0.0, "UNKNOWN"),
    ],
)
def test_a_text_or_a_huge_number_in_place_of_a_time_is_a_failure(time, code):
    (record,) = read(cache({"1,a": entry(1, "a", time)}))
    assert record.error is not None
    assert record.error["code"] == code


def test_a_cache_that_its_run_never_closed_is_read_up_to_its_end():
    closed = cache({"1,a": entry(1, "a", 1.0), "2,a": entry(2, "a", 2.0)})
    for torn in (closed[:-2], closed[:-2] + ",\n"):
        assert [r.costs_s for r in read(torn)] == [(0.001,), (0.002,)]


def test_timestamps_become_unix_time():
    stamps = ["1970-01-01 00:01:00+00:00", "1970-01-01 00:01:00", "whenever"]
    records = read(cache({s: entry(1, "a", 1.0, timestamp=s) for s in stamps}))
    assert [r.timestamp for r in records] == [60.0, 60.0, 0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            cache({"1": {"x": 1, "time": 1.0}}),
            "entry 1: .*: 'kind' is missing",
        ),
        (cache({}, tune_params_keys=3), "has a list tune_params_keys"),
        ('{"results": [{"times": {}}]}', "result 0: not as T4 has them"),
        ("{}", "of no known format: expected autotune records, AutoTVM logs"),
        ("", "of no known format"),
        ("no json", "of no known format"),
        ('{"i": [], "r": []}', "line 1: no AutoTVM measurement"),
    ],
)
def test_a_file_that_is_none_of_these_is_one_clear_line(text, message):
    with pytest.raises(RecordError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def t4(invalidity: str = "correct", value: object = 3.0) -> str:
    result = {
        "timestamp": "1970-01-01 00:01:00+00:00",
        "configuration": {"x": 2, "kind": "b"},
        "times": {"compilation": 250.0, "validation": 10.0, "runtimes": [3.0, 3.0, 4.0]},
        "invalidity": invalidity,
        "correctness": 1,
        "measurements": [{"name": "GFLOP/s", "value": 9}, {"name": "time", "value": value}],
        "objectives": ["time"],
    }
    return json.dumps({"schema_version": "1.0.0", "results": [result]})


def test_t4_results_give_the_objective_in_seconds():
    (record,) = read(t4())
    assert record.costs_s == (0.003, 0.003, 0.004)
    assert record.build_s == 0.25
    assert record.run_s == pytest.approx(0.02)
    assert record.config["values"] == {"x": 2, "kind": "b"}


@pytest.mark.parametrize(
    ("invalidity", "code"),
    [
        ("timeout", "RUN_TIMEOUT"),
        ("compile", "COMPILE_DEVICE"),
        ("runtime", "RUNTIME_DEVICE"),
        ("correctness", "WRONG_ANSWER"),
        ("constraints", "INSTANTIATION_ERROR"),
    ],
)
def test_every_invalidity_of_t4_has_its_code(invalidity, code):
    (record,) = read(t4(invalidity, "failed"))
    assert record.error is not None
    assert record.error["code"] == code


ENTITIES = [["tile", "sp", [-1, 8]], ["order", "re", [1, 0]], ["unroll", "ot", True]]
TASK = ["cuda -model=x", "conv2d.cuda", [["TENSOR", [1, 8], "float32"], [1, 1]], {"layout": "NCHW"}]


def version_1(result: list) -> dict:
    config = {"i": 7, "t": "direct", "c": None, "e": ENTITIES}
    return {"i": [*TASK, None, config], "r": result, "v": 0.1}


def version_2(result: list) -> dict:
    config = {"index": 7, "code_hash": None, "entity": ENTITIES}
    return {"input": TASK, "config": config, "result": result, "version": 0.2}


@pytest.mark.parametrize("version", [version_1, version_2])
def test_both_versions_of_autotvm_logs_say_the_same(version):
    lines = [version([[1e-5, 3e-5, 2e-5], 0, 4.5, 60.0]), version([["no"], 4, 1.0, 61.0])]
    text = "# a comment\n" + "\n".join(json.dumps(line) for line in lines) + "\n"
    good, bad = read(text)
    assert good.cost_s == 2e-5
    assert good.target == "cuda -model=x"
    assert good.template == "conv2d.cuda"
    assert good.args == {"args": TASK[2], "layout": "NCHW"}
    assert good.config["values"] == {"tile": [-1, 8], "order": [1, 0], "unroll": True}
    assert good.run_s == 4.5
    assert bad.error == {"code": "RUNTIME_DEVICE", "stage": "run", "message": "no"}


def test_our_own_logs_and_compressed_files_are_read_too(tmp_path):
    (record,) = read(t4())
    log = tmp_path / "log.jsonl"
    log.write_text(record.to_json_line() + "\n")
    assert read_any(log) == [record]
    packed = tmp_path / "cache.json.gz"
    packed.write_bytes(gzip.compress(cache({"1,a": entry(1, "a", 1.0)}).encode()))
    assert read_any(packed)[0].costs_s == (0.001,)


def test_a_missing_file_and_a_broken_archive_are_one_clear_line(tmp_path):
    with pytest.raises(RecordError, match="No such file"):
        read_any(tmp_path / "none.json")
    broken = tmp_path / "cut.json.gz"
    broken.write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(RecordError, match="cannot read"):
        read_any(broken)


HUGE = 10**400


def test_times_that_no_float_holds_are_failures_or_one_line():
    (record,) = read(cache({"1,a": entry(1, "a", HUGE)}))
    assert record.error["code"] == "UNKNOWN"
    (record,) = read(t4(value=HUGE))
    assert record.error["code"] == "UNKNOWN"
    (record,) = read(json.dumps(version_2([[HUGE], 0, 4.5, 60.0])))
    assert record.error["message"] == "no positive time"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (cache({"1,a": entry(1, "a", 1.0, compile_time=HUGE)}), "entry 1,a: not as"),
        (cache({"1,a": entry(HUGE, "a", 1.0)}), "entry 1,a: .* must be finite"),
        (cache({"1,a": [1, 2]}), "entry 1,a: not as Kernel Tuner has them"),
        (cache({"1,a": None}), "entry 1,a: not as Kernel Tuner has them"),
        ('{"results": null}', "the results of T4 are a list, not NoneType"),
        ('{"results": 3}', "the results of T4 are a list, not int"),
        (t4().replace('{"x": 2, "kind": "b"}', "[1, 2]"), "result 0: not as T4 has them"),
        (t4().replace('{"x": 2, "kind": "b"}', str(HUGE)), "result 0: not as T4 has them"),
        (t4().replace("250.0", str(HUGE)), "result 0: not as T4 has them"),
        (t4().replace('["time"]', "[[]]"), "result 0: not as T4 has them"),
        (json.dumps(version_1([[1.0], 0, HUGE, 60.0])), "line 1: no AutoTVM measurement"),
        (json.dumps(version_2([[1.0], 0, 1.0, HUGE])), "line 1: no AutoTVM measurement"),
        (json.dumps(version_1(None)), "line 1: no AutoTVM measurement"),
        (json.dumps(version_2([1.0]) | {"config": []}), "line 1: no AutoTVM measurement"),
    ],
)
def test_values_of_another_kind_or_size_are_one_clear_line(text, message):
    with pytest.raises(RecordError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (cache({"1,a": [1, 2]}), "it must be an object, not [1, 2]"),
        (cache({"1,a": entry(1, "a", 1.0, compile_time="x")}), "compile_time must be a number"),
        (cache({"1,a": entry(1, "a", 1.0, compile_time=HUGE)}), "compile_time must be finite and"),
        (t4().replace('{"x": 2, "kind": "b"}', "[1, 2]"), "configuration must be an object, not"),
        (t4().replace("250.0", str(HUGE)), "must be finite and below 1.8e308, not 1000"),
        (t4().replace('["time"]', "[[]]"), "objectives must be names"),
        (t4().replace('["time"]', '{"a": 1}'), "objectives must be of type list, not {'a': 1}"),
        (json.dumps(version_1([[1.0], 0, HUGE, 60.0])), "the time in all must be finite and"),
        (json.dumps(version_2([[1.0], 0, 1.0, HUGE])), "the time stamp must be finite and below"),
        (json.dumps(version_2([["x"], 0, 1.0, 60.0])), "a cost must be a number, not 'x'"),
        (json.dumps(version_2([1.0, 0, 1.0, 60.0])), "costs must be of type list, not 1.0"),
        (json.dumps(version_2([[1.0], [], 1.0, 60.0])), "the error number must be of type int"),
        (json.dumps(version_1(None)), "r must be of type list, not None"),
        (json.dumps(version_2([1.0])), "result must be a list of 4 elements, not of 1"),
        (
            json.dumps(version_2([[1.0], 0, 1.0, 60.0]) | {"config": [1]}),
            "config must be an object, not [1]",
        ),
        (
            json.dumps(version_2([[1.0], 0, 1.0, 60.0]) | {"input": None}),
            "input must be of type list, not None",
        ),
    ],
)
def test_what_another_tool_would_not_write_is_named_and_not_what_python_says(text, message):
    with pytest.raises(RecordError, match=re.escape(message)):
        read(text)


def test_what_a_log_of_ours_is_not_is_said_and_such_a_file_stays_as_it_is(tmp_path):
    files = {
        "cache.json": (cache({"1,a": entry(1, "a", 1.0)}), "a Kernel Tuner cache"),
        "t4.json": (t4(), "T4 results"),
        "autotvm.log": (json.dumps(version_1([[1.0], 0, 1.0, 60.0])), "an AutoTVM log"),
    }
    for name, (text, what) in files.items():
        path = tmp_path / name
        path.write_text(text)
        assert foreign_format(path) == what
        with pytest.raises(RecordError, match=f"{name} is {what}, which this cannot use"):
            load_own(RecordStore(path))
        assert path.read_text() == text
    log = tmp_path / "log.jsonl"
    RecordStore(log).append(read_any(tmp_path / "t4.json"))
    assert foreign_format(log) is None
    assert foreign_format(tmp_path / "none") is None
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert foreign_format(packed) == "a compressed log"
