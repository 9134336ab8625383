"""Commands and builds take several logs, folders and compressed logs wherever logs are read."""

import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from support.dataset_records import record_of

import autotune
from autotune.cli.main import main
from autotune.errors import NoRecordError, UsageError
from autotune.reuse.grades import present_device
from autotune.target import Target
from autotune.task.task import Task
from records import RecordError, RecordStore, RecordWarning, log_set

SIZE = {"m": 16, "n": 16, "k": 16}
WORDS = ["--set", "m=16", "n=16", "k=16"]


@pytest.fixture(scope="module")
def task():
    return Task.from_reference("matmul", SIZE, Target.of("llvm"))


@pytest.fixture
def folder(task, tmp_path):
    """A folder of two logs, one of which is compressed and knows the fastest configuration."""
    here = present_device(task)

    def store(name, index, cost_s):
        record = replace(record_of(task, index, costs_s=[cost_s]), device=here)
        made = RecordStore(tmp_path / "logs" / name)
        made.append([record])
        return made.path, record

    store("a.jsonl", task.default_index, 2e-3)
    index = next(i for i in range(task.default_index + 1, len(task.space)) if not task.refusal(i))
    plain, fastest = store("b.jsonl", index, 1e-3)
    plain.with_name("b.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return tmp_path / "logs", fastest


def test_a_build_takes_folders_and_compressed_logs(folder):
    logs, fastest = folder
    for given in (logs, str(logs), [logs / "a.jsonl", logs / "b.jsonl.gz"]):
        built = autotune.build("matmul", SIZE, records=given)
        assert built.record == fastest


def test_a_build_by_way_of_an_index_is_the_same(folder, monkeypatch):
    logs, fastest = folder
    (logs / "b.jsonl").write_bytes(gzip.decompress((logs / "b.jsonl.gz").read_bytes()))
    (logs / "b.jsonl.gz").unlink()
    monkeypatch.setattr(log_set, "LARGE", 0)
    assert autotune.build("matmul", SIZE, records=logs).record == fastest
    assert (logs / "b.jsonl.index.sqlite").is_file()


def test_tuning_appends_to_a_single_log_only(folder):
    logs, _ = folder
    for given, what in ((logs, "a folder of logs"), (logs / "b.jsonl.gz", "a compressed log")):
        with pytest.raises(RecordError, match=f"{re.escape(str(given))} is {what}: records are"):
            autotune.build("matmul", SIZE, records=[given], missing="tune")


def test_a_log_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(RecordError, match="there is no record log at"):
        autotune.build("matmul", SIZE, records=[tmp_path / "missing.jsonl"])
    with pytest.raises(UsageError, match="records must be paths"):
        autotune.build("matmul", SIZE, records=[1])


@pytest.mark.parametrize("given", [["logs"], ["logs/a.jsonl", "logs/b.jsonl.gz"]])
def test_commands_take_folders_and_compressed_logs(folder, tmp_path, monkeypatch, call, given):
    _, fastest = folder
    monkeypatch.chdir(tmp_path)
    best = call("best", "matmul", *WORDS, "--log", *given, "--json")
    assert json.loads(best.out)["record"]["config"]["index"] == fastest.index
    built = call("build", "matmul", *WORDS, "--log", *given, "-o", "lib.so")
    assert f"config {fastest.index}," in built.out
    assert f"in {' and '.join(given)}" in built.out
    out = ("--out", "data.npz", "--layout", "knob")
    assert call("features", "export", "--log", *given, *out).code == 0
    assert len(np.load("data.npz")["cost_s"]) == 2
    played = call("replay", "run", *given, "--tuner", "random", "--budget", "2")
    assert "2 configurations" in played.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["best", "matmul", *WORDS, "--log", "empty"], "empty is a folder without logs"),
        (["run", "matmul", *WORDS, "--log", "logs"], "--log logs is a folder: a log must be"),
        (["run", "matmul", *WORDS, "--log", "new.jsonl.gz"], "not compressed: omit .gz"),
        (["run", "matmul", *WORDS, "--log", "packed"], "packed is a compressed log"),
        (["run", "matmul", *WORDS, "--transfer", "empty"], "empty is a folder without logs"),
        (["features", "export", "--log", "empty", "--out", "x.npz"], "is a folder without logs"),
        (["replay", "run", "logs", "empty"], "empty is a folder without logs"),
        (
            ["build", "matmul", *WORDS, "--log", "logs", "--missing", "tune"],
            "logs is a folder of logs: records are appended to a single, uncompressed log",
        ),
    ],
)
def test_what_cannot_be_read_or_appended_to_is_said_in_a_line(
    folder, tmp_path, monkeypatch, call, words, why
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "packed").write_bytes((folder[0] / "b.jsonl.gz").read_bytes())
    done = call(*words)
    assert done.code == 2
    assert why in " ".join(done.err.split())
    assert done.err.count("\n") <= 3


