"""Writes the loops over the tiles of a contraction's result: blocks of tiles, shared among threads.

::

    for (i)                          parallel (block)
      for (j)                          for (tile of the block)
        C[i, j] = ...        ->          unrolled (row of the tile)
                                           vectorized (column of the tile)
                                             C[i, j] = ...

In: the stage that is computed at the tiles, the contraction in tiles, and where knobs are defined.
Out: the loop over tasks, and the innermost loop over tiles; sums and panels are computed in these.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.axes import IterVar
from autotune.lowering.vector.size_cases import even_part
from autotune.rules.contractions.contraction import AxisGroup, TiledContraction
from autotune.rules.contractions.packed_panels import Panels
from autotune.rules.contractions.panel_loops import split_in_vectors
from autotune.rules.knob_definer import Effort, KnobDefiner
from autotune.rules.stage_graph import is_open
from autotune.rules.streamed_stores import LINE_BYTES, is_streamed, outlasts_caches
from autotune.rules.threads import bytes_of, memory_seconds, operation_seconds, share, share_open
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage

#: For results beyond the caches: how much longer than the stores the operations may take.
LIGHT_SUMS: Final = 4.0

#: Where only calls know the sizes: blocks along rows that a call has if blocks have several tiles
#: of rows, or how many blocks along columns it has for each tile of rows in a block.
_BLOCKS_HIGH: Final = 8
_BLOCKS_WIDE: Final = 4
#: And how many tiles of columns it has for each in a block, if a block has all rows.
_TILES_WIDE: Final = 8


@dataclass(slots=True)
class _TileLoops:
    """The loops of a stage whose axes are split into tiles."""

    #: Loops around all tiles: axes of length 1, and batches.
    outer: list[IterVar]
    #: Lengths of loops that tasks share, integers or expressions; 1 for those that are missing.
    lengths: dict[IterVar, Any]
    #: The loop over tiles along the vectorised axis; None if that axis is reduced.
    columns: IterVar | None = None
    #: The loops over tiles along the other groups.
    rows: list[IterVar] = field(default_factory=list)
    #: Number of tiles along `rows`: an integer or an expression, and for likely sizes.
    height: Any = 1
    likely_height: Any = 1
    #: The loop inside of a tile along each group.
    inner: dict[AxisGroup, IterVar] = field(default_factory=dict)

    def ends(self, way: TiledContraction) -> list[IterVar]:
        """Return the loops inside of a tile, in the order of the result's axes."""
        return [self.inner[g] for g in way.groups if g in self.inner]


def write_blocks(
    cfg: KnobDefiner, s: Schedule, stage: Stage, panels: Panels, effort: Effort
) -> tuple[IterVar, IterVar]:
    """Write the loops over blocks of tiles; return that over tasks, and the one over tiles."""
    way, loops = panels.way, _split_in_tiles(stage, panels)
    blocks: list[IterVar] = []
    middle: list[IterVar] = []
    if loops.columns is not None:
        count = _block_columns(cfg, panels, effort)
        block, tile = stage.split(loops.columns, factor=count)
        loops.lengths[block] = te.ceildiv(te.ceildiv(way.vector.length, panels.columns), count)
        blocks.append(block)
        middle.append(tile)
    if loops.rows:
        rows = stage.fuse(*loops.rows)
        count = _block_rows(cfg, panels, loops.likely_height, effort)
        if any(is_open(g.length) for g in way.rows):
            if panels.in_tasks:  # more blocks would pack more
                count = even_part(loops.height, count)
            else:
                count = _rows_of_call(count, loops.height, *(loops.lengths[b] for b in blocks))
        block, tile = stage.split(rows, factor=count)
        loops.lengths[block] = te.ceildiv(loops.height, count)
        blocks.append(block)
        middle.append(tile)
    if len(blocks) == 2 and _order(cfg, panels, effort) == "rows":
        blocks.reverse()
    ends = loops.ends(way)
    is_last = ends[-1:] == [loops.inner.get(way.vector)]
    if not is_last and way.vector in loops.inner:
        ends.remove(loops.inner[way.vector])
        ends.insert(0, loops.inner[way.vector])
    shared = [*loops.outer, *blocks]
    stage.reorder(*shared, *middle, *ends)
    task = _share_blocks(cfg, stage, way, {axis: loops.lengths.get(axis, 1) for axis in shared})
    for axis in ends[:-1] if is_last else ends[1:]:
        stage.unroll(axis)
    if is_last:
        _vectorize_row(cfg, s, stage, panels, ends[-1])
    elif way.sums is not None:
        stage.unroll(ends[0])
    return task, middle[-1]


