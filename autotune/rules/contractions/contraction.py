"""Facts of a contraction: which of its axes can be vectors, and which can be rows of a tile."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from autotune import te
from autotune.ir.algebra.polynomials import to_poly
from autotune.ir.axes import IterVar
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, Read
from autotune.ir.visitor import free_vars, reads, walk_expr
from autotune.rules.stage_graph import (
    are_one,
    extent,
    is_open,
    iterations,
    length_of,
    likely_shape,
    place_of,
    power_of_two,
    reduced_over,
    reduction_of,
    step_along,
    with_likely_sizes,
)

#: Vectors with fewer lanes than this part of a register are not considered.
_FEWEST: Final = 4

#: Largest size of a panel relative to its tensor, and the least number of reads of each of its
#: elements.
_MAX_COPIES: Final = 2
_OFTEN: Final = 4

#: Vectors that read an element, for which it is converted to another type once.
_MANY: Final = 8

#: Largest distance of neighbours in a vector that is read in place: a few loads and a shuffle.
_MAX_STEP: Final = 4

#: Most steps of a sum over windows that are written out, so that they share what they read.
_WINDOW: Final = 64

#: For sums in lanes: how much more must lie along the vector than has to be packed.
_MOSTLY: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class AxisGroup:
    """Neighbouring axes of a result that are one axis in memory wherever they are used."""

    #: Outermost first.
    axes: tuple[IterVar, ...]
    #: Their positions among the axes of the result.
    places: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements along the group; about how many, if only calls know it."""
        return math.prod(map(extent, self.axes))

    @property
    def length(self) -> Any:
        """Number of elements along the group: an integer, or an expression of open sizes."""
        return functools.reduce(operator.mul, map(length_of, self.axes))

    @property
    def long(self) -> list[int]:
        """Positions of its axes that have several elements, or one position."""
        found = [n for n, a in zip(self.places, self.axes, strict=True) if extent(a) > 1]
        return found or [self.places[-1]]

    def values(self, position: Any) -> dict[Any, Any]:
        """Return the value of each axis at a position along the group."""
        found: dict[Any, Any] = {}
        for number, axis in enumerate(self.axes):
            inner = math.prod(map(extent, self.axes[number + 1 :]))
            value = position if inner == 1 else position // inner
            whole = number == 0 or all(extent(a) == 1 for a in self.axes[:number])
            found[axis.var] = value if whole else value % extent(axis)
            if extent(axis) == 1:
                found[axis.var] = te.const(0, axis.var.dtype)
        return found

    def position(self, index: Sequence[Any]) -> Any:
        """Return the position along the group of an element of the result."""
        sizes = dict(zip(self.places, map(length_of, self.axes), strict=True))
        first, *others = self.long
        total = index[first]
        for place in others:
            total = total * sizes[place] + index[place]
        return total


