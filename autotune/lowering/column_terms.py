"""Sums of terms of many candidates at once: what `ir.canonical` does, on columns of numbers.

Which form an index takes depends on values: what divides, what fits, which loops have length 1.
So a term is a slot whose numbers are columns, and a row in which it is not there has the scale 0.
The rules are those of `ir.canonical` and `ir.sums`, step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from autotune.ir.expr import Var
from autotune.lowering.candidate_columns import (
    Int,
    IntColumn,
    Mask,
    both,
    but,
    decided,
    divides,
    either,
    equal,
    is_column,
    least,
    where,
)

NO_UPPER = 1 << 62
"""Stands for no modulus: larger than every one."""


class Slot(NamedTuple):
    """scale * ((atom % upper) // lower) in the rows where the scale is not 0.

    `rank` orders the atoms of a row as they were found; slots of one atom share it.
    """

    atom: Atom
    scale: Int
    lower: Int = 1
    upper: Int = NO_UPPER
    rank: Int = 0

    @property
    def alive(self) -> Mask:
        """Where the term is there."""
        return decided(np.not_equal(self.scale, 0))


class Sum(NamedTuple):
    """The sum of `slots` and `base`; all ranks are below `top`."""

    slots: tuple[Slot, ...] = ()
    base: Int = 0
    top: int = 0


@dataclass(eq=False)
class Hidden:
    """A sum as the atom of a term, in the rows where it is used: its slots are in text order."""

    sum: Sum
    used: Mask
    bounds: tuple[Int, Int]


@dataclass(eq=False)
class Extremum:
    """min(a, b) or max(a, b) of two sums that the ranges leave open, in the rows it is used."""

    op: str
    parts: tuple[Sum, Sum]
    used: Mask
    bounds: tuple[Int, Int]


Atom: TypeAlias = "Var | Hidden | Extremum"


def constant(value: Int) -> Sum:
    """Return a sum without terms."""
    return Sum((), value)


def restricted(a: Sum, rows: Mask) -> Sum:
    """Return a sum in some rows, 0 in the others."""
    if rows is True:
        return a
    slots = (slot._replace(scale=where(rows, slot.scale, 0)) for slot in a.slots)
    return Sum(living(slots), where(rows, a.base, 0), a.top)


def scaled(a: Sum, factor: Int) -> Sum:
    """Return factor * a."""
    slots = (slot._replace(scale=slot.scale * factor) for slot in a.slots)
    return Sum(living(slots), a.base * factor, a.top)


def add(a: Sum, b: Sum, factor: int = 1) -> Sum:
    """Return a + factor * b: terms that differ in scale only become one, or vanish."""
    slots = list(a.slots)
    there = [slot.alive for slot in slots]
    for slot in b.slots:
        new = slot._replace(scale=slot.scale * factor, rank=slot.rank + a.top)
        insert(slots, there, new)
    return Sum(living(slots), a.base + factor * b.base, a.top + b.top)


def living(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return those slots whose terms are there in some row."""
    return tuple(slot for slot in slots if slot.alive is not False)


def insert(slots: list[Slot], there: list[Mask], new: Slot) -> None:
    """Add a term, row by row to an equal one, else to a slot of its atom that is free."""
    left = new.alive
    known = [place for place, slot in enumerate(slots) if slot.atom is new.atom]
    rank = new.rank
    for place in known:
        rank = where(there[place], least(slots[place].rank, rank), rank)
    for place in known:
        old = slots[place]
        same = both(left, there[place])
        if same is not False:
            same = both(same, both(equal(old.lower, new.lower), equal(old.upper, new.upper)))
        if same is not False:
            slots[place] = old._replace(
                scale=where(same, old.scale + new.scale, old.scale), rank=rank
            )
            left = but(left, same)
    for place in known:
        free = but(left, there[place])
        if free is not False:
            slots[place] = _chosen(free, new._replace(rank=rank), slots[place])
            there[place] = either(there[place], free)
            left = but(left, free)
    if left is not False:
        slots.append(new._replace(scale=where(left, new.scale, 0), rank=rank))
        there.append(left)


def _chosen(rows: Mask, a: Slot, b: Slot) -> Slot:
    """Return one slot with the numbers of `a` in some rows and those of `b` in the others."""
    fields = (where(rows, x, y) for x, y in zip(a[1:], b[1:], strict=True))
    return Slot(a.atom, *fields)


def joined(a: Sum) -> Sum:
    """Join quotients and remainders of one atom: (x // c) * c * k + (x % c) * k is x * k."""
    groups: dict[Atom, list[int]] = {}
    for place, slot in enumerate(a.slots):
        groups.setdefault(slot.atom, []).append(place)
    if all(len(group) == 1 for group in groups.values()):
        return a
    slots = list(a.slots)
    for group in groups.values():
        if len(group) > 1:
            for place, slot in zip(group, _joined([slots[i] for i in group]), strict=True):
                slots[place] = slot
    return a._replace(slots=living(slots))


def _joined(group: list[Slot]) -> list[Slot]:
    """Join slots of one atom, the largest `lower` first."""
    slots = _by_lower(group)
    for i in range(len(slots)):
        waiting = slots[i].alive
        for j in range(i + 1, len(slots)):
            left, right = slots[i], slots[j]
            pair = both(waiting, right.alive)
            if pair is False:
                continue
            same = both(pair, both(equal(left.upper, right.upper), equal(left.lower, right.lower)))
            if same is not False:
                right = right._replace(scale=where(same, right.scale + left.scale, right.scale))
                left = left._replace(scale=where(same, 0, left.scale))
                waiting = but(waiting, same)
                pair = but(pair, same)
            fits = both(pair, equal(left.lower, right.upper))
            if fits is not False:
                # The scales' quotient times the lower edge, without dividing.
                step = equal(left.lower * right.scale, left.scale * right.lower)
                fits = both(fits, both(step, divides(right.scale, left.scale)))
            if fits is not False:
                right = right._replace(upper=where(fits, left.upper, right.upper))
                left = left._replace(scale=where(fits, 0, left.scale))
                waiting = but(waiting, fits)
            slots[i], slots[j] = left, right
    return slots


def _by_lower(group: list[Slot]) -> list[Slot]:
    """Return slots sorted in each row: those that are there by descending `lower`."""
    if not is_column(*(slot.lower for slot in group)):
        return sorted(group, key=lambda slot: -cast(int, slot.lower))
    numbers = _tables(group, (1, 2, 3, 4))
    scale, lower = numbers[0], numbers[1]
    order = np.argsort(np.where(scale == 0, np.iinfo(np.int64).max, -lower), axis=0, kind="stable")
    rows = [np.take_along_axis(column, order, axis=0) for column in numbers]
    return [Slot(group[0].atom, *(column[i] for column in rows)) for i in range(len(group))]


def _tables(slots: Sequence[Slot], fields: Sequence[int]) -> list[IntColumn]:
    """Return fields of slots as arrays of one shape, (slots, n); (slots, 1) if none varies."""
    columns = [[np.atleast_1d(cast(Int, slot[i])) for slot in slots] for i in fields]
    wide = max(column.size for row in columns for column in row)
    return [np.stack([np.broadcast_to(column, wide) for column in row]) for row in columns]


def is_one_term(a: Sum) -> Mask:
    """Return where a sum is one term and nothing else."""
    count = np.sum(np.broadcast_arrays(0, *(slot.alive for slot in a.slots)), axis=0)
    return both(decided(count == 1), decided(np.equal(a.base, 0)))


def has_terms(a: Sum) -> Mask:
    """Return where a sum has any term."""
    found: Mask = False
    for slot in a.slots:
        found = either(found, slot.alive)
    return found


def same_text(a: Sum, b: Sum) -> Mask:
    """Return where two sums of the same atoms, in text order, are written the same."""
    same = equal(a.base, b.base)
    for atom in {slot.atom for slot in (*a.slots, *b.slots)}:
        groups = [[slot for slot in s.slots if slot.atom is atom] for s in (a, b)]
        most = max(map(len, groups))
        missing = Slot(atom, 0)
        mine, other = (
            _by_lower([*group, *[missing] * (most - len(group))]) for group in groups
        )
        for x, y in zip(mine, other, strict=True):
            gone = both(equal(x.scale, 0), equal(y.scale, 0))
            alike = equal(x.scale, y.scale)
            for place in (2, 3, 4):
                alike = both(alike, equal(cast(Int, x[place]), cast(Int, y[place])))
            same = both(same, either(gone, alike))
            if same is False:
                return False
    return same


def merged(rows: Mask, a: Sum, b: Sum) -> Sum:
    """Return `a` in some rows and `b` in the others, atom by atom."""
    slots = []
    for atom in dict.fromkeys(slot.atom for slot in (*b.slots, *a.slots)):
        groups = [[slot for slot in s.slots if slot.atom is atom] for s in (a, b)]
        missing = Slot(atom, 0)
        most = max(map(len, groups))
        mine, other = ([*group, *[missing] * (most - len(group))] for group in groups)
        slots += [_chosen(rows, x, y) for x, y in zip(mine, other, strict=True)]
    return Sum(tuple(slots), where(rows, a.base, b.base), max(a.top, b.top))


def in_text_order(a: Sum) -> Sum:
    """Return a sum whose ranks are the places of its terms in the text of each row."""
    if len(a.slots) < 2:
        return a._replace(slots=tuple(slot._replace(rank=0) for slot in a.slots), top=1)
    order = _text_order(a.slots)
    if order.shape[1] == 1:
        ranks: Sequence[Int] = [int(r) for r in np.argsort(order[:, 0])]
    else:
        ranks = list(np.argsort(order, axis=0))
    slots = (slot._replace(rank=rank) for slot, rank in zip(a.slots, ranks, strict=True))
    return a._replace(slots=tuple(slots), top=len(a.slots))


def _text_order(slots: Sequence[Slot]) -> IntColumn:
    """Return the places of slots as they are written in each row, (slots, n) or (slots, 1).

    By descending scale, then lower, then upper, then as found; those that are not there last.
    """
    rank, upper, lower, scale = _tables(slots, (4, 3, 2, 1))
    order: IntColumn = np.lexsort((rank, -upper, -lower, -scale, scale == 0), axis=0)
    return order
