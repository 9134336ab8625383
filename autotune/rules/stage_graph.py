"""Analysis of the stages of a computation, for all rules.

In: stages of tensor expressions. Out: lengths of axes, reads and readers, groups of stages that
share rows, and reductions rewritten over other axes.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.ir.algebra.polynomials import Poly, add, joined, multiply, to_poly
from autotune.ir.axes import IterVar
from autotune.ir.expr import BinaryOp, Const, Expr, Read, Reduce, SizeVar, Var
from autotune.ir.ops import cast, const
from autotune.ir.visitor import ReadRewriter, free_vars, post_order, reads, substitute, walk_expr
from autotune.schedule.schedule import Schedule
from autotune.te.reduction import reduction
from autotune.te.tensor import ComputeOp, Operation


def extent(axis: Any) -> int:
    """Return the length of an axis; a likely length if it is known only at the call.

    Use it for choices that affect speed only: the actual length may be another.
    """
    return likely_value(axis.dom.extent)


def length_of(axis: Any) -> Any:
    """Return the length of an axis: a number, or an expression of knobs or open sizes."""
    length = axis.dom.extent
    return int(length.value) if isinstance(length, Const) else length


def likely_value(size: Expr) -> int:
    """Return a size; if it depends on sizes from `te.var`, what it likely is, at least 2."""
    if isinstance(size, Const):
        return int(size.value)
    value = with_likely_sizes(size)
    assert isinstance(value, Const)
    return max(int(value.value), 2)  # an axis of one element would not count


def with_likely_sizes(expr: Expr) -> Expr:
    """Return an expression with likely values of sizes from `te.var`."""
    likely = {v: const(v.likely, v.dtype) for v in free_vars(expr) if isinstance(v, SizeVar)}
    return substitute(expr, likely) if likely else expr


def likely_shape(tensor: te.Tensor) -> list[int]:
    """Return the shape of a tensor, with likely values of sizes from `te.var`."""
    return list(map(likely_value, tensor.extents))


def is_open(size: Any) -> bool:
    """Whether only calls know a size."""
    return isinstance(size, Expr) and any(isinstance(v, SizeVar) for v in free_vars(size))


def open_sizes(op: Operation) -> list[SizeVar]:
    """Return the sizes from `te.var` that a stage has, each once."""
    reduced = [axis.dom.extent for axis in getattr(op, "reduce_axis", ())]
    sizes = [size for tensor in op.outputs for size in tensor.extents]
    found = [v for size in (*sizes, *reduced) for v in free_vars(size) if isinstance(v, SizeVar)]
    return list(dict.fromkeys(found))


def power_of_two(number: int) -> int:
    """Return the least power of 2 that is at least a number."""
    return 1 << max(number - 1, 0).bit_length()


def iterations(tensor: te.Tensor) -> int:
    """Return the number of evaluations of a stage's expression."""
    return math.prod(extent(axis) for axis in (*tensor.op.axis, *tensor.op.reduce_axis))


def open_iterations(tensor: te.Tensor) -> Any:
    """Return the same as an expression of the sizes that only calls know."""
    axes = (*tensor.op.axis, *tensor.op.reduce_axis)
    return functools.reduce(operator.mul, map(length_of, axes), 1)


def reduction_of(tensor: te.Tensor) -> Reduce:
    """Return what a tensor reduces."""
    assert isinstance(tensor.op, ComputeOp)
    (body,) = tensor.op.body
    assert isinstance(body, Reduce)
    return body


def reads_in(op: Operation) -> list[Read]:
    """Return the reads of a stage, each once."""
    assert isinstance(op, ComputeOp)
    return list(dict.fromkeys(r for value in op.body for r in reads(value)))


def reduced_over(body: Reduce, axes: Any, values: Mapping[Any, Any], inside: Any = None) -> Any:
    """Return a reduction over other axes, given values of the variables that it uses.

    `inside`: a further condition that reduced elements must meet.
    """
    where = substitute(body.condition, values)
    if inside is not None:
        is_always = isinstance(where, Const) and where.value
        where = inside if is_always else te.all(where, inside)
    sources = [substitute(source, values) for source in body.sources]
    return reduction(body.combiner, sources, axes, where)[body.index]


def place_of(read: Read) -> Poly:
    """Return the position in memory of what is read, as a polynomial."""
    total: Poly = {}
    for index, size in zip(read.children, read.tensor.extents, strict=True):
        total = add(multiply(total, to_poly(size)), to_poly(index))
    return joined(total)


