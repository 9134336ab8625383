"""The rule for what no other rule takes: one loop, shared by threads, its last axis in vectors."""

from __future__ import annotations

from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.visitor import reads
from autotune.rules.stage_graph import extent, is_contiguous, iterations
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.tensor import ComputeOp

PARALLEL: Final = 1 << 16  # Least number of operations of a stage with several threads.


def lanes_in(target: Target, dtype: str) -> int:
    """Return how many elements of a type a vector of the target has."""
    return max(1, target.vector_bytes // dtypes.itemsize(dtype))


def is_worth_threads(tensor: te.Tensor) -> bool:
    """Whether a stage is so much work that threads should share it."""
    return iterations(tensor) >= PARALLEL


def schedule_flat(schedule: Schedule, tensor: te.Tensor, target: Target) -> None:
    """Compute a stage over its outer dimensions in parallel and over its last one in vectors.

    ::

        for (i)                       parallel (i)
          for (j)               ->      for (j.outer)
            C[i, j] = ...                 C[i, ramp(j.outer * lanes)] = ...
    """
    stage, axes = schedule[tensor], list(tensor.op.axis)
    if not axes:
        return
    reduced = list(tensor.op.reduce_axis)
    lanes = max(lanes_in(target, tensor.dtype), 2)
    inner: list[Any] = []
    assert isinstance(tensor.op, ComputeOp)
    own = [read for value in tensor.op.body for read in reads(value)]
    if extent(axes[-1]) >= lanes and is_contiguous(tensor, own):
        outer, vector = stage.split(axes.pop(), factor=lanes)
        axes.append(outer)
        inner.append(vector)
    if reduced:
        stage.reorder(*axes, *reduced, *inner)
    if inner:
        stage.vectorize(inner[0])
    if is_worth_threads(tensor):
        front = axes[: max(len(axes) - 1, 1)]
        stage.parallel(stage.fuse(*front) if len(front) > 1 else front[0])
