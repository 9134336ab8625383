"""Threads of scans on GPUs: columns that no other column needs are divided among blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from autotune.ir.visitor import reads
from autotune.rules.gpu.thread_loops import bind
from autotune.rules.stage_graph import extent
from autotune.schedule.schedule import Schedule
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp

_THREADS: Final = 128


def schedule_scan(schedule: Schedule, scan: ScanOp) -> None:
    """Compute independent columns in threads of their own, and what depends on others in blocks.

    ::

        for (t)                       block (i.outer)
          for (i)               ->      thread (i.inner)
            S[t, i] = ...                 for (t)
                                            S[t, i] = ...

    If elements of a step depend on others, a block computes all of these, for one element of the
    independent dimensions.
    """
    places, updates = _independent(scan), {t.op for t in scan.update}
    alone = all(_inside(scan, op, own) <= 1 for op, own in places.items())
    threads = min([_THREADS, *filter(None, (_inside(scan, op, own) for op, own in places.items()))])
    for op, own in places.items():
        stage, axes = schedule[op], list(op.axis)
        apart = [axes[n] for n in own.values()]
        others = _others(scan, op, own)
        loops: dict[str, Any] = {}
        if alone:
            if apart:
                fused = stage.fuse(*apart) if len(apart) > 1 else apart[0]
                block, thread = stage.split(fused, factor=_THREADS)
                stage.reorder(block, thread, *others)
                loops = {"blockIdx.x": block, "threadIdx.x": thread}
        else:
            if op in scan.cell and op not in updates:  # each block's part lies together
                step = scan.cell[op].position
                order = [step, *own.values()]
                order += [n for n in range(len(axes)) if n not in order]
                stage.transform_layout(partial(_ordered, order))
            stage.reorder(*apart, *others)
            if apart:
                loops["blockIdx.x"] = stage.fuse(*apart) if len(apart) > 1 else apart[0]
            if others:
                inner = stage.fuse(*others) if len(others) > 1 else others[0]
                loops["threadIdx.x"] = stage.split(inner, factor=threads)[1]
        bind(stage, loops)


def _ordered(order: Sequence[int], *index: Any) -> list[Any]:
    return [index[n] for n in order]


def _others(scan: ScanOp, op: ComputeOp, own: Mapping[int, int]) -> list[Any]:
    """Return the axes of a stage besides those of the steps and the independent ones."""
    step = scan.cell[op].position if op in scan.cell else 0
    return [axis for n, axis in enumerate(op.axis) if n != step and n not in own.values()]


def _inside(scan: ScanOp, op: ComputeOp, own: Mapping[int, int]) -> int:
    """Return the number of elements of a stage in a step, for one independent element."""
    others = _others(scan, op, own)
    return math.prod(map(extent, others)) if others else 0


def _independent(scan: ScanOp) -> dict[Any, dict[int, int]]:
    """Return for each stage of a scan the positions of the independent dimensions of its states."""
    places: dict[Any, dict[int, int]] = {
        t.op: {p: p for p in sorted(scan.apart)} for t in (*scan.init, *scan.update)
    }
    for op in scan.cell:  # readers come first
        for read in (r for value in op.body for r in reads(value)):
            if read.tensor.op not in scan.cell or read.tensor.op in places:
                continue
            places[read.tensor.op] = {
                p: next(n for n, index in enumerate(read.children) if index is op.axis[at].var)
                for p, at in places[op].items()
            }
    return places
