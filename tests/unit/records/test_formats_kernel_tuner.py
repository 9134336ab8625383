"""Kernel Tuner caches and T4 results: variants that are read, and the form of what is written."""

import json

import pytest
from support.foreign_logs import kernel_tuner, shared_file, t4

from autotune.measure.recorded_measurer import recordings
from records import Record, RecordError, RecordWarning
from records.formats import Written, parse_any, read_any, write_records


def read(document):
    text = document if isinstance(document, str) else json.dumps(document)
    return parse_any(text.encode(), "file")


def cache(entries, **changes):
    return {**kernel_tuner(0)[0], "cache": entries, **changes}


def record(index, values, **changes):
    made = {
        "workload": {"template": "matmul", "args": {"m": 64, "n": 32, "dtype": "float32"}},
        "target": "llvm -mcpu=znver4",
        "device": {"kind": "cpu", "name": "Chip", "threads": 2},
        "config": {"index": index, "values": values},
        "seed": 0,
        "timestamp": 60.0,
        "build_s": 0.5,
        "run_s": 0.25,
    }
    return Record(**{**made, **({} if "error" in changes else {"costs_s": [1e-3]}), **changes})


def written(records, format_name, tmp_path):
    path = tmp_path / "out.json"
    told = write_records(records, format_name, path)
    return told, json.loads(path.read_text()), read_any(path)


TIMES = ["RuntimeFailedConfig", "ErrorConfig", "2.5", "np.float64(2.5)", [2.0, 3.0, 2.5], "nan"]


@pytest.mark.parametrize("time", TIMES)
def test_texts_and_lists_in_place_of_a_time(time):
    (found,) = read(cache({"1,a": {"x": 1, "kind": "a", "time": time}}))
    if time in TIMES[2:5]:
        assert found.cost_s == 2.5e-3
    else:
        assert found.error["message"] == time


def test_a_failure_may_have_a_key_of_its_own_and_any_objective():
    entries = {
        "1,a": {"x": 1, "kind": "a", "__error__": "InvalidConfig"},
        "2,a": {"x": 2, "kind": "a", "GFLOP/s": "CompilationFailedConfig"},
        "4,a": {"x": 4, "kind": "a", "GFLOP/s": 100.0, "time": 2.0},
        "4,b": {"x": 4, "kind": "b", "GFLOP/s": 100.0},
    }
    with pytest.warns(RecordWarning, match=r"skipped 1 of 4 \(entry 4,b\): .*'time' is missing"):
        found = read(cache(entries, objective="GFLOP/s"))
    codes = [r.error["code"] if r.error else r.cost_s for r in found]
    assert codes == ["INSTANTIATION_ERROR", "COMPILE_DEVICE", 2e-3]


def test_a_knob_that_an_entry_lacks_is_read_from_its_key():
    (found,) = read(cache({"4,b": {"time": 1.0}}))
    assert found.config["values"] == {"x": 4, "kind": "b"}
    document = cache({"4,b": {"time": 1.0}})
    del document["tune_params_keys"]
    assert read(document) == [found]


def test_of_an_entry_that_comes_twice_the_last_counts_and_the_other_is_counted():
    text = json.dumps(cache({"1,a": {"x": 1, "kind": "a", "time": 1.0}}))
    again = text.replace('"cache": {', '"cache": {"1,a": {"x": 1, "kind": "a", "time": 9.0}, ')
    with pytest.warns(RecordWarning, match="skipped 1 of 2 .*the entry comes again further down"):
        (found,) = read(again)
    assert found.cost_s == 1e-3


HEAD = '{\n"device_name": "Card",\n"kernel_name": "add",\n"tune_params_keys": ["x"],\n"cache": {'
ENTRIES = [f'\n"{k}": {{"x": {k}, "time": {k}.0}}' for k in (1, 2, 3)]


@pytest.mark.parametrize("end", ["", ",", ",\n", "}", "}\n}", "}\n}\n", "\0" * 100, "}}   "])
def test_a_cache_that_is_open_in_any_way_is_read(end):
    assert [r.cost_s for r in read(HEAD + ",".join(ENTRIES) + end)] == [1e-3, 2e-3, 3e-3]