@dataclass(frozen=True, eq=False)
class TiledContraction:
    """A reduction with a vectorised axis."""

    #: The reduction to compute in tiles.
    tensor: te.Tensor
    #: The axes of its result.
    groups: tuple[AxisGroup, ...]
    #: The group that is vectorised.
    vector: AxisGroup
    #: Elements of a vector.
    lanes: int
    #: The reduction that the elements along the vector are folded into; None if they are elements
    #: of the result.
    sums: te.Tensor | None = None

    @property
    def whole(self) -> te.Tensor:
        """The reduction in its original form."""
        return self.tensor if self.sums is None else self.sums

    @property
    def reduced(self) -> list[IterVar]:
        """The axes it reduces."""
        return list(self.tensor.op.reduce_axis)

    @cached_property
    def work(self) -> int:
        """Evaluations of the reduced expression."""
        return iterations(self.tensor)

    @cached_property
    def operands(self) -> dict[Expr, Read]:
        """What is read, each with its conversion to another type, and the read itself.

        What is read without its conversion, too, or with two of them, is here without any.
        """
        sources = reduction_of(self.tensor).sources
        values: dict[Read, set[Expr]] = {s: {s} for s in sources if isinstance(s, Read)}
        for node in (node for source in sources for node in walk_expr(source)):
            for part in node.children:
                if isinstance(part, Read):
                    values.setdefault(part, set()).add(node if isinstance(node, Cast) else part)
        found = {own.pop(): read for read, own in values.items() if len(own) == 1}
        converted = {value: read for value, read in found.items() if value is not read}
        rest = values.keys() - {*converted.values()}
        every = [read for source in sources for read in reads(source)]
        return converted | {read: read for read in every if read in rest}

    def uses(self, read: Read, group: AxisGroup) -> bool:
        """Whether a read depends on a group."""
        own = set(free_vars(read))
        return any(axis.var in own for axis in group.axes if extent(axis) > 1)

    def repeats(self, read: Read, group: AxisGroup) -> int:
        """Return for how many neighbours along a group a read is the same; 0 for all of them."""
        if not self.uses(read, group):
            return 0
        own = {axis.var for axis in group.axes}
        found = [n for index in read.children for n in _quotients(index, own)]
        return math.gcd(*found)

    def strides(self, read: Read, axes: Collection[IterVar]) -> list[int | None]:
        """Return the distance in memory of neighbours along each axis, None if it varies."""
        place = place_of(read)
        return [step_along(place, axis) for axis in axes]

    def along(self, read: Read) -> int:
        """Return the distance in memory of neighbours along the vector; 0 if it is large."""
        steps = self.strides(read, self.vector.axes)
        long = [(a, n) for a, n in zip(self.vector.axes, steps, strict=True) if extent(a) > 1]
        first = inner = (long[-1][1] or 0) if long else 1
        for axis, step in reversed(long):
            if step != inner:
                return 0
            inner *= extent(axis)
        return first if 0 < first <= _MAX_STEP else 0

    def slides(
        self, read: Read, group: AxisGroup, reduced: Collection[IterVar] | None = None
    ) -> bool:
        """Whether neighbours along a group read some of the same elements while they are reduced.

        The axes that are reduced may be given, if not all count.
        """
        steps = self.reduced if reduced is None else reduced
        for index in map(with_likely_sizes, read.children):
            own, place = set(free_vars(index)), to_poly(index)
            apart = [step_along(place, a) for a in group.axes if a.var in own and extent(a) > 1]
            reach = [
                abs(step_along(place, a) or 0) * (extent(a) - 1) for a in steps if a.var in own
            ]
            if reach and any(n is None or abs(n) <= sum(reach) for n in apart):
                return True
        return False

    def window(self, read: Read, group: AxisGroup) -> tuple[int, list[int]]:
        """Return where a read lies along a group: its step, and all offsets while it is reduced.

        Both are distances in elements along a dimension. The step is 0 if the group is not used.
        """
        own = {axis.var for axis in group.axes}
        index = next((i for i in read.children if not own.isdisjoint(free_vars(i))), None)
        if index is None:
            return 0, [0]
        place, offsets = to_poly(index), [0]
        for axis in self.reduced:
            step = step_along(place, axis) or 0
            offsets = [at + step * n for at in offsets for n in range(extent(axis) if step else 1)]
        return abs(step_along(place, group.axes[-1]) or 1), offsets

    @cached_property
    def has_shared_windows(self) -> bool:
        """Whether rows read elements in some steps that other rows read in other steps."""
        steps, first = math.prod(map(extent, self.reduced)), self.rows[:1]
        nodes = (e for s in reduction_of(self.tensor).sources for e in walk_expr(s))
        if steps > _WINDOW or any(isinstance(e, Call) and e.name == "if_then_else" for e in nodes):
            return False  # conditions are tested in outer loops
        return any(self.slides(r, g) for r in self.vector_reads for g in first)

    @cached_property
    def vector_reads(self) -> list[Read]:
        """Reads that differ along a vector."""
        return [r for r in self.operands.values() if self.varies(r)]

    def varies(self, read: Read) -> bool:
        """Whether a read differs along a vector."""
        return self.uses(read, self.vector) and not self.is_shared(read)

    def is_shared(self, read: Read) -> bool:
        """Whether a read is the same along a vector, but not along the axis, as in groups."""
        return self.repeats(read, self.vector) >= max(self.lanes, 2)

    @property
    def shared(self) -> int:
        """For how many neighbours along the vectorised axis such reads are the same; 0 for all."""
        own = filter(self.is_shared, self.operands.values())
        return math.gcd(*(self.repeats(read, self.vector) for read in own))

    @cached_property
    def rows(self) -> list[AxisGroup]:
        """Groups that some vectors do not depend on, so that a tile may use a vector in each row.

        Those come first that most vectors do not depend on, then the innermost.
        """
        found = []
        for number, group in enumerate(self.groups):
            if group is self.vector or group.size == 1:
                continue
            free = sum(not self.uses(r, group) for r in self.vector_reads)
            slides = any(self.slides(r, group) for r in self.vector_reads)
            if free or slides:
                found.append(((free, number), group))
        return [group for _, group in sorted(found, key=lambda pair: pair[0], reverse=True)]

    @cached_property
    def batches(self) -> list[AxisGroup]:
        """The other groups."""
        return [g for g in self.groups if g is not self.vector and g not in self.rows]

    def converts(self, value: Expr) -> bool:
        """Whether an operand is converted as a whole, because many vectors read each element."""
        read = self.operands[value]
        used, reduced = self.panel_of(read)
        each = math.prod([*(g.size for g in used), *map(extent, reduced)])
        is_whole = math.prod(likely_shape(read.tensor)) <= _MAX_COPIES * each
        many = self.vector.size >= _MANY * self.lanes and not self.uses(read, self.vector)
        return value is not read and many and is_whole

    def panel_of(self, read: Read) -> tuple[list[AxisGroup], list[IterVar]]:
        """Return the axes of a packed panel of a read, besides the vector."""
        own = set(free_vars(read))
        used = [g for g in self.groups if g is not self.vector and self.uses(read, g)]
        return used, [a for a in self.reduced if a.var in own]

    def lies_along_sum(self, read: Read) -> bool:
        """Whether at least a vector of neighbours in memory are summed one after the other."""
        last = self.panel_of(read)[1][-1:]
        return all(extent(a) >= self.lanes for a in last) and self.strides(read, last) == [1]

    def panel_size(self, read: Read) -> int:
        """Return the number of elements of a panel."""
        used, reduced = self.panel_of(read)
        return math.prod([self.vector.size, *(g.size for g in used), *map(extent, reduced)])


