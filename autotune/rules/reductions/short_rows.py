"""The rule for stages that share short rows: vectors across rows, with one row in each lane.

::

    for (i, 0, m)                          for (i.outer, 0, ceildiv(m, w))
      for (k, 0, n)                          for (j, 0, n)
        S[0] = S[0] + X[i, k]        ->        T[j, v] = X[i.outer*w + v, j]
      for (j, 0, n)                          for (k, 0, n)
        Y[i, j] = X[i, j] / S[0]               S[v] = S[v] + T[k, v]
                                             for (j, 0, n)
                                               Z[j, v] = T[j, v] / S[v]
                                             for (r, 0, w)
                                               Y[i.outer*w + r, ramp(0, 1, n)] = Z[ramp(0, 1, n), r]

where v stands for ramp(0, 1, w). Vectors along rows that are shorter than they waste lanes, and
rows of a few vectors spend their time on combining the lanes of a sum. Across rows no lane is
wasted, and a reduction is one operation for each vector. What that costs is a transposition in
registers on the way in (T) and on the way out (Z).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.visitor import free_vars, mentions
from autotune.rules.contractions.contraction import contractions
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.stage_graph import (
    RowGroup,
    extent,
    iterations,
    likely_shape,
    open_sizes,
    place_of,
    readings,
    reads_in,
    row_groups,
    step_along,
    written_out,
)
from autotune.rules.threads import lanes_in, serial_seconds, share
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Attach, Stage
from autotune.target import Target
from autotune.te.tensor import ComputeOp, PlaceholderOp, producers_first

#: Longest row for which there is a choice, in vectors.
_LONGEST: Final = 4

#: Fewest lanes of a vector, and fewest vectors that all rows must fill.
_FEWEST_LANES: Final = 4
_FEWEST_VECTORS: Final = 2

#: Lanes that take long to combine.
_MANY_LANES: Final = 16

#: Most vectors of a loop that is unrolled.
_UNROLLED: Final = 16

#: Vectors of a block of several, and how many blocks there are if one that is cut off is no matter.
_BLOCK: Final = 4
_MANY_BLOCKS: Final = 8

#: Side of transposed tiles in loops: LLVM takes long to analyse those of 16.
_SIDE: Final = 8

#: Bytes of the elements that transpositions in registers are for, whatever their number.
_NARROW_BYTES: Final = 4

#: Largest number of groups with a choice; each doubles the traces.
_CHOICES: Final = 2


class ShortRows:
    """The groups of stages of a computation that have vectors across rows.

    `cfg`: where knobs are defined.
    `outputs`: of the computation, before reductions are rewritten.
    `inlined`: stages that are computed where they are read.
    `constants`: inputs that do not change from call to call.
    `numbers`: the numbers of stages in names of knobs.
    """

    def __init__(
        self,
        cfg: KnobDefiner,
        outputs: Sequence[te.Tensor],
        inlined: Collection[te.Tensor],
        constants: Collection[te.Tensor],
        numbers: Mapping[te.Tensor, int],
    ) -> None:
        self.cfg = cfg
        self.numbers = numbers
        self.groups: list[RowGroup] = []
        #: What takes the place of each stage of these groups while others are rewritten.
        self.stages: dict[te.Tensor, te.Tensor] = {}
        for group in _short_groups(cfg.target, outputs, inlined, constants)[:_CHOICES]:
            ways = ("along", "across")
            likely = ways[_length(group) <= _likely_length(group, _lanes(cfg.target, group))]
            if self._knobs(group).define_knob("row_vectors", ways, likely) == "across":
                self.groups.append(group)
                self.stages |= {tensor: tensor for tensor in group.stages}

    def _knobs(self, group: RowGroup) -> StageKnobs:
        return StageKnobs(self.cfg, self.numbers[group.root])

    def apply(self, schedule: Schedule) -> list[te.Tensor]:
        """Schedule these groups; return all stages that they have now."""
        return [tensor for group in self.groups for tensor in self._apply(schedule, group)]

    def _apply(self, schedule: Schedule, before: RowGroup) -> list[te.Tensor]:
        """Compute a group in blocks of rows, in vectors across these; return its stages."""
        target, knobs = self.cfg.target, self._knobs(before)
        members = tuple((self.stages[tensor], rows) for tensor, rows in before.members)
        group = RowGroup(self.stages[before.root], before.rows, members)
        lanes, seconds = _lanes(target, group), serial_seconds(target, group.stages)
        strided = _strided(schedule, group, target)
        assert strided is not None
        root, parts = schedule[group.root], [(schedule[tensor], rows) for tensor, rows in members]
        axes = list(root.op.axis)
        rows = [axes[n] for n in group.rows]
        others = [a for a in axes if not any(a is row for row in rows)]
        is_stored_apart = math.prod(map(extent, axes[group.rows[-1] + 1 :])) > 1
        if is_stored_apart:
            result = schedule[schedule.cache_write(group.root, "global")]
            parts.insert(0, (result, tuple(result.op.axis[n] for n in group.rows)))
        own = [root, *(stage for stage, _ in parts)]
        for tensor, places in strided.items():
            readers = _readers(schedule, tensor, own) or []
            copy = schedule[schedule.cache_read(tensor, "global", [s.op for s in readers])]
            where = [places.index(n) for n in range(len(rows)) if n in places]
            parts.append((copy, tuple(copy.op.axis[n] for n in where)))
        *front, lane = rows
        likely = _likely_vectors(group, lanes)
        vectors = knobs.define_knob("block_vectors", (1, _BLOCK), likely)
        width, side = (lanes, lanes) if vectors == 1 else (_BLOCK * lanes, min(lanes, _SIDE))
        blocks = math.prod(map(extent, front)) * te.ceildiv(extent(lane), width)
        outer, block = root.split(lane, factor=width)
        vector, within = root.split(block, factor=lanes)
        if is_stored_apart:
            _store_rows(root, [*front, outer, vector], others, within, lanes, side)
        else:
            _in_vectors(root, [*front, outer, vector], others, within)
        at = share(knobs, root, root.fuse(*front, outer), blocks, seconds)
        for stage, fixed in parts:
            stage.compute_at(root, at)
            _compute(stage, fixed, lanes, 0 if stage in own else side)
        return [stage.op.output() for stage in (root, *(stage for stage, _ in parts))]


def _likely_length(group: RowGroup, lanes: int) -> float:
    """Return the length of the longest rows with vectors across them by default.

    Transpositions cost the same whatever is computed between them, so several reductions must be
    saved, or one whose lanes take long to combine.
    """
    reductions = sum(bool(tensor.op.reduce_axis) for tensor in group.stages)
    if reductions > 1:
        return 2.5 * lanes
    return lanes if lanes >= _MANY_LANES else 0


def _likely_vectors(group: RowGroup, lanes: int) -> int:
    """Return the likely number of vectors of rows in a block.

    Those of the shortest rows stay in registers from stage to stage. Of longer rows there are
    several, because reductions are chains of operations, but not if one of a few blocks is cut off.
    Half types take long to compile.
    """
    if dtypes.itemsize(group.root.dtype) < _NARROW_BYTES or _length(group) <= lanes // 3:
        return 1
    blocks = extent(group.root.op.axis[group.rows[-1]]) / (_BLOCK * lanes)
    return 1 if 1 < blocks < _MANY_BLOCKS else _BLOCK


def _compute(stage: Stage, rows: Sequence[Any], lanes: int, side: int) -> None:
    """Compute a stage in a block of rows.

    `side`: for what is copied in transposed tiles, their number of columns; else 0.
    """
    *front, lane = rows
    others = [a for a in stage.op.axis if not any(a is row for row in rows)]
    if others:
        order = [*(a.var for a in front), lane.var // lanes]
        order += [*(a.var for a in others), lane.var % lanes]
        stage.transform_layout(lambda *_: order)
    vector, within = stage.split(lane, factor=lanes)
    if side and extent(others[-1]) > side:
        outer, part = stage.split(others.pop(), factor=side)
        stage.reorder(*front, vector, *others, outer, part, within)
        stage.unroll(part)
        stage.vectorize(within)
    else:
        _in_vectors(stage, [*front, vector], others, within)


def _in_vectors(stage: Stage, outer: Sequence[Any], others: Sequence[Any], within: Any) -> None:
    """Compute a stage in vectors along `within`, and unroll the loops that are short."""
    loops = [*others, *stage.op.reduce_axis]
    stage.reorder(*outer, *loops, within)
    stage.vectorize(within)
    for n, axis in enumerate(loops):
        if math.prod(map(extent, loops[n:])) <= _UNROLLED:
            stage.unroll(axis)


def _store_rows(
    root: Stage, outer: Sequence[Any], inner: Sequence[Any], within: Any, lanes: int, side: int
) -> None:
    """Store rows from vectors across them: whole vectors of short rows, or parts of each row.

    `side`: rows of a transposed tile.
    """
    if math.prod(map(extent, inner)) <= lanes // 4:
        root.reorder(*outer, within, *inner)
        each, vector = root.split(root.fuse(within, *inner), factor=lanes)
        root.unroll(each)
    else:
        part, vector = root.split(inner[-1], factor=min(lanes, extent(inner[-1])))
        tiles, row = root.split(within, factor=side)
        root.reorder(*outer, *inner[:-1], part, tiles, row, vector)
        root.unroll(row)
    root.vectorize(vector)


def _short_groups(
    target: Target,
    outputs: Sequence[te.Tensor],
    inlined: Collection[te.Tensor],
    constants: Collection[te.Tensor],
) -> list[RowGroup]:
    """Return the groups for which there is a choice."""
    ops = list(dict.fromkeys(t.op for t in outputs))
    if not all(isinstance(op, (ComputeOp, PlaceholderOp)) for op in producers_first(ops)):
        return []
    schedule: Schedule = te.create_schedule(ops)
    for stage in schedule.stages:
        if stage.op.output() in inlined:
            stage.compute_inline()
    stages = readings(schedule)
    apart = [s.tensor for s in stages if _is_apart(s.tensor, target, inlined, constants)]
    groups = row_groups(schedule, stages, apart)
    return [group for group in groups if _is_short(schedule, group, target)]


def _is_short(schedule: Schedule, group: RowGroup, target: Target) -> bool:
    """Whether the rows of a group may be computed in lanes: many, short, and read in one way.

    One pass over the rows alone, as for their sums, is as fast in other ways.
    """
    lanes = _lanes(target, group)
    if lanes < _FEWEST_LANES or not group.rows or any(open_sizes(t.op) for t in group.stages):
        return False
    if extent(group.root.op.axis[group.rows[-1]]) < _FEWEST_VECTORS * lanes:
        return False
    passes = sum(iterations(tensor) > _count(group) for tensor in group.stages)
    is_reduced = any(tensor.op.reduce_axis for tensor in group.stages)
    if passes < 2 or not is_reduced or _length(group) > _LONGEST * lanes:
        return False
    return bool(_strided(schedule, group, target))


def _is_apart(
    tensor: te.Tensor,
    target: Target,
    inlined: Collection[te.Tensor],
    constants: Collection[te.Tensor],
) -> bool:
    """Whether a stage has several results, or is a product: elements of it share operands."""
    if len(tensor.op.outputs) > 1 or not tensor.op.reduce_axis:
        return len(tensor.op.outputs) > 1
    whole = written_out(tensor, inlined)
    own = {axis.var for axis in tensor.op.axis if extent(axis) > 1}
    is_shared = any(own - set(free_vars(read)) for read in reads_in(whole.op))
    return is_shared and bool(contractions(whole, lanes_in(target, tensor.dtype), constants))


def _lanes(target: Target, group: RowGroup) -> int:
    """Return the rows of a vector: those for which the largest type has a register."""
    return min(lanes_in(target, tensor.dtype) for tensor in group.stages)


def _length(group: RowGroup) -> int:
    """Return how many elements a stage computes or reads for a row at most."""
    return max(map(iterations, group.stages)) // max(_count(group), 1)


def _count(group: RowGroup) -> int:
    """Return the number of rows."""
    return math.prod(extent(group.root.op.axis[n]) for n in group.rows)


def _strided(
    schedule: Schedule, group: RowGroup, target: Target
) -> dict[te.Tensor, list[int | None]] | None:
    """Return what a group reads from outside whose neighbouring rows are no neighbours in memory.

    For each tensor, which of the group's rows the index of each dimension is; None for others.
    The result is None if vectors across rows would have to gather elements in another way.
    """
    body = {stage.tensor: stage.reads for stage in readings(schedule)}
    own = [schedule[tensor] for tensor in group.stages]
    found: dict[te.Tensor, list[int | None]] = {}
    others: set[te.Tensor] = set()
    for tensor, rows in [(group.root, [group.root.op.axis[n] for n in group.rows]), *group.members]:
        lane = rows[-1]
        for read in body[tensor]:
            uses = [index for index in read.children if mentions(index, lane.var)]
            if any(index is not lane.var for index in uses) or len(uses) > 1:
                return None
            is_own = any(read.tensor is t for t in group.stages)
            if is_own or not uses or step_along(place_of(read), lane) == 1:
                others.add(read.tensor)
                continue
            places = [
                next((n for n, axis in enumerate(rows) if index is axis.var), None)
                for index in read.children
            ]
            if found.setdefault(read.tensor, places) != places:
                return None
    longest = _LONGEST * _lanes(target, group)
    for tensor, places in found.items():
        is_free = tensor not in others and _readers(schedule, tensor, own) is not None
        if not is_free or not 1 < _copied(tensor, places) <= longest:
            return None
    return found


def _copied(tensor: te.Tensor, places: Sequence[int | None]) -> int:
    """Return how many elements of a tensor belong to a row."""
    shape = zip(likely_shape(tensor), places, strict=True)
    return math.prod(size for size, place in shape if place is None)


def _readers(schedule: Schedule, tensor: te.Tensor, own: Sequence[Stage]) -> list[Stage] | None:
    """Return the stages by which some others read a tensor: these, or those inlined into them.

    The result is None if one is also inlined elsewhere.
    """
    found = []
    for stage in schedule.readers(tensor):
        users = _users(schedule, stage)
        if any(user in own for user in users):
            if not all(user in own for user in users):
                return None
            found.append(stage)
    return found


def _users(schedule: Schedule, stage: Stage) -> list[Stage]:
    """Return a stage, or those that it is inlined into."""
    if stage.attach is not Attach.INLINE:
        return [stage]
    readers = [reader for tensor in stage.outputs for reader in schedule.readers(tensor)]
    return [user for reader in readers for user in _users(schedule, reader)]
