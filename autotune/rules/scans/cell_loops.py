"""Knobs and loops of the scans in `cells.py`: tasks of columns, and tiles in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from autotune import te
from autotune.ir.expr import Const
from autotune.ir.stmt import LoopKind
from autotune.ir.visitor import free_vars, mentions
from autotune.rules.inline import has_calls
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.rewrite_graph import parts_of
from autotune.rules.scans.cells import Cell, cell_of, is_contraction, panels_and_tile
from autotune.rules.stage_graph import extent, power_of_two, reads_in
from autotune.rules.threads import lanes_in, memory_seconds, serial_seconds, share
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Attach, Stage
from autotune.system.available_cpus import thread_count
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation

#: Registers that a tile leaves for what it reads, and its most vectors if it has several rows.
_OPERANDS: Final = 6
_WIDE: Final = 4

#: How much longer columns take whose last task has fewer of them: all have conditions.
_RAGGED: Final = 1.5


class ScanCells:
    """The scans of a graph that are no series: rewritten with it, and then scheduled."""

    def __init__(
        self,
        cfg: KnobDefiner,
        ops: Sequence[Operation],
        outputs: Sequence[te.Tensor],
        inlined: set[te.Tensor],
        series: set[te.Tensor],
    ) -> None:
        self.cfg = cfg
        scans = [op for op in ops if isinstance(op, ScanOp) and op.outputs[0] not in series]
        self._cells = [cell_of(scan, ops, outputs, inlined) for scan in scans]
        #: What these scans consist of.
        self.parts = {part for scan in scans for part in parts_of(scan)}
        self.parts |= {op for cell in self._cells for op in cell.stages}
        self._panels: list[te.Tensor] = []

    def refine(self, tensor: te.Tensor, plain: te.Tensor) -> Sequence[te.Tensor]:
        """Return what replaces a part of a scan."""
        for cell in self._cells:
            if plain.op in cell.stages and plain.op.reduce_axis and plain.op.axis:
                *panels, tile = panels_and_tile(cell, tensor)
                self._panels += panels
                assert isinstance(plain.op, ComputeOp)
                if cell.end_of(plain.op) is not None:
                    return (*panels, tile)
                copy = te.compute(tile.shape, lambda *i, tile=tile: tile[i], name=plain.name)
                return (*panels, tile, copy)
        return (tensor,)

    def apply(self, s: Schedule, done: Sequence[te.Tensor]) -> list[te.Tensor]:
        """Schedule the scans that are left; return all their stages."""
        ops = [stage.op for stage in s.stages]
        outputs = [t for stage in s.stages if stage.is_output for t in stage.outputs]
        inlined = [t for stage in s.stages if stage.attach is Attach.INLINE for t in stage.outputs]
        found: list[te.Tensor] = []
        number = 0
        for op in ops:
            if isinstance(op, ScanOp) and not any(t is op.outputs[0] for t in done):
                number += 1
                knobs = StageKnobs(self.cfg, number)
                cell = cell_of(op, ops, outputs, inlined)
                found += CellLoops(knobs, s, cell, self._panels).apply()
        return found


@dataclass(frozen=True)
class CellTile:
    """Elements that are computed at a time: rows along axis u, vectors along the last one."""

    rows: Any
    vectors: Any
    u: Any


class CellLoops:
    """The knobs and loops of one scan.

    `cfg`: where its knobs are defined.
    `panels`: operands that were laid out anew.
    """

    def __init__(
        self, cfg: StageKnobs, schedule: Schedule, cell: Cell, panels: Sequence[te.Tensor]
    ) -> None:
        self.cfg, self.s, self.cell, self.scan = cfg, schedule, cell, cell.scan
        self.panels = [p for p in panels if any(p in o.input_tensors for o in cell.stages)]
        self.stage = schedule[self.scan.outputs[0]]
        own = [*cell.stages, *(t.op for t in self.scan.init)]
        self.own = [op for op in dict.fromkeys(own) if isinstance(op, ComputeOp)]
        self.seconds = serial_seconds(cfg.target, [op.outputs[0] for op in self.own])
        self.tiles = 0
        update = self.scan.update[0].op
        dims = [n for n, p in enumerate(sorted(self.scan.apart)) if extent(update.axis[p]) > 1]
        #: Position of the columns that tasks divide, among the columns.
        self.main = dims[-1] if dims else None
        self.grain = self._grain(update)

    def apply(self) -> list[te.Tensor]:
        """Schedule the scan with all that belongs to it; return these stages."""
        s, found = self.s, [t for op in self.own for t in op.outputs]
        found += self.scan.outputs
        if self.cell.outside is not None:
            found += self._outside()
        loop = self.stage.leaf_axes[-1]
        ends = {op: self.cell.end_of(op) for op in self.cell.stages if op.reduce_axis}
        for op in self.cell.stages:
            if op not in self.scan.cell and ends.get(op) is None:
                s[op.output()].compute_at(self.stage, loop)
        for op in self.own:
            if op not in ends:
                self._tile(op, [x for x, end in ends.items() if end is op])
        return found

    # -- columns -------------------------------------------------------------------------------

    def _grain(self, update: Operation) -> int:
        """Return how many neighbouring columns are computed together."""
        if self.main is None:
            return 1
        outside = self.cell.outside
        if outside is not None and outside.grain is not None:
            return outside.grain
        axis = self.cell.columns[update][self.main]
        lanes = lanes_in(self.cfg.target, self.scan.outputs[0].dtype)
        unit = lanes if axis is update.axis[-1] else 1
        length, counts = extent(axis), (1, 2, 4, 8) if unit == 1 else (2, 4, 8)
        even = (-(-length // -(-length // (n * unit))) for n in counts)
        sizes = sorted({-(-size // unit) * unit for size in [*even, length]})
        tasks = math.prod(extent(a) for a in self.cell.columns[update]) // length
        most = length + unit if tasks > 1 else max(length // 2, unit)
        threads = thread_count(self.cfg.target.threads)

        def cost(size: int) -> tuple[bool, float]:
            """Count columns with those past the end, other operands, and what leaves a cache."""
            is_ragged, used = size < length and length % size > 0, size
            if is_ragged and unit > 1:  # whole tiles are computed, as many vectors in each
                tiles = -(-size // (_WIDE * unit))
                used = tiles * -(-size // (tiles * unit)) * unit
            each = used + 2 * unit + used * used / (8 * unit)
            rounds = -(-tasks * -(-length // size) // threads)
            return size > most, rounds * each * (_RAGGED if is_ragged else 1)

        return int(self.cfg.define_knob("step_columns", sizes, min(sizes, key=cost)))

    def _outside(self) -> list[te.Tensor]:
        """Write the loops of the reader: tasks, and the scan in them. Return stages in them."""
        own = self.cell.outside
        assert own is not None
        Y, lanes = self.s[own.op.output()], lanes_in(self.cfg.target, own.op.output().dtype)
        main = None if self.main is None else own.columns[self.main]
        inner = [a for a in own.op.axis if not any(a is c for c in own.columns)]
        tasks = [c for c in own.columns if c is not main]
        last = own.op.axis[-1]
        if main is not None:
            outer, rest = Y.split(main, factor=self.grain)
            tasks.append(outer)
            inner.insert(0, rest)
            last = rest if last is main else last
        if any(last is a for a in inner) and self._runs_along(Y):
            inner.remove(last)
            outer, lane = Y.split(last, factor=lanes)
            inner += [outer, lane]
            Y.vectorize(lane)
        Y.reorder(*tasks, *inner)
        at = self._shared(Y, tasks, own.columns)
        self.stage.compute_at(Y, at)
        found = [own.op.output()]
        for panel in self.panels:
            columns = self.cell.columns.get(panel.op, [None])
            if all(c is not None for c in columns):
                stage = self.s[panel]
                stage.compute_at(Y, at)
                if extent(panel.op.axis[-1]) >= lanes:
                    stage.vectorize(stage.split(panel.op.axis[-1], factor=lanes)[1])
                found.append(panel)
        return found

    def _shared(self, stage: Stage, tasks: list[Any], columns: Sequence[Any]) -> Any:
        """Share loops over columns among threads; return the loop over one thread's tasks."""
        task = stage.fuse(*tasks)
        length = math.prod(map(extent, columns))
        if self.main is not None:
            main = extent(columns[self.main])
            length = length // main * -(-main // self.grain)
        return share(self.cfg, stage, task, length, self.seconds)

    # -- tiles ---------------------------------------------------------------------------------

    def _length(self, op: Operation, axis: Any) -> int:
        """Return the length of an axis within a task and a step."""
        columns = self.cell.columns.get(op, [])
        if self.main is not None and columns and columns[self.main] is axis:
            return min(self.grain, extent(axis))
        is_step = op in self.cell.stages and axis is op.axis[self.cell.stages[op]]
        return 1 if is_step or any(axis is c for c in columns) else extent(axis)

    def _runs_along(self, stage: Stage) -> bool:
        """Whether a stage can be computed in vectors along its last axis."""
        op = stage.op
        assert isinstance(op, ComputeOp)
        last = op.axis[-1]
        lanes = lanes_in(self.cfg.target, stage.outputs[0].dtype)
        if self._length(op, last) < lanes:
            return False
        own = [i for r in reads_in(op) for i in r.children[:-1]]
        return not any(mentions(i, last.var) for i in own)

    def _tile(self, op: ComputeOp, reductions: Sequence[ComputeOp]) -> None:
        """Write the loops of a stage in tiles, and of the reductions that are computed in them."""
        stage = self.s[op.outputs[0]]
        axes = [a for a in op.axis if a is not stage.time]
        if not axes:
            return
        lanes = lanes_in(self.cfg.target, stage.outputs[0].dtype)
        columns = self.cell.columns.get(op, [])
        tile = self._sizes(op, axes, lanes, reductions)
        u, v = tile.u, axes[-1]
        tasks: list[Any] = []
        main = columns[self.main] if self.main is not None and columns else None
        if self.cell.outside is None and main is not None and None not in columns:
            tasks = [c for c in columns if c is not main]
            axes = [a for a in axes if not any(a is t for t in tasks)]
            outer, rest = stage.split(main, factor=self.grain)
            tasks.append(outer)
            axes = [rest if a is main else a for a in axes]
            u, v = (rest if a is main else a for a in (u, v))
        before = [a for a in axes if a is not u and a is not v]
        if self._runs_along(stage):
            vo, vi = stage.split(v, factor=tile.vectors * lanes)
            vm, lane = stage.split(vi, factor=lanes)
            inner, last = [vm], [lane]
            stage.vectorize(lane)
        else:
            vo, inner, last = v, [], []
        loops = [vo]
        if self.main is None and reductions and last:
            length = te.ceildiv(self._length(op, op.axis[-1]), tile.vectors * lanes)
            steps = max(extent(self.scan.scan_axis), 1)
            # What does not depend on the step is read again in each.
            step = {o.axis[self.cell.stages[o]].var for o in reductions}
            own = [r for o in reductions for r in reads_in(o)]
            again = {r.tensor for r in own if step.isdisjoint(chain(*map(free_vars, r.children)))}
            seconds = max(self.seconds / steps, memory_seconds(again))
            loops = [share(self.cfg, stage, vo, length, seconds)]
            kinds = stage.loop_kinds
            before += [a for a in stage.leaf_axes if kinds.get(a) is LoopKind.PARALLEL]
        if u is not None:
            uo, ui = stage.split(u, factor=tile.rows)
            loops.append(uo)
            inner.insert(0, ui)
        stage.reorder(*tasks, *before, *loops, *inner, *last)
        if reductions and not has_calls(op):
            for axis in inner:
                stage.unroll(axis)
        if tasks:
            self._shared(stage, tasks, columns)
        for reduction in reductions:
            self.s[reduction.output()].compute_at(stage, loops[-1])
            self._reduction(reduction, last != [])

    def _sizes(
        self, op: ComputeOp, axes: Sequence[Any], lanes: int, reductions: Sequence[ComputeOp]
    ) -> CellTile:
        """Define the size of the tiles of a stage."""
        length = self._length(op, axes[-1])
        most = max(1, -(-length // lanes))
        if not any(map(is_contraction, reductions)):
            return CellTile(1, min(4, most) if reductions else 1, None)
        self.tiles += 1
        knobs = StageKnobs(self.cfg.cfg, self.tiles)
        u = next((a for a in reversed(axes[:-1]) if self._length(op, a) > 1), None)
        copies = max(self._copies(x, op) for x in reductions)
        wide = self.cfg.target.vector_bytes >= 64
        registers = (32 if wide else 16) - _OPERANDS
        tall = 1 if u is None else self._length(op, u)
        is_row = all(extent(a) == 1 for a in axes[:-1])  # whatever the columns of a task are
        counts = [1, 2, 4, 8, 16] if is_row else [*range(1, _WIDE + 1)]
        rows, vectors = _best_tile(tall, most, copies, registers, counts)
        count = knobs.define_knob("step_vectors", counts, vectors)
        self.cfg.add_constraint(count <= power_of_two(most), "a tile is no wider than the result")
        if u is None:
            return CellTile(1, count, None)
        height = knobs.define_knob("step_rows", [1, 2, 3, 4, 5, 6, 8], rows)
        self.cfg.add_constraint(height <= max(tall, 1), "a tile is no taller than the result")
        self.cfg.add_constraint(
            height * count * copies <= max(registers + 2, copies),
            "the accumulators fit in the registers",
        )
        return CellTile(height, count, u)

    def _copies(self, reduction: ComputeOp, end: ComputeOp) -> int:
        """Return how many sums one element of a tile needs."""
        (read, *_) = (r for r in reads_in(end) if r.tensor is reduction.output())
        pairs = zip(reduction.axis, read.children, strict=True)
        return math.prod(self._length(reduction, a) for a, i in pairs if isinstance(i, Const))

    def _reduction(self, op: ComputeOp, in_vectors: bool) -> None:
        """Write the loops of a reduction within a tile: all of the tile in registers."""
        stage = self.s[op.output()]
        if not (in_vectors and self._runs_along(stage)):
            return
        *front, v = op.axis
        vm, lane = stage.split(v, factor=lanes_in(self.cfg.target, stage.outputs[0].dtype))
        within = [a for a in front if self._length(op, a) > 1]
        around = [a for a in front if not any(a is w for w in within)]
        stage.reorder(*around, *op.reduce_axis, *within, vm, lane)
        for axis in (*within, vm):
            stage.unroll(axis)
        stage.vectorize(lane)


def _best_tile(
    tall: int, wide: int, copies: int, registers: int, counts: Sequence[int]
) -> tuple[int, int]:
    """Return the rows and vectors of the fastest tile.

    An element is a multiplication and addition, and a row or a vector an operand that is loaded.
    Fewer than eight sums wait for one another. Elements past the end of the result are lost.
    """

    def cost(rows: int, vectors: int) -> float:
        sums = rows * vectors * copies
        waits = max(sums, 8, rows + vectors * copies)
        return -(-tall // rows) * -(-wide // vectors) * (waits + 0.1 * (rows + vectors * copies))

    sizes = [
        (rows, vectors)
        for rows in (8, 6, 5, 4, 3, 2, 1)
        for vectors in sorted(counts, key=lambda n: abs(n - 4))
        if rows <= tall and vectors <= power_of_two(wide) and rows * vectors * copies <= registers
    ]
    return min(sizes, key=lambda size: cost(*size), default=(1, 1))
