"""`kernel_tuner.observers.observer`: the module name under which programs import observers."""

from __future__ import annotations

from autotune.compat.kernel_tuner.observers import BenchmarkObserver

__all__ = ["BenchmarkObserver"]