def _split_in_tiles(stage: Stage, panels: Panels) -> _TileLoops:
    """Split the axes of a stage into tiles, and order them: outer loops, tiles, inner loops."""
    way, axes = panels.way, list(stage.op.axis)
    groups = [g for g in way.groups if not (way.sums is not None and g is way.vector)]
    outer = [axes[n] for g in groups for n in g.places if n not in g.long]
    stage.reorder(*outer, *(axes[n] for g in groups for n in g.long))
    fused = {g: stage.fuse(*(axes[n] for n in g.long)) for g in groups}
    outer += [fused[g] for g in way.batches]
    loops = _TileLoops(outer, {fused[g]: g.length for g in way.batches})
    for group in (g for g in groups if g in way.rows):
        if group in panels.rows:
            tile, loops.inner[group] = stage.split(fused[group], factor=panels.rows[group])
            loops.rows.append(tile)
            loops.height = loops.height * te.ceildiv(group.length, panels.rows[group])
            likely = te.ceildiv(group.size, panels.most_rows[group])
            loops.likely_height = loops.likely_height * likely
        else:
            loops.rows.append(fused[group])
            loops.height = loops.height * group.length
            loops.likely_height = loops.likely_height * group.size
    tiles: list[IterVar] = []
    if way.sums is None:
        loops.columns, loops.inner[way.vector] = stage.split(
            fused[way.vector], factor=panels.columns
        )
        tiles.append(loops.columns)
    stage.reorder(*outer, *tiles, *loops.rows, *loops.ends(way))
    return loops


def _block_columns(cfg: KnobDefiner, panels: Panels, effort: Effort) -> Any:
    """Define how many tiles along the vectorised axis a block has."""
    way, count = panels.way, 1
    if effort:
        widths, likely = panels.choices.block_columns, panels.choices.likely_columns
        count = cfg.define_knob("block_columns", widths, default=likely)
        cfg.add_constraint(
            (count - 1) * panels.most_columns < way.vector.size,
            "a block is no wider than the result",
        )
    if not is_open(way.vector.length) or panels.streams:
        return count
    if cfg.target.vector_bytes < 64:
        count = te.max(count, 2)  # masks of the last columns take vector registers
    if panels.in_tasks:
        count = _columns_of_call(count, te.ceildiv(way.vector.length, panels.columns))
    return count


def _block_rows(cfg: KnobDefiner, panels: Panels, likely_height: Any, effort: Effort) -> Any:
    """Define how many tiles along the other axes a block has.

    `likely_height`: about how many the result has.
    """
    heights, likely = panels.choices.block_rows, panels.choices.likely_rows
    if not effort:
        return likely if likely < 2 * likely_height else 1
    count = cfg.define_knob("block_rows", heights, default=likely)
    cfg.add_constraint(
        (count == 1) | (count < 2 * likely_height), "a block is no taller than the result"
    )
    return count


def _columns_of_call(most: Any, wide: Any) -> Any:
    """Return how many tiles of columns a block of all rows has: one if a call has few of them.

    `wide`: number of tiles along columns.
    """
    return te.max(1, te.min(most, wide // _TILES_WIDE))


def _rows_of_call(most: Any, height: Any, wide: Any = 1) -> Any:
    """Return how many tiles of rows a block of a call has: few if there are few blocks.

    Else threads have unequal parts. Where rows are many blocks wide they share columns instead.

    `height`, `wide`: number of tiles along rows, and of blocks along columns.
    """
    return te.max(1, te.min(most, te.max(height // _BLOCKS_HIGH, wide // _BLOCKS_WIDE)))


def _order(cfg: KnobDefiner, panels: Panels, effort: Effort) -> str:
    """Define which blocks follow each other: those along "columns" are outside, or "rows" are."""
    way = panels.way
    past = panels.streams and outlasts_caches(cfg.target, way.whole, [way.whole], LIGHT_SUMS)
    order = "columns" if _is_wide(way) and not past else "rows"
    if effort is Effort.ALL:
        order = cfg.define_knob("order", ["columns", "rows"], default=order)
    return order


def _share_blocks(
    cfg: KnobDefiner, stage: Stage, way: TiledContraction, nest: dict[IterVar, Any]
) -> IterVar:
    """Share a nest of loops among threads; return the loop over the iterations of one task.

    `nest`: the loops, outer ones first, with their lengths.
    """
    arrays = dict.fromkeys((way.whole, *(read.tensor for read in way.operands.values())))
    seconds = max(operation_seconds(cfg.target, [way.whole]), memory_seconds(arrays))
    if any(map(is_open, nest.values())):
        # One loop in their place would divide by numbers that are known only at the call.
        return share_open(cfg, stage, list(nest), seconds, way.whole)
    length = functools.reduce(operator.mul, nest.values())
    # Not a plain integer: the loops are the same then for any values of the knobs.
    length = te.const(length, dtypes.INDEX) if isinstance(length, int) else length
    return share(cfg, stage, stage.fuse(*nest), length, seconds)


def _vectorize_row(
    cfg: KnobDefiner, s: Schedule, stage: Stage, panels: Panels, row: IterVar
) -> None:
    """Vectorise the loop along a row of a tile, the innermost one of a stage."""
    way = panels.way
    if not panels.streams:
        split_in_vectors(stage, row, way.lanes)
        return
    end = stage.op.output()
    whole = max(way.lanes, LINE_BYTES // dtypes.itemsize(end.dtype))
    lane = stage.split(row, factor=whole)[1]
    stage.vectorize(lane)
    if is_streamed(cfg, s, end, [way.whole], LIGHT_SUMS):
        stage.pragma(lane, "nontemporal_store")


def _is_wide(way: TiledContraction) -> bool:
    """Whether the operands in vectors are larger than those that rows read."""
    own = dict.fromkeys(way.operands.values())
    sizes = [(way.uses(r, way.vector), bytes_of(r.tensor)) for r in own]
    return sum(n for wide, n in sizes if wide) >= sum(n for wide, n in sizes if not wide)
