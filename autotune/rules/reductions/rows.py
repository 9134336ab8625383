"""Schedules statements that share rows on CPUs: one row, or block of columns, after another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from autotune import te
from autotune.ir.expr import Call, Select
from autotune.ir.visitor import mentions, walk_expr
from autotune.rules.inline import has_calls
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.reductions.split_reductions import joining_seconds
from autotune.rules.reductions.vector_partial_sums import LaneReduction
from autotune.rules.stage_graph import (
    Reading,
    RowGroup,
    extent,
    is_dense,
    is_one,
    is_open,
    length_of,
)
from autotune.rules.streamed_stores import has_whole_lines, is_streamed
from autotune.rules.threads import (
    bytes_of,
    has_few_tasks,
    lanes_in,
    serial_seconds,
    share,
    share_open,
)
from autotune.rules.transposed_tiles import other_axis, schedule_transposed
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp

#: Longest reduction that is unrolled, and the longest rows that are read across.
_UNROLLED: Final = 32
_SHORT: Final = 16

#: Longest row whose successor the nearest cache has room for beside it, and the shortest that may
#: be prefetched: shorter ones stay in registers, and the processor loads several ahead by itself.
_NEXT_ROW_BYTES: Final = 8192
_SHORTEST_ROW_BYTES: Final = 512

#: Most vectors that are computed as one.
_WIDEST: Final = 4

#: Rows of members that are computed before the root reads them at other places.
_AT_ONCE: Final = (1, 2, 4, 8)

#: Rows from which on threads share rows and not their elements.
_ENOUGH: Final = 64


class RowLoops:
    """Schedules groups of stages that share rows.

    `cfg`: where knobs are defined.
    `stages`: the reads of each stage.
    `lanes`: the reductions in lanes, by each of their stages.
    `joined`: reductions of the results of parts, and what they were.
    `numbers`: the numbers of stages in names of knobs.
    """

    def __init__(
        self,
        cfg: KnobDefiner,
        schedule: Schedule,
        stages: Sequence[Reading],
        lanes: Mapping[te.Tensor, LaneReduction],
        joined: Mapping[te.Tensor, te.Tensor],
        numbers: Mapping[te.Tensor, int],
    ) -> None:
        self.cfg = cfg
        self.numbers = numbers
        self.schedule = schedule
        self.reads = {s.tensor: s.reads for s in stages}
        self.lanes = lanes
        self.joined = joined
        #: Stages of the group that is scheduled whose rows are in registers.
        self.in_registers: set[te.Tensor] = set()

    def apply(self, group: RowGroup, may_choose: bool) -> bool:
        """Schedule a group; return the knob that chooses row by row, if there is one."""
        axes, own = group.root.op.axis, self.lanes.get(group.root)
        if own is not None and group.root is not own.result:
            return False  # a reduction without rows: its parts are scheduled with it
        seconds = self.seconds(group)
        count = math.prod(extent(axes[n]) for n in group.rows)
        by_rows = count > 1 and not has_few_tasks(self.cfg.target, count, seconds)
        is_choice = may_choose and not self.is_lanes_alone(group)
        if is_choice:
            ways = ["rows", "whole"] if by_rows else ["whole", "rows"]
            by_rows = self.knobs(group.root).define_knob("at", ways) == "rows"
        if not group.members and own is None:
            self.alone(group.root, seconds)
        elif by_rows:
            self.rows(group, seconds)
        else:
            self.apart(group.root, seconds)
            for tensor, _ in group.members:
                self.apart(tensor, self.seconds(RowGroup(tensor, (), ())))
        return is_choice

    def knobs(self, tensor: te.Tensor) -> StageKnobs:
        """Return what defines the knobs of a stage."""
        return StageKnobs(self.cfg, self.numbers[tensor])

    def is_lanes_alone(self, group: RowGroup) -> bool:
        """Whether a group consists only of the lanes of one reduction."""
        own = self.lanes.get(group.root)
        parts = () if own is None else own.stages
        return all(any(t is p for p in parts) for t, _ in group.members)

    def apart(self, tensor: te.Tensor, seconds: float) -> None:
        """Schedule a single stage; partial results are scheduled with their reduction."""
        own = self.lanes.get(tensor)
        if own is None:
            self.alone(tensor, seconds)
        elif tensor is own.result:
            rank = len(tensor.op.axis)
            members = [(part, part.op.axis[:rank]) for part in own.stages[-2::-1]]
            self.rows(RowGroup(tensor, tuple(range(rank)), tuple(members)), seconds)

    def alone(self, tensor: te.Tensor, seconds: float) -> None:
        """Schedule a stage that shares rows with no other one."""
        knobs, lanes = self.knobs(tensor), lanes_in(self.cfg.target, tensor.dtype)
        axis = other_axis(tensor, self.reads[tensor], lanes)
        if axis is None:
            self.rows(RowGroup(tensor, (), ()), seconds)
        else:
            schedule_transposed(knobs, self.schedule, tensor, axis, seconds)

    def rows(self, group: RowGroup, seconds: float) -> None:
        """Compute a whole group in the loop of its root over rows."""
        root, stage = group.root, self.schedule[group.root]
        axes = list(root.op.axis)
        blocked = group.rows[-1:] == (len(axes) - 1,)
        alone = blocked and any(tensor in self.lanes for tensor, _ in group.members)
        lanes = 1 if alone else self.vector_of(root)
        front = [axes[n] for n in group.rows] if group.members else list(axes)
        within = [a for a in axes if not any(a is f for f in front)]
        # If the last loop is kept apart from the parallel loops, its tail can be split off.
        apart = all(map(is_one, within)) and (lanes > 1 or not group.members)
        apart = apart and math.prod(map(extent, front[:-1])) >= _ENOUGH
        if apart:
            within.append(front.pop())
        lengths: dict[Any, Any] = {a: length_of(a) for a in axes}
        vector: list[Any] = []
        moved = [] if blocked else self.read_elsewhere(group)
        # Short rows are read from registers, if they are loaded without conditions.
        short = all(
            extent(t.op.axis[-1]) <= _WIDEST * lanes_in(self.cfg.target, t.dtype)
            and not _chooses(t.op)
            for t in moved
        )
        self.in_registers = {*moved, root} if moved and short else set()
        if lanes > 1:
            width = self.width(root, lanes)
            outer, lane = stage.split(axes[-1], factor=width)
            stage.vectorize(lane)
            if has_whole_lines(root) and is_streamed(
                self.knobs(root), self.schedule, root, self.wholes(group)
            ):
                stage.pragma(lane, "nontemporal_store")
            lengths[outer] = te.ceildiv(lengths[axes[-1]], width)
            vector = [lane]
            front = [outer if a is axes[-1] else a for a in front]
            within = [outer if a is axes[-1] else a for a in within]
        if not front:
            front, within = within[:1], within[1:]
        elif moved:
            several = self.knobs(root).define_knob("rows_at_once", _AT_ONCE, 1 if short else 4)
            outer, row = stage.split(front[-1], factor=several)
            lengths[outer] = te.ceildiv(lengths[front[-1]], several)
            front, within = [*front[:-1], outer], [row, *within]
        stage.reorder(*front, *within, *root.op.reduce_axis, *vector)
        self.unroll_short(root)
        if not front:
            for member, _ in group.members:
                self.member(member, (), 0)
            return
        nest = {axis: lengths[axis] for axis in front}
        if not self.is_single(group) and any(map(is_open, nest.values())):
            at = share_open(self.knobs(root), stage, front, seconds, root)
        else:
            at = stage.fuse(*front)
            if not self.is_single(group):
                length = math.prod(nest.values())
                at = share(self.knobs(root), stage, at, length, seconds)
        blocked = bool(moved) or (blocked and lanes > 1)
        for member, rows in group.members:
            self.schedule[member].compute_at(stage, within[-1] if apart else at)
            self.member(member, rows[:-1] if blocked else rows, lanes)
        if not self.is_single(group):
            self.prefetch_rows(group)

    def read_elsewhere(self, group: RowGroup) -> list[te.Tensor]:
        """Return the members that the root reads at other places of the row than its own.

        Vectors are loaded then that span two stored ones, so they wait until these are in the
        cache, unless a few rows of the members come first, or a row is in registers.
        """
        members = {member for member, _ in group.members if member not in self.lanes}
        if not members or not group.root.op.axis:
            return []
        last = group.root.op.axis[-1].var
        found: dict[te.Tensor, None] = {}
        for read in self.reads[group.root]:
            at = read.children[-1] if read.children else last
            if read.tensor in members and at is not last and mentions(at, last):
                found[read.tensor] = None
        return list(found)

    def prefetch_rows(self, group: RowGroup) -> None:
        """Define whether the next row of an input is prefetched, which is read more than once."""
        inputs = [
            read.tensor
            for tensor in group.stages
            for read in self.reads[tensor]
            if isinstance(read.tensor.op, PlaceholderOp)
        ]
        again = {tensor for tensor in inputs if inputs.count(tensor) > 1}
        for member, rows in ((member, rows) for member, rows in group.members if rows):
            used = [read.tensor for read in self.reads[member] if read.tensor in again]
            if used and any(rows[-1] is leaf for leaf in self.schedule[member].leaf_axes):
                row_bytes = max(map(bytes_of, used)) / max(1, math.prod(map(extent, rows)))
                if row_bytes < _SHORTEST_ROW_BYTES:
                    return
                fits = row_bytes <= _NEXT_ROW_BYTES
                likely = int(fits and self.cfg.target.vector_bytes >= 64)
                ahead = self.knobs(group.root).define_knob("prefetch_rows", [0, 1], likely)
                self.schedule[member].pragma(rows[-1], "prefetch", ahead)
                return

    def member(self, tensor: te.Tensor, rows: tuple[Any, ...], lanes: int) -> None:
        """Schedule a stage within a row of another, `rows` being its axes that are fixed there."""
        stage, axes = self.schedule[tensor], list(tensor.op.axis)
        reduced = list(tensor.op.reduce_axis)
        own = self.lanes.get(tensor)
        if own is not None and tensor is not own.result:
            *place, v = axes
            stage.reorder(*place, *reduced, v)
            for axis in () if tensor is own.parts else reduced:
                stage.unroll(axis)
            stage.vectorize(v)
            return
        vector: list[Any] = []
        lanes = self.vector_of(tensor)
        if lanes > 1 and not any(axes[-1] is a for a in rows):
            outer, lane = stage.split(axes.pop(), factor=self.width(tensor, lanes))
            stage.vectorize(lane)
            axes.append(outer)
            vector = [lane]
        stage.reorder(*axes, *reduced, *vector)
        self.unroll_short(tensor)

    def seconds(self, group: RowGroup) -> float:
        """Return about how long one thread takes for a group."""
        joined = [self.joined[t] for t in group.stages if t in self.joined]
        others = [t for t in self.wholes(group) if t not in joined]
        joining = sum(joining_seconds(self.cfg.target, whole) for whole in joined)
        return joining + serial_seconds(self.cfg.target, others)

    def wholes(self, group: RowGroup) -> list[te.Tensor]:
        """Return the stages of a group, reductions as they were before they were rewritten."""
        wholes = {**{t: own.whole for t, own in self.lanes.items()}, **self.joined}
        return list(dict.fromkeys(wholes.get(t, t) for t in group.stages))

    def unroll_short(self, tensor: te.Tensor) -> None:
        """Unroll the inner loops of a reduction, so that its result stays in a register."""
        steps = 1
        for axis in reversed(() if tensor in self.joined else tensor.op.reduce_axis):
            steps *= extent(axis)
            if steps > _UNROLLED:
                return
            self.schedule[tensor].unroll(axis)

    def is_single(self, group: RowGroup) -> bool:
        """Whether the rows of a group are a single one."""
        own, axes = self.lanes.get(group.root), group.root.op.axis
        if own is not None and len(axes) > len(own.whole.op.axis):
            return False  # it has an axis for parts
        rows = [axes[n] for n in group.rows] if group.members else axes
        return math.prod(map(extent, rows)) == 1

    def vector_of(self, tensor: te.Tensor) -> int:
        """Return the lanes of the vectors that a stage can be computed in; 1 if it cannot."""
        axes = tensor.op.axis
        lanes = lanes_in(self.cfg.target, tensor.dtype)
        if tensor in self.lanes or not axes or extent(axes[-1]) < max(2, lanes // 4):
            return 1
        return lanes if is_dense(tensor, self.reads[tensor], _SHORT) else 1

    def width(self, tensor: te.Tensor, lanes: int) -> Any:
        """Define the length of a stage's vectors; if partial sums read the stage, it is theirs."""
        for own in self.lanes.values():
            if any(read.tensor is tensor for read in self.reads[own.parts]):
                return own.width  # both are computed in one loop then
        length = extent(tensor.op.axis[-1])
        if length < lanes:
            return lanes
        widths = [lanes, 2 * lanes, _WIDEST * lanes]
        likely = widths[-1] if tensor in self.in_registers else lanes
        if has_calls(tensor.op):
            # A long chain of operations: several vectors do not wait for one another.
            likely = max(n for n in widths if n <= length)
        return self.knobs(tensor).define_knob("lanes", widths, likely)


def _chooses(op: Operation) -> bool:
    """Whether elements of a stage depend on conditions."""
    assert isinstance(op, ComputeOp)
    return any(
        isinstance(node, Select) or (isinstance(node, Call) and node.name == "if_then_else")
        for body in op.body
        for node in walk_expr(body)
    )
