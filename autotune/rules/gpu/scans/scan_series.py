"""Scans on GPUs whose steps combine associatively: blocks of steps, or tiles of rows.

Down columns, threads keep blocks of steps of their columns; what stands before a block is the same
scan, over the ends of blocks. ::

    for (t)                                  for (b, i)  ends[b, i] = sum of X in block b
      for (i)                                for (b, i)  before[b, i] = sum of ends[0..b - 1, i]
        S[t, i] = S[t - 1, i] + X[t, i]  ->  thread (b, i)
                                               S of block b, from before[b, i] on

Along rows, a block has a tile of a row. Each thread has vectors side by side with those of its
neighbours and computes the sums inside each; threads exchange the sums of vectors, and add up what
is before their own in two levels.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

from autotune import te
from autotune.rules.contractions.panel_loops import split_in_vectors
from autotune.rules.gpu.column_vectors import lanes_beside
from autotune.rules.gpu.kernel_knobs import Defaults
from autotune.rules.gpu.scans.scan_threads import THREADS, parts_of_scan, schedule_scan
from autotune.rules.gpu.thread_loops import ENOUGH_BLOCKS, LEAST_ALIGNED, WARP, bind, lane_counts
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.rewrite_graph import rewrite
from autotune.rules.scans.associative_scans import Series, SeriesRewriter, series_of
from autotune.rules.scans.recurrences import Recurrence
from autotune.rules.stage_graph import power_of_two
from autotune.schedule.schedule import Schedule
from autotune.te.scan import ScanOp
from autotune.te.tensor import Operation, producers_first

#: Number of columns from which on each has its own thread by default.
_MANY_COLUMNS: Final = 1 << 16
#: Number of steps from which on what is before blocks is computed by blocks, too.
_LONG: Final = 512
#: Least number of steps with blocks.
_LEAST_STEPS: Final = 17
#: Vectors of a group of a row, whose sums are added up together.
_GROUP: Final = 16
#: Least number of elements of a vector, and threads of a block by default.
_LEAST_LANES: Final = 4
_BLOCK: Final = 256

#: The kernels of a series: each schedules its loops, given the stages of before.
Loops = Callable[[Schedule, Mapping[te.Tensor, te.Tensor]], None]


class GpuSeries(SeriesRewriter):
    """The series of a graph, which are rewritten, and then scheduled."""

    def __init__(self, cfg: KnobDefiner, outputs: Sequence[te.Tensor]) -> None:
        ops = producers_first([t.op for t in outputs])
        super().__init__([one for one in series_of(ops, outputs) if _suits(one)])
        self.cfg = cfg
        #: The stages that are scheduled here.
        self.stages: set[Operation] = set()
        #: The sums of blocks and of tiles, whose kernels have no knobs.
        self.ends: set[te.Tensor] = set()
        #: The number of each scan, in which knobs are named.
        self.numbers = {op: n for n, op in enumerate((o for o in ops if isinstance(o, ScanOp)), 1)}
        self._loops: list[Loops] = []
        #: The rewritten graph.
        self.outputs = list(rewrite(outputs, self.refine, self.refine_scan).outputs)

    def schedule(self, s: Schedule, new: Mapping[te.Tensor, te.Tensor]) -> None:
        """Write the loops of all series, given the stages that replace those of `outputs`."""
        for loops in self._loops:
            loops(s, new)

    def refine_scan(self, made: ScanOp, plain: ScanOp) -> Sequence[te.Tensor]:
        """Return the results that replace those of a scan."""
        self.numbers[made] = self.numbers[plain]
        return super().refine_scan(made, plain)

    def replaced(self, plain: Series, series: Series) -> te.Tensor:
        """Return what replaces the result of a series."""
        cfg, own = StageKnobs(self.cfg, self.numbers[_scan_of(plain.scan)]), series.recurrence
        if series.is_along_rows:
            in_order = list(series.columns) == sorted(series.columns)
            return self._rows(cfg, own, series.stage, series.time, in_order)
        few = ["blocks", "steps"]
        is_wide = math.prod(own.columns) >= _MANY_COLUMNS
        if cfg.define_knob("scan", few[:: -1 if is_wide else 1]) == "blocks":
            is_last = series.columns[-1] == len(series.result.shape) - 1
            return self._columns(cfg, own, series.stage, series.time, is_last)
        threads = cfg.define_knob("scan_threads", THREADS)
        self.stages.add(series.scan.op)
        self._loops.append(
            lambda s, new: schedule_scan(cfg, s, _scan_of(new[series.scan]), threads)
        )
        return series.result

    # -- columns -------------------------------------------------------------------------------

    def _columns(
        self,
        cfg: KnobDefiner,
        own: Recurrence,
        stored: Callable[..., te.Tensor],
        place: int,
        is_last: bool = True,
        usual: int = 16,
    ) -> te.Tensor:
        """Return a series whose blocks of steps are computed by threads of their own.

        `stored` makes the result, with the steps at a place, from the elements of the series.
        `is_last`: whether its last axis is that of the series' columns.
        """
        length = operator.index(cfg.define_knob("scan_block", [16, 8, 32, 64], usual))
        threads = cfg.define_knob("scan_threads", THREADS)
        lanes = self._column_lanes(cfg, own, length) if is_last else 1
        is_long = -(-own.steps // length) > _LONG
        blocks = own.by_blocks(length, self._carried if is_long else None)
        self.ends.add(blocks.ends)
        carried = None if is_long else blocks.carry
        result = stored(blocks.element)
        self.stages |= {t.op for t in (result, blocks.parts, carried) if t is not None}

        def loops(s: Schedule, new: Mapping[te.Tensor, te.Tensor]) -> None:
            tail, scan = new[result], new[blocks.parts]
            axes, stage = list(tail.op.axis), s[tail]
            time = axes.pop(place)
            rows, inner = stage.split(time, factor=length)
            vectors, lane = stage.split(axes.pop(), factor=lanes)
            stage.reorder(rows, *axes, vectors, inner, lane)
            block, thread = stage.split(stage.fuse(rows, *axes, vectors), factor=threads)
            bind(stage, {"blockIdx.x": block, "threadIdx.x": thread})
            stage.unroll(inner)
            stage.vectorize(lane)
            s[scan].compute_at(stage, thread)
            s[scan].unroll(_scan_of(scan).scan_axis)
            for op in parts_of_scan(_scan_of(scan)):
                s[op].vectorize(op.axis[-1])
            if carried is not None:
                schedule_scan(Defaults(self.cfg.target), s, _scan_of(new[carried]))

        self._loops.append(loops)
        return result

    def _column_lanes(self, cfg: KnobDefiner, own: Recurrence, length: int) -> Any:
        """Return how many neighbouring columns a thread computes, by default if these are many."""
        axes = [te.reduce_axis((0, n), "i") for n in (own.steps, *own.columns)]
        values = [own.value(*(axis.var for axis in axes))]
        if own.weight is not None:
            values.append(own.weight(*(axis.var for axis in axes)))
        counts = lanes_beside(self.cfg.target, axes[-1], own.dtype, values)
        if len(counts) == 1:
            return 1
        elements = math.prod(own.columns) * -(-own.steps // length)
        enough = [n for n in counts if elements >= n * WARP * ENOUGH_BLOCKS]
        return cfg.define_knob("scan_lanes", counts, enough[0] if enough else 1)

    def _carried(self, before: Recurrence) -> te.Tensor:
        """Return what is before blocks, with the steps first."""
        stored = partial(te.compute, (before.steps, *before.columns), name="before")
        return self._columns(Defaults(self.cfg.target), before, stored, 0, usual=64)

    # -- rows ----------------------------------------------------------------------------------

    def _rows(
        self,
        cfg: KnobDefiner,
        own: Recurrence,
        stored: Callable[..., te.Tensor],
        place: int,
        in_order: bool = True,
    ) -> te.Tensor:
        """Return a series along rows, of which each block computes a tile; as `_columns`.

        `in_order`: whether its rows are stored in the order of the columns of the series.
        """
        counts = lane_counts(self.cfg.target, own.dtype)
        lanes = max(_LEAST_LANES, counts[-1])
        is_even = own.steps % lanes == 0 or math.prod(own.columns) == 1
        is_long = in_order and own.steps >= LEAST_ALIGNED * lanes
        ahead = lanes - 1 if is_long and not is_even else 0
        vectors = -(-(own.steps + ahead) // lanes)
        usual = min(_BLOCK, power_of_two(vectors))
        choices = dict.fromkeys((usual, 32, 64, 128, 256, 512, 1024))
        threads = operator.index(cfg.define_knob("scan_threads", list(choices), usual))
        most = -(-vectors // usual)
        fit = next((n for n in (1, 2, 4, 8) if n >= most), 4)
        each = operator.index(cfg.define_knob("scan_vectors", [4, 1, 2, 8], fit))
        count = min(each, -(-vectors // threads))
        tiles = RowTiles(own, threads, count, lanes, ahead)
        before: Any = None
        if tiles.count > 1:
            ends = tiles.ends()
            self.ends.add(ends)
            starts = own.before(tiles.count, ends)

            def steps_last(element: Callable[..., Any]) -> Any:
                shape = (*starts.columns, starts.steps)
                return te.compute(shape, lambda *i: element(i[-1], *i[:-1]), name="before")

            before = self._rows(Defaults(cfg.target), starts, steps_last, len(own.columns))
        result = stored(partial(tiles.element, before))
        self.stages |= {t.op for t in (result, *tiles.stages)}
        access = counts[-1] if is_even or ahead else 1
        together = max(1, _BLOCK // 2 // threads) if len(own.columns) == 1 else 1
        together = min(together, math.prod(own.columns))

        def loops(s: Schedule, new: Mapping[te.Tensor, te.Tensor]) -> None:
            axes, stage = list(new[result].op.axis), s[new[result]]
            steps = axes.pop(place)
            if ahead:
                before = tiles.before([axis.var for axis in axes])
                vectors, lane = stage.split(steps, factor=lanes, offset=before)
                tile, inner = stage.split(vectors, factor=tiles.length // lanes)
            else:
                tile, inner = stage.split(steps, factor=tiles.length)
                inner, lane = stage.split(inner, factor=lanes)
            vector, thread = stage.split(inner, factor=threads)
            blocks, row = [*axes, tile], None
            if together > 1:
                block, row = stage.split(axes[0], factor=together)
                blocks = [block, tile]
            own_loops = [thread] if row is None else [row, thread]
            stage.reorder(*blocks, *own_loops, vector, lane)
            block = stage.fuse(*blocks)
            bind(stage, {"blockIdx.x": block, "threadIdx.x": thread})
            if row is not None:
                bind(stage, {"threadIdx.y": row})
            stage.unroll(vector)
            split_in_vectors(stage, lane, access)
            for tensor in tiles.stages:
                part = s[new[tensor]]
                part.compute_at(stage, thread)
                tiles.schedule(part, new[tensor].op.axis, tensor, row is not None, access)

        self._loops.append(loops)
        return result


def _scan_of(tensor: te.Tensor) -> ScanOp:
    assert isinstance(tensor.op, ScanOp)
    return tensor.op


def _suits(series: Series) -> bool:
    own = series.recurrence
    return own.weight is None if series.is_along_rows else own.steps >= _LEAST_STEPS


class RowTiles:
    """Tiles of rows: threads times vectors times lanes.

    `threads`, `each`, `lanes`: threads of a tile, vectors of a thread, elements of a vector.
    `ahead`: most elements of the row before in a row's first vector, which begins where one of
    memory does; 0 if rows are whole numbers of vectors.
    """

    def __init__(self, own: Recurrence, threads: int, each: int, lanes: int, ahead: int) -> None:
        self.own, self.threads, self.each, self.lanes = own, threads, each, lanes
        self.ahead = ahead
        self.length = threads * each * lanes
        self.count = -(-(own.steps + ahead) // self.length)
        self.group = min(_GROUP, threads)
        row, groups = min(WARP, threads), each * threads // self.group
        k, q, r = (
            te.reduce_axis((0, n), name=name)
            for n, name in ((self.group, "k"), (groups, "q"), (self.group, "r"))
        )

        def loaded(*index: Any) -> Any:
            *i, c, v, t, lane = index
            return self._value(((c * each + v) * threads + t) * lanes + lane, i)

        def inside(*index: Any) -> Any:
            *front, lane = index
            return reduce(own.combine, (
                self._if(lane >= by, self.loaded[(*front, te.max(lane - by, 0))])
                for by in range(lanes)
            ))  # fmt: skip

        def of_group(*index: Any) -> Any:
            *front, g = index
            at = g * self.group + k.var
            return own.reduce(
                self.totals[(*front, at // threads, at % threads // row, at % row)], k
            )

        def before_group(*index: Any) -> Any:
            *front, g = index
            return own.reduce(self._if(q.var < g, self.sums[(*front, q.var)]), q)

        def in_group(*index: Any) -> Any:
            *front, t = index
            at = t // self.group * self.group + r.var
            value = self.totals[(*front, at // row, at % row)]
            return own.reduce(self._if(r.var < t % self.group, value), r)

        def total(*index: Any) -> Any:
            *front, warp, t = index
            return self.inside[(*front, warp * row + t, lanes - 1)]

        tiles, shape = (*own.columns, self.count), (*own.columns, self.count, each, threads)
        self.loaded = te.compute((*shape, lanes), loaded, name="loaded")
        self.inside = te.compute((*shape, lanes), inside, name="inside")
        self.totals = te.compute((*tiles, each, threads // row, row), total, name="totals")
        self.sums = te.compute((*tiles, groups), of_group, name="sums")
        self.groups = te.compute((*tiles, groups), before_group, name="groups")
        self.within = te.compute(shape, in_group, name="within")
        self.stages: list[Any] = [
            self.loaded, self.inside, self.totals, self.sums, self.groups, self.within
        ]  # fmt: skip

    def _if(self, condition: Any, value: Any) -> Any:
        return te.if_then_else(condition, value, self.own.neutral)

    def before(self, i: Sequence[Any]) -> Any:
        """Return how many elements of the row before are in a row's first vector."""
        number: Any = 0
        for index, size in zip(i, self.own.columns, strict=True):
            number = number * size + index
        return number * self.own.steps % self.lanes if self.ahead else 0

    def _value(self, place: Any, i: Any) -> Any:
        """Return what is scanned at a place of a row's vectors."""
        at = place - self.before(i) if self.ahead else place
        inside = te.all(at >= 0, at < self.own.steps) if self.ahead else at < self.own.steps
        return self._if(inside, self.own.value(at, *i))

    def ends(self) -> te.Tensor:
        """Return the sum of each tile, tiles first."""
        k = te.reduce_axis((0, self.length), name="k")
        made: te.Tensor = te.compute(
            (self.count, *self.own.columns),
            lambda c, *i: self.own.reduce(self._value(c * self.length + k.var, i), k),
            name="ends",
        )
        return made

    def element(self, before: te.Tensor | None, at: Any, *i: Any) -> Any:
        """Return the value of a row at a step, given what is before its tile."""
        at = at + self.before(i) if self.ahead else at
        c, lane = at // self.length, at % self.lanes
        v, t = at % self.length // (self.threads * self.lanes), at // self.lanes % self.threads
        group = self.groups[(*i, c, (v * self.threads + t) // self.group)]
        own = self.own.combine(group, self.within[(*i, c, v, t)])
        own = self.own.combine(own, self.inside[(*i, c, v, t, lane)])
        return own if before is None else self.own.combine(before[(*i, c)], own)

    def schedule(
        self, stage: Any, axes: Sequence[Any], tensor: te.Tensor, has_rows: bool, access: int
    ) -> None:
        """Compute a stage in the threads of a tile, with some elements in an access."""
        if tensor in (self.loaded, self.inside):
            stage.unroll(axes[-3])
            split_in_vectors(stage, axes[-1], access if tensor is self.loaded else 1)
            return
        if tensor is self.within:
            stage.unroll(axes[-2])
            return
        stage.set_scope("shared")
        thread = axes[-1]
        if tensor is self.totals:
            if self.threads >= WARP:  # threads that add up groups read side by side
                stage.storage_align(axes[-2], WARP, 1)
            thread = stage.fuse(*axes[-2:])
        bind(stage, {"threadIdx.x": thread})
        if has_rows:
            bind(stage, {"threadIdx.y": axes[0]})
