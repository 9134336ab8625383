"""MetaSchedule's database: decisions as knobs, its two files, modules that stay text."""

import json
from pathlib import Path

import pytest
from support.foreign_logs import as_lines, metaschedule, tuning_record, workload

from records import RecordError, RecordWarning
from records.formats import foreign_format, parse_any, read_any, write_records

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"


def database(folder, workloads, records, names=(WORKLOADS, RECORDS)):
    folder.mkdir(exist_ok=True)
    for name, lines in zip(names, (workloads, records), strict=True):
        (folder / name).write_bytes(as_lines(lines))
    return folder


def test_decisions_are_knobs_by_instruction_and_number(tmp_path):
    lines = [tuning_record(0, [8, 8], 1, [1e-3, 3e-3])]
    (record,) = read_any(database(tmp_path / "db", [workload("one")], lines))
    assert record.config["values"] == {"SamplePerfectTile.2": [8, 8], "SampleCategorical.4": 1}
    assert record.costs_s == (1e-3, 3e-3)
    assert record.target == "llvm -mcpu=skylake -num-cores=4"
    assert record.template == "MetaSchedule"
    assert record.args["hash"] == workload("one")[0]


def test_a_space_is_what_decisions_do_not_change(tmp_path):
    lines = [tuning_record(0, [2**k, 64 // 2**k], k % 2, [1e-3]) for k in range(4)]
    lines[3][1][0][0].insert(1, ["GetBlock", [], ["other", "main"], ["b9"]])  # another sketch
    lines[3][1][0][1] = [[3, [8, 8]], [5, 1]]
    records = read_any(database(tmp_path / "db", [workload()], lines))
    sketches = [record.args["sketch"] for record in records]
    assert sketches[0] == sketches[1] == sketches[2] != sketches[3]


@pytest.mark.parametrize("run_s", [None, [1e10], [], [0.0], [-1.0]])
def test_what_has_no_time_is_a_failure(run_s, tmp_path):
    lines = [tuning_record(0, [8, 8], 1, run_s)]
    (record,) = read_any(database(tmp_path / "db", [workload()], lines))
    assert record.error["code"] == "UNKNOWN"
    write_records([record], "metaschedule", tmp_path / "out")
    (line,) = (tmp_path / "out" / RECORDS).read_text().splitlines()
    assert json.loads(line)[1][1] == [1e10]


def test_either_file_or_the_folder_gives_the_database(tmp_path):
    folder = database(tmp_path / "db", *metaschedule(0))
    found = read_any(folder)
    assert len(found) == 6
    assert read_any(folder / WORKLOADS) == read_any(folder / RECORDS) == found
    other = database(tmp_path / "o", *metaschedule(0), ("workloads.json", "tuning_records.json"))
    assert read_any(other / "workloads.json") == read_any(other / "tuning_records.json") == found
    for path in (folder, folder / WORKLOADS, folder / RECORDS):
        assert foreign_format(path) == "a MetaSchedule database"


def test_a_file_alone_says_what_is_missing(tmp_path):
    folder = database(tmp_path / "db", *metaschedule(0))
    (folder / WORKLOADS).unlink()
    for path in (folder, folder / RECORDS):
        with pytest.raises(RecordError, match=f"also needs .*{WORKLOADS}"):
            read_any(path)
    (folder / RECORDS).rename(folder / "other.json")
    with pytest.raises(RecordError, match="the other one is found if they are named"):
        read_any(folder / "other.json")
    with pytest.raises(RecordError, match="it takes both"):
        parse_any(as_lines(metaschedule(0)[1]), "file")
    with pytest.raises(RecordError, match="Is a directory"):
        read_any(folder)


def test_records_of_a_workload_that_is_damaged_or_missing_are_counted(tmp_path):
    workloads, records = metaschedule(0)
    records[3][0], records[4][0] = 7, -1
    folder = database(tmp_path / "db", [workloads[0], [1, 2]], records)
    with pytest.warns(RecordWarning) as told:
        found = read_any(folder)
    assert len(found) == 2  # 0 and 2: the others are of workloads 1, 7 and -1
    first, second = (str(warning.message) for warning in told)
    assert "skipped 1 of 2 (line 2): no MetaSchedule workload" in first
    assert "skipped 4 of 6 (line 2, 4, 5, 6): no MetaSchedule tuning record" in second
    assert "there is no workload 1 in the other file (2)" in second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[1][0].pop(), "the trace must be a list of 2"),
        (lambda line: line[1][0][1].append([99, 1]), "a decision is of instruction 99 of 7"),
        (lambda line: line[1][0][1].append(["x", 1]), "the number of an instruction must be"),
        (lambda line: line[1][0][1].append([2, {"a": 1}]), "knob 'SamplePerfectTile.2' must be"),
        (lambda line: line[1].__setitem__(1, ["x"]), "a time must be a number"),
        (lambda line: line[1].__setitem__(1, 3), "the times must be of type list"),
    ],
)
def test_a_line_of_another_form_is_named(change, message, tmp_path):
    line = tuning_record(0, [8, 8], 1, [1e-3])
    change(line)
    with pytest.raises(RecordError, match=message):
        read_any(database(tmp_path / "db", [workload()], [line]))


