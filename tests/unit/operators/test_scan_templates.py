"""Scan templates on CPUs: every structure computes its reference, large work is shared out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune.builder import BuiltFunction
from autotune.ir.expr import Const
from autotune.ir.stmt import For, LoopKind
from autotune.ir.visitor import walk
from autotune.task.task import Task


@pytest.mark.parametrize(
    ("how", "m", "n", "dtype"),
    [
        ("vectors", 1, 1, "int32"),
        ("vectors", 5, 31, "float64"),
        ("vectors", 2, 1009, "float32"),
        ("parts", 3, 257, "int64"),
        ("parts", 2, 1009, "float32"),
        ("parts", 9, 1024, "int32"),
    ],
)
def test_rows_are_summed_in_every_structure(how: str, m: int, n: int, dtype: str) -> None:
    task = Task.from_reference("cumsum", {"m": m, "n": n, "axis": 1, "dtype": dtype}, "llvm")
    knobs = {"scan": how, "scan_parts": 4} if how == "parts" else {"scan": how}
    default = task.space.config(task.default_index).values
    x = np.random.default_rng(n).integers(-9, 10, (m, n)).astype(dtype)
    y = np.full_like(x, 77)
    BuiltFunction(task.final_of({**default, **knobs}), task.target)(x, y)
    np.testing.assert_array_equal(y, np.cumsum(x, axis=1, dtype=dtype))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("cumsum", {"m": 4096, "n": 4096}),
        ("cumsum", {"m": 4000, "n": 1000}),
        ("cumsum", {"m": 1 << 18, "n": 8}),
        ("linear_recurrence", {"m": 1 << 18, "n": 8}),
        ("cumsum", {"m": 1, "n": 1 << 22, "axis": 1}),
        ("cumsum", {"m": 4, "n": 1 << 17, "axis": 1}),
        ("cumsum", {"m": 4096, "n": 1000, "axis": 1}),
    ],
)
def test_a_large_scan_is_shared_out_without_a_record(name: str, args: dict[str, Any]) -> None:
    task = Task.from_reference(name, args, "llvm -mcpu=x86-64-v4 -threads=2")
    loops = [
        stmt.extent
        for stmt in walk(task.final_of({}).body)
        if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL
    ]
    assert any(isinstance(tasks, Const) and tasks.value > 1 for tasks in loops)
    assert len(loops) == 1 or args.get("axis") == 1 or args["n"] < 256


@pytest.mark.parametrize("s", [129, 197, 257, 577])
def test_few_keys_past_the_last_one_are_computed(s: int) -> None:
    task = Task.from_reference("attention", {"b": 1, "heads": 2, "s": s, "d": 8}, "llvm")
    block = task.space.config(task.default_index).values["block"]
    assert -(-s // block) * block <= s + 12
