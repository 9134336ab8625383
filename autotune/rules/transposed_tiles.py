"""The rule for stages that read along another axis than they write: tiles that fit in registers.

::

    for (i) for (j)               parallel (block of tiles)
      C[i, j] = A[j, i]     ->      for (i.outer) for (j.outer)
                                      unrolled (i.inner, 0, rows)
                                        C[i, ramp(j.outer * lanes)] = A[ramp(...), i]

A tile is read in vectors along i and written in vectors along j; between them the code generator
transposes it in registers. So each cache line is read and written once, whatever the strides are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.expr import Read
from autotune.ir.visitor import mentions
from autotune.rules.knob_definer import StageKnobs
from autotune.rules.stage_graph import extent, open_sizes
from autotune.rules.streamed_stores import has_whole_lines, is_streamed, outlasts_caches
from autotune.rules.threads import lanes_in, share
from autotune.schedule.schedule import Schedule

#: Most and least rows of a tile: half of the vector registers, and what is worth shuffles.
_MOST_ROWS: Final = 16
_LEAST_ROWS: Final = 4

#: Tiles of a block along an axis, and by default along that which is not accessed in order.
_BLOCKS: Final = (4, 1, 16, 64)
_SHORT: Final = 4

#: Number of blocks that long ones must leave by default.
_TASKS: Final = 8


def other_axis(tensor: te.Tensor, reads: Sequence[Read], lanes: int) -> Any | None:
    """Return the axis along which a stage reads neighbours, if that is not its last one."""
    axes = list(tensor.op.axis)
    if open_sizes(tensor.op):
        return None
    if tensor.op.reduce_axis or len(axes) < 2 or lanes < 2 or extent(axes[-1]) < 2:
        return None
    last = axes[-1].var
    for read in (r for r in reads if r.children):
        *front, along = read.children
        if any(mentions(index, last) for index in front):
            for axis in axes[:-1]:
                if along is axis.var and extent(axis) >= _LEAST_ROWS:
                    return axis
    return None


def schedule_transposed(
    knobs: StageKnobs, schedule: Schedule, tensor: te.Tensor, rows: Any, seconds: float
) -> None:
    """Compute a stage in blocks of tiles, `rows` being the axis from `other_axis`."""
    stage, axes = schedule[tensor], list(tensor.op.axis)
    columns = axes[-1]
    height, length = extent(rows), extent(columns)
    most = lanes_in(knobs.target, tensor.dtype)
    lanes, most = min(most, length), 1 << int(math.log2(min(height, most, _MOST_ROWS)))
    # Half a line of each row, where rows of what is read begin within lines.
    line = height * dtypes.itemsize(tensor.dtype) % knobs.target.vector_bytes
    heights = [most, most // 2] if most > 1 else [most]
    likely = min(most, max(most // 2, 2)) if line else most
    tile = knobs.define_knob("tile_rows", heights, likely)
    # What is stored past the caches need not be written in order, so that the reads are.
    streamed = has_whole_lines(tensor) and outlasts_caches(knobs.target, tensor, [tensor])
    front = [a for a in axes if a is not rows and a is not columns]
    tiles = math.ceil(height / likely), math.ceil(length / lanes)
    long = _likely_length(math.prod(map(extent, front)), *(tiles if streamed else tiles[::-1]))
    tall, wide = (long, _SHORT) if streamed else (_SHORT, long)
    block_rows = knobs.define_knob("block_rows", list(_BLOCKS), tall)
    block_columns = knobs.define_knob("block_columns", list(_BLOCKS), wide)
    order = knobs.define_knob("order", ["columns", "rows"], "rows" if streamed else "columns")
    outer, u = stage.split(rows, factor=tile)
    across, v = stage.split(columns, factor=lanes)
    outer, down = stage.split(outer, factor=block_rows)
    across, right = stage.split(across, factor=block_columns)
    within = [down, right] if order == "columns" else [right, down]
    stage.reorder(*front, outer, across, *within, u, v)
    stage.unroll(u)
    stage.vectorize(v)
    if has_whole_lines(tensor) and is_streamed(knobs, schedule, tensor, [tensor]):
        stage.pragma(v, "nontemporal_store")
    blocks = te.ceildiv(height, tile * block_rows) * te.ceildiv(length, lanes * block_columns)
    share(
        knobs, stage, stage.fuse(*front, outer, across),
        math.prod(map(extent, front)) * blocks, seconds,
    )  # fmt: skip


def _likely_length(batches: int, along: int, across: int) -> int:
    """Return how many tiles a block has by default along the axis that is accessed in order.

    Memory is read ahead, or lines of the cache are filled, where a block goes on for long.
    """
    others = batches * math.ceil(across / _SHORT)
    fit = [n for n in _BLOCKS if n >= _SHORT and others * math.ceil(along / n) >= _TASKS]
    return max(fit, default=_SHORT)
