"""Whatever is damaged in a log or in another tool's file, what reads it works or ends in a line.

`AUTOTUNE_EXAMPLES=n` damages n lines, and n files of each foreign format.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import foreign_logs
from support.log_fuzz import Damage, Readers

from autotune.task.task import Task
from records import Record

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))

# What is read at once; few examples are spread over as many rounds as there are ways to export.
LINES_OF_A_LOG = 250
FILES_AT_ONCE = 100
ROUNDS = 4


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Let nobody hear of each damaged line."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_reference("broadcast_add", {"n": 48, "dtype": "float32"}, "llvm")


def good(task: Task, count: int) -> list[dict]:
    """Return records with all the keys that there are, as plain data; some are of failures."""
    found = []
    for index in range(count):
        place = index % len(task.space)
        failed = {"code": "WRONG_ANSWER", "stage": "check", "message": "off"}
        timed = {"costs_s": [1e-3 * (1 + index), 2e-3, 3e-3], "noise": 0.1, "max_error": 1e-6}
        final = {
            "comparison": "0123456789abcdef",
            "rank": index % 5,
            "over_default": 1.1,
            "range": [1.05, 1.2],
            "rounds": [1, 2, 3],
        }
        record = Record(
            workload=task.workload.to_json(),
            target="llvm",
            config=task.space.config(place).to_json(),
            policy={"warmup": 1, "repeats": 3, "min_repeat_ms": 8.0, "flush": "off"},
            device={"kind": "cpu", "name": "Xeon", "threads": 2, "vector_bytes": 64},
            versions={"python": "3.12.1", "numpy": "2.4.6"},
            seed=index,
            timestamp=1e9 + index,
            fingerprints=task.fingerprints_of(place),
            build_s=0.5,
            run_s=0.25,
            kernels=[{"name": "k", "registers": 32, "shared_bytes": 0}],
            clocks={"sm_mhz": 1980, "memory_mhz": 2600},
            steps=task.steps_of(place),
            final=final if index % 3 == 0 and index % 7 != 3 else None,
            **({"error": failed} if index % 7 == 3 else timed),
        )
        found.append(record.to_json())
    return found


def damage_logs(task: Task, folder: Path, lines: int, seed: int) -> Readers:
    damage, readers = Damage(seed), Readers(task, folder)
    whole, at_once = good(task, 40), min(LINES_OF_A_LOG, -(-lines // ROUNDS))
    for start in range(0, lines, at_once):
        made = [f"{json.dumps(data)}\n".encode() for data in whole]
        for number in range(start, min(lines, start + at_once)):
            data, other = whole[number % 40], json.dumps(whole[(number + 1) % 40])
            text = damage.text(data) if number % 4 else json.dumps(data)
            line = damage.bytes(text, other) if number % 4 == 0 else text.encode()
            if readers.line(line + b"\n"):
                made.append(line + b"\n")
        data = b"".join(made)
        readers.log(data[:-7] if start % 3 == 0 else data)
    return readers


def test_damaged_lines_of_a_log_are_skipped_or_read_and_never_leak_an_error(task, tmp_path):
    readers = damage_logs(task, tmp_path, EXAMPLES or 120, seed=EXAMPLES)
    newer = json.dumps({**good(task, 1)[0], "schema": 10**6})  # a few examples may have none
    assert not readers.line(f"{newer}\n".encode())
    counts = readers.outcomes
    assert min(counts["record"], counts["no record"], counts["newer"]) > 0
    assert not counts["load refused"]
    assert all(counts[name] for name in ("best", "resume", "summary", "transfer", "export"))


def database(number: int) -> dict[str, list[Any]]:
    workloads, records = foreign_logs.metaschedule(number)
    return {"database_workload.json": workloads, "database_tuning_record.json": records}


# The lines of each file that a format has.
FORMATS: dict[str, Callable[[int], dict[str, list[Any]]]] = {
    "AutoTVM": lambda number: {"log.json": foreign_logs.autotvm(number)},
    "Kernel Tuner": lambda number: {"cache.json": foreign_logs.kernel_tuner(number)},
    "T4": lambda number: {"t4.json": foreign_logs.t4(number)},
    "MetaSchedule": database,
}


def damage_files(task: Task, folder: Path, name: str, count: int, seed: int) -> Readers:
    damage, readers = Damage(seed), Readers(task, folder)
    at_once = min(FILES_AT_ONCE, -(-count // ROUNDS))
    for start in range(0, count, at_once):
        files = []
        for number in range(start, min(count, start + at_once)):
            made = FORMATS[name](number)
            damaged = list(made)[number % len(made)]
            files.append({})
            for part, lines in made.items():
                texts = [json.dumps(line) for line in lines]
                if number % 5 and part == damaged:
                    texts[number % len(texts)] = damage.text(lines[number % len(lines)])
                text = "\n".join(texts) + "\n" * (number % 2)
                other = damage.file(text, texts[0]) if part == damaged else text.encode()
                files[-1][part] = other
        readers.foreign(files)
    return readers


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_of_other_tools_are_refused_or_read_and_never_leak_an_error(
    task, tmp_path, name
):
    readers = damage_files(task, tmp_path, name, EXAMPLES or 40, seed=EXAMPLES)
    assert readers.outcomes["read"] > 0 < readers.outcomes["read refused"]
    assert all(readers.outcomes[name] for name in ("summary", "export"))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_100_000_damaged_lines_never_leak_an_error(task, tmp_path):
    readers = damage_logs(task, tmp_path, 100_000, seed=1)
    assert readers.outcomes["record"] + readers.outcomes["no record"] > 90_000


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FORMATS)
def test_10_000_damaged_files_of_another_tool_never_leak_an_error(task, tmp_path, name):
    readers = damage_files(task, tmp_path, name, 10_000, seed=2)
    assert readers.outcomes["read"] + readers.outcomes["read refused"] == 10_000