def _quotients(index: Expr, own: Collection[Expr]) -> list[int]:
    """Return what each occurrence of a variable in an index is divided by."""
    if index in own:
        return [1]
    if isinstance(index, BinaryOp) and index.op == "//" and isinstance(index.b, Const):
        return [int(index.b.value) * n for n in _quotients(index.a, own)]
    return [n for child in index.children for n in _quotients(child, own)]


def groups_of(tensor: te.Tensor, apart: int | None = None) -> tuple[AxisGroup, ...]:
    """Return the axes of a result, neighbours together that every read passes over as one.

    `apart`: position of an axis that is in a group of its own.
    """
    own = [place_of(r) for source in reduction_of(tensor).sources for r in reads(source)]
    condition = set(free_vars(reduction_of(tensor).condition))
    groups: list[list[int]] = []
    axes = list(tensor.op.axis)
    for place, axis in enumerate(axes):
        if groups and place != apart and groups[-1][-1] != apart:
            long = [axes[n] for n in groups[-1] if extent(axes[n]) > 1]
            before = long[-1] if long else axes[groups[-1][-1]]
            if are_one(own, before, axis) and not {before.var, axis.var} & condition:
                groups[-1].append(place)
                continue
        groups.append([place])
    return tuple(AxisGroup(tuple(axes[n] for n in places), tuple(places)) for places in groups)


