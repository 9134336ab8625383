"""The search space of any Tile function on GPUs: threads and elements of each statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune import te
from autotune.schedule.schedule import Schedule
from autotune.tile.plain import is_fused
from autotune.tile.program import Program
from autotune.tile.to_te import Tensors, to_te

if TYPE_CHECKING:
    from autotune.trace.knobs import Knobs


def gpu_schedule(cfg: Knobs, program: Program) -> tuple[Schedule, Tensors]:
    """Give each stage a kernel of its own, with some elements for each thread.

    Knobs
    -----
    NAME_threads, NAME_each
        Threads of a block, and elements of each thread.
    """
    tensors = to_te(program)
    s: Schedule = te.create_schedule([t.op for t in tensors.outputs])
    for tensor in tensors.stages:
        if is_fused(s, tensor, tensors.outputs):
            s[tensor].compute_inline()
            continue
        stage, axes = s[tensor], list(tensor.op.axis)
        reduced = list(tensor.op.reduce_axis)
        if not axes and not reduced:
            continue  # one element, by one thread
        threads = cfg.define_knob(f"{tensor.name}_threads", [256, 32, 64, 128, 512])
        own = axes or reduced
        fused = stage.fuse(*own) if len(own) > 1 else own[0]
        block, thread = stage.split(fused, factor=threads)
        if axes:
            each = cfg.define_knob(f"{tensor.name}_each", [1, 2, 4])
            block, some = stage.split(block, factor=each)
            stage.bind(block, te.thread_axis("blockIdx.x"))
            stage.reorder(block, some, thread)
        stage.bind(thread, te.thread_axis("threadIdx.x"))
    return s, tensors
