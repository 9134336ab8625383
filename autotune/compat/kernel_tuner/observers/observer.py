"""The module that Kernel Tuner's observers are in."""

from __future__ import annotations

from autotune.compat.kernel_tuner.observers import BenchmarkObserver

__all__ = ["BenchmarkObserver"]
