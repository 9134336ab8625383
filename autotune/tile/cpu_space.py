"""The search space of any Tile function on CPUs: tiles and vectors that its axes allow.

Contractions are cut into register tiles over packed panels where an axis can lie in vectors;
everything else is scheduled as by `plain_schedule`, with knobs for its lanes and threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotune import te
from autotune.ir import dtypes
from autotune.schedule.schedule import Schedule
from autotune.tile.panels import Panels, extent, panels_of, roles_of
from autotune.tile.plain import is_contiguous, is_fused, is_worth_threads
from autotune.tile.program import Program
from autotune.tile.to_te import Tensors, to_te

if TYPE_CHECKING:
    from autotune.trace.knobs import Knobs


def cpu_schedule(cfg: Knobs, program: Program) -> tuple[Schedule, Tensors]:
    """Define the knobs of a program and return the schedule that they make.

    Knobs
    -----
    NAME_vector
        The axis of contraction NAME that lies in vectors.
    NAME_rows, NAME_columns
        Its register tile: elements along another axis, and along that of the vectors.
    NAME_block_rows, NAME_block_columns, NAME_order
        Tiles that one task computes, and which of them come first.
    NAME_unroll
        Steps of the reduction that are written out.
    NAME_lanes
        Of other statements: elements in a vector.
    """
    tiled: dict[te.Tensor, Panels] = {}

    def refine(tensor: te.Tensor) -> tuple[te.Tensor, ...]:
        panels = _tiles(cfg, tensor)
        if panels is None:
            return (tensor,)
        for part in (*panels.packed, panels.tile, panels.result):
            tiled[part] = panels
        return (*panels.packed, panels.tile, panels.result)

    tensors = to_te(program, refine)
    schedule: Schedule = te.create_schedule([t.op for t in tensors.outputs])
    for tensor in tensors.stages:
        panels = tiled.get(tensor)
        if panels is not None:
            if tensor is panels.result:
                _schedule_tiles(cfg, schedule, panels)
        elif is_fused(schedule, tensor, tensors.outputs):
            schedule[tensor].compute_inline()
        else:
            _loops(cfg, schedule, tensor)
    return schedule, tensors


def _lanes(cfg: Knobs, dtype: str) -> int:
    return max(1, cfg.target.vector_bytes // dtypes.itemsize(dtype))


# -- contractions in tiles ---------------------------------------------------------------------


def _tiles(cfg: Knobs, tensor: te.Tensor) -> Panels | None:
    """Define the knobs of a contraction's tiles; None if no axis of it can lie in vectors."""
    lanes = _lanes(cfg, tensor.dtype)
    found = {str(tensor.op.axis[r.vector].var): r for r in roles_of(tensor, lanes)}
    if not found:
        return None
    roles = found[cfg.define_knob(f"{tensor.name}_vector", list(found))]
    axes, ways = list(tensor.op.axis), list(found.values())
    length, longest = extent(axes[roles.vector]), max(extent(axes[r.vector]) for r in ways)
    wide = cfg.target.vector_bytes >= 64
    counts = [n for n in ([4, 1, 2, 3] if wide else [2, 1, 3, 4]) if n * lanes <= longest]
    columns = cfg.define_knob(f"{tensor.name}_columns", [n * lanes for n in counts])
    cfg.add_constraint(columns <= length, "a tile is no wider than the result")
    if roles.rows is None:
        return panels_of(tensor, roles, 1, columns)
    height, tallest = extent(axes[roles.rows]), max(extent(axes[r.rows or 0]) for r in ways)
    sizes = [n for n in (6, 4, 3, 2, 1, 5, 7, 8, 10, 12, 14, 16) if n <= tallest]
    rows = cfg.define_knob(f"{tensor.name}_rows", sizes)
    cfg.add_constraint(rows <= height, "a tile is no taller than the result")
    registers = 32 if wide else 16
    cfg.add_constraint(
        rows * columns <= (registers - 2) * lanes, "the accumulators fit in the registers"
    )
    return panels_of(tensor, roles, rows, columns)