@pytest.mark.parametrize(
    "torn", ['\n"4": {"x": 4, "ti', '\n"4": {', '\n"4": {"x": 4, "time": "a"\n']
)
def test_an_entry_that_was_not_written_to_its_end_is_left_out_and_counted(torn):
    with pytest.warns(RecordWarning, match=r"skipped 1 of 4 \(entry 4\).*the entry is no JSON"):
        assert len(read(HEAD + ",".join([*ENTRIES, torn]))) == 3


def test_after_a_thousand_damaged_entries_no_more_are_looked_at():
    torn = [f'\n"{k}": {{"x": {k}, "time": }}' for k in range(2000)]
    with pytest.warns(RecordWarning, match=r"no JSON \(1000\); it comes after 1000 .* \(1\)"):
        assert len(read(HEAD + ",".join([*ENTRIES, *torn, *ENTRIES]))) == 3


def test_a_cache_without_entries_has_no_records():
    assert read(HEAD) == []


@pytest.mark.parametrize("version", ["2.0.0", "1.0", 1, None])
def test_a_cache_of_an_unknown_version_is_refused(version):
    known = cache({"1,a": {"x": 1, "kind": "a", "time": 1.0}})
    text = json.dumps({**known, "schema_version": version})
    with pytest.raises(RecordError, match=f"cache of schema_version {version!r}; this version"):
        read(text)
    assert len(read(json.dumps({**known, "schema_version": "1.2.0"}))) == 1


PUBLISHED = {  # what its schema of version 1.1.0 requires of an entry
    "time",
    "compile_time",
    "verification_time",
    "benchmark_time",
    "strategy_time",
    "framework_time",
    "timestamp",
}


def assert_published_form(document):
    assert document["schema_version"] == "1.1.0"
    for key in ("device_name", "kernel_name", "objective"):
        assert isinstance(document[key], str)
    assert isinstance(document["problem_size"], list | int | str)
    keys = document["tune_params_keys"]
    assert list(document["tune_params"]) == keys
    for key, entry in document["cache"].items():
        assert entry.keys() >= {*keys, *PUBLISHED}
        assert key == ",".join(str(entry[name]) for name in keys)
        assert all(entry[name] in document["tune_params"][name] for name in keys)
        if isinstance(entry["time"], str):
            assert entry["time"] in (
                "InvalidConfig",
                "CompilationFailedConfig",
                "RuntimeFailedConfig",
            )
        numbers = PUBLISHED - {"time", "timestamp"}
        assert all(type(entry[name]) in (int, float) for name in numbers)


def test_our_records_become_a_cache_with_scalars_and_come_back(tmp_path):
    records = [
        record(0, {"tile": [4, 16], "nt": 32}, costs_s=[1e-3, 3e-3, 2e-3]),
        record(1, {"tile": [8, 8], "nt": 16}),
        record(2, {"tile": [2, 32], "nt": 16}, error={"code": "WRONG_ANSWER", "stage": "check",
                                                      "message": "off by 2"}),
    ]  # fmt: skip
    told, document, back = written(records, "kernel-tuner", tmp_path)
    assert told == Written(3)
    assert_published_form(document)
    assert document["tune_params"] == {"tile_0": [2, 4, 8], "tile_1": [8, 16, 32], "nt": [16, 32]}
    assert document["problem_size"] == [64, 32]
    assert list(document["cache"]) == ["4,16,32", "8,8,16", "2,32,16"]
    assert [r.config for r in back] == [r.config for r in records]
    assert [r.workload for r in back] == [r.workload for r in records]
    assert [r.device for r in back] == [r.device for r in records]
    assert back[0].costs_s == pytest.approx((1e-3, 3e-3, 2e-3), rel=1e-15)
    assert back[2].error == records[2].error
    assert [r.build_s for r in back] == [0.5] * 3
    assert [r.timestamp for r in back] == [60.0] * 3


