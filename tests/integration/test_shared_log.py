"""Several runs on one log at once: no record is lost, and they share the work."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.command_line import QUICK
from support.footprint import assert_no_orphans, environment, new_token
from support.logged import trials_in

from autotune.tuner.run.final_comparison import MOST

TEMPLATE = Path(__file__).parent / "faulty_templates" / "storm.py"


def start(folder, token, seed, trials):
    """Start one of the runs on the log in `folder`; each notes there what it compiles."""
    workload = [f"{TEMPLATE}:storm", "--set", "good=10", "--set", "steps=3"]
    words = ["--tuner", "random", "--trials", str(trials), "--seed", str(seed)]
    words += ["--log", "log.jsonl", *QUICK]
    return subprocess.Popen(
        [sys.executable, "-m", "autotune", "run", *workload, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(token, folder, AUTOTUNE_TEST_NOTES=str(folder / "notes")),
    )


def compiled_by_several(folder):
    """Return how many kernels more than one run compiled."""
    notes = {tuple(line.split()) for line in (folder / "notes").read_text().splitlines()}
    return sum(count > 1 for count in Counter(kernel for _, kernel in notes).values())


def share_a_space(folder, runs):
    """Let several runs measure the whole space of 30 configurations."""
    tokens = [new_token() for _ in range(runs)]
    processes = [start(folder, token, seed, 30) for seed, token in enumerate(tokens)]
    for process, token in zip(processes, tokens, strict=True):
        output, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, ""), output
        assert_no_orphans(token)
    records = trials_in(folder / "log.jsonl")
    assert [record.ok for record in records] == [True] * 30
    assert len({record.index for record in records}) == 30
    # At its end each run compares the default and what were the best by then.
    assert compiled_by_several(folder) <= runs * MOST


@pytest.mark.parametrize("runs", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_runs_on_one_log_lose_no_record_and_measure_none_twice(tmp_path, runs):
    share_a_space(tmp_path, runs)
