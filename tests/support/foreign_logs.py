"""Hand-made measurements in the formats of other tools, as plain data, and what these require."""

from __future__ import annotations

import base64
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

DATA = "AUTOTUNE_SHARED_DATA"
"""Environment variable: a folder with `measured_spaces` and `tuning_logs`, real files of others."""


def shared_file(name: str) -> Path:
    """Return a real file of another tool; the test is skipped where there is none."""
    folder = os.environ.get(DATA)
    if not folder:
        pytest.skip(f"{DATA} names no folder of real files of other tools")
    path = Path(folder) / name
    if not path.is_file():
        pytest.skip(f"there is no {path}")
    return path


# The part of the task that lines of AutoTVM share.
TASK = ["cuda -model=x", "conv2d.cuda", [["TENSOR", [1, 8], "float32"], [1, 1]], {"layout": "NCHW"}]
ENTITIES = [
    ["tile", "sp", [-1, 8]],
    ["order", "re", [1, 0]],
    ["marks", "an", ["none", "unroll"]],
    ["unroll", "ot", True],
]


def autotvm_1(result: Any, entities: Any = ENTITIES, kind: str = "direct") -> dict[str, Any]:
    """Return a line of version 0.1."""
    config = {"i": 7, "t": kind, "c": None, "e": entities}
    return {"i": [*TASK, None, config], "r": result, "v": 0.1}


def autotvm_2(result: Any, entities: Any = ENTITIES, code_hash: Any = None) -> dict[str, Any]:
    """Return a line of version 0.2."""
    config = {"index": 7, "code_hash": code_hash, "entity": entities}
    return {
        "input": TASK,
        "config": config,
        "result": result,
        "version": 0.2,
        "tvm_version": "0.8.0",
    }


def pickled() -> bytes:
    """Return a line of AutoTVM's protocol "pickle"; what it holds is never looked at."""
    parts = [base64.b64encode(f"cos\nsystem\n(S'false {k}'\ntR.".encode()) for k in range(3)]
    return b"\t".join([b"llvm -mcpu=skylake", *parts, b"0.2", b"0.8.0"])


def autotvm(number: int) -> list[dict[str, Any]]:
    """Return the lines of a log of AutoTVM."""
    lines = []
    for k in range(6):
        entities = [["tile", "sp", [-1, 8 + k]], ["order", "re", [1, 0]], ["unroll", "ot", True]]
        result = [[1e-5 * (1 + k), 3e-5], 0, 4.5, 6e8] if k % 3 else [["no"], 4, 1.0, 6e8]
        line = (autotvm_1 if (number + k) % 2 else autotvm_2)(result, entities)
        lines.append(line)
    return lines


def kernel_tuner(number: int) -> list[dict[str, Any]]:
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


def t4(number: int) -> list[dict[str, Any]]:
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


def workload(name: str = "a module") -> list[str]:
    """Return a line of MetaSchedule's workloads: what it holds is not looked at, either."""
    return [str(zlib.crc32(name.encode())), base64.b64encode(name.encode()).decode()]


def tuning_record(index: int, sizes: list[int], choice: int, run_s: Any) -> list[Any]:
    """Return a line of MetaSchedule's tuning records."""
    instructions = [
        ["GetBlock", [], ["matmul", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l1"], [2, 64], ["v3", "v4"]],
        ["Split", ["l1", "v3", "v4"], [1], ["l5", "l6"]],
        ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v7"]],
        ["EnterPostproc", [], [], []],
        ["Annotate", ["b0", choice], ["unroll"], []],
    ]
    decisions = [[2, sizes], [4, choice]]
    target = {"kind": "llvm", "keys": ["cpu"], "mcpu": "skylake", "num-cores": 4, "tag": ""}
    inputs = [["TENSOR", "float32", [64, 64]], ["TENSOR", "float32", [64, 64]]]
    return [index, [[instructions, decisions], run_s, target, inputs]]


def metaschedule(number: int) -> tuple[list[Any], list[Any]]:
    """Return the lines of the two files of a MetaSchedule database."""
    times = [[1e-3, 1.1e-3], [2e-3], [1e10], None]
    records = [
        tuning_record(k % 2, [2**k, 64 // 2**k], (k + number) % 2, times[(k + number) % 4])
        for k in range(6)
    ]
    return [workload("one"), workload("two")], records


def as_lines(lines: list[Any]) -> bytes:
    """Return data as lines of JSON."""
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def t1(number: int) -> dict[str, Any]:
    """Return a T1 file."""
    parameters = [
        {"Name": "x", "Type": "int", "Values": "[1, 2, 4, 8]", "Default": 2},
        {"Name": "y", "Type": "int", "Values": "[2**k for k in range(5)]", "Default": 1},
        {"Name": "mode", "Type": "string", "Values": "['fast', 'safe']", "Default": "safe"},
        {"Name": "flag", "Type": "bool", "Values": "[True, False]", "Default": False},
        {"Name": "ratio", "Type": "float", "Values": "[0.5, 1.0]", "Default": 0.5},
    ]
    conditions = [
        {"Expression": "x * y <= 32", "Parameters": ["x", "y"]},
        {"Expression": "mode == 'safe' or x % y == 0", "Parameters": ["mode", "x", "y"]},
        {"Expression": "not flag or ratio * x > 1", "Parameters": ["flag", "ratio", "x"]},
    ]
    return {
        "General": {"BenchmarkName": f"add {number}"},
        "ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions},
        "KernelSpecification": {
            "Language": "CUDA",
            "KernelName": "add",
            "KernelFile": "add.cu",
            "GlobalSize": {"X": "1024"},
            "LocalSize": {"X": "x"},
        },
    }