def test_a_cache_holds_one_workload_and_each_configuration_once(tmp_path):
    small = record(9, {"x": 1}, workload={"template": "matmul", "args": {"m": 1}})
    listed = record(9, {"x": [[1], [2]]})
    named = record(9, {"time": 1})
    final = record(0, {"x": 1}, final={"comparison": "c", "rank": 0})
    slow, fast = record(0, {"x": 1}, costs_s=[2e-3]), record(0, {"x": 1}, costs_s=[1e-3])
    failed = record(0, {"x": 1}, error={"code": "UNKNOWN", "stage": "run", "message": ""})
    records = [small, listed, named, final, slow, fast, failed, record(1, {"x": 2})]
    told, document, back = written(records, "kernel-tuner", tmp_path)
    assert_published_form(document)
    assert told.count == 2
    assert told.left_out == {
        "a knob that is a list of lists": 1,
        "a knob named like what Kernel Tuner measures": 1,
        "times of a final comparison": 1,
        "another workload, target, device or set of knobs: there is one in a file": 1,
        "a configuration that was measured again: there is one entry for each": 2,
    }
    assert [r.cost_s for r in back] == [1e-3, 1e-3]


def test_configurations_with_the_same_key_are_not_lost_without_a_word(tmp_path):
    records = [record(k, {"x": value}) for k, value in enumerate([1, "1", True, "True", 1.0])]
    told, document, back = written(records, "kernel-tuner", tmp_path)
    assert list(document["cache"]) == ["1", "True", "1.0"]
    assert told.count == len(back) == 3
    assert told.left_out.total() == 2


@pytest.mark.parametrize(
    ("unit", "of_file", "seconds"),
    [
        ("ms", None, 3e-3),
        ("", None, 3e-3),
        ("s", None, 3.0),
        ("us", None, 3e-6),
        ("nanoseconds", None, 3e-9),
        ("", "miliseconds", 3e-3),
        ("", "seconds", 3.0),
        ("ms", "seconds", 3e-3),
        ("GFLOP/s", "microseconds", 3e-6),
    ],
)
def test_units_of_t4(unit, of_file, seconds):
    document = t4(1)[0]
    for result in document["results"]:
        result["measurements"] = [{"name": "time", "value": 3.0, "unit": unit}]
    document["metadata"] = {"timeunit": of_file}
    assert read(document)[0].cost_s == pytest.approx(seconds)


def test_t4_gives_the_time_whatever_its_objective_is():
    document = t4(1)[0]
    for result in document["results"]:
        result["objectives"] = ["GFLOP/s"]
    assert read(document)[0].costs_s == (3e-3, 3e-3, 4e-3)
    for result in document["results"]:
        result["measurements"] = [{"name": "GFLOP/s", "value": 9}]
    assert read(document)[0].costs_s == (3e-3, 3e-3, 4e-3)  # its runtimes
    for result in document["results"]:
        result["times"]["runtimes"] = []
    failed = sum(result["invalidity"] != "correct" for result in document["results"])
    with pytest.warns(RecordWarning, match=r"no time was measured, only GFLOP/s"):
        assert len(read(document)) == failed


INVALIDITIES = ("timeout", "compile", "runtime", "correctness", "constraints", "correct")
CODES = ["COMPILE_HOST", "BUILD_TIMEOUT", "RUN_TIMEOUT", "WRONG_ANSWER", "UNKNOWN"]


