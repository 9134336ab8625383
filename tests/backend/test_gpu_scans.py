"""Scans run on a GPU, against NumPy; run with -m gpu where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.scans import ColumnSums

import autotune
from autotune.builder import BuiltFunction
from autotune.task.task import Task

pytestmark = pytest.mark.gpu


def inputs_of(task: Task) -> list[Any]:
    """Return whole numbers for sums, which are exact, and small weights and inputs for others."""
    rng = np.random.default_rng(0)
    given = [a for a in task.arguments if not a.is_output]
    if len(given) == 1:
        return [rng.integers(-9, 10, a.shape).astype(a.dtype) for a in given]
    return [(rng.random(a.shape) - 0.5).astype(a.dtype) for a in given]


def check(cupy: Any, task: Task, values: dict[str, Any], *, exact: bool) -> None:
    """Hold a configuration against the reference."""
    given = inputs_of(task)
    expected = task.reference(*given)
    results = expected if isinstance(expected, tuple) else (expected,)
    found = [cupy.asarray(np.full_like(want, 77)) for want in results]
    function = BuiltFunction(task.final_of(values), task.target)
    function(*map(cupy.asarray, given), *found)
    tolerance = 0 if exact else 1e-4
    for got, want in zip(found, results, strict=True):
        about = f"{task.workload} {values}"
        np.testing.assert_allclose(got.get(), want, tolerance, tolerance, err_msg=about)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_one_build_of_column_sums_serves_every_size(cupy: Any, dtype: str) -> None:
    sums = ColumnSums(dtype=dtype).bind()
    built = autotune.build(sums.s, sums.tensors, "cuda")
    rng = np.random.default_rng(1)
    for m, n in [(1, 1), (2, 255), (7, 257), (31, 13), *rng.integers(1, 600, (10, 2)).tolist()]:
        x = rng.integers(-9, 10, (m, n)).astype(dtype)
        out = cupy.asarray(np.full_like(x, 77))
        built(cupy.asarray(x), out)
        np.testing.assert_array_equal(out.get(), np.cumsum(x, axis=0, dtype=dtype))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("cumsum", {"m": 331, "n": 132}),
        ("cumsum", {"m": 300, "n": 64, "dtype": "float64"}),
        ("cumsum", {"m": 5, "n": 9_001, "axis": 1}),
        ("cumsum", {"m": 1, "n": 1 << 14, "axis": 1, "dtype": "int32"}),
        ("linear_recurrence", {"m": 331, "n": 68}),
        ("rnn_cell", {"steps": 9, "batch": 5, "units": 67}),
        ("lstm_cell", {"steps": 7, "batch": 3, "units": 65}),
    ],
)
def test_configurations_compute_their_reference(
    cupy: Any, name: str, args: dict[str, Any]
) -> None:
    task = Task.from_reference(name, args, "cuda")
    drawn = task.space.sample(4, np.random.default_rng(0))
    indices = dict.fromkeys((task.default_index, *map(int, drawn)))
    for index in indices:
        check(cupy, task, dict(task.space.config(index).values), exact=name == "cumsum")


@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_rows_of_one_tile_or_many_are_summed(cupy: Any, threads: int) -> None:
    task = Task.from_reference("cumsum", {"m": 3, "n": 20_011, "axis": 1}, "cuda")
    values = {**task.space.config(task.default_index).values, "scan_threads": threads}
    check(cupy, task, values, exact=True)
