"""Relations between axes: splits and fusions, in order of creation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from autotune.ir.axes import IterVar
from autotune.ir.expr import Const, Expr, KnobVar, SizeVar, Var, is_const
from autotune.ir.ops import binary, const
from autotune.ir.visitor import free_vars, substitute
from autotune.te.compute import ceildiv


@dataclass(frozen=True, eq=False)
class Split:
    """parent = outer * extent(inner) + inner - offset; one of `factor`, `nparts` is given.

    An offset is at least 0, less than the factor, and over axes of the operation.
    """

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None
    offset: Expr | None = None

    @property
    def given(self) -> Expr:
        """The given size: the factor or the number of parts."""
        size = self.factor if self.factor is not None else self.nparts
        assert size is not None
        return size

    def extents(self, extent: Expr, keep: bool = False) -> tuple[Expr, Expr]:
        """Return the extents of the outer and the inner loop, for a parent of this extent.

        The given size is limited to the parent's, unless `keep` is set or the parent's is known
        only at run time.
        """
        if self.offset is not None:
            most = binary("+", extent, binary("-", self.given, const(1)))
            return ceildiv(most, self.given), self.given
        sized = any(isinstance(v, SizeVar) for v in free_vars(extent))
        size = self.given if keep or sized else binary("min", self.given, extent)
        if is_const(extent, 0) and not keep:
            size = extent  # for every value of a knob
        rest: Expr = ceildiv(extent, self.given)
        return (rest, size) if self.nparts is None else (size, rest)

    def divides(self, extent: Expr) -> bool:
        """Whether the split certainly leaves no remainder of a parent of this extent."""
        if self.offset is not None:
            return False
        if self.given is extent:
            return True
        if isinstance(self.given, Const) and isinstance(extent, Const):
            return int(extent.value) % int(self.given.value) == 0
        return is_const(self.given, 1)

    def exact(self, extent: Expr) -> Expr:
        """Return the condition over knobs under which no remainder is left; False if unknown."""
        if self.divides(extent):
            return const(True)
        if self.offset is not None or not (is_over_knobs(extent) and is_over_knobs(self.given)):
            return const(False)
        return binary("==", binary("%", extent, self.given), 0)


@dataclass(frozen=True, eq=False)
class Fuse:
    """fused = outer * extent(inner) + inner."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


Relation = Split | Fuse


def fused_whole(relations: Sequence[Relation], leaves: Set[IterVar]) -> set[Fuse]:
    """Return the fusions that derive only from some loops.

    Over all iterations of these loops, the axes of such a fusion have the same ranges as without
    fusing.
    """
    known = set(leaves)
    found = set()
    for relation in reversed(relations):
        if isinstance(relation, Split):
            if relation.outer in known and relation.inner in known:
                known.add(relation.parent)
        elif relation.fused in known:
            known.update((relation.outer, relation.inner))
            found.add(relation)
    return found


def pass_down(
    relations: Sequence[Relation], extents: dict[IterVar, Expr], keeps: Callable[[Split], bool]
) -> None:
    """Add the extents of split and fused axes to those of the axes that they come from.

    Splits for which `keeps` is true have the size asked for, even if the axis is shorter.
    """
    for relation in relations:
        if isinstance(relation, Split):
            outer, inner = relation.extents(extents[relation.parent], keeps(relation))
            extents[relation.outer], extents[relation.inner] = outer, inner
        else:
            both = extents[relation.outer], extents[relation.inner]
            extents[relation.fused] = binary("*", *both)


def pass_up(
    relations: Sequence[Relation],
    leaves: Mapping[IterVar, Expr],
    extent: Callable[[IterVar], Expr],
    stride: Callable[[Split], Expr],
    start: Callable[[IterVar, Expr], Expr] = lambda _, value: value,
    apart: Set[Fuse] = frozenset(),
) -> dict[IterVar, Expr]:
    """Return the values of some loops and of all axes that they derive from.

    Values of split axes with an offset are over the axes of the operation, too: see `resolved`.

    `leaves`: the values of the loops.
    `extent`, `stride`: return the extent of an axis, and how far one step of the outer loop of a
    split goes.
    `start`: returns the value of an axis, given that counted from 0.
    `apart`: fusions whose axes count as not fused.
    """
    values = dict(leaves)
    for relation in reversed(relations):
        if isinstance(relation, Split):
            outer = binary("*", values[relation.outer], stride(relation))
            value = binary("+", outer, values[relation.inner])
            if relation.offset is not None:
                value = binary("-", value, relation.offset)
            values[relation.parent] = start(relation.parent, value)
        elif relation in apart:
            for axis in (relation.outer, relation.inner):
                values[axis] = start(axis, axis.var)
        else:
            fused, inner = values[relation.fused], extent(relation.inner)
            if is_const(inner, 0):
                inner = const(1)  # a loop of length 0 never divides
            values[relation.outer] = start(relation.outer, binary("//", fused, inner))
            values[relation.inner] = start(relation.inner, binary("%", fused, inner))
    return values


def resolved(
    relations: Sequence[Relation], value: Expr, roots: Mapping[Var, Expr], of: IterVar
) -> Expr:
    """Return the value of an axis with the axes in offsets replaced by their values."""
    offsets = [r.offset for r in relations if isinstance(r, Split) and r.offset is not None]
    used = {var: roots[var] for offset in offsets for var in free_vars(offset) if var in roots}
    return substitute(value, used) if used and of.var not in used else value


def is_over_knobs(size: Expr) -> bool:
    """Whether a size depends on knobs and numbers only."""
    return all(isinstance(var, KnobVar) for var in free_vars(size))
