"""Kernel Tuner's `tune_kernel` and `run_kernel` for kernels in C, C++ and CUDA C++.

In: a program of which only the import lines change, to ``from autotune.compat.kernel_tuner import
tune_kernel``. It is over `autotune.tune`. Out: its list of results and its environment, and its
cache files. Read `interface.py` first. docs/compat.md lists what is not here.
"""

from __future__ import annotations

from typing import Any

from autotune.compat.kernel_tuner.interface import run_kernel, tune_kernel

__all__ = ["run_kernel", "tune_kernel"]


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"autotune.compat.kernel_tuner has no {name!r}: docs/compat.md lists what it has"
    )
