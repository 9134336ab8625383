"""Scans along rows: parts of rows for threads, in one pass over each part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.bare_computations import template_of
from support.legal_configurations import small_integers

from autotune import te
from autotune.builder import BuiltFunction
from autotune.ir.expr import Const
from autotune.ir.stmt import Allocate, For, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import walk
from autotune.target import Target
from autotune.task.task import Task

COMBINE = {"sum": np.add, "product": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def sums(rows: int, length: int, threads: int, dtype: str = "float32") -> Task:
    """Return the task of running sums along rows."""
    args = {"m": rows, "n": length, "axis": 1, "dtype": dtype}
    return Task.from_reference("cumsum", args, f"llvm -threads={threads}")


def default_of(task: Task) -> dict[str, Any]:
    return dict(task.space.config(task.default_index).values)


def function(task: Task, **knobs: Any) -> PrimFunc:
    """Return the final form of the default with some other knobs."""
    return task.final_of({**default_of(task), **knobs})


def parallel_loops(of: PrimFunc) -> list[For]:
    return [s for s in walk(of.body) if isinstance(s, For) and s.kind is LoopKind.PARALLEL]


def iterations(stmt: Stmt) -> int:
    """Return how often the innermost serial loop of a nest runs, in all."""
    inner = [iterations(s) for s in walk(stmt) if isinstance(s, For) and s is not stmt]
    assert isinstance(stmt, For)
    assert isinstance(stmt.extent, Const)
    return int(stmt.extent.value) * max(inner, default=1)


@pytest.mark.parametrize(
    ("threads", "rows", "length", "dtype", "parts"),
    [
        (1, 1, 3001, "float32", 2),
        (2, 1, 2048, "float64", 2),
        (2, 3, 1025, "int32", 3),
        (3, 1, 4095, "float32", 3),
        (4, 2, 130, "float32", 64),
        (5, 1, 2, "float64", 16),
        (6, 1, 1, "int32", 8),
        (6, 5, 777, "float64", 6),
        (7, 2, 5003, "int64", 12),
        (7, 1, 63, "float32", 32),
    ],
)
def test_parts_of_rows_are_right_for_any_length_and_number_of_threads(
    threads: int, rows: int, length: int, dtype: str, parts: int
) -> None:
    task = sums(rows, length, threads, dtype)
    long = "scan_parts" in default_of(task)
    made = function(task, **({"scan": "parts", "scan_parts": parts} if long else {}))
    x = np.random.default_rng(length).integers(-9, 10, (rows, length)).astype(dtype)
    y = np.full_like(x, 77)
    BuiltFunction(made, task.target)(x, y)
    np.testing.assert_array_equal(y, np.cumsum(x, axis=1, dtype=dtype))


@pytest.mark.parametrize("way", ["vectors", "parts"])
@pytest.mark.parametrize("name", COMBINE)
def test_all_combinations_are_scanned_along_rows(name: str, way: str) -> None:
    shape = (2, 1501)

    def combined(x: Any, y: Any) -> Any:
        operations = {"sum": lambda: x + y, "product": lambda: x * y}
        return operations.get(name, lambda: (te.max if name == "maximum" else te.min)(x, y))()

    def made() -> tuple[list[te.Tensor], list[te.Tensor]]:
        X = te.placeholder(shape, "int32", name="X")
        state = te.placeholder(shape[::-1], "int32", name="state")
        init = te.compute((1, shape[0]), lambda _, i: X[i, 0], name="init")
        step = te.compute(shape[::-1], lambda t, i: combined(state[t - 1, i], X[i, t]), name="step")
        S = te.scan(init, step, state, name="S")
        return [X], [te.compute(shape, lambda i, j: S[j, i] + 1, name="Y")]

    task = Task(template_of(made), {}, Target("llvm -threads=3"))
    (x,) = small_integers(made()[0])
    x[x == 0] = 1
    y = np.full_like(x, 77)
    BuiltFunction(function(task, scan=way, scan_parts=3), task.target)(x, y)
    np.testing.assert_array_equal(y, COMBINE[name].accumulate(x, axis=1, dtype="int32") + 1)


@pytest.mark.parametrize(("rows", "length"), [(1, 2), (3, 200), (2, 1025), (5, 64)])
def test_linear_recurrences_along_rows_are_computed_in_vectors(rows: int, length: int) -> None:
    shape = (rows, length)

    def made() -> tuple[list[te.Tensor], list[te.Tensor]]:
        A, X = (te.placeholder(shape, "float64", name=name) for name in "AX")
        state = te.placeholder(shape[::-1], "float64", name="state")
        init = te.compute((1, rows), lambda _, i: X[i, 0], name="init")

        def step(t: Any, i: Any) -> Any:
            return A[i, t] * state[t - 1, i] + X[i, t]

        update = te.compute(shape[::-1], step, name="update")
        S = te.scan(init, update, state, name="S")
        return [A, X], [te.compute(shape, lambda i, j: S[j, i], name="Y")]

    task = Task(template_of(made), {}, Target("llvm -threads=3"))
    a, x = small_integers(made()[0], most=1)
    expected, y = x.copy(), np.full_like(x, 77)
    for t in range(1, length):
        expected[:, t] += a[:, t] * expected[:, t - 1]
    BuiltFunction(function(task, scan="vectors"), task.target)(a, x, y)
    np.testing.assert_array_equal(y, expected)


def test_all_parts_but_the_last_are_summed_by_all_threads() -> None:
    length, threads = 1 << 20, 4
    task = sums(1, length, threads)
    first, second = parallel_loops(function(task))
    lanes = default_of(task)["scan_lanes"]
    assert isinstance(first.extent, Const)
    assert first.extent.value % threads == 0
    assert iterations(first) * lanes == length * (threads - 1) // threads
    assert iterations(second) * lanes == length


def test_a_row_is_read_once_by_a_single_thread() -> None:
    task = sums(1, 1 << 20, 1)
    lanes = default_of(task)["scan_lanes"]
    loops = [s for s in walk(function(task).body) if isinstance(s, For)]
    assert sum(iterations(loop) * lanes for loop in loops) == 1 << 20


@pytest.mark.parametrize("threads", [1, 2])
def test_temporaries_do_not_grow_with_rows(threads: int) -> None:
    sizes = []
    for length in (1 << 19, 1 << 22):
        made = function(sums(1, length, threads))
        sizes.append([s.buffer.elements for s in walk(made.body) if isinstance(s, Allocate)])
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("rows", "threads", "parts"),
    [(1, 1, None), (1, 2, 2), (1, 3, 3), (1, 6, 6), (1, 5, 64), (3, 2, 2), (2, 2, None),
     (2, 6, 3), (4, 2, None), (9, 2, None)],
)  # fmt: skip
def test_rows_are_divided_if_threads_would_have_unequal_work(
    rows: int, threads: int, parts: int | None
) -> None:
    values = default_of(sums(rows, 1 << 20, threads))
    assert (values["scan_parts"] if values["scan"] == "parts" else None) == parts


def test_short_rows_are_not_divided() -> None:
    assert default_of(sums(1, 1 << 14, 4))["scan"] == "vectors"
