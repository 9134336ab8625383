"""Shared parts of schedules for GPUs: threads, and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.tensor import Tensor

#: Threads of a warp.
WARP = 32

#: Multiprocessors of a GPU, for defaults: those of the largest one of sm_90.
MULTIPROCESSORS = 132

#: Blocks that occupy nearly all of them.
ENOUGH_BLOCKS = 0.95 * MULTIPROCESSORS

#: Bytes of all banks of shared memory, which are those of a line of memory.
BANKS = 128

#: Bytes that memory moves at least.
SECTOR = 32

#: Least length of rows, in vectors, whose vectors begin where those of the array begin.
LEAST_ALIGNED = 8


def bind(stage: Any, axes: Mapping[str, Any]) -> None:
    """Bind loops of a stage, given by tag: ``{"blockIdx.x": bx, "threadIdx.x": tx}``."""
    for tag, axis in axes.items():
        stage.bind(axis, te.thread_axis(tag))


def lane_counts(target: Target, dtype: str) -> list[int]:
    """Return the possible vector lengths of one access: 1, 2, 4, ... up to its widest."""
    most = target.vector_bytes // dtypes.itemsize(dtype)
    return [lanes for lanes in (1, 2, 4, 8, 16) if lanes <= most]


def row_lanes(target: Target, dtype: str, length: int) -> list[int]:
    """Return the possible vector lengths of rows of some length, the largest first.

    Those of short rows divide the length.
    """
    counts = lane_counts(target, dtype)[::-1]
    is_long = length >= LEAST_ALIGNED * counts[0]
    return [lanes for lanes in counts if is_long or length % lanes == 0]


def before_row(tensor: Tensor, indices: Sequence[Any], lanes: Any) -> Any:
    """Return how many elements of another row are in the vector in which a row begins.

    `tensor`: what has the row.
    `indices`: those of the row's first element.
    `lanes`: elements of a vector: a number or a knob.
    """
    number: Any = 0
    for index, size in zip(indices, tensor.shape, strict=True):
        number = number * size + index
    return number % lanes


def schedule_on_gpu(schedule: Schedule, tensor: te.Tensor, threads: Any = 256) -> None:
    """Compute each element of a stage in a thread; a single one in the threads of one block.

    ::

        for (i)                       block (i.outer)
          for (j)               ->      thread (i.inner)
            C[i, j] = ...                 C[(i.outer * 256 + i.inner) // n, ...] = ...
    """
    stage, axes = schedule[tensor], list(tensor.op.axis)
    reduced = list(tensor.op.reduce_axis)
    if axes:
        block, thread = stage.split(stage.fuse(*axes), factor=threads)
        bind(stage, {"blockIdx.x": block, "threadIdx.x": thread})
    elif reduced:
        bind(stage, {"threadIdx.x": stage.split(stage.fuse(*reduced), factor=threads)[1]})
