"""The commands of `autotune records`: what they print, write, and exit with."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.measured import measured
from support.sample_records import CPU, log_of, made, made_final

from autotune.cli.main import main
from autotune.reuse import choose
from autotune.task.task import Task
from records import RecordStore

N256 = {"workload": {"template": "made", "args": {"n": 256}}}


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def said(capsys):
    """Return a function that runs a command and returns its exit code, output and errors."""

    def run(*words):
        code = main(["records", *map(str, words)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def log(tmp_path):
    return log_of(
        tmp_path / "log.jsonl",
        made(0, 3e-3),
        made(1, 1e-3),
        made(2, None),
        made(3, 2e-3, device={"name": "Other CPU"}),
        made(4, 5e-3, **N256),
        made_final(0, 3.5e-3, 0),
    )


# -- list and summary ------------------------------------------------------------------------


def test_list_prints_a_line_for_each_record(log, said):
    code, out, err = said("list", log)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1] == (
        "1970-01-01 00:16:41    1.00 ms  config 1       made(n=64) on llvm, Some CPU, 4 threads"
    )
    assert "  run timeout  config 2 " in lines[2]
    assert lines[5].endswith("Some CPU, 4 threads, final 0")
    assert len(lines) == 6


def test_list_in_json_prints_the_lines_of_the_log_in_ascii(log, said):
    odd = made(7, workload={"template": "made", "args": {"n": "\x9b\u202e\ud800\x7fé"}})
    RecordStore(log).append([odd])
    code, out, _ = said("list", log, "--json")
    assert code == 0
    assert out.isascii()
    assert "\x7f" not in out
    lines = log.read_text().splitlines()
    assert out.splitlines()[:6] == lines[:6]
    assert [json.loads(line) for line in out.splitlines()] == [*map(json.loads, lines)]


@pytest.mark.parametrize(
    ("words", "indices"),
    [
        (["--template", "made"], [0, 1, 2, 3, 4, 0]),
        (["--template", "other", "made"], [0, 1, 2, 3, 4, 0]),
        (["--device", "other"], [3]),
        (["--valid", "--device", "Some"], [0, 1, 4, 0]),
        (["--failed"], [2]),
        (["--since", "1970-01-01 01:00"], [0]),
        (["--before", "1970-01-01T00:16:42+00:00"], [0, 1]),
        (["--before", "1d"], [0, 1, 2, 3, 4, 0]),
        (["--target", "llvm", "--valid", "--top", "1"], [0, 3, 4]),
        (["--top", "2"], [0, 1, 3, 4]),
        (["--top", "9" * 30], [0, 1, 0, 3, 4]),
        (["--gone"], [0, 1, 2, 3, 4, 0]),
    ],
)
def test_list_takes_filters(log, said, words, indices):
    code, out, _ = said("list", log, "--json", *words)
    assert code == 0
    assert sorted(json.loads(line)["config"]["index"] for line in out.splitlines()) == sorted(
        indices
    )


def test_what_a_final_comparison_chose_is_the_first_of_the_best(log, said):
    _, out, _ = said("list", log, "--json", "--top", "1", "--device", "Some")
    first, *_ = map(json.loads, out.splitlines())
    assert first["final"]["rank"] == 0


@pytest.mark.parametrize(("date", "count"), [("0001-01-01", 6), ("9999-12-31", 0)])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_the_first_and_the_last_dates_are_dates(log, said, date, count, zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    code, out, _ = said("list", log, "--since", date)
    assert (code, len(out.splitlines())) == (0 if count else 3, count)


def test_tables_have_a_row_for_each_record_or_workload(log, said, tmp_path):
    assert said("list", log, "--csv", "list.csv")[:2] == (0, "list.csv: 6 rows\n")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "list.csv").read_text())))
    assert [float(row["cost_s"] or "nan") for row in rows][:2] == [3e-3, 1e-3]
    assert (rows[2]["error"], rows[2]["cost_s"]) == ("RUN_TIMEOUT", "")
    assert [json.loads(row["values"]) for row in rows][:2] == [{"k": 0}, {"k": 1}]
    assert rows[5]["final_rank"] == "0"
    assert said("summary", log, "--csv", "sum.csv")[:2] == (0, "sum.csv: 3 rows\n")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "sum.csv").read_text())))
    assert [row["device"] for row in rows] == ["Some CPU", "Other CPU", "Some CPU"]
    assert [row["trials"] for row in rows] == ["3", "1", "1"]
    assert {row["gone"] for row in rows} == {"True"}


def test_summary_lists_devices_and_templates_that_no_longer_exist(log, said):
    code, out, _ = said("summary", log)
    assert code == 0
    assert out.splitlines()[:5] == [
        "made(n=64) on llvm",
        "  Some CPU, 4 threads",
        "  3 trials, 2 ok, 1 failed (1 run timeout)",
        "  best 3.50 ms, config 0",
        "  1970-01-01 00:16:40 to 1970-01-01 01:23:20",
    ]
    assert out.splitlines()[-3:] == [
        "6 records of 2 workloads on 2 devices (Some CPU, 4 threads: 5; Other CPU: 1)",
        "6 records of templates that are not built in or installed: made (those in files",
        "  are found by --gone --known FILE.py:NAME)",
    ]
    rows = json.loads(said("summary", log, "--json")[1])
    assert [row["device"]["name"] for row in rows] == ["Some CPU", "Other CPU", "Some CPU"]
    assert all(row["gone"] for row in rows)


def test_a_summary_tells_devices_of_one_name_apart(tmp_path, said):
    known = {**CPU, "model": "6/85"}
    devices = [CPU, known, {**known, "max_mhz": 4000}, {**CPU, "name": "Other CPU"}, known]
    log = log_of(tmp_path / "log.jsonl", *(made(n, device=d) for n, d in enumerate(devices)))
    text = said("summary", log)[1]
    lines = text.splitlines()
    assert [after.strip() for line, after in pairwise(lines) if line.startswith("made(")] == [
        "Some CPU, 4 threads",
        "Some CPU, 4 threads, model 6/85",
        "Some CPU, 4 threads, model 6/85, max_mhz 4000",
        "Other CPU, 4 threads",
    ]
    assert "5 records of 1 workload on 4 devices (Some CPU, 4 threads, model 6/85: 2;" in text
    _, text, _ = said("diff", log, log_of(log.with_name("empty.jsonl")), "--brief")
    assert "made(n=64) on llvm, Some CPU, 4 threads, model 6/85\n" in text


def test_templates_that_are_here_or_named_are_not_gone(said, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from autotune import te\nfrom autotune.template import template\n\n"
        "@template('made')\ndef made(cfg, n: int):\n"
        "    A = te.placeholder((n,), 'float32', name='A')\n"
        "    B = te.compute((n,), lambda i: A[i] + 1.0, name='B')\n"
        "    return te.create_schedule(B.op), [A, B]\n"
    )
    args = {"m": 8, "n": 8, "k": 8}
    own = made(1, workload={"template": "matmul", "args": args})
    log = log_of(tmp_path / "a.jsonl", made(0), own)
    gone = lambda *words: [  # noqa: E731
        row["gone"] for row in json.loads(said("summary", log, "--json", *words)[1])
    ]
    assert gone() == [True, False]
    assert gone("--known", "mine.py:made") == [False, False]
    assert said("list", log, "--gone", "--known", "mine.py:made")[0] == 3


def test_a_folder_and_compressed_logs_are_read_together(log, said, tmp_path):
    (tmp_path / "logs").mkdir()
    packed = tmp_path / "logs" / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    os.replace(log, tmp_path / "logs" / "a.jsonl")
    assert len(said("list", "logs")[1].splitlines()) == 12
    assert len(said("list", "logs", packed)[1].splitlines()) == 12


# -- new logs --------------------------------------------------------------------------------


def test_merge_says_what_it_left_out_and_marked(log, said, tmp_path):
    other = log_of(tmp_path / "other.jsonl", made(0, 3e-3), made(1, 9e-3), made(8))
    code, out, _ = said("merge", log, other, "--out", "all.jsonl")
    assert code == 0
    assert " ".join(out.split()) == (
        "all.jsonl: 8 records, 1 exact duplicate left out, 1 measurement with records that "
        "differ: all kept, and marked (`records list --conflicts`)"
    )
    assert len(said("list", "all.jsonl", "--conflicts")[1].splitlines()) == 2
    again = json.loads(said("merge", log, other, "--out", "all.jsonl", "--force", "--json")[1])
    assert again == {"out": "all.jsonl", "records": 8, "duplicates": 1, "conflicts": 1}


def test_compact_says_what_it_dropped(log, said):
    RecordStore(log).append(made(n, 1.0) for n in range(20, 24))
    code, out, _ = said("compact", log, "--keep", 2, "--out", "small.jsonl.gz")
    assert code == 0
    assert " ".join(out.split()) == (
        "small.jsonl.gz: 5 of 10 records kept (4 trials, 1 of final comparisons), 4 slower trials "
        "dropped, 1 failure dropped (1 run timeout)"
    )
    assert len(said("list", "small.jsonl.gz")[1].splitlines()) == 5
    done = json.loads(said("compact", log, "--keep", 2, "--in-place", "--json")[1])
    assert (done["finals"], done["dropped_trials"], done["failures"]) == (1, 4, {"RUN_TIMEOUT": 1})
    assert len(RecordStore(log).load()) == 5


@pytest.mark.parametrize("absurd", [0, 8, 40])
def test_a_build_chooses_the_same_from_a_log_and_from_it_compacted(said, tmp_path, absurd):
    task = Task.from_reference("matmul", {"m": 8, "n": 8, "k": 8}, "llvm")
    index = task.default_index
    honest = [measured(task, index, 1e-3 + n * 1e-6, timestamp=float(n)) for n in range(40, 0, -1)]
    records = [measured(task, index, 1e-12, timestamp=100.0 + n) for n in range(absurd)]
    log = log_of(tmp_path / "a.jsonl", *records, *honest)
    assert said("compact", log, "--out", "small.jsonl")[0] == 0
    before, after = (choose(task, RecordStore(path).load()) for path in (log, "small.jsonl"))
    assert before == after
    assert before.record == honest[-1]


def test_prune_drops_what_list_shows_or_keeps_only_that(log, said):
    assert said("prune", log, "--failed", "--out", "ok.jsonl")[:2] == (
        0,
        "ok.jsonl: 1 of 6 records dropped\n",
    )
    assert all(record.ok for record in RecordStore("ok.jsonl").load())
    words = ["--device", "other", "--keep", "--in-place", "--json"]
    code, out, _ = said("prune", log, *words)
    assert (code, json.loads(out)) == (0, {"out": str(log), "kept": 1, "dropped": 5})
    (left,) = RecordStore(log).load()
    assert left.device["name"] == "Other CPU"


@pytest.mark.parametrize("where", [["--in-place"], ["--out", "new.jsonl"]])
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--template", "nope", "--keep"], "no record is what the options ask for"),
        (["--template", "made"], "all records are what the options ask for"),
    ],
)
def test_prune_leaves_no_log_empty_unless_it_is_forced_to(log, said, tmp_path, where, words, why):
    other = log_of(tmp_path / "other.jsonl", made(0))
    held = log.read_bytes(), other.read_bytes()
    code, out, err = said("prune", log, other, *words, *where)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{why}, so that none would be left" in err
    assert (log.read_bytes(), other.read_bytes()) == held
    assert not Path("new.jsonl").exists()
    assert said("prune", log, other, *words, *where, "--force")[0] == 0
    left = Path("new.jsonl") if where[0] == "--out" else log
    assert left.read_bytes() == b""


def test_prune_may_empty_one_of_several_logs(log, said, tmp_path):
    other = log_of(tmp_path / "other.jsonl", made(0, None))
    assert said("prune", log, other, "--failed", "--in-place")[0] == 0
    assert (len(RecordStore(log).load()), other.read_bytes()) == (5, b"")


def test_prune_in_place_rewrites_each_of_several_logs(log, said, tmp_path):
    other = log_of(tmp_path / "other.jsonl", made(0, None), made(1))
    code, out, _ = said("prune", log, other, "--failed", "--in-place")
    assert (code, out.count("1 of")) == (0, 2)
    assert len(RecordStore(other).load()) == 1


def test_outdated_records_are_those_that_todays_template_would_not_make(said, tmp_path):
    task = Task.from_reference("matmul", {"m": 8, "n": 8, "k": 8}, "llvm")
    good = measured(task, task.default_index)
    values = {**good.config["values"], "no_such_knob": 1}
    log = log_of(
        tmp_path / "a.jsonl",
        good,
        measured(task, task.default_index, fingerprints={"template": "0" * 16}, timestamp=2.0),
        measured(task, task.default_index, config={"index": 1, "values": values}, timestamp=3.0),
        measured(task, task.default_index, device={"name": "elsewhere"}, fingerprints=None),
        made(0),
    )
    _, out, _ = said("list", log, "--outdated", "--json")
    assert [json.loads(line)["timestamp"] for line in out.splitlines()] == [2.0, 3.0]
    pruned = said("prune", log, "--outdated", "--out", "new.jsonl")[1]
    assert pruned == "new.jsonl: 2 of 5 records dropped\n"
    code, out, _ = said("validate", log, "--templates", "--json")
    assert code == 0
    assert json.loads(out)["templates"] == {
        "template_changed": 1,
        "not_in_space": 1,
        "elsewhere": 1,
        "no_template": 1,
    }


# -- validate and diff -----------------------------------------------------------------------


def test_validate_names_every_line_of_no_record(log, said):
    assert said("validate", log)[:2] == (0, "6 records, 0 lines of no record\n")
    with log.open("a") as file:
        file.write('[1]\n{"schema":99}\n' + log.read_text().splitlines()[0][:50])
    code, out, _ = said("validate", log)
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == f"{log}, line 7: a record is a JSON object, not [1]"
    assert "line 8: record of schema 99" in lines[1]
    assert "line 9: it is torn" in lines[2]
    assert lines[3:] == ["6 records, 3 lines of no record"]
    found = [json.loads(line) for line in said("validate", log, "--json")[1].splitlines()]
    assert [entry["line"] for entry in found[:-1]] == [7, 8, 9]
    assert (found[-1]["records"], found[-1]["wrong"]) == (6, 3)


def test_validate_tells_of_a_file_that_is_no_log_at_all(said, tmp_path):
    (tmp_path / "story.txt").write_text("Once upon a time\n\x1b[31mthere\n")
    code, out, _ = said("validate", "story.txt")
    assert (code, out.count("\n")) == (1, 3)
    assert "\x1b" not in out


def test_diff_prints_records_of_one_side_and_exits_with_1(log, said, tmp_path):
    other = log_of(tmp_path / "other.jsonl", made(0, 3e-3), made(9, 1e-4, **N256))
    code, out, _ = said("diff", "log.jsonl", "log.jsonl")
    assert (code, out) == (0, "6 records in both, 0 only in log.jsonl, 0 only in log.jsonl\n")
    code, out, _ = said("diff", log, other)
    assert code == 1
    lines = out.splitlines()
    assert [line[0] for line in lines[:6]] == ["-"] * 5 + ["+"]
    assert "made(n=256) on llvm, Some CPU, 4 threads" in lines
    assert "  best 5.00 ms (config 4) -> 100 us (config 9)" in lines
    assert "  best 2.00 ms (config 3) -> none" in lines
    brief = said("diff", log, other, "--brief")[1]
    assert brief.splitlines() == lines[6:]
    found = json.loads(said("diff", log, other, "--json")[1])
    assert (found["same"], found["only_a"], found["only_b"], len(found["best"])) == (1, 5, 1, 3)


# -- other formats ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["autotvm", "kernel-tuner", "t4"])
def test_what_is_exported_can_be_imported(log, said, form):
    code, out, _ = said("export", log, "--format", form, "--out", "out.json")
    assert code == 0
    assert f" as {form}\n" in out
    assert said("import", "out.json", "--out", "back.jsonl")[0] == 0
    found = {record.cost_s for record in RecordStore("back.jsonl").load() if record.ok}
    assert {1e-3, 3e-3} <= {round(cost, 12) for cost in found}


def test_a_database_is_a_folder(log, said):
    code, _, err = said("export", log, "--format", "metaschedule", "--out", "db")
    assert code in (0, 2)  # it may have no room for such knobs
    if code == 0:
        assert said("import", "db", "--out", "back.jsonl")[0] == 0
        assert said("export", log, "--format", "metaschedule", "--out", "db")[0] == 2
    else:
        assert "no record to be written as metaschedule" in err
        assert not os.path.exists("db")


@pytest.mark.parametrize("out", ["m.jsonl", "db/database_workload.json"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_database_is_not_written_to_a_file(log, said, out, force):
    Path("db").mkdir()
    Path(out).write_text("mine")
    code, _, err = said("export", log, "--format", "metaschedule", "--out", out, *force)
    assert (code, Path(out).read_text()) == (2, "mine")
    assert f"--out {out} is a file; MetaSchedule writes a folder" in err


def test_an_export_of_what_is_no_log_says_so(said):
    Path("notes.jsonl").write_text("once\nupon\n")
    code, _, err = said("export", "notes.jsonl", "--format", "autotune", "--out", "out.jsonl")
    assert code == 2
    assert "none of its lines is one" in err
    assert not Path("out.jsonl").exists()


def test_records_of_templates_that_are_gone_can_be_exported_as_a_log(log, said):
    RecordStore(log).append([made(1, workload={"template": "matmul", "args": {"m": 8}})])
    code, out, _ = said("export", log, "--gone", "--format", "autotune", "--out", "gone.jsonl")
    assert (code, out) == (0, "gone.jsonl: 6 records as autotune\n")
    assert log.read_text().startswith(Path("gone.jsonl").read_text())


def test_what_a_format_cannot_hold_is_counted_with_the_reason(log, said):
    code, out, _ = said("export", log, "--format", "autotvm", "--out", "out.log")
    assert code == 0
    assert "out.log: 5 records as autotvm\n  1 left out: " in out
    found = json.loads(
        said("export", log, "--format", "autotvm", "--out", "out.log", "--force", "--json")[1]
    )
    assert (found["count"], sum(found["left_out"].values())) == (5, 1)


def test_importing_twice_adds_nothing(log, said):
    assert said("import", log, "--out", "all.jsonl")[1] == "all.jsonl: 6 records added\n"
    again = said("import", log, "--out", "all.jsonl")[1]
    assert again == "all.jsonl: 0 records added, 6 are there already\n"
    assert Path("all.jsonl").read_text() == log.read_text()
    one = log_of(log.with_name("one.jsonl"), RecordStore(log).load()[0])
    again = said("import", one, "--out", "all.jsonl")[1]
    assert again == "all.jsonl: 0 records added, 1 is there already\n"


def test_a_log_in_a_read_only_folder_can_be_imported_to(log, said, monkeypatch):
    said("import", log_of(log.with_name("one.jsonl"), made(50)), "--out", "all.jsonl")
    monkeypatch.setattr("os.access", lambda path, _: not Path(path).is_dir())
    assert said("import", log, "--out", "all.jsonl")[1] == "all.jsonl: 6 records added\n"
    code, _, err = said("import", log, "--out", "new.jsonl")
    assert (code, "nothing can be written in .: Permission denied" in err) == (2, True)
    monkeypatch.setattr("os.statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    code, _, err = said("import", log, "--out", "new.jsonl")
    assert (code, "nothing can be written in .: Read-only file system" in err) == (2, True)


def test_a_name_in_a_log_steers_no_terminal(log, said):
    odd = made(7, workload={"template": "made", "args": {"n": "\x1b[31m"}})
    RecordStore(log).append([odd])
    for words in (["list"], ["list", "--json"], ["summary"], ["diff", "--brief"]):
        more = [log_of(log.with_name("b.jsonl"))] if "diff" in words else []
        assert "\x1b" not in said(*words, log, *more)[1]