def test_our_records_become_t4_results_and_come_back(tmp_path):
    errors = [{"code": code, "stage": "run", "message": "no"} for code in CODES]
    records = [
        record(0, {"tile": [4, 16], "fast": True}, costs_s=[1e-3, 3e-3, 2e-3]),
        *(record(k, {"tile": [4, k], "fast": False}, error=e) for k, e in enumerate(errors, 1)),
    ]
    told, document, back = written(records, "t4", tmp_path)
    assert told == Written(len(records))
    assert document["schema_version"] == "1.0.0"
    assert document["metadata"]["timeunit"] == "milliseconds"
    for result in document["results"]:
        assert result.keys() >= {"configuration", "times", "invalidity", "correctness"}
        assert result["invalidity"] in INVALIDITIES
        assert isinstance(result["timestamp"], str)
        assert all(type(result["times"][key]) in (int, float) for key in
                   ("compilation", "framework", "search_algorithm", "validation"))  # fmt: skip
        (measured,) = result["measurements"]
        assert (measured["name"], measured["unit"]) == ("time", "ms")
    assert [r.config for r in back] == [r.config for r in records]
    assert [r.error for r in back] == [r.error for r in records]
    assert back[0].costs_s == pytest.approx((1e-3, 3e-3, 2e-3), rel=1e-15)
    assert (back[0].workload, back[0].device) == (records[0].workload, records[0].device)
    assert [r.run_s for r in back] == pytest.approx([0.25] * len(back))


def test_a_description_of_the_workload_that_is_damaged_is_passed_over():
    document = {**t4(1)[0], "metadata": {"autotune": {"workload": {"template": 3}}}}
    assert read(document)[0].template == "T4 results"
    odd = ({"x": [1]}, {"x": ["y", "kind"]}, {"x": []}, {"z": ["x"], "y": ["x"]}, [], 3)
    blocks = [{"knobs": knobs} for knobs in odd]
    for block in (3, {"workload": {}, "target": 1, "device": {}}, *blocks):
        (found,) = read(cache({"1,a": {"x": 1, "kind": "a", "time": 1.0}}, autotune=block))
        assert found.template == "add"
        assert found.config["values"] == {"x": 1, "kind": "a"}


SPACES = [
    "convolution_A100",
    "convolution_A100_T4",
    "convolution_RTX_3090",
    "convolution_W7800",
    "dedispersion_A4000",
    "dedispersion_MI250X",
    "pnpoly_RTX_3090",
]


@pytest.mark.parametrize("name", SPACES)
def test_measured_spaces_go_and_come_and_are_equal(name, tmp_path):
    records = read_any(shared_file(f"measured_spaces/{name}.json.gz"))
    (before,) = recordings(records, name)
    for format_name in ("autotvm", "kernel-tuner", "t4"):
        path = tmp_path / f"{format_name}.gz"
        assert write_records(records, format_name, path) == Written(len(records))
        (after,) = recordings(read_any(path), name)
        assert after.space.fingerprint() == before.space.fingerprint()
        assert after.results.keys() == before.results.keys()
        for index, result in before.results.items():
            other = after.results[index]
            assert (result.error and result.error.code) == (other.error and other.error.code)
            assert result.ok == other.ok
            if result.ok:
                assert other.cost_s == pytest.approx(result.cost_s, rel=1e-14)


@pytest.mark.parametrize("format_name", ["autotune", "autotvm", "kernel-tuner", "t4"])
def test_writing_that_fails_leaves_what_was_there(format_name, tmp_path):
    path = tmp_path / "out.json"
    path.write_text("before")
    with pytest.raises(RecordError, match=f"no record to be written as {format_name}"):
        write_records([], format_name, path)

    def broken():
        yield record(0, {"x": 1})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_records(broken(), format_name, path)
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_what_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(RecordError, match=r"as autotune, autotvm, metaschedule, .*, not as 'csv'"):
        write_records([record(0, {})], "csv", tmp_path / "out")
    with pytest.raises(RecordError, match=r"cannot write .*No such file"):
        write_records([record(0, {})], "t4", tmp_path / "none" / "out")
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="cannot write"):
        write_records([record(0, {})], "metaschedule", tmp_path / "file" / "db")


@pytest.mark.parametrize("format_name", ["autotune", "autotvm", "kernel-tuner", "t4"])
def test_a_path_may_be_a_text(format_name, tmp_path):
    assert write_records([record(0, {"x": 1})], format_name, f"{tmp_path}/out").count == 1
    assert [r.config["values"] for r in read_any(f"{tmp_path}/out")] == [{"x": 1}]
