"""Files that other tools recorded, read as records: units, failures, torn ends."""

import json
import re

import pytest
from support.foreign_logs import TASK, autotvm_1, autotvm_2, kernel_tuner

from records import Record, RecordError, RecordStore
from records.formats import foreign_format, load_own, parse_any


def cache(entries: dict[str, dict], **changes) -> str:
    """Return a Kernel Tuner cache file over the knobs x and kind."""
    return json.dumps({**kernel_tuner(0)[0], "cache": entries, **changes})


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


@pytest.mark.parametrize("version", [autotvm_1, autotvm_2])
def test_both_versions_of_autotvm_logs_say_the_same(version):
    lines = [version([[1e-5, 3e-5, 2e-5], 0, 4.5, 60.0]), version([["no"], 4, 1.0, 61.0])]
    text = "# a comment\n" + "\n".join(json.dumps(line) for line in lines) + "\n"
    good, bad = read(text)
    assert good.cost_s == 2e-5
    assert good.target == "cuda -model=x"
    assert good.template == "conv2d.cuda"
    assert good.args == {"args": TASK[2], "layout": "NCHW"}
    assert good.config["values"]["tile"] == [-1, 8]
    assert good.run_s == 4.5
    assert bad.error == {"code": "RUNTIME_DEVICE", "stage": "run", "message": "no"}


HUGE = 10**400


def test_times_that_no_float_holds_are_failures_or_one_line():
    (record,) = read(cache({"1,a": entry(1, "a", HUGE)}))
    assert record.error["code"] == "UNKNOWN"
    (record,) = read(t4(value=HUGE))
    assert record.error["code"] == "UNKNOWN"
    (record,) = read(json.dumps(autotvm_2([[HUGE], 0, 4.5, 60.0])))
    assert record.error["message"] == "no positive time"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (cache({"1,a": entry(HUGE, "a", 1.0)}), "must be finite"),
        (cache({"1,a": [1, 2]}), "entry 1,a: not as Kernel Tuner has them: it must be an object"),
        (cache({"1,a": None}), "it must be an object, not None"),
        ('{"results": null}', "the results of T4 are a list, not NoneType"),
        ('{"results": 3}', "the results of T4 are a list, not int"),
        (cache({"1,a": entry(1, "a", 1.0, compile_time="x")}), "compile_time must be a number"),
        (cache({"1,a": entry(1, "a", 1.0, compile_time=HUGE)}), "compile_time must be finite and"),
        (t4().replace('{"x": 2, "kind": "b"}', "[1, 2]"), "configuration must be an object, not"),
        (t4().replace('{"x": 2, "kind": "b"}', str(HUGE)), "result 0: not as T4 has them"),
        (t4().replace("250.0", str(HUGE)), "must be finite and below 1.8e308, not 1000"),
        (t4().replace('["time"]', "[[]]"), "objectives must be names"),
        (t4().replace('["time"]', '{"a": 1}'), "objectives must be of type list, not {'a': 1}"),
        (json.dumps(autotvm_1([[1.0], 0, HUGE, 60.0])), "the time in all must be finite and"),
        (json.dumps(autotvm_2([[1.0], 0, 1.0, HUGE])), "the time stamp must be finite and below"),
        (json.dumps(autotvm_2([["x"], 0, 1.0, 60.0])), "a cost must be a number, not 'x'"),
        (json.dumps(autotvm_2([1.0, 0, 1.0, 60.0])), "costs must be of type list, not 1.0"),
        (json.dumps(autotvm_2([[1.0], [], 1.0, 60.0])), "the error number must be of type int"),
        (json.dumps(autotvm_1(None)), "r must be of type list, not None"),
        (json.dumps(autotvm_2([1.0])), "result must be a list of 4 elements, not of 1"),
        (
            json.dumps(autotvm_2([[1.0], 0, 1.0, 60.0]) | {"config": [1]}),
            "config must be an object, not [1]",
        ),
        (
            json.dumps(autotvm_2([[1.0], 0, 1.0, 60.0]) | {"input": None}),
            "input must be of type list, not None",
        ),
    ],
)
def test_what_another_tool_would_not_write_is_named_and_not_what_python_says(text, message):
    with pytest.raises(RecordError, match=re.escape(message)) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_what_a_log_of_ours_is_not_is_said_and_such_a_file_stays_as_it_is(tmp_path):
    files = {
        "cache.json": (cache({"1,a": entry(1, "a", 1.0)}), "a Kernel Tuner cache"),
        "t4.json": (t4(), "T4 results"),
        "autotvm.log": (json.dumps(autotvm_1([[1.0], 0, 1.0, 60.0])), "an AutoTVM log"),
    }
    for name, (text, what) in files.items():
        path = tmp_path / name
        path.write_text(text)
        assert foreign_format(path) == what
        with pytest.raises(RecordError, match=f"{name} is {what}, which this cannot use"):
            load_own(RecordStore(path))
        assert path.read_text() == text
    assert foreign_format(tmp_path / "none") is None
