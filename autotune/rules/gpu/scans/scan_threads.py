"""Threads of scans on GPUs: columns that no other column needs are divided among blocks."""

from __future__ import annotations

import math
from typing import Any, Final

from autotune import te
from autotune.ir.expr import Read
from autotune.rules.contractions.panel_loops import split_in_vectors
from autotune.rules.gpu.column_vectors import in_vectors, step_of
from autotune.rules.gpu.thread_loops import MULTIPROCESSORS, WARP, bind, lane_counts
from autotune.rules.knob_definer import KnobDefiner
from autotune.rules.scans.cells import Cell, cell_of
from autotune.rules.stage_graph import extent, power_of_two, reads_in
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp

#: Threads of a block.
THREADS: Final = (128, 32, 64, 256, 512, 1024)


def schedule_scan(cfg: KnobDefiner, s: Schedule, scan: ScanOp, threads: Any = None) -> None:
    """Compute independent columns in threads of their own, and what depends on others in blocks.

    ::

        for (t)                       block (i.outer)
          for (i)               ->      thread (i.inner)
            S[t, i] = ...                 for (t)
                                            S[t, i] = ...

    If elements of a step depend on others, a block computes all of these, for some elements of the
    independent dimensions. Sums that one stage reads are computed there, in registers.

    Knobs:

    - `scan_threads`: threads of a block, if they are not given.
    - `scan_rows`: elements of the independent dimensions of a block.
    - `scan_unroll`: terms of a sum that are unrolled.
    """
    cell = cell_of(scan, [stage.op for stage in s.stages], scan.outputs, ())
    ends = {op: cell.end_of(op) for op in scan.cell if op.reduce_axis}
    apart = [op for op in parts_of_scan(scan) if ends.get(op) is None]
    inside = max(math.prod(map(extent, _others(cell, op))) for op in apart)
    if inside <= 1:
        if threads is None:
            columns = math.prod(map(extent, scan.update[0].op.axis[1:]))
            usual = min(128, max(WARP, power_of_two(columns // MULTIPROCESSORS)))
            threads = cfg.define_knob("scan_threads", THREADS, usual)
        for op in parts_of_scan(scan):
            axes = [axis for axis in cell.columns[op] if axis is not None]
            if axes:
                block, thread = s[op].split(s[op].fuse(*axes), factor=threads)
                s[op].reorder(block, thread, *_others(cell, op))
                bind(s[op], {"blockIdx.x": block, "threadIdx.x": thread})
        stage = s[scan.outputs[0]]
        unroll = cfg.define_knob("scan_unroll", [8, 1, 4, 16])
        stage.unroll(stage.split(scan.scan_axis, factor=unroll)[1])
        return
    threads = cfg.define_knob("scan_threads", THREADS, min(256, max(WARP, power_of_two(inside))))
    rows = cfg.define_knob("scan_rows", [1, 2, 4])
    unroll = cfg.define_knob("scan_unroll", [4, 1, 8]) if any(ends.values()) else 1
    loops: dict[ComputeOp, Any] = {}
    for op in apart:
        loops[op] = _in_blocks(s, cell, op, threads, rows)
    for op, end in ends.items():
        if end is not None:
            stage = s[op.output()]
            stage.compute_at(s[end], loops[end])
            along, *others = op.reduce_axis
            rows_along = _rows_along(op, along, cfg.target)
            loaded = [s.cache_read(r.tensor, "local", [op.output()]) for r in rows_along]
            terms, term = stage.split(along, factor=unroll)
            stage.reorder(*others, terms, term, *op.axis)
            for axis in (term, *op.axis):
                stage.unroll(axis)
            for tensor in loaded:
                s[tensor].compute_at(stage, terms)
                widest = lane_counts(cfg.target, tensor.dtype)[-1]
                split_in_vectors(s[tensor], tensor.op.axis[-1], te.min(unroll, widest))


def _rows_along(op: ComputeOp, along: Any, target: Target) -> list[Read]:
    """Return what the steps of a sum read side by side, from where vectors begin."""
    found = reads_in(op)
    alone = [r for r in found if sum(r.tensor is other.tensor for other in found) == 1]
    return [
        r for r in alone
        if step_of(r, along) == 1
        and extent(along) % lane_counts(target, r.dtype)[-1] == 0
        and in_vectors(r, along, (), lane_counts(target, r.dtype)[-1])
    ]  # fmt: skip


def parts_of_scan(scan: ScanOp) -> list[ComputeOp]:
    """Return the stages of a scan: its first steps, and its cell."""
    return [*(t.op for t in scan.init if isinstance(t.op, ComputeOp)), *scan.cell]


def _in_blocks(s: Schedule, cell: Cell, op: ComputeOp, threads: Any, rows: Any) -> Any:
    """Let blocks compute some columns each; return the loop in which sums are computed."""
    stage, own, others = s[op], cell.columns[op], _others(cell, op)
    updates = [t.op for t in cell.scan.update]
    if op in cell.scan.cell and op not in updates:  # each block's part lies together
        order = [cell.stages[op], *(op.axis.index(axis) for axis in own)]
        order += [n for n in range(len(op.axis)) if n not in order]
        stage.transform_layout(lambda *index, order=order: [index[n] for n in order])
    loops: dict[str, Any] = {}
    around: list[Any] = []
    some: list[Any] = []
    if own:
        main = max((n for n, axis in enumerate(own) if extent(axis) > 1), default=0)
        block, row = stage.split(own[main], factor=rows)
        some = [row]
        around = [axis for n, axis in enumerate(own) if n != main] + [block]
    if not others:
        stage.reorder(*around, *some)
        if around:
            bind(stage, {"blockIdx.x": stage.fuse(*around)})
        return stage.leaf_axes[-1]
    stage.reorder(*around, *others, *some)
    outer, thread = stage.split(stage.fuse(*others), factor=threads)
    stage.reorder(*around, thread, outer, *some)
    if around:
        loops["blockIdx.x"] = stage.fuse(*around)
    bind(stage, {**loops, "threadIdx.x": thread})
    return outer


def _others(cell: Cell, op: ComputeOp) -> list[Any]:
    """Return the axes of a stage besides those of the steps and the independent ones."""
    step = op.axis[cell.stages.get(op, 0)]
    return [a for a in op.axis if a is not step and not any(a is c for c in cell.columns[op])]
