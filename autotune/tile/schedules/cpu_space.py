"""The search space of any Tile function on CPUs: tiles, vectors and rows that its axes allow.

A contraction is split into register tiles over packed panels if an output axis can be vectorised,
and its only element-wise consumer is computed at its tiles. Reductions along rows have partial
results in vectors. Statements that share rows are computed a row at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from autotune import te
from autotune.schedule.schedule import Schedule
from autotune.tile.binding.bound_program import Program
from autotune.tile.schedules.cpu_rows import RowLoops
from autotune.tile.schedules.cpu_tiles import Effort, lanes_in, schedule_tiles, tiles
from autotune.tile.schedules.default_schedule import is_fused
from autotune.tile.schedules.packed_panels import Panels
from autotune.tile.schedules.stage_graph import (
    ends_in,
    iterations,
    readings,
    row_groups,
    written_out,
)
from autotune.tile.schedules.vector_partial_sums import LaneReduction, lanes_of, runs_along_rows
from autotune.tile.to_te.program_to_te import Tensors, to_te

if TYPE_CHECKING:
    from autotune.trace.template_knobs import Knobs

#: Largest number of groups with a knob for their placement; each doubles the traces.
_CHOICES: Final = 2

#: Number of contractions, those with the most work, that have all tile knobs.
_TUNED: Final = 3


def cpu_schedule(cfg: Knobs, program: Program) -> tuple[Schedule, Tensors]:
    """Define the knobs of a program and return the schedule that they make.

    Knobs
    -----
    NAME_vector
        The vectorised axis of contraction NAME.
    NAME_rows, NAME_columns
        Its register tile: elements along another axis, and along the vectorised one.
    NAME_block_rows, NAME_block_columns, NAME_order
        Tiles that one task computes, and which of them come first.
    NAME_unroll
        Steps of the reduction that are unrolled.
    NAME_vectors
        For reductions along rows: vectors of partial results.
    NAME_lanes
        For other statements: elements in a vector.
    NAME_at, NAME_task
        For statements that share rows (NAME is the last of them): whether they are computed row by
        row, and the rows of a task.
    """
    space = _Space(cfg, program)
    return space.schedule, space.tensors


class _Space:
    """The knobs of a program, being defined, and the schedule that they make."""

    def __init__(self, cfg: Knobs, program: Program) -> None:
        self.cfg = cfg
        plain = to_te(program)
        self.fused = _fused(plain)
        self.efforts = _efforts(plain)
        self.panels: list[Panels] = []
        self.lanes: dict[te.Tensor, LaneReduction] = {}
        self.tensors = to_te(program, self.refine)
        self.schedule: Schedule = te.create_schedule([t.op for t in self.tensors.outputs])
        self.inline()
        apart = self.tiles()
        stages = readings(self.schedule)
        loops = RowLoops(cfg, self.schedule, stages, self.lanes)
        choices = 0
        for group in row_groups(self.schedule, stages, apart):
            is_choice = choices < _CHOICES
            choices += loops.apply(group, is_choice)

    def refine(self, tensor: te.Tensor) -> Sequence[te.Tensor]:
        """Return the stages of a reduction: in tiles, in lanes, or unchanged."""
        tensor = written_out(tensor, self.fused)
        panels = tiles(self.cfg, tensor, self.efforts[tensor.name])
        if panels is not None:
            self.panels.append(panels)
            return (*panels.packed, panels.tile, panels.result)
        width = lanes_in(self.cfg, tensor.dtype)
        if not runs_along_rows(tensor, width):
            return (tensor,)
        vectors = self.cfg.define_knob(f"{tensor.name}_vectors", [4, 1, 2, 8])
        lanes = lanes_of(tensor, width, vectors)
        for part in (lanes.parts, lanes.vector, lanes.result):
            self.lanes[part] = lanes
        return lanes.parts, lanes.vector, lanes.result

    def inline(self) -> None:
        """Inline the fused stages that still have readers."""
        for stage in self.schedule.stages:
            if stage.op.name in self.fused:
                stage.compute_inline()

    def tiles(self) -> list[te.Tensor]:
        """Schedule contractions in tiles; returns all stages that belong to them."""
        apart: list[te.Tensor] = []
        for panels in self.panels:
            effort = self.efforts[panels.result.name]
            end = ends_in(panels.result, readings(self.schedule))
            is_free = end is not None and not any(end is t for t in (*apart, *self.lanes))
            if end is None or not is_free or self.schedule[panels.result].is_output:
                end = panels.result
            else:
                self.schedule[panels.result].compute_inline()
            apart += [*panels.packed, panels.tile, end]
            apart += schedule_tiles(self.cfg, self.schedule, panels, end, effort)
        return apart


def _efforts(tensors: Tensors) -> dict[str, Effort]:
    """Return the effort (number of knobs) of each contraction."""
    contractions = [t for t in tensors.stages if t.op.reduce_axis]
    contractions.sort(key=iterations, reverse=True)
    efforts = [Effort.ALL, *[Effort.NUMBERS] * (_TUNED - 1), *[Effort.FEW] * len(contractions)]
    return {t.name: effort for t, effort in zip(contractions, efforts, strict=False)}


def _fused(tensors: Tensors) -> frozenset[str]:
    """Return the statements that are computed where they are read."""
    schedule: Schedule = te.create_schedule([t.op for t in tensors.outputs])
    names = []
    for tensor in tensors.stages:
        if is_fused(schedule, tensor, tensors.outputs):
            schedule[tensor].compute_inline()  # fusing makes its reader longer
            names.append(tensor.name)
    return frozenset(names)