def contractions(
    tensor: te.Tensor, lanes: int, constants: Collection[te.Tensor]
) -> dict[str, TiledContraction]:
    """Return the ways to compute a reduction in vectors, by the name of the vectorised axis.

    An axis can be vectorised if what depends on it lies along it or can be packed. Vectors along an
    axis that is reduced have partial sums, which are folded at the end: this needs operands that
    several elements of the result share.
    """
    found: dict[str, TiledContraction] = {}
    groups = groups_of(tensor)
    for group in reversed(groups):
        width = min(lanes, power_of_two(group.size))
        way = TiledContraction(tensor, groups, group, width)
        for read in way.operands.values():
            if (repeats := way.repeats(read, group)) > 1:
                width = math.gcd(width, repeats)  # vectors within a group
        way = TiledContraction(tensor, groups, group, width)
        if _FEWEST * width >= lanes and _suits(way, constants):
            found[f"axis{group.places[-1]}"] = way
    folded = _in_lanes(tensor, lanes)
    if folded is not None:
        groups = groups_of(folded, apart=len(folded.op.axis) - 1)
        way = TiledContraction(folded, groups, groups[-1], lanes, tensor)
        if way.rows and _suits(way, constants) and _is_mostly_along(way, constants):
            found["sum"] = way
    return found


def _suits(way: TiledContraction, constants: Collection[te.Tensor]) -> bool:
    own = way.vector_reads
    if way.sums is None and len(own) == len(set(way.operands.values())):
        return all(map(way.along, own))  # a panel would be used once
    return bool(own) and all(way.along(r) or packs(way, r, constants) for r in own)


def parts_of_tasks(way: TiledContraction) -> list[Read]:
    """Return reads of stages such as padding, of which blocks of tiles read parts of their own."""
    long = [g for g in way.groups if g.size > 1]
    if len(way.rows) > 1:  # a block is not so compact
        return []
    return [
        r for r in dict.fromkeys(way.operands.values())
        if isinstance(r.tensor.op, te.ComputeOp) and not r.tensor.op.reduce_axis
        and all(way.uses(r, g) for g in long)
    ]  # fmt: skip


def packs(way: TiledContraction, read: Read, constants: Collection[te.Tensor]) -> bool:
    """Whether a read can be packed: its panel is not too large, and is constant or often read."""
    panel, size = way.panel_size(read), math.prod(likely_shape(read.tensor))
    often = read.tensor in constants or _OFTEN * panel <= way.work
    return often and panel <= _MAX_COPIES * size


def _is_mostly_along(way: TiledContraction, constants: Collection[te.Tensor]) -> bool:
    """Whether most of what is read lies along the vector, or every other element of it."""
    sizes = [
        (way.panel_size(r), way.along(r) in (1, 2), r.tensor in constants) for r in way.vector_reads
    ]
    along = sum(size for size, is_along, _ in sizes if is_along)
    return _MOSTLY * sum(n for n, is_along, free in sizes if not (is_along or free)) <= along


def _in_lanes(tensor: te.Tensor, lanes: int) -> te.Tensor | None:
    """Return partial results of a reduction, one for each lane along its innermost long axis."""
    reduced = reduction_of(tensor)
    axis = next((a for a in reversed(reduced.axes) if extent(a) >= lanes), None)
    if axis is None or lanes < 2:
        return None
    length = length_of(axis)
    copies = {
        a: te.reduce_axis((0, te.ceildiv(length, lanes) if a is axis else length_of(a)), a.name)
        for a in reduced.axes
    }

    def part(*index: Any) -> Any:
        *place, lane = index
        at = copies[axis].var * lanes + lane
        values = {a.var: copy.var for a, copy in copies.items()}
        values |= {a.var: i for a, i in zip(tensor.op.axis, place, strict=True)}
        values[axis.var] = at
        inside = at < length if is_open(length) or length % lanes else None
        return reduced_over(reduced, list(copies.values()), values, inside)

    found: te.Tensor = te.compute((*tensor.shape, lanes), part, name=f"{tensor.name}_lanes")
    return found