def test_what_is_written_is_what_metaschedule_reads(tmp_path):
    workloads, records = metaschedule(3)
    folder = database(tmp_path / "db", workloads, records)
    written = write_records(read_any(folder), "metaschedule", tmp_path / "out")
    assert written.count == len(records)
    read = [
        [json.loads(line) for line in (tmp_path / "out" / name).read_text().splitlines()]
        for name in (WORKLOADS, RECORDS)
    ]
    assert read[0] == workloads
    expected = [json.loads(json.dumps(record)) for record in records]
    for record in expected:
        record[1][1] = record[1][1] or [1e10]
    assert read[1] == expected


def test_records_that_have_no_module_are_left_out(tmp_path):
    line = '{"input":["llvm","f",[],{}],"config":{"index":0,"entity":[]},"result":[[1.0],0,1.0,0]}'
    own = parse_any(line.encode(), "file")
    folder = database(tmp_path / "db", *metaschedule(0))
    written = write_records([*read_any(folder), *own], "metaschedule", tmp_path / "out")
    assert written.count == 6
    assert written.left_out == {"no TVM module and trace: it was not imported from MetaSchedule": 1}
    with pytest.raises(RecordError, match="no record to be written as metaschedule: no TVM module"):
        write_records(own, "metaschedule", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_crash_while_a_database_is_replaced_leaves_none_that_mixes_both(tmp_path, monkeypatch):
    old = database(tmp_path / "old", *metaschedule(0))
    records = read_any(database(tmp_path / "new", *metaschedule(3)))
    before, replace = read_any(old), Path.replace

    def crash(path, target):
        if target.name == at:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", crash)
    for at in (WORKLOADS, RECORDS):
        again = database(tmp_path / at, *metaschedule(0))
        with pytest.raises(KeyboardInterrupt):
            write_records(records, "metaschedule", again)
        with pytest.raises(RecordError, match="which also needs"):
            read_any(again)
    at = "nowhere"
    assert read_any(old) == before
    write_records(records, "metaschedule", old)
    assert read_any(old) == records


def test_a_database_stays_as_it_was_if_the_new_one_is_not_complete(tmp_path):
    folder = database(tmp_path / "db", *metaschedule(0))
    before = read_any(folder)

    def broken():
        yield before[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_records(broken(), "metaschedule", folder)
    with pytest.raises(RecordError, match="no record to be written"):
        write_records([], "metaschedule", folder)
    assert read_any(folder) == before
    assert {path.name for path in folder.iterdir()} == {WORKLOADS, RECORDS}


def test_a_database_cannot_take_the_place_of_a_file(tmp_path):
    records = read_any(database(tmp_path / "db", *metaschedule(0)))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RecordError, match="file is a file; MetaSchedule writes a folder"):
        write_records(records, "metaschedule", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
