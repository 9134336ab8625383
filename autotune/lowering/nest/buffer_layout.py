"""The storage of tensors: the buffer of each, its strides, and flat indices into it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from autotune.errors import LoweringError
from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.algebra.polynomials import Poly, add, joined, to_expr, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.axes import IterVar, Range
from autotune.ir.expr import BinaryOp, Buffer, Const, Expr, KnobVar, Load, SizeVar, Var, is_const
from autotune.ir.name_supply import NameSupply
from autotune.ir.ops import binary, const, row_major
from autotune.ir.visitor import ReadRewriter, free_vars, substitute
from autotune.lowering.nest.bound_inference import Bounds, is_sized
from autotune.lowering.nest.stage_placement import storage_scope
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, PlaceholderOp, Tensor


class StorageLayout:
    """Buffers of a schedule's tensors: whole parameters, and the needed regions of temporaries.

    `schedule`, `bounds`: the tensors, and their needed regions.
    `parameters`: parameters of the function.
    `unique`: whether buffers of tensors with the same name get different names.
    `strided`: whether each call gives the strides of parameters with sizes that are known only
    then.
    """

    def __init__(
        self,
        schedule: Schedule,
        bounds: Bounds,
        parameters: Sequence[Tensor],
        unique: bool = True,
        strided: bool = False,
    ) -> None:
        self.schedule = schedule
        self._unique = unique
        self._strided = strided
        self.bounds = bounds
        #: Parameters first, in the caller's order.
        self.buffers: dict[Tensor, Buffer] = {}
        #: Tensors of a scan that are stored in the array of its result.
        self.whole: set[Tensor] = set()
        #: Arrays of scans with an index from which the element of a step cannot be derived.
        self.mixed: set[Buffer] = set()
        #: Ring buffers of scans that keep their last steps in one, by init, update and state.
        self.rings: dict[Tensor, Buffer] = {}
        self._windows: dict[Tensor, Expr] = {}  # of scans of which not all steps are stored
        self._starts: dict[Tensor, list[Expr]] = {}
        self._strides: dict[Tensor, list[Expr]] = {}
        self._names = NameSupply()
        self._signs = Simplifier(otherwise=(0, INF))
        self._flatten = ReadRewriter(self._load)
        self._declare_parameters(parameters)
        for stage in bounds.bodies:
            if isinstance(stage.op, ScanOp):
                self._declare_scan(stage, stage.op)
        for stage in bounds.bodies:
            for tensor in stage.outputs:
                if tensor not in self.buffers:
                    self._declare(tensor, self._region_shape(stage), stage)

    def _declare_parameters(self, parameters: Sequence[Tensor]) -> None:
        for tensor in parameters:
            if tensor in self.buffers:
                raise LoweringError(f"tensor {tensor.name!r} is listed twice; list it once")
            if not isinstance(tensor.op, PlaceholderOp):
                self.schedule[tensor]  # raises an error for other tensors
            self._declare(tensor, tensor.extents, None)
        self._refuse_results()
        self._refuse_inputs()

    def _refuse_results(self) -> None:
        """Raise an error for a missing output, and for a result that is not an output."""
        for stage in self.bounds.bodies:
            if stage.is_output and not any(t in self.buffers for t in stage.outputs):
                raise LoweringError(
                    f"output {stage.name!r} is missing from the list of tensors; add it"
                )
            for tensor in stage.outputs:
                if tensor in self.buffers and not stage.is_output:  # only parameters so far
                    raise LoweringError(
                        f"tensor {tensor.name!r} is an intermediate result; give its operation "
                        "to create_schedule too if it shall be returned"
                    )

    def _refuse_inputs(self) -> None:
        """Raise an error for a missing placeholder, and for one that is a scan's state."""
        states = {
            tensor
            for stage in self.bounds.bodies
            if isinstance(stage.op, ScanOp)
            for tensor in stage.op.state_placeholder
        }
        for stage in self.schedule.stages:
            tensor = stage.outputs[0]
            if tensor in states and tensor in self.buffers:
                raise LoweringError(
                    f"tensor {tensor.name!r} stands for the state of a scan; list the scan's "
                    "result instead"
                )
            needed = isinstance(stage.op, PlaceholderOp) and tensor not in states
            if needed and tensor not in self.buffers:
                raise LoweringError(
                    f"placeholder {tensor.name!r} is missing from the list of tensors; add it"
                )

    def _declare_scan(self, stage: Stage, op: ScanOp) -> None:
        """Store the init, the steps and the state of each result in the array of the result."""
        parts = zip(stage.outputs, op.init, op.update, op.state_placeholder, strict=True)
        for result, *others in parts:
            spans = [Range(const(0), extent) for extent in result.extents]
            for position, span in self.bounds.parts[stage].items():
                spans[position] = span
            last = self.bounds.last_steps.get(stage)
            if last is not None:
                kept = binary("max", last.extent, ring_steps(op))
                spans[0] = Range(const(0), binary("min", kept, spans[0].extent))
                self._windows |= dict.fromkeys((result, *others), spans[0].extent)
            if result not in self.buffers:
                self._declare(result, tuple(span.extent for span in spans), stage)
            for tensor in (result, *others):
                self._starts[tensor] = [span.min for span in spans]
            for other in others:
                self.buffers[other] = self.buffers[result]
                self._strides[other] = self._strides[result]
                self.whole.add(other)
            if stage.has_pragma("state_in_ring"):
                shape = (const(ring_steps(op)), *(span.extent for span in spans[1:]))
                name = self.unused(f"{result.name}.ring")
                ring = Buffer(name, result.dtype, shape, storage_scope(stage))
                self.rings.update(dict.fromkeys(others, ring))

    def _region_shape(self, stage: Stage) -> tuple[Expr, ...]:
        assert isinstance(stage.op, ComputeOp)
        return tuple(_stored_length(self.bounds.ranges[axis].extent) for axis in stage.op.axis)

    def _declare(self, tensor: Tensor, shape: tuple[Expr, ...], stage: Stage | None) -> None:
        """Make the buffer of a tensor and note the strides of its dimensions, row-major.

        A padded temporary, of which some stride is aligned, is one long row.
        """
        strides: list[Expr] = []
        stride: Expr = const(1)
        alignments = {} if stage is None else stage.alignments
        axes: list[IterVar | None] = [None] * len(shape)
        if stage is not None and alignments:
            axes = list(stage.op.axis)  # not the tensor's: rfactor makes new axes
        if stage is not None and stage.layout is not None:
            lengths = dict(zip(stage.op.axis, shape, strict=True))
            shape = tuple(digits.extent(lengths[digits.axis]) for digits in stage.layout)
            axes = [digits.axis if digits.modulus is None else None for digits in stage.layout]
        for axis, length in zip(reversed(axes), reversed(shape), strict=True):
            if axis is not None and axis in alignments:
                stride = alignments[axis].of(stride)
            strides.insert(0, stride)
            stride = binary("*", stride, length)
        self._strides[tensor] = strides
        scope = "global" if stage is None else storage_scope(stage)
        name = self.unused(tensor.name)
        if stage is None and self._strided and any(map(is_sized, tensor.extents)):
            given = tuple(SizeVar("stride") for _ in strides)
            self._strides[tensor] = list(given)
            self.buffers[tensor] = Buffer(name, tensor.dtype, shape, scope, given)
            return
        stored = (stride,) if alignments else shape
        if stage is not None and not alignments and stage.layout is None:
            stored = self._without_step(stage, shape)
        self.buffers[tensor] = Buffer(name, tensor.dtype, stored, scope)

    def _without_step(self, stage: Stage, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return a shape without the step dimension of a stage in a cell."""
        scan = stage.cell
        if scan is None:
            return shape
        kept = [
            extent
            for axis, extent in zip(stage.op.axis, shape, strict=True)
            if not (is_const(extent, 1) and self.bounds.is_step(scan, axis))
        ]
        return tuple(kept) or (const(1),)

    def rings_of(self, scan: Stage) -> list[Buffer]:
        """Return the ring buffers of a scan's last steps, if it has them."""
        assert isinstance(scan.op, ScanOp)
        return [self.rings[state] for state in scan.op.state_placeholder if state in self.rings]

    def unused(self, name: str) -> str:
        """Return `name`, with a number if another buffer has it and names must be unique."""
        return self._names.unused(name) if self._unique else name

    def element(self, tensor: Tensor, indices: Sequence[Expr]) -> tuple[Buffer, Expr]:
        """Return the buffer and the flat index of an element: row-major, unless it has a layout."""
        buffer = self.buffers.get(tensor)
        if buffer is None:
            raise LoweringError(
                f"tensor {tensor.name!r} is read but neither computed nor a parameter"
            )
        stage = self.schedule[tensor]
        places = list(indices)
        axes = stage.op.axis
        starts = self._starts.get(tensor) or [self.bounds.ranges[axis].min for axis in axes]
        if starts:
            places = [binary("-", i, start) for i, start in zip(places, starts, strict=True)]
            if tensor in self._windows:
                places[0] = binary("%", places[0], self._windows[tensor])
            if stage.layout is not None:
                along = dict(zip(axes, places, strict=True))
                places = [digits.of(along[digits.axis]) for digits in stage.layout]
        flat: Expr = const(0)
        strides = self._strides[tensor]
        for position in reversed(range(len(places))):
            flat = binary("+", binary("*", places[position], strides[position]), flat)
        if tensor in self.whole and not self._is_plain(places[1:], buffer.shape[1:]):
            self.mixed.add(buffer)
        return buffer, flat

    def kept(self, tensor: Tensor, indices: Sequence[Expr]) -> tuple[Buffer, Expr]:
        """Return the ring of a state, an init or an update, and the flat index of an element."""
        ring = self.rings[tensor]
        step, *places = (
            binary("-", i, start) for i, start in zip(indices, self._starts[tensor], strict=True)
        )
        flat = row_major([binary("%", step, ring.shape[0]), *places], ring.shape)
        if not self._is_plain(places, ring.shape[1:]):
            self.mixed.add(ring)
        return ring, flat

    def distance(
        self, tensor: Tensor, indices: Sequence[Expr], later: Mapping[Var, Expr]
    ) -> Expr | None:
        """Return the distance in elements if some variables have other values.

        It is None if the distance is 0, or depends on anything but sizes and knobs.
        """
        _, here = self.element(tensor, indices)
        _, there = self.element(tensor, [substitute(index, later) for index in indices])
        moved = to_expr(add(to_poly(there), to_poly(here), -1))
        if isinstance(moved, Const) and not moved.value:
            return None
        fixed = all(isinstance(var, (SizeVar, KnobVar)) for var in free_vars(moved))
        return moved if fixed else None

    def _is_plain(self, places: Sequence[Expr], shape: Sequence[Expr]) -> bool:
        """Whether indices into a step have no negative terms, so that they stay within the step.

        The test is for each index, or for all together: indices of fused columns add up to one
        number.
        """
        return all(map(self._has_no_negative, map(to_poly, places))) or self._has_no_negative(
            joined(to_poly(row_major(places, shape)))
        )

    def _has_no_negative(self, poly: Poly) -> bool:
        return all(
            scale > 0 and all(self._signs.bounds(atom)[0] >= 0 for atom in atoms)
            for atoms, scale in poly.items()
        )

    def loads(self, expr: Expr) -> Expr:
        """Return an expression with its reads of tensors as loads of flat buffers."""
        return self._flatten.expr(expr)

    def _load(self, tensor: Tensor, indices: Sequence[Expr]) -> Expr:
        find = self.kept if tensor in self.rings else self.element
        return Load(*find(tensor, indices))


def ring_steps(op: ScanOp) -> int:
    """Return how many steps of a scan are kept at a time.

    These are the steps that a step may read, plus the one that it writes, unless that can replace
    the oldest: each element of a single state is written after all reads of the oldest.
    """
    update = op.update[0]
    alone = len(op.update) == 1 and len(op.apart) == update.ndim - 1
    return op.first if alone else op.first + 1


def _stored_length(extent: Expr) -> Expr:
    """Return a size that an extent does not exceed: without sizes of calls, if minima show one.

    Strides are known then, and what is small is on the stack.
    """
    limit = _upper_limit(extent)
    return extent if limit is None else limit


def _upper_limit(size: Expr) -> Expr | None:
    """Return an upper limit of a size without sizes of calls, or None if none is seen."""
    if not is_sized(size):
        return size
    if not isinstance(size, BinaryOp) or size.op not in ("min", "max", "+", "*"):
        return None
    parts = [_upper_limit(part) for part in size.children]
    known = [part for part in parts if part is not None]
    if size.op == "min" and known:
        return functools.reduce(functools.partial(binary, "min"), known)
    return binary(size.op, *known) if len(known) == len(parts) else None
