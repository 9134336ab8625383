"""The task and the log that all tests of the final comparison start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.task.task import Task
from records import RecordStore

FAULTY = Path(__file__).parents[3] / "integration" / "faulty_templates" / "faulty.py"


@pytest.fixture(scope="module")
def task():
    return Task.from_reference(f"{FAULTY}:plain", {"n": 64})


@pytest.fixture
def store(tmp_path):
    return RecordStore(tmp_path / "log.jsonl")