def _schedule_tiles(cfg: Knobs, s: Schedule, panels: Panels) -> None:
    """Compute tiles in registers, blocks of them in tasks, and panels before all that."""
    result, roles = panels.result, panels.roles
    name, lanes = result.name, _lanes(cfg, result.dtype)
    columns = cfg[f"{name}_columns"]
    rows = 1 if roles.rows is None else cfg[f"{name}_rows"]
    unroll = cfg.define_knob(f"{name}_unroll", [4, 1, 2, 8])
    acc = s.cache_write(panels.tile, "local")

    axes = list(s[result].op.axis)
    length = extent(axes[roles.vector])
    vo, vi = s[result].split(axes[roles.vector], factor=columns)
    block_columns = cfg.define_knob(f"{name}_block_columns", [1, 2, 4, 8, 16])
    cfg.add_constraint(
        block_columns * columns <= max(4 * lanes, length), "a block is no wider than the result"
    )
    vo, vm = s[result].split(vo, factor=block_columns)
    others = [a for n, a in enumerate(axes) if n not in (roles.vector, roles.rows)]
    if roles.rows is None:
        outer, middle, inner = [*others, vo], [vm], [vi]
    else:
        height = extent(axes[roles.rows])
        uo, ui = s[result].split(axes[roles.rows], factor=rows)
        block_rows = cfg.define_knob(f"{name}_block_rows", [4, 1, 2, 8, 16, 32])
        cfg.add_constraint(
            block_rows * rows <= max(16, height), "a block is no taller than the result"
        )
        uo, um = s[result].split(uo, factor=block_rows)
        across = cfg.define_knob(f"{name}_order", ["columns", "rows"]) == "columns"
        front = [vo, uo] if across else [uo, vo]
        outer, middle = [*others, *front], [vm, um]
        inner = [ui, vi] if roles.vector == len(axes) - 1 else [vi, ui]
    s[result].reorder(*outer, *middle, *inner)
    s[result].parallel(s[result].fuse(*outer) if len(outer) > 1 else outer[0])
    along = roles.vector == len(axes) - 1 and length % columns == 0
    if along and (roles.rows is None or extent(axes[roles.rows]) % rows == 0):
        for axis in inner[:-1]:
            s[result].unroll(axis)
        _vectors(s[result], vi, lanes)

    for stage in (s[panels.tile], s[acc]):
        stage.compute_at(s[result], middle[-1])
        own = list(stage.op.axis)
        if stage is s[acc]:
            reduced = list(stage.op.reduce_axis)
            ko, ki = stage.split(reduced[-1], factor=unroll)
            stage.reorder(*own[: len(axes)], *reduced[:-1], ko, ki, *own[len(axes) :])
            if extent(reduced[-1]) % unroll == 0:
                stage.unroll(ki)
        for axis in own[len(axes) : -1]:
            stage.unroll(axis)
        _vectors(stage, own[-1], lanes)
    for panel in panels.packed:
        s[panel].parallel(s[panel].op.axis[0])
        _vectors(s[panel], s[panel].op.axis[-1], lanes)


def _vectors(stage: Any, axis: Any, lanes: int) -> None:
    """Write an axis out as whole vectors."""
    outer, inner = stage.split(axis, factor=lanes)
    stage.unroll(outer)
    stage.vectorize(inner)


# -- everything else ---------------------------------------------------------------------------


def _loops(cfg: Knobs, s: Schedule, tensor: te.Tensor) -> None:
    """Compute a stage by itself: its front in parallel, its last dimension in vectors."""
    stage, axes = s[tensor], list(tensor.op.axis)
    if not axes:
        return
    reduced, inner = list(tensor.op.reduce_axis), []
    lanes = _lanes(cfg, tensor.dtype)
    if lanes > 1 and extent(axes[-1]) >= lanes and is_contiguous(tensor):
        width = cfg.define_knob(f"{tensor.name}_lanes", [lanes, 2 * lanes, 4 * lanes])
        outer, vector = stage.split(axes.pop(), factor=width)
        axes.append(outer)
        inner.append(vector)
        stage.vectorize(vector)
    if reduced:
        stage.reorder(*axes, *reduced, *inner)
    if is_worth_threads(tensor):
        front = axes[: max(len(axes) - 1, 1)]
        stage.parallel(stage.fuse(*front) if len(front) > 1 else front[0])
