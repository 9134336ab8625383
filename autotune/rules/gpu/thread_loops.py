"""Shared parts of schedules for GPUs: threads, and vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.target import Target

#: Threads of a warp.
WARP = 32

#: Multiprocessors of a GPU, for defaults: those of the largest one of sm_90.
MULTIPROCESSORS = 132


def bind(stage: Any, axes: Mapping[str, Any]) -> None:
    """Bind loops of a stage, given by tag: ``{"blockIdx.x": bx, "threadIdx.x": tx}``."""
    for tag, axis in axes.items():
        stage.bind(axis, te.thread_axis(tag))


def lane_counts(target: Target, dtype: str) -> list[int]:
    """Return the possible vector lengths of one access: 1, 2, 4, ... up to its widest."""
    most = target.vector_bytes // dtypes.itemsize(dtype)
    return [lanes for lanes in (1, 2, 4, 8, 16) if lanes <= most]
