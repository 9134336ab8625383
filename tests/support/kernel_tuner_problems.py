"""A kernel of a call of Kernel Tuner, some of its results, and a cache of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.cache import Cache
from autotune.compat.kernel_tuner.problem import Problem
from autotune.compat.kernel_tuner.util import CompilationFailedConfig

CHOICES = {"a": [1, 2, 3, 4, 6, 8], "b": [1, 2, 4], "kind": ["x", "y"], "on": [True, False]}


def problem(**changed: Any) -> Problem:
    own = {
        "name": "f", "text": "float f(float *x);", "language": "c++", "compiler": "c++",
        "flags": [], "folder": "", "parameters": CHOICES, "defines": {},
        "arguments": [("float32", [4])], "outputs": [0],
    }  # fmt: skip
    return Problem(**{**own, **changed})


ROWS: dict[str, dict[str, Any]] = {
    "1,x": {"a": 1, "kind": "x", "time": 0.5, "times": [0.5], "rate": np.float32(2)},
    "2,x": {"a": 2, "kind": "x", "time": CompilationFailedConfig(),
            "__error__": CompilationFailedConfig()},
}  # fmt: skip


def cache_of(path: Path, size: Any = 4, x: float = 0.0, **changed: Any) -> Cache:
    own = problem(**{"parameters": {"a": [1, 2], "kind": ["x"]}, **changed})
    return Cache(path, own, size, [np.full(4, x, "float32")], "a device")
