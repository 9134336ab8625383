"""How the packages are built: no cycles of imports across folders, one meaning for each name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "package_counts.py"

MOST = {
    "such groups across folders": 0,
    "class names used twice": 0,
    "file names used twice": 0,
    "deepest inheritance": 3,
    "folders of more than 15 files": 0,
}


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True)
    rows = (re.match(r"(.+?) {2,}(\d+)$", line) for line in done.stdout.splitlines())
    return {row[1].strip(): int(row[2]) for row in rows if row}


@pytest.mark.parametrize("name", MOST)
def test_a_count_of_the_package_stays_within_its_limit(counts: dict[str, int], name: str) -> None:
    assert counts[name] <= MOST[name], f"see {SCRIPT.name} --names"