NONE_SHIPS = "no records ship with this version yet"


@pytest.fixture
def without_shipped(tmp_path, monkeypatch, capsys):
    """Run commands in this process, of a version with which no records ship."""
    (tmp_path / "package" / "pretuned").mkdir(parents=True)
    monkeypatch.setattr(log_set, "__file__", str(tmp_path / "package" / "log_set.py"))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main(list(words))
        said = capsys.readouterr()
        return code, said.out, " ".join(said.err.split())

    return run


def test_without_records_that_ship_a_build_does_what_missing_says(without_shipped):
    words = ["build", "matmul", *WORDS, "--log", "pretuned", "-o", "lib.so"]
    code, out, err = without_shipped(*words)
    assert code == 0
    assert "the default one" in out
    assert NONE_SHIPS in err
    code, _, err = without_shipped(*words, "--strict")
    assert code == 3
    assert "no record that can be used" in err
    default = pytest.warns(UserWarning, match="building the default configuration")
    with pytest.warns(RecordWarning, match=NONE_SHIPS), default:
        assert autotune.build("matmul", SIZE, records="pretuned").record is None
    with pytest.warns(RecordWarning), pytest.raises(NoRecordError):
        autotune.build("matmul", SIZE, records="pretuned", missing="error")


@pytest.mark.parametrize(
    "words",
    [
        ["best", "matmul", *WORDS, "--log", "pretuned"],
        ["dispatch", "matmul", "--log", "pretuned", "--dry-run"],
        ["replay", "run", "pretuned"],
        ["records", "summary", "pretuned"],
    ],
)
def test_without_records_that_ship_other_commands_say_so_in_a_line(without_shipped, words):
    assert without_shipped(*words) == (2, "", f"autotune: pretuned: {NONE_SHIPS}")


@pytest.mark.parametrize(
    "words",
    [
        ["run", "matmul", *WORDS, "--log", "pretuned"],
        ["bench", "matmul", *WORDS, "--log", "pretuned"],
        ["build", "matmul", *WORDS, "--log", "pretuned", "--missing", "tune"],
        ["records", "import", "logs", "--out", "pretuned"],
        ["records", "merge", "logs", "--out", "pretuned"],
    ],
)
def test_nothing_is_written_to_the_records_that_ship(folder, tmp_path, monkeypatch, call, words):
    monkeypatch.chdir(tmp_path)
    done = call(*words)
    assert done.code == 2
    assert "pretuned stands for the records that ship" in " ".join(done.err.split())
    assert not (tmp_path / "pretuned").exists()


def test_dispatch_takes_folders_and_compressed_logs(folder, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    for given in (["logs"], ["logs/a.jsonl", "logs/b.jsonl.gz"]):
        done = call("dispatch", "matmul", "--log", *given, "--dry-run")
        assert done.code == 3
        assert "dispatch needs records of two shapes" in done.err


def test_a_log_that_teaches_nothing_is_refused_before_anything_is_shown(tmp_path, call):
    rubbish = tmp_path / "rub.jsonl"
    rubbish.write_text("rubbish\n" * 5)
    words = ["--log", str(tmp_path / "new.jsonl"), "--trials", "1"]
    done = call("run", "matmul", *WORDS, *words, "--transfer", str(rubbish))
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("autotune: ")
    assert "rub.jsonl" in done.err
