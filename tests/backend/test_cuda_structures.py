"""The CUDA structures of the benchmarks compute on the CPU what NumPy computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.slow_cases import slow
from support.te_reference import convolved, random_array
from support.verify import verify

from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.task.task import Task

STRUCTURES = Path(__file__).parents[2] / "benchmarks" / "structures.py"


CASES: dict[str, tuple[dict[str, int], Callable[..., Any]]] = {
    "matmul_cuda": ({"n": 24}, np.matmul),
    "conv2d_cuda": ({"channels": 4, "size": 10, "filters": 6, "kernel": 3}, convolved),
    "broadcast_add_cuda": ({"n": 100}, np.add),
}


def check(name: str, count: int) -> None:
    """Run random legal configurations; small whole numbers make sums exact in any order."""
    args, reference = CASES[name]
    task = Task.from_reference(f"{STRUCTURES}:{name}", args, "cuda -on=cpu")
    rng = np.random.default_rng(0)
    inputs = [random_array(rng, a.shape, a.dtype) for a in task.arguments if not a.is_output]
    expected = reference(*inputs)
    for index in task.space.sample(count, rng):
        kernel = compile_function(
            verify(task.final(int(index))), task.target, cache=ObjectCache(None)
        )
        result = np.full(expected.shape, 77, np.float32)
        kernel(*inputs, result)
        np.testing.assert_array_equal(result, expected, err_msg=f"{name}, configuration {index}")


@pytest.mark.parametrize("count", [4, slow(300)])
@pytest.mark.parametrize("name", CASES)
def test_configurations_compute_what_numpy_computes(name: str, count: int) -> None:
    check(name, count)
