"""Bound inference: the range of every axis, from the regions that the readers of a stage need.

No decision depends on a knob's value: extents are expressions over knobs and sizes, inner ones
are min(factor, extent), and guards exclude iterations beyond the end.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence, Set

from autotune.errors import LoweringError
from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.algebra.polynomials import add, normal, rejoined, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.axes import IterVar, Range, same_index
from autotune.ir.expr import Const, Expr, SizeVar, Var, is_const
from autotune.ir.ops import binary, cast, const
from autotune.ir.visitor import Substitution, free_vars, reads, substitute
from autotune.lowering.nest.digit_indices import without_digits
from autotune.lowering.nest.regions import Interval, Relaxer, as_index, union
from autotune.lowering.nest.stage_placement import (
    loop_path,
    refuse_nested_parallel,
    refuse_nested_vectors,
    refuse_repeated_axes,
    shared_across,
    storage_scope,
)
from autotune.schedule.axis_relations import Fuse, Split, fused_whole, pass_down, pass_up, resolved
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Attach, Stage
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Tensor

Ranges = dict[IterVar, Range]


class Bounds:
    """Ranges of all axes of a schedule's stages.

    `for_autotvm08`: write indices over split loops as TVM v0.8 does.
    """

    def __init__(self, schedule: Schedule, for_autotvm08: bool = False) -> None:
        self._for_autotvm08 = for_autotvm08
        #: Bodies of the computed stages, inlined ones substituted.
        self.bodies = schedule.bodies()
        #: Range of every axis: a root axis has its region's range, derived axes begin at 0.
        self.ranges: Ranges = {}
        #: Part of each dimension that a scan computes, if it is not the whole dimension.
        self.parts: dict[Stage, dict[int, Range]] = {}
        #: The steps of a scan that are read outside of it, if that is one step of several.
        self.last_steps: dict[Stage, Range] = {}
        self._simplifier = Simplifier(otherwise=(0, INF))  # loops start at 0
        for stage in reversed(list(self.bodies)):
            self._infer(stage)

    def refuse_sizes_but(self, known: Set[SizeVar]) -> None:
        """Raise an error for stages that depend on sizes that no argument has."""
        for stage, body in self.bodies.items():
            spans = (axis.dom for axis in (*stage.op.axis, *stage.op.reduce_axis))
            lengths = [span.extent for span in spans if span is not None]
            for var in (var for expr in (*lengths, *body) for var in free_vars(expr)):
                if isinstance(var, SizeVar) and var not in known:
                    raise LoweringError(
                        f"stage {stage.name!r} depends on the size {var.name!r}, which is in the "
                        "shape of no tensor that is listed; list one, or give a number"
                    )

    # -- one stage -------------------------------------------------------------------------

    def _infer(self, stage: Stage) -> None:
        refuse_repeated_axes(stage)
        if not self._for_autotvm08:
            refuse_nested_parallel(stage)
            refuse_nested_vectors(stage)
        op = stage.op
        if isinstance(op, ScanOp):
            self._infer_scan(stage, op)
        if isinstance(op, ComputeOp):
            for axis, span in zip(op.axis, self._region(stage, op), strict=True):
                self.ranges[axis] = span
        for axis in (op.scan_axis,) if isinstance(op, ScanOp) else op.reduce_axis:
            assert axis.dom is not None
            self.ranges[axis] = axis.dom
        self._pass_down(stage)

    def step(self, scan: Stage) -> Expr:
        """Return the present step of a scan's loops."""
        assert isinstance(scan.op, ScanOp)
        return self.root_values(scan)[scan.op.scan_axis.var]

    def _pass_down(self, stage: Stage) -> None:
        """Derive the ranges of split and fused axes from their parents."""
        bound = _ancestors_of_bound(stage)
        extents = {axis: span.extent for axis, span in self.ranges.items()}

        def keeps(split: Split) -> bool:
            given = split.outer if split.factor is None else split.inner
            if self._for_autotvm08 and is_const(extents[split.parent], 0):
                return True  # TVM v0.8 keeps the size for an empty axis
            return given in bound

        known = len(extents)
        pass_down(stage.relations, extents, keeps)
        derived = list(extents.items())[known:]
        self.ranges.update((axis, Range(const(0), extent)) for axis, extent in derived)

    def is_step(self, scan: Stage, axis: IterVar) -> bool:
        """Whether the region of an axis in a cell is certainly the present step or earlier ones.

        These exist in every tensor with as many steps as the scan.
        """
        op, span = scan.op, self.ranges[axis]
        assert isinstance(op, ScanOp)
        assert axis.dom is not None
        away = add(to_poly(span.min), to_poly(self.step(scan)), -1)
        if set(away) - {()} or not isinstance(span.extent, Const):
            return False
        low = away.get((), 0)
        return (
            axis.dom.extent is op.update[0].extents[0]
            and op.first + low >= 0
            and low + int(span.extent.value) <= 1
        )

    def root_values(self, stage: Stage, apart: Set[Fuse] = frozenset()) -> dict[Var, Expr]:
        """Return the value of each axis of the operation, over the stage's loop variables.

        Values include the start of the axis' region. Axes in `apart` count as not fused.
        """
        leaves = {leaf: leaf.var for leaf in stage.leaf_axes}
        values = pass_up(
            stage.relations, leaves, self.extent, self.stride, start=self._from, apart=apart
        )
        op = stage.op
        roots = (op.scan_axis,) if isinstance(op, ScanOp) else (*op.axis, *op.reduce_axis)
        for axis in roots:
            if axis in stage.leaf_axes:
                values[axis] = self._from(axis, values[axis])
            elif axis is stage.time:
                values[axis] = self.ranges[axis].min
        found = {axis.var: cast(axis.var.dtype, values[axis]) for axis in roots}
        return {axis.var: resolved(stage.relations, found[axis.var], found, axis) for axis in roots}

    def stride(self, split: Split) -> Expr:
        """Return the stride of the outer loop.

        It is the factor even if the axis, and so the inner loop, is shorter: the outer loop then
        has one iteration, and a multiple of the factor is easier to simplify. TVM v0.8 differs,
        which matters if the outer loop is split again for threads.
        """
        if split.factor is None or self._for_autotvm08:
            return self.ranges[split.inner].extent
        return split.factor

    def extent(self, axis: IterVar) -> Expr:
        """Return the extent of an axis."""
        return self.ranges[axis].extent

    def _from(self, axis: IterVar, value: Expr) -> Expr:
        return binary("+", value, self.ranges[axis].min)

    # -- regions that readers need -----------------------------------------------------------------

    def _region(self, stage: Stage, op: ComputeOp) -> list[Range]:
        whole = [axis.dom for axis in op.axis if axis.dom is not None]
        if stage.is_output:
            return whole
        if stage.attach is Attach.INIT or stage.time is not None:
            assert stage.scan is not None
            own = self.parts[stage.scan]
            rows = whole[0] if stage.time is None else Range(self.step(stage.scan), const(1))
            others = (own.get(n, span) for n, span in enumerate(whole[1:], start=1))
            return [rows, *others]
        readers = list(self._reads_of(stage))
        needs = [self._needed(stage, reader, tensor) for reader, tensor in readers]
        begin = any(map(_begins_before, (reader for reader, _ in readers)))
        found = self._needed_parts(whole, needs, begin, stage.cell)
        if stage.attach is not Attach.ROOT or self._for_autotvm08:
            return found
        # What tiles of the readers need is all of it: its axes keep lengths that are known.
        return [
            span if isinstance(span.extent, Const) and not isinstance(part.extent, Const) else part
            for span, part in zip(whole, found, strict=True)
        ]

    def _infer_scan(self, stage: Stage, op: ScanOp) -> None:
        """Note the steps and the parts of dimensions that readers need of a scan.

        Only parts of dimensions along which elements are independent are computed alone.
        """
        self.parts[stage] = {}
        if stage.is_output:
            return
        whole = [Range(const(0), extent) for extent in op.outputs[0].extents]
        needs = [self._needed(stage, reader, tensor) for reader, tensor in self._reads_of(stage)]
        found = self._needed_parts(whole, needs)
        # Whether several steps are all of them may depend on knobs; one step is one step.
        if found[0].extent is const(1) and whole[0].extent is not const(1):
            self.last_steps[stage] = found[0]
        if stage.attach is not Attach.ROOT:
            self.parts[stage] = {position: found[position] for position in op.apart}

    def _needed_parts(
        self,
        whole: Sequence[Range],
        needs: Sequence[Sequence[Interval | None]],
        from_before: bool = False,
        scan: Stage | None = None,
    ) -> list[Range]:
        """Return the part of a tensor that its readers need; the whole tensor if it is unknown.

        It begins at 0 or later, unless readers begin before that, where a vector begins.

        `scan`: the one in each step of which the part is computed, if there is one.
        """
        regions = []
        for position, span in enumerate(whole):
            known = (need[position] if position < len(need) else None for need in needs)
            found = union(known) if needs else None
            if found is None or reads(found.low) or reads(found.width):
                regions.append(span)
                continue
            low, extent = found.low, _at_least_zero(normal(found.width + 1), self._simplifier)
            if self._may_be_negative(low, scan):
                if from_before and not isinstance(low, Const):
                    regions.append(Range(low, extent))
                    continue
                low = binary("max", low, const(0, low.dtype))
            regions.append(Range(low, self._clipped(extent, span.extent)))
        return regions

    def _may_be_negative(self, low: Expr, scan: Stage | None) -> bool:
        """Whether the start of a region may be below 0; a step of a scan is not."""
        if self._simplifier.bounds(low)[0] >= 0:
            return False
        if scan is None:
            return True
        assert isinstance(scan.op, ScanOp)
        away = add(to_poly(low), to_poly(self.step(scan)), -1)
        return bool(set(away) - {()}) or scan.op.first + away.get((), 0) < 0

    def _clipped(self, extent: Expr, size: Expr) -> Expr:
        """Return min(extent, size): no region is larger than its tensor.

        A size that is known only at run time does not shorten a region with a known extent: guards
        protect the tensor, and a local array keeps a constant length.
        """
        if extent is size or (is_sized(size) and not is_sized(extent)):
            return extent
        return binary("min", extent, size)

    def _reads_of(self, stage: Stage) -> Iterator[tuple[Stage, Tensor]]:
        for reader, body in self.bodies.items():
            for tensor in stage.outputs:
                if any(read.tensor is tensor for expr in body for read in reads(expr)):
                    yield reader, tensor

    def _needed(self, stage: Stage, reader: Stage, tensor: Tensor) -> list[Interval | None]:
        same, relaxed = self._threads_around(stage, reader), self._relaxed(stage, reader)
        for thread in same:
            relaxed.pop(thread, None)
        ranging = {leaf for leaf in reader.leaf_axes if leaf.var in relaxed}
        apart = set() if self._for_autotvm08 else fused_whole(reader.relations, ranging)
        for axis in (axis for relation in apart for axis in (relation.outer, relation.inner)):
            relaxed[axis.var] = as_index(self.ranges[axis].extent)
        relaxer, values = Relaxer(relaxed), self.root_values(reader, apart)
        extents = {axis.var: as_index(self.ranges[axis].extent) for _, axis in loop_path(reader)}
        ranged = {*relaxed, *(var for thread in same.values() for var in free_vars(thread))}

        over_loops = Substitution(values).expr

        @functools.cache  # several reads have the same index in some dimension
        def index_of(index: Expr) -> Expr:
            value = rejoined(as_index(over_loops(index)), relaxed.keys())
            value = without_digits(value, extents)
            return rejoined(substitute(value, same), ranged)

        indices = [
            tuple(map(index_of, read.children))
            for expr in self.bodies[reader]
            for read in reads(expr)
            if read.tensor is tensor
        ]
        return [
            union(relaxer.interval(index[position]) for index in indices)
            for position in range(tensor.ndim)
        ]

    def _threads_around(self, stage: Stage, reader: Stage) -> dict[Var, Expr]:
        """Return the variables of a reader's threads that belong to a loop around a stage.

        Each thread keeps its own part of the stage, and reads that.
        """
        scope, point = storage_scope(stage), stage.attach_point
        path = list(loop_path(reader))
        own = [n for n, place in enumerate(path) if point and place == tuple(point)]
        same: dict[Var, Expr] = {}
        for owner, axis in path[: own[0]] if own else ():
            thread = owner.bindings.get(axis)
            for other, outer in path[own[0] :]:
                bound = other.bindings.get(outer)
                if thread is None or bound is None or shared_across(scope, other, outer):
                    continue
                if same_index(thread, bound):
                    same[axis.var] = outer.var
        return same

    def _relaxed(self, stage: Stage, reader: Stage) -> dict[Var, Expr]:
        """Return the loop variables around the read that vary inside the point of attachment."""
        point = stage.attach_point
        scope = storage_scope(stage)
        relaxed: dict[Var, Expr] = {}
        found = False
        for owner, axis in loop_path(reader):
            found = found or (point is not None and axis is point.axis and owner is point.stage)
            if not found or shared_across(scope, owner, axis):
                relaxed[axis.var] = as_index(self.ranges[axis].extent)
        if point is not None and not found:
            raise LoweringError(
                f"stage {stage.name!r} is computed at axis {point.axis.name!r} of stage "
                f"{point.stage.name!r}, but its reader {reader.name!r} is not inside that loop; "
                f"move the reader there too, or compute {stage.name!r} further out"
            )
        return relaxed


def _begins_before(stage: Stage) -> bool:
    return any(isinstance(r, Split) and r.offset is not None for r in stage.relations)


def is_sized(extent: Expr) -> bool:
    """Whether an extent is known only when the function is called."""
    return any(isinstance(var, SizeVar) for var in free_vars(extent))


def _at_least_zero(extent: Expr, simplifier: Simplifier) -> Expr:
    """Return the extent of a region, at least 0 also for an empty loop of its reader."""
    empty = isinstance(extent, Const) and extent.value < 0
    if empty or (is_sized(extent) and simplifier.bounds(extent)[0] < 0):
        return binary("max", extent, const(0, extent.dtype))
    return extent


def _ancestors_of_bound(stage: Stage) -> set[IterVar]:
    """Return the axes of which a derived loop is bound to a thread."""
    bound = set(stage.bindings)
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            if relation.outer in bound or relation.inner in bound:
                bound.add(relation.parent)
        elif relation.fused in bound:
            bound.update((relation.outer, relation.inner))
    return bound
