"""The rule for scans whose steps combine associatively: columns side by side, or blocks of steps.

A scan is computed together with its only reader, if that is element-wise and reads each element at
its own place, or with the axes in another order. ::

    for (t)                                parallel (i.outer)
      for (i)                                for (t)
        S[t, i] = S[t - 1, i] + X[t, i]  ->    vectorized (i)
    for (t, i)                                   S[t, i] = S[t - 1, i] + X[t, i]
      Y[t, i] = f(S[t, i])                     for (t)
                                                 vectorized (i)
                                                   Y[t, i] = f(S[t, i])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.visitor import reads, substitute
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.scans.cells import outside_of
from autotune.rules.scans.recurrences import Blocks, Recurrence, recurrence_of
from autotune.rules.scans.row_recurrences import RowSums, row_sums
from autotune.rules.stage_graph import extent
from autotune.rules.threads import BYTE, share
from autotune.schedule.schedule import Schedule
from autotune.system.available_cpus import thread_count
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation, producers_first

#: Size of a result in bytes from which on stores past the caches are probably faster.
_BEYOND_CACHES: Final = 1 << 24

#: Size of a result in bytes from which on threads are worthwhile.
_SHARED: Final = 1 << 20

#: Least number of tasks of a default configuration, or of each thread if they are rows.
_TASKS: Final = 4

#: Number of steps from which on several are unrolled by default.
_LONG: Final = 64

#: Bytes between rows, or a multiple, at which loads wait for the store before: processors compare
#: the last 12 bits of their addresses. Then few steps are unrolled.
_ALIASED: Final = 1 << 12

#: Vectors of columns of a task.
_WIDTHS: Final = (64, 1, 2, 4, 8, 16, 32, 128)

#: Least number of vectors in a task's part of a row by default: shorter parts are too slow. Rows
#: of twice as many have vectors of twice the length.
_NARROWEST: Final = 8


#: Numbers of parts of a row.
_PARTS: Final = (2, 3, 4, 6, 8, 12, 16, 32, 64)


@dataclass(frozen=True)
class Series:
    """A recurrence, and the stage that stores its result."""

    #: The scan.
    scan: te.Tensor
    #: The scan, or its only reader.
    result: te.Tensor
    #: Position of the steps among the axes of the result.
    time: int
    #: Position of each axis of a step among the axes of the result.
    columns: tuple[int, ...]

    @property
    def is_along_rows(self) -> bool:
        """Whether the steps are neighbours in memory."""
        return all(n == 1 for n in self.result.shape[self.time + 1 :])

    @property
    def recurrence(self) -> Recurrence:
        """What the scan computes."""
        assert isinstance(self.scan.op, ScanOp)
        found = recurrence_of(self.scan.op)
        assert found is not None
        return found

    def stage(self, element: Callable[..., Any]) -> te.Tensor:
        """Return the stage that stores the result, given the elements of the scan."""

        def value(*index: Any) -> Any:
            own = element(index[self.time], *(index[n] for n in self.columns))
            op = self.result.op
            if not isinstance(op, ComputeOp):
                return own
            (read,) = {r for r in reads(op.body[0]) if r.tensor is self.scan}
            at = {a.var: i for a, i in zip(op.axis, index, strict=True)}
            return substitute(op.body[0], {read: own, **at})

        made: te.Tensor = te.compute(self.result.shape, value, name=self.result.name)
        return made


def series_of(ops: Sequence[Operation], outputs: Sequence[te.Tensor]) -> list[Series]:
    """Return the scans of a graph that are recurrences in independent columns."""
    found = []
    for op in ops:
        if isinstance(op, ScanOp) and recurrence_of(op) is not None:
            scan = op.output()
            readers = [o for o in ops if scan in o.input_tensors]
            own = None
            if len(readers) == 1 and scan not in outputs:
                own = _read_by(scan, readers[0])
            rank = len(scan.shape)
            if own is None and outside_of(op, ops, outputs, ()) is not None:
                continue  # few steps are read, and the others are not stored
            found.append(own or Series(scan, scan, 0, tuple(range(1, rank))))
    return found


def _read_by(scan: te.Tensor, reader: Operation) -> Series | None:
    """Return a scan with its reader; None unless each element is read once, by one element."""
    if not isinstance(reader, ComputeOp) or reader.reduce_axis or len(reader.outputs) > 1:
        return None
    if reader.is_for_cell:
        return None
    own = {r for r in reads(reader.body[0]) if r.tensor is scan}
    if len(own) != 1:
        return None
    (read,) = own
    axes = reader.axis
    places = [
        next((n for n, axis in enumerate(axes) if axis.var is index), -1) for index in read.children
    ]
    if sorted(places) != list(range(len(axes))):
        return None
    if any(n != extent(axes[p]) for n, p in zip(scan.shape, places, strict=True)):
        return None
    return Series(scan, reader.output(), places[0], tuple(places[1:]))


class SeriesRewriter:
    """Replaces the results of series while a graph is rewritten."""

    def __init__(self, found: Sequence[Series]) -> None:
        #: Stages that are replaced.
        self.results = {one.result: one for one in found}
        self._made: dict[te.Tensor, te.Tensor] = {}

    def replaced(self, plain: Series, series: Series) -> te.Tensor:
        """Return what replaces the result of a series, given it with its producers replaced."""
        raise NotImplementedError

    def refine_scan(self, made: ScanOp, plain: ScanOp) -> Sequence[te.Tensor]:
        """Return the results that replace those of a scan."""
        self._made |= zip(plain.outputs, made.outputs, strict=True)
        is_result = plain.output() in self.results
        return self.refine(made.output(), plain.output()) if is_result else made.outputs

    def refine(self, tensor: te.Tensor, plain: te.Tensor) -> tuple[te.Tensor, ...]:
        """Return what replaces a stage."""
        own = self.results.get(plain)
        if own is None:
            return (tensor,)
        series = Series(self._made[own.scan], tensor, own.time, own.columns)
        return (self.replaced(own, series),)


class ScanSeries(SeriesRewriter):
    """The series of a graph, which are rewritten with it and then scheduled."""

    def __init__(
        self, cfg: KnobDefiner, ops: Sequence[Operation], outputs: Sequence[te.Tensor]
    ) -> None:
        self.cfg = cfg
        found = series_of(ops, outputs)
        super().__init__(found)
        #: Scans that are rewritten.
        self.scans = {one.scan for one in found}
        self._loops: list[SeriesLoops] = []

    def replaced(self, plain: Series, series: Series) -> te.Tensor:
        """Return what replaces the result of a series."""
        loops = SeriesLoops(StageKnobs(self.cfg, len(self._loops) + 1), series)
        self._loops.append(loops)
        return loops.result

    @property
    def stages(self) -> list[te.Tensor]:
        """What replaces all series."""
        return [t for loops in self._loops for t in loops.stages]

    def apply(self, s: Schedule) -> None:
        """Schedule all series."""
        for loops in self._loops:
            loops.apply(s)


class SeriesLoops:
    """The knobs of one series: what is computed, and the loops.

    `cfg`: where its knobs are defined.
    `series`: its scan and result, with producers replaced.
    """

    def __init__(self, cfg: KnobDefiner, series: Series) -> None:
        self.cfg = cfg
        self.series = series
        self.recurrence = found = series.recurrence
        self.size = dtypes.itemsize(found.dtype)
        self.vector = max(1, cfg.target.vector_bytes // self.size)
        self.bytes = found.steps * math.prod(found.columns) * self.size
        self.seconds = 2 * BYTE * self.bytes
        self.apply: Callable[[Schedule], None]
        self.result: te.Tensor = self._rows() if series.is_along_rows else self._columns()
        known = producers_first([series.result.op])
        made = [op for op in producers_first([self.result.op]) if op not in known]
        self.stages = [t for op in made for t in op.outputs]

    # -- columns in vectors --------------------------------------------------------------------

    def _columns(self) -> te.Tensor:
        own, cfg, vector = self.recurrence, self.cfg, self.vector
        width = own.columns[-1] if own.columns else 1
        narrow = math.prod(own.columns) < 2 * _NARROWEST * vector
        large = self.bytes >= _BEYOND_CACHES and not narrow
        lanes = cfg.define_knob(
            "scan_lanes", [vector, 2 * vector, 4 * vector], vector * (4 if large else 1)
        )
        wide = 64
        if self.bytes >= _SHARED:
            wide = _width(width, vector, 4 * vector if large else vector)
        columns = lanes * cfg.define_knob("scan_width", list(_WIDTHS), wide)
        likely = 8 if math.prod(own.columns) * self.size % _ALIASED else 2
        unroll = cfg.define_knob("scan_unroll", [1, 2, 4, 8], likely if own.steps >= _LONG else 1)
        is_scan = self.series.result is self.series.scan
        ways = ["steps", "tiles", "blocks"] if is_scan else ["tiles", "blocks"]
        ways = [w for w in ways if w != "blocks" or own.steps > 16]
        way = ways[-1 if narrow and self.bytes >= _SHARED else 0]
        way = cfg.define_knob("scan", ways, way)
        stream = cfg.define_knob("scan_stream", [False, True], large)
        blocks: Blocks | None = None
        if way == "blocks":
            lengths = [64, 16, 32, 128, 256, 1024]
            blocks = own.by_blocks(cfg.define_knob("scan_block", lengths))
        scan = own.by_steps() if blocks is None else blocks.parts
        element = scan if blocks is None else blocks.element
        ahead = 0
        if way == "steps" and stream:
            ahead = cfg.define_knob("scan_ahead", [16, 0, 4, 8])
        result: te.Tensor = scan if way == "steps" else self.series.stage(element)

        def apply(s: Schedule) -> None:
            for part in (*scan.op.init, *scan.op.update):
                front = list(part.op.axis)[1:]
                if way == "steps":
                    axis = s[part].fuse(*front)
                    outer, axis = s[part].split(axis, factor=columns)
                    if stream:
                        s[part].parallel(outer)
                    else:
                        self._share(s, part, outer, math.prod(own.columns), columns)
                else:
                    axis = front[-1]
                s[part].vectorize(s[part].split(axis, factor=lanes)[1])
            steps = self._unroll(s, scan, unroll)
            if way != "steps":
                self._tiles(s, scan, blocks, columns, lanes, stream)
            elif stream:
                s[scan].pragma(steps, "state_in_ring")
                s[scan].pragma(steps, "nontemporal_store")
                s[scan].pragma(steps, "prefetch_steps", ahead)

        self.apply = apply
        return result

    def _tiles(
        self, s: Schedule, scan: Any, blocks: Blocks | None, columns: Any, lanes: Any, stream: bool
    ) -> None:
        """Compute the scan in the loops of the result: over columns, and over blocks of steps."""
        Y, axes = self.result, list(self.result.op.axis)
        time = axes.pop(self.series.time)
        outer, inner = s[Y].split(axes.pop(), factor=columns)
        steps, vectors = s[Y].split(inner, factor=lanes)
        s[Y].vectorize(vectors)
        if stream:
            s[Y].pragma(vectors, "nontemporal_store")
        if blocks is None:
            s[Y].reorder(*axes, outer, time, steps)
            at = s[Y].fuse(*axes, outer)
            at = self._share(s, Y, at, math.prod(self.recurrence.columns), columns)
        else:
            self._ends(s, blocks, lanes)
            rows, row = s[Y].split(time, factor=blocks.length)
            s[Y].reorder(rows, *axes, outer, row, steps)
            at = outer
            s[Y].parallel(rows)
        s[scan].compute_at(s[Y], at)

    def _ends(self, s: Schedule, blocks: Blocks, lanes: Any) -> None:
        """Schedule the effects of blocks on the value before them, and the values before them."""
        stage = s[blocks.ends]
        b, *front, i = blocks.ends.op.axis
        outer, vectors = stage.split(i, factor=lanes)
        stage.reorder(b, *front, outer, *blocks.ends.op.reduce_axis, vectors)
        stage.vectorize(vectors)
        stage.parallel(b)
        for part in (*blocks.carry.op.init, *blocks.carry.op.update):
            s[part].vectorize(s[part].split(part.op.axis[-1], factor=lanes)[1])

    # -- rows in vectors -----------------------------------------------------------------------

    def _rows(self) -> te.Tensor:
        own, cfg, rows = self.recurrence, self.cfg, math.prod(self.recurrence.columns)
        is_long = own.steps >= 2 * _NARROWEST * self.vector
        threads = thread_count(cfg.target.threads)
        is_even = rows % threads == 0 or rows >= _TASKS * threads
        if own.weight is not None:
            way = cfg.define_knob("scan", ["vectors", "steps"])
        else:
            ways = ["vectors", "parts"] if is_long else ["vectors"]
            way = cfg.define_knob("scan", ways, ways[0 if is_even or self.bytes < _SHARED else -1])
        if way == "steps":
            counts = [1, 2, 4, 8]
            likely = max(n for n in counts[:3] if n == 1 or rows >= _TASKS * n)
            return self._rows_together(cfg.define_knob("scan_rows", counts, likely))
        vector = max(2, self.vector)
        lanes = [vector, 2 * vector, 4 * vector]
        likely = next((n for n in lanes if n >= own.steps), lanes[-1])
        lanes = cfg.define_knob("scan_lanes", lanes, likely)
        parts = None
        if way == "parts":
            equal = (p for p in _PARTS if rows * p % threads == 0)
            parts = cfg.define_knob("scan_parts", list(_PARTS), next(equal, _PARTS[-1]))
        sums = row_sums(own, lanes, parts)
        result = self.series.stage(sums.element)

        def apply(s: Schedule) -> None:
            inner = self._row_tasks(s, sums)
            s[result].vectorize(s[result].split(inner, factor=lanes)[1])

        self.apply = apply
        return result

    def _row_tasks(self, s: Schedule, sums: RowSums) -> Any:
        """Write the tasks of a result along rows; return its loop over the elements of a row."""
        Y, axes = self.result, list(self.result.op.axis)
        inner = axes.pop(self.series.time)
        s[Y].reorder(*axes, inner)
        row = s[Y].fuse(*axes) if axes else None
        self._within(s, sums)
        if sums.ends:
            columns, inner = s[Y].split(inner, factor=sums.length)
            task = columns if row is None else s[Y].fuse(row, columns)
            self._row_ends(s, sums)
            s[Y].parallel(task)
        elif row is not None:
            task = self._share(s, Y, row, math.prod(self.recurrence.columns), 1)
        else:
            return inner
        s[sums.before].compute_at(s[Y], task)
        s[sums.within[-1][0]].compute_at(s[Y], task)
        return inner

    def _within(self, s: Schedule, sums: RowSums) -> None:
        """Compute the sums inside a vector together, in registers."""
        *parts, last = (tensors[0] for tensors in sums.within)
        for part in (*parts, last):
            s[part].vectorize(part.op.axis[-1])
        for part in parts:
            s[part].compute_at(s[last], last.op.axis[-2])

    def _row_ends(self, s: Schedule, sums: RowSums) -> None:
        """Schedule the sums of blocks of rows."""
        *parts, ends = sums.ends
        block = s[ends].fuse(*ends.op.axis)
        s[ends].parallel(block)
        for part in parts:
            lane = part.op.axis[-1]
            s[part].compute_at(s[ends], block)
            s[part].reorder(*part.op.reduce_axis, lane)
            s[part].vectorize(lane)

    def _rows_together(self, width: Any) -> te.Tensor:
        """Let each task compute some rows together, one element of each at a time."""
        unroll = self.cfg.define_knob("scan_unroll", [4, 1, 2, 8])
        scan = self.recurrence.by_steps()
        result = self.series.stage(scan)

        def apply(s: Schedule) -> None:
            axes = list(result.op.axis)
            time = axes.pop(self.series.time)
            if axes:
                s[result].reorder(*axes, time)
                row = s[result].fuse(*axes)
                rows, _ = s[result].split(row, factor=width)
                count = math.prod(self.recurrence.columns)
                rows = self._share(s, result, rows, count, width)
                s[scan].compute_at(s[result], rows)
                s[scan.op.update[0]].unroll(scan.op.update[0].op.axis[-1])
            self._unroll(s, scan, unroll)

        self.apply = apply
        return result

    # -- both ----------------------------------------------------------------------------------

    def _share(self, s: Schedule, tensor: te.Tensor, axis: Any, length: int, factor: Any) -> Any:
        """Share a loop over tasks of `factor` columns; return the loop over those of a thread."""
        return share(self.cfg, s[tensor], axis, te.ceildiv(length, factor), self.seconds)

    def _unroll(self, s: Schedule, scan: Any, factor: Any) -> Any:
        """Unroll steps; return the loop over the remaining ones."""
        outer, inner = s[scan].split(scan.op.scan_axis, factor=factor)
        s[scan].unroll(inner)
        return outer


def _width(columns: int, vector: int, lanes: int) -> int:
    """Return the largest width of a task, in units of `lanes` columns, that leaves enough tasks."""
    own = [w for w in (64, 32, 16, 8, 4, 2) if _NARROWEST * vector <= w * lanes <= 128 * vector]
    return next((w for w in own if -(-columns // (w * lanes)) >= _TASKS), own[-1])
