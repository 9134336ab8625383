"""Whatever is damaged in a log or in another tool's file, what reads it works or ends in a line.

`AUTOTUNE_EXAMPLES=n` damages n lines, and n files of each foreign format.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.log_fuzz import Damage, Readers

from autotune.task.task import Task
from records import Record

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))

LINES_OF_A_LOG = 250
FILES_AT_ONCE = 100


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
    whole = good(task, 40)
    for start in range(0, lines, LINES_OF_A_LOG):
        made = [f"{json.dumps(data)}\n".encode() for data in whole]
        for number in range(start, min(lines, start + LINES_OF_A_LOG)):
            data, other = whole[number % 40], json.dumps(whole[(number + 1) % 40])
            text = damage.text(data) if number % 4 else json.dumps(data)
            line = damage.bytes(text, other) if number % 4 == 0 else text.encode()
            if readers.line(line + b"\n"):
                made.append(line + b"\n")
        data = b"".join(made)
        readers.log(data[:-7] if start % 3 == 0 else data)
    return readers


def test_damaged_lines_of_a_log_are_skipped_or_read_and_never_leak_an_error(task, tmp_path):
    readers = damage_logs(task, tmp_path, EXAMPLES or 1000, seed=EXAMPLES)
    counts = readers.outcomes
    assert min(counts["record"], counts["no record"], counts["newer"]) > 0
    assert not counts["load refused"]
    assert all(counts[name] for name in ("best", "resume", "summary", "transfer", "export"))


TASK = ["cuda -model=x", "conv2d.cuda", [["TENSOR", [1, 8], "float32"], [1, 1]], {"layout": "NCHW"}]


def autotvm(number: int) -> list[dict]:
    """Return the lines of a log of AutoTVM."""
    lines = []
    for k in range(6):
        entities = [["tile", "sp", [-1, 8 + k]], ["order", "re", [1, 0]], ["unroll", "ot", True]]
        result = [[1e-5 * (1 + k), 3e-5], 0, 4.5, 6e8] if k % 3 else [["no"], 4, 1.0, 6e8]
        old = {"i": [*TASK, None, {"i": k, "t": "direct", "c": None, "e": entities}], "r": result}
        config = {"index": k, "code_hash": None, "entity": entities}
        new = {"input": TASK, "config": config, "result": result, "version": 0.2}
        lines.append({**old, "v": 0.1} if (number + k) % 2 else new)
    return lines


def kernel_tuner(number: int) -> list[dict]:
    """Return a cache of Kernel Tuner, as the one line of a file."""
    timed = {"times": [2.4, 2.6], "compile_time": 500.0, "verification_time": 20.0}
    stamp = "2023-12-22 09:54:05+00:00"
    entries = {
        f"{k},a": {"x": k, "kind": "ab"[k % 2], "time": 2.5 + k, "timestamp": stamp, **timed}
        for k in range(1, 6 + number % 3)
    }
    entries["9,a"] = {"x": 9, "kind": "a", "time": "CompilationFailedConfig"}
    return [
        {
            "device_name": "Card",
            "kernel_name": "add",
            "problem_size": [64, 64],
            "tune_params_keys": ["x", "kind"],
            "tune_params": {"x": [1, 2, 4], "kind": ["a", "b"]},
            "objective": "time",
            "cache": entries,
        }
    ]


def t4(number: int) -> list[dict]:
    """Return T4 results, as the one line of a file."""
    results = [
        {
            "timestamp": "1970-01-01 00:01:00+00:00",
            "configuration": {"x": k, "kind": "b", "flag": True},
            "times": {"compilation": 250.0, "validation": 10.0, "runtimes": [3.0, 3.0, 4.0]},
            "invalidity": "correct" if (k + number) % 4 else "runtime",
            "correctness": 1,
            "measurements": [{"name": "GFLOP/s", "value": 9}, {"name": "time", "value": 3.0 + k}],
            "objectives": ["time"],
        }
        for k in range(5)
    ]
    return [{"schema_version": "1.0.0", "results": results}]


FORMATS = {"AutoTVM": autotvm, "Kernel Tuner": kernel_tuner, "T4": t4}


def damage_files(task: Task, folder: Path, name: str, count: int, seed: int) -> Readers:
    damage, readers = Damage(seed), Readers(task, folder)
    for start in range(0, count, FILES_AT_ONCE):
        files = []
        for number in range(start, min(count, start + FILES_AT_ONCE)):
            lines = FORMATS[name](number)
            texts = [json.dumps(line) for line in lines]
            if number % 5:
                texts[number % len(texts)] = damage.text(lines[number % len(lines)])
            files.append(damage.file("\n".join(texts) + "\n" * (number % 2), texts[0]))
        readers.foreign(files)
    return readers


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_of_other_tools_are_refused_or_read_and_never_leak_an_error(
    task, tmp_path, name
):
    readers = damage_files(task, tmp_path, name, EXAMPLES or 300, seed=EXAMPLES)
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
