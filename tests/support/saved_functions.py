"""Functions that are saved to files, for tests of what is saved and of the files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import autotune
from autotune import te
from autotune.builder import BuiltFunction
from autotune.task.task import Task

Array = np.ndarray[Any, Any]

WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul": ("matmul", {"m": 37, "n": 64, "k": 50}),
    "conv2d": (
        "conv2d_nchw",
        {"n": 1, "c": 5, "h": 11, "w": 12, "o": 16, "kh": 3, "kw": 3, "pad": 1},
    ),
    "softmax": ("softmax", {"m": 9, "n": 70}),
    "broadcast_add": ("broadcast_add", {"n": 96}),
}


def built(workload: str, number: int = 0) -> BuiltFunction:
    """The default configuration of a template, or one of a few others."""
    name, arguments = WORKLOADS[workload]
    task = Task.from_reference(name, arguments, "llvm")
    indices = [task.default_index, *task.space.sample(3, np.random.default_rng(7))]
    config = task.space.config(int(indices[number]))
    return BuiltFunction(task.final(config.index), task.target, task.workload, config)


def scale(target: str = "llvm", factor: float = 2.0, name: str = "scale") -> BuiltFunction:
    """B[n] = factor * A[n] in parallel, for any n."""
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * factor, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(s[B].op.axis[0])
    return autotune.build(s, [A, B], target, name)


def arrays_of(kernel: Any, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    params = kernel.signature.parameters
    return [
        np.full(p.shape, 99, p.dtype) if p.is_output else rng.random(p.shape).astype(p.dtype)
        for p in params
    ]


def run(kernel: Callable[..., None], arrays: list[Array]) -> list[Array]:
    copies = [array.copy() for array in arrays]
    kernel(*copies)
    return copies


def doubles(kernel: Callable[..., None], factor: float = 2.0) -> bool:
    a, out = np.arange(100, dtype="float32"), np.zeros(100, "float32")
    kernel(a, out)
    return bool((out == a * factor).all())
