"""Logs and a task that several files of tests start from."""

from pathlib import Path

import pytest
from support.command_line import QUICK, SMALL, Ended, run_process

from autotune.task.task import Task

PLAIN = f"{Path(__file__).parent / 'faulty_templates' / 'faulty.py'}:plain"


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """A log of four trials, and what the run that made it printed."""
    folder = tmp_path_factory.mktemp("tuned")
    done = run_process(["run", "matmul", *SMALL, "--trials", "4", "--seed", "1", *QUICK], folder)
    assert done.code == 0, done.err
    return folder / "matmul.jsonl", done


@pytest.fixture(scope="session")
def task() -> Task:
    """A task of 30 configurations in which nothing goes wrong."""
    return Task.from_reference(PLAIN, {"n": 64})


@pytest.fixture(autouse=True)
def _quick(quick_fork_servers: None) -> None:
    """Let no measurer of the tests' own process start its fork server anew."""
