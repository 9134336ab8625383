"""Writes the loops of panels, and of operands that are converted to the type of their sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.ir.axes import IterVar
from autotune.ir.expr import Read
from autotune.rules.contractions.contraction import TiledContraction
from autotune.rules.stage_graph import extent, open_iterations, open_sizes
from autotune.rules.threads import COUNTS, PARALLEL, share_nest
from autotune.schedule.stage import Stage


def pack(stage: Stage, way: TiledContraction, read: Read, in_task: bool) -> None:
    """Write the loops of a panel: copies of vectors, or tiles transposed in registers.

    `in_task`: whether each task packs what it reads, so that threads do not share the loops.
    """
    *front, before, lane = stage.op.axis
    if way.along(read):
        front.append(before)
        split_in_vectors(stage, lane, way.lanes)
    else:
        outer, inner = stage.split(before, factor=way.lanes)
        front.append(outer)
        if way.lies_along_sum(read):
            vector, lane = stage.split(lane, factor=way.lanes)
            stage.reorder(*front, vector, inner, lane)
            stage.unroll(inner)
            stage.vectorize(lane)
        else:
            stage.reorder(*front, lane, inner)
    if in_task or way.panel_size(read) < PARALLEL:
        return
    if open_sizes(stage.op):  # loops that are one would divide by what only calls know
        _share_copies(stage, front)
    else:
        stage.parallel(stage.fuse(*front))


def _share_copies(stage: Stage, loops: Sequence[IterVar]) -> None:
    """Share loops of copies among threads, if a call makes enough of them."""
    work = open_iterations(stage.op.output())
    _ = share_nest(stage, loops, COUNTS[-1], work, PARALLEL)


def convert(stage: Stage, lanes: int) -> None:
    """Write the loops of an operand that is converted as a whole."""
    size = math.prod(map(extent, stage.op.axis))
    if open_sizes(stage.op):
        *front, last = stage.op.axis
        stage.vectorize(stage.split(last, factor=lanes)[1])
        if size >= PARALLEL and front:
            _share_copies(stage, front)
        return
    outer, inner = stage.split(stage.fuse(*stage.op.axis), factor=lanes)
    stage.vectorize(inner)
    if size >= PARALLEL:
        stage.parallel(outer)


def split_in_vectors(stage: Stage, axis: IterVar, lanes: int) -> None:
    """Write an axis out as whole vectors."""
    outer, inner = stage.split(axis, factor=lanes)
    stage.unroll(outer)
    stage.vectorize(inner)
