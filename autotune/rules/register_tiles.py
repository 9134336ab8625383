"""Knobs and loops of contractions in register tiles on CPUs."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Final

from autotune import te
from autotune.ir.axes import IterVar
from autotune.rules.flat import PARALLEL, lanes_in
from autotune.rules.knob_definer import KnobDefiner
from autotune.rules.packed_panels import Panels, panels_of, roles_of
from autotune.rules.stage_graph import extent
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage

#: Largest number of choices of the vectorised axis.
_VECTORS: Final = 2

#: Vectors of a result from which on blocks of four tiles leave enough tasks for some threads: 16
#: blocks of 4 tiles, each of 6 rows of 4 vectors.
_LARGE: Final = 16 * 4 * 6 * 4


class Effort(IntEnum):
    """Number of knobs of a contraction; each multiplies the size of the space and the traces."""

    FEW = 0  # the width of its tiles
    NUMBERS = 1  # no axes or orders to choose
    ALL = 2


def tiles(cfg: KnobDefiner, tensor: te.Tensor, effort: Effort) -> Panels | None:
    """Define the knobs of a contraction's tiles; None if no axis can be vectorised."""
    lanes = lanes_in(cfg.target, tensor.dtype)
    found = {f"axis{r.vector}": r for r in roles_of(tensor, lanes)}
    if not found:
        return None
    found = dict(list(found.items())[: _VECTORS if effort is Effort.ALL else 1])
    roles = found[cfg.define_knob("vector", list(found))]
    axes, ways = list(tensor.op.axis), list(found.values())
    length, longest = extent(axes[roles.vector]), max(extent(axes[r.vector]) for r in ways)
    wide = cfg.target.vector_bytes >= 64
    counts = [n for n in ([4, 1, 2, 3] if wide else [2, 1, 3, 4]) if n * lanes <= longest]
    columns = cfg.define_knob("tile_columns", [n * lanes for n in counts])
    cfg.add_constraint(columns <= length, "a tile is no wider than the result")
    if roles.rows is None:
        return panels_of(tensor, roles, 1, columns)
    height, tallest = extent(axes[roles.rows]), max(extent(axes[r.rows or 0]) for r in ways)
    sizes = [n for n in (6, 4, 3, 2, 1, 5, 7, 8, 10, 12, 14, 16) if n <= tallest]
    rows = cfg.define_knob("tile_rows", sizes if effort else sizes[:1])
    cfg.add_constraint(rows <= height, "a tile is no taller than the result")
    registers = 32 if wide else 16
    cfg.add_constraint(
        rows * columns <= (registers - 2) * lanes, "the accumulators fit in the registers"
    )
    return panels_of(tensor, roles, rows, columns)


def schedule_tiles(
    cfg: KnobDefiner, s: Schedule, panels: Panels, end: te.Tensor, effort: Effort
) -> list[te.Tensor]:
    """Compute tiles in registers, blocks of tiles in tasks, and panels before them.

    Parameters
    ----------
    cfg
    s
    panels
    end
        The stage computed at the tiles: the result, or its only element-wise consumer.
    effort
        How many knobs it has.

    Returns
    -------
    list of Tensor
        Stages that were added.
    """
    lanes = lanes_in(cfg.target, panels.result.dtype)
    acc = s.cache_write(panels.tile, "local")
    last = _blocks(cfg, s[end], panels, lanes, effort)
    rank = len(end.op.axis)
    for stage in (s[panels.tile], s[acc]):
        stage.compute_at(s[end], last)
        own = list(stage.op.axis)
        if stage is s[acc]:
            reduced = list(stage.op.reduce_axis)
            steps = [n for n in (4, 1, 2, 8) if extent(reduced[-1]) % n == 0]
            unroll = cfg.define_knob("unroll", steps) if effort else steps[0]
            ko, ki = stage.split(reduced[-1], factor=unroll)
            stage.reorder(*own[:rank], *reduced[:-1], ko, ki, *own[rank:])
            stage.unroll(ki)
        for axis in own[rank:-1]:
            stage.unroll(axis)
        _vectors(stage, own[-1], lanes)
    for panel, elements in zip(panels.packed, panels.copied, strict=True):
        if elements >= PARALLEL:
            first, *front = list(s[panel].op.axis)[:-2]
            s[panel].parallel(s[panel].fuse(first, *front) if front else first)
        _vectors(s[panel], s[panel].op.axis[-1], lanes)
    return [acc]


def _blocks(cfg: KnobDefiner, stage: Stage, panels: Panels, lanes: int, effort: Effort) -> IterVar:
    """Write the loops over blocks of tiles; return the innermost one over tiles."""
    roles, columns = panels.roles, panels.columns
    axes = list(stage.op.axis)
    length = extent(axes[roles.vector])
    vo, vi = stage.split(axes[roles.vector], factor=columns)
    block_columns, block_rows = 1, 1
    if effort:
        block_columns = cfg.define_knob("block_columns", [1, 2, 4, 8, 16])
        cfg.add_constraint(
            block_columns * columns <= max(4 * lanes, length), "a block is no wider than the result"
        )
    vo, vm = stage.split(vo, factor=block_columns)
    others = [a for n, a in enumerate(axes) if n not in (roles.vector, roles.rows)]
    if roles.rows is None:
        outer, middle, inner = [*others, vo], [vm], [vi]
    else:
        rows, height = panels.rows, extent(axes[roles.rows])
        uo, ui = stage.split(axes[roles.rows], factor=rows)
        across = True
        if effort:
            is_large = math.prod(map(extent, axes)) >= _LARGE * lanes
            blocks = [4, 1] if is_large else [1, 4]
            block_rows = cfg.define_knob("block_rows", [*blocks, 2, 8, 16, 32])
            cfg.add_constraint(
                block_rows * rows <= max(16, height), "a block is no taller than the result"
            )
        if effort is Effort.ALL:
            across = cfg.define_knob("order", ["columns", "rows"]) == "columns"
        uo, um = stage.split(uo, factor=block_rows)
        front = [vo, uo] if across else [uo, vo]
        outer, middle = [*others, *front], [vm, um]
        inner = [ui, vi] if roles.vector == len(axes) - 1 else [vi, ui]
    stage.reorder(*outer, *middle, *inner)
    if panels.work >= PARALLEL:
        stage.parallel(stage.fuse(*outer) if len(outer) > 1 else outer[0])
    if roles.vector == len(axes) - 1:
        for axis in inner[:-1]:
            stage.unroll(axis)
        _vectors(stage, vi, lanes)
    return middle[-1]


def _vectors(stage: Stage, axis: IterVar, lanes: int) -> None:
    """Write an axis out as whole vectors."""
    outer, inner = stage.split(axis, factor=lanes)
    stage.unroll(outer)
    stage.vectorize(inner)
