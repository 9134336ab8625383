"""The fallback schedule of any computation without tuning: plain loops, in threads on GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autotune import te
from autotune.rules.gpu.thread_loops import bind
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.tensor import ComputeOp, producers_first

_THREADS: Final = 256


def fallback_schedule(outputs: Sequence[te.Tensor], target: Target) -> Schedule:
    """Return a schedule that is legal for every computation without scans.

    Stages are plain loops on a CPU; on a GPU each output element has a thread.
    """
    ops = [t.op for t in outputs]
    schedule: Schedule = te.create_schedule(ops)
    for op in producers_first(ops) if target.kind != "llvm" else ():
        if isinstance(op, ComputeOp):
            schedule_on_gpu(schedule, op.output())
    return schedule


def schedule_on_gpu(schedule: Schedule, tensor: te.Tensor) -> None:
    """Compute each element of a stage in a thread; a single one in the threads of one block.

    ::

        for (i)                       block (i.outer)
          for (j)               ->      thread (i.inner)
            C[i, j] = ...                 C[(i.outer * 256 + i.inner) // n, ...] = ...
    """
    stage, axes = schedule[tensor], list(tensor.op.axis)
    reduced = list(tensor.op.reduce_axis)
    if axes:
        fused = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        block, thread = stage.split(fused, factor=_THREADS)
        bind(stage, {"blockIdx.x": block, "threadIdx.x": thread})
    elif reduced:
        fused = stage.fuse(*reduced) if len(reduced) > 1 else reduced[0]
        bind(stage, {"threadIdx.x": stage.split(fused, factor=_THREADS)[1]})
