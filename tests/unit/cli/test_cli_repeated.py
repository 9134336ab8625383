"""An option that is given twice: several values where that makes sense, else a mistake."""

from __future__ import annotations

import json

import pytest
import typer
from support.measured import measured

from autotune.cli.app import app
from autotune.cli.main import main
from autotune.cli.options.multi_value_options import Command
from autotune.task.task import Task
from records import RecordStore

SIZE = {"m": 8, "n": 8, "k": 8, "dtype": "float32"}
SET = [word for name in "mnk" for word in ("--set", f"{name}=8")]


@pytest.fixture
def logs(tmp_path):
    """Return the paths of two logs, the second of which has the best record."""
    task = Task.from_reference("matmul", SIZE, "llvm")
    paths = []
    for number, cost in enumerate((2e-3, 1e-3)):
        path = tmp_path / f"{number}.jsonl"
        RecordStore(path).append([measured(task, task.default_index, cost)])
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("words", [["--log", 0, "--log", 1], ["--log", 1, 0], ["--log", 1, 1]])
def test_the_best_of_several_logs_is_found(logs, capsys, words):
    given = [logs[word] if isinstance(word, int) else word for word in words]
    assert main(["best", "matmul", *SET, "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["cost_s"] == 1e-3


def test_the_template_may_come_after_the_values_of_set(logs, capsys):
    words = ["best", "--set", "m=8", "n=8", "k=8", "matmul", "--json", "--log", logs[1]]
    assert main(words) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["cost_s"] == 1e-3


def test_a_library_is_built_of_the_best_of_several_logs(logs, tmp_path, capsys):
    out = tmp_path / "f.so"
    assert main(["build", "matmul", *SET, "-o", str(out), "--log", *logs]) == 0
    said = capsys.readouterr().out
    assert "1.00 ms" in said
    assert f"in {logs[0]} and {logs[1]} (no final comparison" in said


def test_logs_without_a_record_of_it_are_all_named(logs, capsys):
    assert main(["best", "matmul", *SET, "--set", "dtype=float64", "--log", *logs]) == 3
    assert f"{logs[0]} and {logs[1]} hold no valid record" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--constant", "5"], "template 'matmul' has no input 5; the positions of its inputs are"),
        (["--set", "dtype=float8"], "dtype must be one of float16, "),
    ],
)
def test_a_workload_that_cannot_be_is_a_mistake_and_no_missing_record(logs, words, said, capsys):
    assert main(["best", "matmul", *SET, *words, "--log", *logs]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["run", "matmul", "--log", "a.jsonl", "--log", "b.jsonl"], "--log is given twice"),
        (["run", "matmul", "--seed=1", "--seed", "1"], "--seed is given twice"),
        (["run", "matmul", "--tuner", "random", "--tuner", "model"], "--tuner is given twice"),
        (["run", "--job", "a.toml", "--job", "b.toml"], "--job is given twice"),
        (["best", "matmul", "--target", "llvm", "--target", "cuda"], "--target is given twice"),
        (["build", "matmul", "-o", "a", "--output", "b", "-o", "c"], "--output is given 3 times"),
        (["bench", "matmul", "--log", "a", "--log", "b"], "--log is given twice"),
        (["bench", "matmul", "--heatmap", "--heatmap"], "--heatmap is given twice"),
        (["show", "matmul", "--config", "1", "--config", "2"], "--config is given twice"),
        (["features", "export", "--log", "a", "-o", "a", "-o", "b"], "--out is given twice"),
        (["replay", "run", "a", "--budget", "1", "--budget", "2"], "--budget is given twice"),
        (["tile", "show", "a", "--target", "llvm", "--target", "llvm"], "--target is given twice"),
    ],
)
def test_an_option_of_one_value_that_is_given_twice_is_one_line(words, option, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{option}, and takes one value" in said


def test_flags_may_be_given_twice(logs, capsys):
    assert main(["records", "summary", logs[0], "--json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["trials"] == 1


def test_every_command_looks_for_options_that_are_given_twice():
    groups = [typer.main.get_command(app)]
    commands = []
    for group in groups:
        for command in group.commands.values():
            (groups if hasattr(command, "commands") else commands).append(command)
    assert len(commands) > 15
    assert all(isinstance(command, Command) for command in commands)
