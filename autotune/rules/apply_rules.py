"""Applies the schedule rules to a computation, in their order.

================================  ================================================================
`softmax_exponents`               exponents that cannot be positive are bounded by 0
`inline`                          element-wise stages are computed where they are read
`scans.associative_scans`         scans have columns side by side, or blocks of steps
`scans.cells`                     other scans have tasks of columns, and tiles in each step
`reductions.short_rows`           stages that share short rows have a row in each lane of vectors
`contractions.register_tiles`     contractions have register tiles over packed panels
`reductions.split_reductions`     long reductions with few results have parts
`reductions.vector_partial_sums`  reductions along rows have partial results in vectors
`reductions.windows`              windows apart are reduced along columns, then along rows
`reductions.rows`                 stages that share rows are computed a row at a time, in vectors
`transposed_tiles`                stages that read along another axis have tiles in registers
`threads`                         loops are shared among threads
================================  ================================================================

For GPUs `rules.gpu` has rules of its own, and a table of their knobs.

Rules look at axes, reads and sizes, never at names, so that the same computation has the same space
whatever its tensors are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from autotune import te
from autotune.errors import UsageError
from autotune.rules.contractions.contraction import contractions
from autotune.rules.contractions.packed_panels import Panels
from autotune.rules.contractions.register_tiles import schedule_tiles, tiles
from autotune.rules.gpu.gpu_rules import gpu_schedule
from autotune.rules.inline import inlined_stages
from autotune.rules.knob_definer import Effort, KnobDefiner, LimitedKnobs, StageKnobs
from autotune.rules.reductions.rows import RowLoops
from autotune.rules.reductions.short_rows import ShortRows
from autotune.rules.reductions.split_reductions import (
    column_tasks,
    joined,
    partial_results,
    parts_knob,
    result_count,
    runs_along_columns,
    schedule_columns,
    sum_parts,
)
from autotune.rules.reductions.vector_partial_sums import LaneReduction, lanes_of, runs_along_rows
from autotune.rules.reductions.windows import columns_first
from autotune.rules.rewrite_graph import rewrite, with_ordered_reductions
from autotune.rules.scans.associative_scans import ScanSeries
from autotune.rules.scans.cell_loops import ScanCells
from autotune.rules.softmax_exponents import with_cheap_exponents
from autotune.rules.softmax_maxima import with_plain_maxima
from autotune.rules.stage_graph import (
    ends_in,
    extent,
    has_windows_apart,
    is_open,
    iterations,
    length_of,
    open_sizes,
    readings,
    row_groups,
    with_axes_merged,
    written_out,
)
from autotune.rules.threads import lanes_in, serial_seconds
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import ComputeOp, producers_first

#: Largest number of groups with a knob for their placement; each doubles the traces.
_CHOICES: Final = 2

#: Number of contractions, those with the most work, that have all tile knobs; the same if there
#: are more, which need some knobs, too.
_TUNED: Final = 3
_TUNED_OF_MANY: Final = 2


def schedule(
    cfg: KnobDefiner, outputs: Sequence[te.Tensor], constants: Sequence[te.Tensor] = ()
) -> Schedule:
    """Return a schedule of any computation, whose decisions are knobs.

    Parameters
    ----------
    cfg
        Where knobs are defined.
    outputs
        The tensors to compute.
    constants
        Inputs that do not change from call to call: they may be laid out anew for free.

    Returns
    -------
    Schedule
        Its operations take the place of those given; see `scheduled_outputs`.

    Knobs:

    - `vector`: the vectorised axis of a contraction.
    - `pack`: whether an operand that lies along the vectors is packed all the same.
    - `tile_rows`, `tile_outer_rows`, `tile_vectors`: its register tile: elements along other axes,
      and vectors along the vectorised one.
    - `block_rows`, `block_columns`, `order`: tiles that one task computes, and which of them come
      first.
    - `unroll`: steps of the reduction that are unrolled.
    - `partial_vectors`: for reductions along rows: vectors of partial results.
    - `parts`: for long reductions with few results: the number of parts that are reduced first.
      With one part, a reduction along rows is like any other, and stages with the same rows may be
      computed row by row (`at`).
    - `stores`: whether a large result is stored past the caches ("streamed").
    - `lanes`: for other stages: elements in a vector.
    - `scan`: how a scan is computed: "steps" (columns are divided among threads, and each computes
      all steps), "tiles" (the same, but elements are copied to the result after all steps of some
      columns), "blocks" (the steps are divided, too, and the effects of blocks are computed first),
      "vectors" (along rows: the elements of one row in vectors) or "parts" (the same, in
      `scan_parts` parts of a row, of which all but the last are summed first).
    - `scan_width`, `scan_lanes`, `scan_rows`: vectors of columns of a task, elements of a vector,
      rows of a task.
    - `step_columns`: for other scans: neighbouring columns that a task computes together.
    - `step_rows`, `step_vectors`: for contractions in steps: rows and vectors of a tile in
      registers.
    - `scan_unroll`, `scan_block`: steps that are unrolled, and those of a block.
    - `scan_stream`, `scan_ahead`: whether the result is stored past the caches, and the prefetch
      distance in steps.
    - `at`: for stages that share rows: whether they are computed row by row.
    - `row_vectors`: for stages that share short rows: whether vectors are "along" rows or "across"
      them, with a row in each lane.
    - `block_vectors`: for these: vectors of rows that each stage computes before the next one.
    - `rows_at_once`: for windows in rows: rows whose columns are reduced before the windows are.
    - `threads`: the number of parts of a loop that threads share; see `rules/threads.py`.

    Raises
    ------
    UsageError
        If a size is known only when the function is called, and nothing says what is likely, or
        the stage is no product and has no elements of its own; see docs/dispatch.md.
    """
    cfg = LimitedKnobs(cfg)
    _check_sizes(outputs, on_cpu=cfg.target.gpu is None)
    outputs = with_ordered_reductions(outputs)
    if cfg.target.gpu is not None:
        return gpu_schedule(cfg, outputs)
    outputs = with_plain_maxima(cfg.target, with_cheap_exponents(cfg.target, outputs))
    return _Rules(cfg, outputs, constants).schedule


def scheduled_outputs(schedule: Schedule, outputs: Sequence[te.Tensor]) -> list[te.Tensor]:
    """Return the tensors of a schedule that take the place of the outputs that it was made for."""
    ops = list(dict.fromkeys(t.op for t in outputs))
    return [schedule.outputs[ops.index(t.op)].output(t.value_index) for t in outputs]


def _check_sizes(outputs: Sequence[te.Tensor], on_cpu: bool) -> None:
    """Raise UsageError if a computation has sizes from `te.var` that rules know too little of."""
    for op in producers_first([t.op for t in outputs]):
        for var in open_sizes(op):
            if not on_cpu:
                raise UsageError(
                    f"{op.name!r} has the open size {var.name!r}: on GPUs a computation without a "
                    "schedule needs sizes that are numbers"
                )
            if var.likely is None:
                raise UsageError(
                    f"{op.name!r} has the size {var.name!r} from te.var: a computation without "
                    "a schedule needs sizes that are numbers, such as arguments of its function, "
                    f"or what is likely, te.var({var.name!r}, likely=512)"
                )


class _Rules:
    """The knobs of a computation, being defined, and the schedule that they make."""

    def __init__(
        self, cfg: KnobDefiner, outputs: Sequence[te.Tensor], constants: Sequence[te.Tensor]
    ) -> None:
        self.cfg = cfg
        self.constants = frozenset(constants)
        ops = producers_first([t.op for t in outputs])
        self.series = ScanSeries(cfg, ops, outputs)
        self.inlined = inlined_stages(outputs, self.series.scans)
        plain = [t for op in ops if isinstance(op, ComputeOp) for t in op.outputs]
        self.numbers = {
            t: number for number, t in enumerate((t for t in plain if t not in self.inlined), 1)
        }
        self.cells = ScanCells(cfg, ops, outputs, self.inlined, self.series.scans)
        self.short = ShortRows(cfg, outputs, self.inlined, self.constants, self.numbers)
        self.efforts = _efforts([t for t in plain if t.op not in self.cells.parts])
        self.panels: list[Panels] = []
        self.lanes: dict[te.Tensor, LaneReduction] = {}
        self.joined: dict[te.Tensor, te.Tensor] = {}
        self.columns: dict[te.Tensor, tuple[te.Tensor, Any]] = {}
        made = rewrite(outputs, self.refine, self.series.refine_scan, self.cells.refine)
        self.numbers |= {
            stage: self.numbers[old] for stage, old in made.origin.items() if old in self.numbers
        }
        new = list(dict.fromkeys(t.op for t in made.outputs))
        self.schedule: Schedule = te.create_schedule(new)
        for stage in self.schedule.stages:
            if stage.op.output() in self.inlined:
                stage.compute_inline()
        apart = self.short.apply(self.schedule)
        apart += [*self.tiles(apart), *self.series.stages, *self.columns]
        self.series.apply(self.schedule)
        apart += self.cells.apply(self.schedule, apart)
        for tensor, (whole, parts) in self.columns.items():
            knobs = StageKnobs(cfg, self.numbers[tensor])
            schedule_columns(knobs, self.schedule, tensor, whole, parts)
        stages = readings(self.schedule)
        loops = RowLoops(cfg, self.schedule, stages, self.lanes, self.joined, self.numbers)
        split = set(self.joined.values())
        for lanes in {own.result: own for own in self.lanes.values()}.values():
            if lanes.whole in split:
                loops.apart(lanes.result, serial_seconds(cfg.target, [lanes.whole]))
                apart += lanes.stages
        choices = 0
        for group in row_groups(self.schedule, stages, apart):
            choices += loops.apply(group, choices < _CHOICES)

    def refine(self, tensor: te.Tensor, plain: te.Tensor) -> Sequence[te.Tensor]:
        """Return the stages of a reduction: in tiles, in lanes, or unchanged."""
        if plain in self.inlined:
            self.inlined.add(tensor)
        if plain in self.series.results:
            return self.series.refine(tensor, plain)
        if plain.op in self.cells.parts:
            return self.cells.refine(tensor, plain)
        if plain in self.short.stages:
            self.short.stages[plain] = tensor
            return (tensor,)
        if not tensor.op.reduce_axis or not iterations(plain):
            return (tensor,)
        if open_sizes(tensor.op):
            return self.open_stages(tensor, plain)
        tensor = with_axes_merged(written_out(tensor, self.inlined))
        knobs = StageKnobs(self.cfg, self.numbers[plain])
        width = lanes_in(self.cfg.target, tensor.dtype)
        if runs_along_columns(tensor, width):
            return self.column_stages(knobs, tensor)
        if has_windows_apart(tensor):
            return columns_first(tensor) or (tensor,)
        stages = self.tile_stages(knobs, tensor, plain)
        if stages:
            return stages
        if not runs_along_rows(tensor, width):
            return (tensor,)
        counts = (4, 1, 2, 8)
        length = extent(tensor.op.reduce_axis[-1])
        likely = next(n for n in (4, 2, 1) if n * width <= length)
        vectors = knobs.define_knob("partial_vectors", counts, default=likely)
        parts = parts_knob(knobs, tensor, result_count(tensor))
        if parts is None or parts <= 1:
            lanes = lanes_of(tensor, width, vectors)
            self.lanes |= dict.fromkeys(lanes.stages, lanes)
            return lanes.stages
        part = partial_results(tensor, parts, max(counts) * width)
        lanes = lanes_of(part, width, vectors, tensor)
        self.lanes |= dict.fromkeys(lanes.stages, lanes)
        return *lanes.stages, self.total(tensor, lanes.result)

    def open_stages(self, tensor: te.Tensor, plain: te.Tensor) -> Sequence[te.Tensor]:
        """Return the stages of a reduction with sizes that only calls know."""
        tensor = with_axes_merged(written_out(tensor, self.inlined))
        stages = self.tile_stages(StageKnobs(self.cfg, self.numbers[plain]), tensor, plain)
        if not stages:
            names = ", ".join(sorted({var.name for var in open_sizes(tensor.op)}))
            raise UsageError(
                f"{plain.op.name!r} has open sizes ({names}): of the reductions only products may"
            )
        return stages

    def tile_stages(
        self, knobs: StageKnobs, tensor: te.Tensor, plain: te.Tensor
    ) -> Sequence[te.Tensor]:
        """Return the stages of a contraction in tiles; none if it is not one."""
        effort = self.efforts[plain]
        is_one = bool(contractions(tensor, lanes_in(self.cfg.target, tensor.dtype), self.constants))
        parts = sum_parts(self.cfg.target, tensor) if is_one else 1
        is_even = not is_open(length_of(tensor.op.reduce_axis[0]))
        whole = tensor if parts == 1 else partial_results(tensor, parts, 1, is_even)
        panels = tiles(knobs, whole, effort, self.constants)
        if panels is None:
            return () if parts == 1 else (tensor,)
        self.panels.append(panels)
        self.numbers[panels.result] = self.numbers[plain]
        self.efforts[panels.result] = effort
        made = *panels.packed, *panels.converted, panels.tile, *panels.folds, panels.result
        return made if parts == 1 else (*made, self.total(tensor, panels.result))

    def column_stages(self, knobs: StageKnobs, tensor: te.Tensor) -> Sequence[te.Tensor]:
        """Return the stages of a reduction along columns."""
        parts = parts_knob(knobs, tensor, column_tasks(tensor))
        if parts is None:
            self.columns[tensor] = tensor, 1
            return (tensor,)
        part = partial_results(tensor, parts, 1)
        self.columns[part] = tensor, parts
        return part, self.total(tensor, part)

    def total(self, tensor: te.Tensor, parts: te.Tensor) -> te.Tensor:
        """Return a reduction computed from the results of its parts."""
        total = joined(tensor, parts)
        self.joined[total] = tensor
        return total

    def tiles(self, taken: Sequence[te.Tensor]) -> list[te.Tensor]:
        """Schedule contractions in tiles; return all stages that belong to them.

        `taken`: stages that have a schedule already.
        """
        apart: list[te.Tensor] = []
        copies = [t for panels in self.panels for t in (*panels.packed, *panels.converted)]
        for panels in self.panels:
            effort = self.efforts[panels.result]
            end = ends_in(panels.result, readings(self.schedule))
            others = (*taken, *apart, *copies, *self.lanes)
            is_free = end is not None and not any(end is t for t in others)
            is_free = is_free and end is not None and self.schedule[end].scan is None
            if end is None or not is_free or self.schedule[panels.result].is_output:
                end = panels.result
            else:
                self.schedule[panels.result].compute_inline()
            apart += [*panels.packed, *panels.converted, panels.tile, *panels.folds, end]
            knobs = StageKnobs(self.cfg, self.numbers[panels.result])
            own = [t for made in self.panels for t in (made.tile, *made.folds, made.result)]
            own += [*taken, *apart, *self.lanes, *self.joined, *self.columns]
            own += self.series.stages
            apart += schedule_tiles(knobs, self.schedule, panels, end, effort, own)
        return apart


def _efforts(plain: Sequence[te.Tensor]) -> dict[te.Tensor, Effort]:
    """Return the effort (number of knobs) of each contraction."""
    contractions = [t for t in plain if t.op.reduce_axis]
    contractions.sort(key=iterations, reverse=True)
    tuned = _TUNED if len(contractions) <= _TUNED else _TUNED_OF_MANY
    efforts = [Effort.ALL, *[Effort.NUMBERS] * (tuned - 1), *[Effort.FEW] * len(contractions)]
    return dict(zip(contractions, efforts, strict=False))