def step_along(place: Poly, axis: IterVar) -> int | None:
    """Return the distance in memory of neighbours along an axis, None if it varies."""
    if extent(axis) == 1:
        return 0
    step = 0
    for monomial, coefficient in place.items():
        if len(monomial) == 1 and monomial[0] is axis.var:
            step = coefficient
        elif any(axis.var is v for atom in monomial for v in free_vars(atom)):
            return None
    return step


def are_one(places: Sequence[Poly], outer: IterVar, inner: IterVar) -> bool:
    """Whether two axes are passed over as one in memory."""
    for place in places:
        above, below = step_along(place, outer), step_along(place, inner)
        if above is None or below is None or is_open(length_of(inner)):
            return False
        if extent(outer) > 1 and extent(inner) > 1 and above != below * extent(inner):
            return False
    return True


def variables_outside_reads(expr: Expr) -> set[Expr]:
    """Return the variables that an expression uses itself, not in indices of what it reads."""
    nodes = post_order(expr, (), lambda e: () if isinstance(e, Read) else e.children)
    return {node for node in nodes if isinstance(node, Var)}


def with_axes_merged(tensor: te.Tensor) -> te.Tensor:
    """Return a reduction with one axis in place of several that every read passes over as one.

    ::

        sum(A[i, k, l], k and l)    ->    sum(A[i, m // length, m % length], m)
    """
    reduced, op = reduction_of(tensor), tensor.op
    assert isinstance(op, ComputeOp)
    places = [place_of(r) for source in reduced.sources for r in reads(source)]
    apart = set().union(*map(variables_outside_reads, [reduced.condition, *reduced.sources]))
    for outer, inner in itertools.pairwise(a for a in reduced.axes if extent(a) > 1):
        length, whole = extent(inner), extent(outer) * extent(inner)
        if {outer.var, inner.var} & apart or 2 * whole > dtypes.max_value(dtypes.INDEX):
            continue
        if are_one(places, outer, inner):
            both = te.reduce_axis((0, whole), inner.name)
            values = {outer.var: both.var // length, inner.var: both.var % length}
            axes = [both if a is outer else a for a in reduced.axes if a is not inner]
            body = reduced_over(reduced, axes, values)
            return with_axes_merged(ComputeOp(op.name, op.axis, (body,), tag=op.tag).output())
    return tensor


def is_dense(tensor: te.Tensor, reads: Iterable[Read], longest: int) -> bool:
    """Whether neighbours along the last dimension read elements that are not far apart.

    They may be apart by rows of at most `longest` elements.
    """
    last = tensor.op.axis[-1].var
    for read in reads:
        for position, index in enumerate(read.children[:-1]):
            if any(last is v for v in free_vars(index)):
                if math.prod(map(likely_value, read.tensor.extents[position + 1 :])) > longest:
                    return False
                if index is not last:
                    return False
    return True


def has_windows_apart(tensor: te.Tensor) -> bool:
    """Whether a stage reduces windows of one tensor that begin several elements apart."""
    own = {r for source in reduction_of(tensor).sources for r in reads(source)}
    if len(own) != 1 or not tensor.op.axis or extent(tensor.op.axis[-1]) == 1:
        return False
    (read,), last = own, tensor.op.axis[-1].var
    along = read.children[-1] if read.children else last
    return any(
        isinstance(e, BinaryOp) and e.op == "*" and any(last is v for v in free_vars(e))
        for e in walk_expr(along)
    )


def written_out(tensor: te.Tensor, inlined: Collection[te.Tensor]) -> te.Tensor:
    """Return a stage with some computed tensors inlined: it reads their inputs instead."""

    def written(source: te.Tensor, indices: tuple[Expr, ...]) -> Expr:
        own = source.op
        if not isinstance(own, ComputeOp) or source not in inlined:
            return Read(source, indices)
        values = {a.var: cast(a.var.dtype, i) for a, i in zip(own.axis, indices, strict=True)}
        return out.expr(substitute(own.body[0], values))

    out, op = ReadRewriter(written), tensor.op
    assert isinstance(op, ComputeOp)
    body = tuple(map(out.expr, op.body))
    same = all(new is old for new, old in zip(body, op.body, strict=True))
    return tensor if same else ComputeOp(op.name, op.axis, body, tag=op.tag).output()


@dataclass(frozen=True, slots=True)
class Reading:
    """A stage that is not inlined, and its reads with fused stages inlined."""

    tensor: te.Tensor
    reads: tuple[Read, ...]


def readings(schedule: Schedule) -> list[Reading]:
    """Return the stages of a schedule that are not inlined, in the order of computation."""
    return [
        Reading(stage.op.output(), tuple(r for value in body for r in reads(value)))
        for stage, body in schedule.bodies().items()
    ]


def readers_of(tensor: te.Tensor, stages: Sequence[Reading]) -> list[Reading]:
    """Return the stages that read a tensor."""
    return [s for s in stages if any(r.tensor is tensor for r in s.reads)]


def ends_in(tensor: te.Tensor, stages: Sequence[Reading]) -> te.Tensor | None:
    """Return the only reader of a tensor, if it is element-wise."""
    readers = readers_of(tensor, stages)
    if len(readers) != 1 or readers[0].tensor.op.reduce_axis:
        return None
    (reader,) = readers
    axes = reader.tensor.op.axis
    shape = zip(reader.tensor.shape, tensor.shape, strict=False)
    if len(axes) != len(tensor.shape) or any(a is not b for a, b in shape):
        return None
    own = [r for r in reader.reads if r.tensor is tensor]
    same = all(
        extent(a) == 1 or i is a.var
        for r in own for i, a in zip(r.children, axes, strict=True)
    )  # fmt: skip
    return reader.tensor if same else None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Stages that can be computed together for some elements of certain axes, each once."""

    #: The last stage of the group.
    root: te.Tensor
    #: Positions of its axes that all stages of the group have.
    rows: tuple[int, ...]
    #: The others, consumers first, with the axes of each that are `rows`.
    members: tuple[tuple[te.Tensor, tuple[Any, ...]], ...]

    @property
    def stages(self) -> list[te.Tensor]:
        """All stages, the root first."""
        return [self.root, *(tensor for tensor, _ in self.members)]


def row_groups(
    schedule: Schedule, stages: Sequence[Reading], alone: Collection[te.Tensor]
) -> list[RowGroup]:
    """Return groups of stages that share rows; every stage except those in `alone` is in one."""
    left = [s for s in stages if not any(s.tensor is t for t in alone)]
    groups: list[RowGroup] = []
    while left:
        group = _group(schedule, left, stages)
        groups.append(group)
        done = [group.root, *(t for t, _ in group.members)]
        left = [s for s in left if not any(s.tensor is t for t in done)]
    return groups


def _group(schedule: Schedule, left: Sequence[Reading], stages: Sequence[Reading]) -> RowGroup:
    *before, last = left
    root = last.tensor
    rows = {n: axis for n, axis in enumerate(root.op.axis) if not is_one(axis)}
    found: list[tuple[Reading, dict[int, Any]]] = [(last, rows)]
    for stage in reversed(before):
        if schedule[stage.tensor].is_output:
            continue
        readers = readers_of(stage.tensor, stages)
        inside = [(s, own) for s, own in found if any(s is r for r in readers)]
        if len(inside) != len(readers):
            continue
        shared = _shared(stage.tensor, inside)
        if shared:
            found = [(s, {n: own[n] for n in shared}) for s, own in found]
            found.append((stage, shared))
    return RowGroup(
        root,
        tuple(found[0][1]),
        tuple((s.tensor, tuple(own.values())) for s, own in found[1:]),
    )


def is_one(axis: Any) -> bool:
    """Whether an axis is known to have one element."""
    length = length_of(axis)
    return isinstance(length, int) and length == 1


def _shared(tensor: te.Tensor, readers: Sequence[tuple[Reading, dict[int, Any]]]) -> dict[int, Any]:
    """Return the readers' rows that are axes of a tensor, in the same position everywhere."""
    shared: dict[int, Any] = {}
    places: dict[int, set[int | None]] = {}
    for stage, rows in readers:
        for read in (r for r in stage.reads if r.tensor is tensor):
            for n, axis in rows.items():
                at = next((d for d, i in enumerate(read.children) if i is axis.var), None)
                places.setdefault(n, set()).add(at)
    for n, own in places.items():
        (at,) = own if len(own) == 1 else (None,)
        if at is not None:
            shared[n] = tensor.op.axis[at]
    return shared
