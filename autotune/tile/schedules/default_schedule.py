"""The fallback schedule of any Tile function without tuning: fused, parallel, vectorised."""

from __future__ import annotations

from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.expr import Call, Read
from autotune.ir.visitor import reads, walk_expr
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage_core import Attach
from autotune.target import Target
from autotune.te.tensor import ComputeOp
from autotune.tile.schedules.stage_graph import extent, is_contiguous, iterations
from autotune.tile.to_te.program_to_te import ASSIGNED, BEHIND, ELEMENT_WISE, Tensors

PARALLEL: Final = 1 << 16
"""Least number of operations of a stage with several threads."""

_THREADS: Final = 256
#: Largest number of expressions of a fused stage, to limit copies and nesting.
_MAX_FUSED: Final = 500

#: Largest cost of a fused stage, and how often a reduction may repeat it.
_FUSED: Final = (ELEMENT_WISE, ASSIGNED, BEHIND)
_OFTEN: Final = 4


def fallback_schedule(tensors: Tensors, target: Target) -> Schedule:
    """Return a schedule that is legal for every Tile function and sensible for most.

    Element-wise statements are computed where they are read, if that repeats little work. On a
    CPU the other stages run over their outer dimensions in parallel and over their last one in
    vectors; on a GPU each output element has a thread.
    """
    schedule: Schedule = te.create_schedule([t.op for t in tensors.outputs])
    for tensor in tensors.stages:
        if is_fused(schedule, tensor, tensors.outputs):
            schedule[tensor].compute_inline()
        elif target.kind == "llvm":
            _on_cpu(schedule, tensor, target)
        else:
            _on_gpu(schedule, tensor)
    return schedule


def is_fused(schedule: Schedule, tensor: te.Tensor, outputs: tuple[te.Tensor, ...]) -> bool:
    """Whether a stage is fused into its readers: each element once, or cheaply and rarely.

    Stages that are fused into it count, because its length is limited.
    """
    op = _compute(tensor)
    if op.tag not in _FUSED or any(tensor is output for output in outputs):
        return False
    readers = [reader.op.output() for reader in schedule.readers(tensor)]
    size = iterations(tensor)
    times = max((iterations(reader) // size for reader in readers), default=1)
    if any(isinstance(e, Call) for value in op.body for e in walk_expr(value)):
        suits = len(readers) == 1 and times <= 1
    else:
        suits = times < _OFTEN or not any(reader.op.reduce_axis for reader in readers)
    return suits and _length(schedule, tensor) <= _MAX_FUSED


def _length(schedule: Schedule, tensor: te.Tensor) -> int:
    """Return the number of expressions of a stage, including stages fused into it."""
    own = [e for value in _compute(tensor).body for e in walk_expr(value)]
    read = (e.tensor for e in own if isinstance(e, Read) and isinstance(e.tensor.op, ComputeOp))
    fused = (t for t in read if schedule[t].attach is Attach.INLINE)
    return len(own) + sum(_length(schedule, t) for t in fused)


def _compute(tensor: te.Tensor) -> ComputeOp:
    assert isinstance(tensor.op, ComputeOp)
    return tensor.op


def _on_cpu(schedule: Schedule, tensor: te.Tensor, target: Target) -> None:
    stage, axes = schedule[tensor], list(tensor.op.axis)
    if not axes:
        return
    reduced = list(tensor.op.reduce_axis)
    lanes = max(target.vector_bytes // dtypes.itemsize(tensor.dtype), 2)
    inner: list[Any] = []
    own = [read for value in _compute(tensor).body for read in reads(value)]
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


def is_worth_threads(tensor: te.Tensor) -> bool:
    """Whether a stage is so much work that threads should share it."""
    return iterations(tensor) >= PARALLEL


def _on_gpu(schedule: Schedule, tensor: te.Tensor) -> None:
    stage, axes = schedule[tensor], list(tensor.op.axis)
    reduced = list(tensor.op.reduce_axis)
    if axes:
        fused = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        block, thread = stage.split(fused, factor=_THREADS)
        stage.bind(block, te.thread_axis("blockIdx.x"))
    elif reduced:  # one element, by the threads of one block together
        fused = stage.fuse(*reduced) if len(reduced) > 1 else reduced[0]
        _, thread = stage.split(fused, factor=_THREADS)
    else:
        return  # one element, by one thread
    stage.bind(thread, te.thread_axis("threadIdx.x"))
