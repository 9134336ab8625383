"""The fallback schedule of any Tile function without tuning: fused, parallel, vectorised."""

from __future__ import annotations

from typing import Final

from autotune import te
from autotune.rules.flat import schedule_flat
from autotune.rules.inline import inlined_stages
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.tile.to_te.program_to_te import Tensors

_THREADS: Final = 256


def fallback_schedule(tensors: Tensors, target: Target) -> Schedule:
    """Return a schedule that is legal for every Tile function and sensible for most.

    Element-wise statements are computed where they are read, if that repeats little work. On a
    CPU the other stages run over their outer dimensions in parallel and over their last one in
    vectors; on a GPU each output element has a thread.
    """
    schedule: Schedule = te.create_schedule([t.op for t in tensors.outputs])
    inlined = inlined_stages(tensors.outputs)
    for tensor in tensors.stages:
        if tensor in inlined:
            schedule[tensor].compute_inline()
        elif target.kind == "llvm":
            schedule_flat(schedule, tensor, target)
        else:
            _on_gpu(schedule, tensor)
    return schedule


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
