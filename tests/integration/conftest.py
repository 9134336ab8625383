"""A log that several files of tests start from."""

from pathlib import Path

import pytest
from command_line import QUICK, SMALL, Ended, run_process


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """A log of four trials, and what the run that made it printed."""
    folder = tmp_path_factory.mktemp("tuned")
    done = run_process(["run", "matmul", *SMALL, "--trials", "4", "--seed", "1", *QUICK], folder)
    assert done.code == 0, done.err
    return folder / "matmul.jsonl", done
