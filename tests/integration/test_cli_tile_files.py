"""Files of Tile functions stand wherever a command takes a template."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import QUICK

import autotune
from autotune.cli.bench.bench_measurements import _baseline
from autotune.task.task import Task

CODE = """function (A[M, N], X, S) -> (O, Most) {
    O = A * X + S;    # X without dimensions, S a scalar
    Most[i: M] = >(O[i, j]);
}
"""
WORDS = ["scaled.tile", "--set", "M=4", "--set", "N=32", "--shape", "X=32", "--shape", "S=scalar"]
JOB = """
[[workload]]
template = "scaled.tile"
set = { M = 4, N = 32 }
shape = { X = [32], S = [] }
log = "log.jsonl"
trials = 2
"""


@pytest.fixture
def called(tmp_path: Path, call: Callable[..., Any]) -> Callable[..., Any]:
    (tmp_path / "scaled.tile").write_text(CODE)
    return call


def test_what_a_job_tunes_is_found_by_words_and_built_exported_and_replayed(
    called: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    assert called("run", "--job", "job.toml", *QUICK).code == 0
    again = called("run", *WORDS, "--log", "log.jsonl", "--trials", 2, *QUICK, "--quiet")
    assert "2 trials" in again.out
    best = called("best", *WORDS, "--log", "log.jsonl")
    assert best.out.startswith("scaled(M=4, N=32, X=32, S=scalar, dtype=float32, code=")

    assert called("build", *WORDS, "--log", "log.jsonl").code == 0
    assert "S        input, float32 []" in (tmp_path / "scaled.h").read_text()
    a, x, s = np.ones((4, 32), "f4"), np.arange(32, dtype="f4"), np.float32(0.5)
    o, most = np.empty((4, 32), "f4"), np.empty(4, "f4")
    autotune.load(str(tmp_path / "scaled.so"))(a, x, np.asarray(s), o, most)
    assert (o == x + s).all()
    assert (most == 31.5).all()

    words = ["--log", "log.jsonl", "--out", "d.csv", "--template", "scaled.tile"]
    assert called("features", "export", *words).code == 0
    rows = list(csv.DictReader((tmp_path / "d.csv").read_text().splitlines()))
    assert [row["features_missing"] for row in rows] == ["", ""]
    assert called("replay", "run", "log.jsonl", "--tuner", "random", "--budget", 1).code == 0


def test_a_bench_does_not_time_what_code_means_which_is_no_rival(tmp_path: Path) -> None:
    (tmp_path / "scaled.tile").write_text(CODE)
    args = {"M": 4, "N": 32, "X": "32", "S": "scalar"}
    task = Task.from_reference(str(tmp_path / "scaled.tile"), args)
    nobody_to_ask: Any = None
    assert _baseline(task, nobody_to_ask) is None


@pytest.mark.parametrize("command", ["run", "best", "bench", "build", "show", "features describe"])
def test_every_command_wants_all_sizes_and_shapes(
    command: str, called: Callable[..., Any]
) -> None:
    log = ["--log", "log.jsonl"] if command == "best" else []
    sizes = ["--sizes", "M=N=32"] if command == "bench" else WORDS[1:5]
    ended = called(*command.split(), "scaled.tile", *sizes, "--shape", "X=32", *log)
    assert ended.code == 2
    assert ended.err == "autotune: scaled.tile needs --shape S=SIZE,SIZE\n"


def test_a_mistake_in_a_file_is_shown_with_its_line_wherever_a_run_hears_of_it(
    called: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "scaled.tile").write_text(CODE.replace("] = >", "] >"))
    (tmp_path / "job.toml").write_text(JOB)
    told = [
        "scaled.tile:3:16: '>' cannot stand here; expected '='",
        "        Most[i: M] >(O[i, j]);",
        "                   ^",
    ]
    assert called("run", *WORDS).err.splitlines() == [f"autotune: {told[0]}", *told[1:]]
    of_job = called("run", "--job", "job.toml").err.splitlines()
    assert of_job == [f"autotune: job.toml, workload 1: {told[0]}", *told[1:]]


def test_what_does_not_fit_is_told_before_a_log_is_looked_into(
    called: Callable[..., Any],
) -> None:
    ended = called("best", *WORDS, "--set", "dtype=float31", "--log", "none.jsonl")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "unknown dtype 'float31'" in ended.err
    ended = called("show", *WORDS[:5], "--shape", "X=31", "--shape", "S=2")
    assert ended.code == 2
    assert "shapes [4, 32] and [31] do not broadcast: 32 and 31 in dimension 1" in ended.err
    ended = called("show", "matmul", "--shape", "X=2")
    assert ended.code == 2
    assert "--shape is for Tile functions: matmul takes arguments by --set" in ended.err
