"""Writers of one log are killed at random, and nothing that was acknowledged is lost."""

import json
import os
import subprocess
import sys

import pytest
from support.command_line import ROOT

SCRIPT = ROOT / "benchmarks" / "records_kill.py"


def kill_writers(*words):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words, "--json"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return {row["name"]: row["value"] for row in json.loads(done.stdout)["rows"]}


def test_writers_that_are_killed_lose_nothing_that_was_acknowledged():
    found = kill_writers("--minutes", "0.1", "--writers", "4", "--killed", "2", "--every", "1.5")
    assert found["acknowledged"] > 0
    assert found["acknowledged and lost"] == 0
    assert found["killed"] > 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_writers_of_which_three_are_killed_again_and_again_lose_nothing():
    found = kill_writers("--minutes", "10")
    assert found["acknowledged"] > 1000
    assert found["acknowledged and lost"] == 0
