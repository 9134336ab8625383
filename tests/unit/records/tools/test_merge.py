"""Merging: every record once, in the order of time; contradictions are kept and marked."""

import gzip
import json

import pytest
from support.sample_records import log_of, made

from records import Record, RecordError, RecordStore
from records.tools.log_lines import LogFile, every_line, records_of
from records.tools.merge import Merged, merge
from records.tools.new_logs import new_log


def merged(out, *paths):
    with new_log(out, replace=True) as file:
        return merge(records_of(every_line(map(LogFile, paths))), file, out.parent)


@pytest.fixture
def logs(tmp_path):
    one = log_of(tmp_path / "one.jsonl", made(0), made(2), made(4))
    other = log_of(tmp_path / "other.jsonl", made(1), made(2), made(3, None))
    return one, other


def test_records_are_in_the_order_of_time_and_exact_duplicates_are_left_out(logs, tmp_path):
    out = tmp_path / "all.jsonl"
    assert merged(out, *logs) == Merged(records=5, duplicates=1, conflicts=0)
    assert [record.index for record in RecordStore(out).load()] == [0, 1, 2, 3, 4]


def test_merging_again_changes_nothing(logs, tmp_path):
    out, again = tmp_path / "all.jsonl", tmp_path / "again.jsonl"
    merged(out, *logs)
    assert merged(again, out, *logs) == Merged(5, 6, 0)
    assert again.read_bytes() == out.read_bytes()


def test_lines_stay_as_they_are_with_keys_of_later_versions(tmp_path):
    line = json.dumps({**made(0).to_json(), "of_later": [1, {"x": "é"}]}, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_text(line + "\n")
    merged(tmp_path / "out.jsonl", tmp_path / "a.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == line + "\n"


def test_the_same_data_with_keys_in_another_order_is_a_duplicate(tmp_path):
    data = made(0).to_json()
    turned = dict(reversed(data.items())) | {"config": dict(reversed(data["config"].items()))}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(data)}\n{json.dumps(turned, indent=None)}\n")
    assert merged(tmp_path / "out.jsonl", tmp_path / "a.jsonl") == Merged(1, 1, 0)


def test_records_of_one_measurement_that_differ_are_all_kept_and_marked(tmp_path):
    one = log_of(tmp_path / "one.jsonl", made(0, 1e-3), made(1))
    other = log_of(tmp_path / "other.jsonl", made(0, 2e-3), made(0, None))
    out = tmp_path / "out.jsonl"
    assert merged(out, one, other) == Merged(records=4, duplicates=0, conflicts=1)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    marks = [line.pop("conflict", None) for line in lines]
    assert marks[:3] == [marks[0]] * 3
    assert (marks[0], marks[3]) != (None, None)
    assert marks[3] is None
    assert lines == [r.to_json() for r in (made(0, 1e-3), made(0, 2e-3), made(0, None), made(1))]


def test_marked_records_are_duplicates_of_the_unmarked_ones(tmp_path):
    one = log_of(tmp_path / "one.jsonl", made(0, 1e-3))
    other = log_of(tmp_path / "other.jsonl", made(0, 2e-3))
    out, again = tmp_path / "out.jsonl", tmp_path / "again.jsonl"
    merged(out, one, other)
    assert merged(again, out, other, one) == Merged(2, 2, 1)
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"timestamp": 7.0},
        {"seed": 1},
        {"device": {"name": "another"}},
        {"target": "llvm -threads=1"},
        {"fingerprints": {"template": "8"}},
        {"workload": {"template": "made", "args": {"n": 65}}},
        {"workload": {"template": "made", "args": {"n": 64}, "constant": [0]}},
        {"final": {"comparison": "c", "rank": 0}},
    ],
)
def test_what_was_measured_otherwise_is_no_conflict(tmp_path, changes):
    log = log_of(tmp_path / "a.jsonl", made(0, 1e-3), made(0, 2e-3, **changes))
    assert merged(tmp_path / "out.jsonl", log).conflicts == 0


def test_a_name_in_gz_is_compressed_and_reads_back(logs, tmp_path):
    out, plain = tmp_path / "all.jsonl.gz", tmp_path / "all.jsonl"
    merged(out, *logs)
    merged(plain, *logs)
    assert gzip.decompress(out.read_bytes()) == plain.read_bytes()
    assert merged(plain, out) == Merged(5, 0, 0)


def test_measurements_of_other_tools_become_records(tmp_path):
    cache = {"1": {"x": 1, "time": 2.0}, "2": {"x": 2, "time": "CompilationFailedConfig"}}
    document = {"kernel_name": "k", "tune_params_keys": ["x"], "cache": cache}
    (tmp_path / "cache.json").write_text(json.dumps(document))
    out = tmp_path / "out.jsonl"
    assert merged(out, tmp_path / "cache.json").records == 2
    assert [record.ok for record in RecordStore(out).load()] == [True, False]


def test_lines_of_no_record_are_counted_and_a_later_version_is_refused(logs, tmp_path):
    with logs[0].open("a") as file:
        file.write("no record\n")
    with pytest.warns(match="skipped 1 line .number 4. of no record"):
        assert merged(tmp_path / "out.jsonl", *logs).records == 5
    with logs[1].open("a") as file:
        file.write('{"schema":99}\n')
    with (
        pytest.warns(match="skipped 1 line"),
        pytest.raises(RecordError, match=r"other\.jsonl, line 4: record of schema 99"),
    ):
        merged(tmp_path / "never.jsonl", *logs)
    assert not (tmp_path / "never.jsonl").exists()


def test_an_empty_log_merges_to_an_empty_log(tmp_path):
    assert merged(tmp_path / "out.jsonl", log_of(tmp_path / "a.jsonl")) == Merged(0, 0, 0)
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_integers_and_texts_that_json_libraries_differ_in_are_merged(tmp_path):
    odd = made(0, workload={"template": "made", "args": {"n": 2**70, "name": "\ud800"}})
    log = log_of(tmp_path / "a.jsonl", odd, odd)
    assert merged(tmp_path / "out.jsonl", log) == Merged(1, 1, 0)
    assert RecordStore(tmp_path / "out.jsonl").load() == [odd]
    assert Record.from_line((tmp_path / "out.jsonl").read_bytes()) == odd


@pytest.mark.parametrize(
    "of",
    [
        lambda number: {"seed": number},
        lambda number: {"config": {"index": number, "values": {"k": 0}}},
        lambda number: {"config": {"index": 0, "values": {"k": [number]}}},
        lambda number: {"workload": {"template": "made", "args": {"n": number}}},
    ],
    ids=["seed", "index", "value", "argument"],
)
def test_integers_beyond_64_bits_that_differ_make_no_duplicates(tmp_path, of):
    # As floats of 64 bits the two are equal.
    log = log_of(tmp_path / "a.jsonl", *(made(0, **of(2**70 + k)) for k in (1, 3)))
    done = merged(tmp_path / "out.jsonl", log)
    assert (done.records, done.duplicates) == (2, 0)
    assert len(RecordStore(tmp_path / "out.jsonl").load()) == 2
