"""Canonical index sums of many candidates at once: what `ir.canonical` does, on columns of numbers.

Which form an index takes depends on values: what divides, what fits, which loops have length 1.
So a term is a slot whose numbers are columns, and a row in which it is not there has the scale 0.
The rules are those of `ir.canonical`, `ir.sums` and `ir.sum_rules`, step by step; a property test
holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from autotune.ir.expr import Var

IntColumn = npt.NDArray[np.int64]
Int: TypeAlias = "int | IntColumn"
"""A number for each candidate; one Python int if it is the same for all."""

Mask: TypeAlias = "bool | npt.NDArray[np.bool_]"
"""A truth for each candidate; one bool if it is the same for all."""

NO_UPPER = 1 << 62
"""Stands for no modulus: larger than every one."""


class HardIndexError(Exception):
    """An index holds what these columns do not know; it is simplified one candidate at a time."""


# -- columns -------------------------------------------------------------------------------


def decided(mask: Mask | np.bool_) -> Mask:
    """Return a mask, as a bool if it is the same for all."""
    if isinstance(mask, np.ndarray):
        count = np.count_nonzero(mask)
        return False if count == 0 else True if count == mask.size else mask
    return bool(mask)


def both(a: Mask, b: Mask) -> Mask:
    """Return a and b."""
    if a is True or b is False:
        return b
    if b is True or a is False:
        return a
    return decided(a & b)


def either(a: Mask, b: Mask) -> Mask:
    """Return a or b."""
    if a is False or b is True:
        return b
    if b is False or a is True:
        return a
    return decided(a | b)


def but(a: Mask, b: Mask) -> Mask:
    """Return a and not b."""
    return both(a, (not b) if isinstance(b, bool) else ~b)


def where(mask: Mask, a: Int, b: Int) -> Int:
    """Return `a` where the mask is true, else `b`."""
    if mask is True or a is b:
        return a
    if mask is False:
        return b
    return cast(Int, np.where(mask, a, b))


def equal(a: Int, b: Int) -> Mask:
    """Return where two columns have one value."""
    return True if a is b else decided(np.equal(a, b) if _is_column(a, b) else a == b)


def _is_column(*values: Int) -> bool:
    return any(isinstance(value, np.ndarray) for value in values)


# -- sums ----------------------------------------------------------------------------------


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
    return Sum(_living(slots), where(rows, a.base, 0), a.top)


def scaled(a: Sum, factor: Int) -> Sum:
    """Return factor * a."""
    slots = (slot._replace(scale=slot.scale * factor) for slot in a.slots)
    return Sum(_living(slots), a.base * factor, a.top)


def add(a: Sum, b: Sum, factor: int = 1) -> Sum:
    """Return a + factor * b: terms that differ in scale only become one, or vanish."""
    slots = list(a.slots)
    there = [slot.alive for slot in slots]
    for slot in b.slots:
        new = slot._replace(scale=slot.scale * factor, rank=slot.rank + a.top)
        _insert(slots, there, new)
    return Sum(_living(slots), a.base + factor * b.base, a.top + b.top)


def _living(slots: Sequence[Slot] | object) -> tuple[Slot, ...]:
    return tuple(slot for slot in cast(Sequence[Slot], slots) if slot.alive is not False)


def _insert(slots: list[Slot], there: list[Mask], new: Slot) -> None:
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
    return a._replace(slots=_living(slots))


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
                fits = both(fits, both(step, _divides(right.scale, left.scale)))
            if fits is not False:
                right = right._replace(upper=where(fits, left.upper, right.upper))
                left = left._replace(scale=where(fits, 0, left.scale))
                waiting = but(waiting, fits)
            slots[i], slots[j] = left, right
    return slots


def _by_lower(group: list[Slot]) -> list[Slot]:
    """Return slots sorted in each row: those that are there by descending `lower`."""
    if not _is_column(*(slot.lower for slot in group)):
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


def _divides(a: Int, b: Int) -> Mask:
    """Return where `a`, if it is not 0, divides `b`."""
    divisor = where(decided(np.equal(a, 0)), 1, a)
    return decided(np.equal(b % divisor, 0))


# -- arithmetic over loops -----------------------------------------------------------------


@dataclass
class Sums:
    """Arithmetic of sums in the rows of one batch of candidates.

    Attributes
    ----------
    extents : dict of Var to Int
        Largest extents of the loops in scope, which run from 0.
    hard : Mask
        Rows of which these rules know nothing.
    """

    extents: dict[Var, Int]
    hard: Mask = False
    _hidden: dict[frozenset[Atom], list[Hidden]] = field(default_factory=dict)

    def variable(self, var: Var) -> Sum:
        """Return the sum of one loop variable, which is 0 where its loop has length 1."""
        runs = decided(np.greater(self.extents[var], 1))
        return Sum(_living([Slot(var, where(runs, 1, 0))]), 0, 1)

    def bounds(self, a: Sum) -> tuple[Int, Int]:
        """Return inclusive bounds of a sum."""
        low = high = a.base
        for slot in a.slots:
            begin, end = self._atom_bounds(slot.atom)
            if slot.upper is not NO_UPPER:
                inside = both(
                    decided(np.greater_equal(begin, 0)), decided(np.less(end, slot.upper))
                )
                wraps = but(decided(np.less(slot.upper, NO_UPPER)), inside)
                begin, end = where(wraps, 0, begin), where(wraps, slot.upper - 1, end)
            if not (isinstance(slot.lower, int) and slot.lower == 1):
                begin, end = begin // slot.lower, end // slot.lower
            ends = begin * slot.scale, end * slot.scale
            low, high = low + least(*ends), high + most(*ends)
        return low, high

    def _atom_bounds(self, atom: Atom) -> tuple[Int, Int]:
        if isinstance(atom, Var):
            extent = self.extents[atom]
            return 0, extent - 1
        return atom.bounds

    def product(self, a: Sum, b: Sum) -> Sum:
        """Return a * b; rows in which both have terms are hard."""
        if not b.slots:
            return scaled(a, b.base)
        if not a.slots:
            return scaled(b, a.base)
        left, right = _any_alive(a), _any_alive(b)
        self._give_up(both(left, right))
        chosen = restricted(scaled(b, a.base), (not left) if isinstance(left, bool) else ~left)
        return add(restricted(scaled(a, b.base), left), chosen)

    def extremum(self, op: str, a: Sum, b: Sum) -> Sum:
        """Return min(a, b) or max(a, b): one of them where their bounds tell which."""
        low, high = self.bounds(add(a, b, -1))
        below = decided(np.less_equal(high, 0))
        above = but(decided(np.greater_equal(low, 0)), below)
        smaller, larger = (a, b) if op == "min" else (b, a)
        total = add(restricted(smaller, below), restricted(larger, above))
        rest = but(but(True, below), above)
        if rest is False:
            return total
        parts = self.text(restricted(a, rest)), self.text(restricted(b, rest))
        ends = [self.bounds(part) for part in parts]
        pick = least if op == "min" else most
        bounds = pick(ends[0][0], ends[1][0]), pick(ends[0][1], ends[1][1])
        atom = Extremum(op, parts, rest, bounds)
        return add(total, Sum((Slot(atom, where(rest, 1, 0)),), 0, 1))

    def _give_up(self, rows: Mask) -> None:
        self.hard = either(self.hard, rows)

    # -- division --------------------------------------------------------------------------

    def quotient(self, a: Sum, c: Int) -> Sum:
        """Return a // c: (c * w + e) // c is w + e // c, which is w where 0 <= e < c."""
        c = self._positive(c)
        whole, extra = _parts(a, c)
        rest = self._no_remainder(extra, c)
        if rest is False:
            return whole
        one = self.one_term(restricted(extra, rest))
        return add(whole, self._quotient_of_one(one, c))

    def remainder(self, a: Sum, c: Int) -> Sum:
        """Return a % c: (c * w + e) % c is e % c, which is e where 0 <= e < c."""
        c = self._positive(c)
        extra = _parts(a, c)[1]
        rest = self._no_remainder(extra, c)
        if rest is False:
            return extra
        one = self.one_term(restricted(extra, rest))
        return add(restricted(extra, but(True, rest)), self._remainder_of_one(one, c))

    def _positive(self, c: Int) -> Int:
        bad = decided(np.less(c, 1))
        self._give_up(bad)
        return where(bad, 1, c)

    def _no_remainder(self, extra: Sum, c: Int) -> Mask:
        """Return where a sum is not surely in [0, c)."""
        low, high = self.bounds(extra)
        return but(True, both(decided(np.greater_equal(low, 0)), decided(np.less(high, c))))

    def one_term(self, a: Sum) -> Sum:
        """Return a sum that has one term in each row, hiding several in the term's atom."""
        a = joined(a)
        number = but(True, _any_alive(a))
        single = either(_is_one_term(a), number)
        several = but(True, single)
        if several is False:
            return a
        hidden = self.hide(restricted(a, several), several)
        return add(restricted(a, single), hidden)

    def hide(self, a: Sum, rows: Mask) -> Sum:
        """Return a sum as the atom of one term, the same atom wherever the text is the same."""
        a = _in_text_order(a)
        total = Sum()
        family = self._hidden.setdefault(frozenset(slot.atom for slot in a.slots), [])
        for known in family:
            if rows is False:
                return total
            differs = both(both(rows, known.used), but(True, _same(a, known.sum)))
            here = but(rows, differs)
            if here is False:
                continue
            fresh = but(here, known.used)
            if fresh is not False:
                known.sum = _merged(fresh, a, known.sum)
                known.used = either(known.used, fresh)
                known.bounds = self.bounds(known.sum)
            total = add(total, Sum((Slot(known, where(here, 1, 0)),), 0, 1))
            rows = differs
        if rows is not False:
            kept = restricted(a, rows)
            new = Hidden(kept, rows, self.bounds(kept))
            family.append(new)
            total = add(total, Sum((Slot(new, where(rows, 1, 0)),), 0, 1))
        return total

    def _quotient_of_one(self, one: Sum, c: Int) -> Sum:
        """Return the quotient of a sum of one term, by the rules of `ir.sum_rules`."""
        total = constant(one.base // c)
        for slot in one.slots:
            rows = slot.alive
            scale = where(rows, slot.scale, 1)
            multiple = both(rows, _divides(c, scale))
            lower, divided = _divided(slot, scale, c)
            divided = but(both(rows, divided), multiple)
            endless = decided(np.equal(slot.upper, NO_UPPER))
            even = both(divided, either(endless, _divides(lower, slot.upper)))
            small = but(both(divided, decided(np.less_equal(slot.upper, lower))), even)
            uneven = but(but(divided, even), small)
            other = but(but(rows, multiple), divided)
            kept = slot._replace(
                scale=where(multiple, scale // c, where(even, 1, 0)),
                lower=where(even, lower, slot.lower),
            )
            total = add(total, _one(kept))
            for some, hidden, by in (
                (uneven, slot._replace(scale=1, lower=1), lower),
                (other, slot, c),
            ):
                if some is not False:
                    inner = self.hide(restricted(_one(hidden), some), some)
                    total = add(total, _with(inner, lower=by))
        return total

    def _remainder_of_one(self, one: Sum, c: Int) -> Sum:
        """Return the remainder of a sum of one term, by the rules of `ir.sum_rules`."""
        total = constant(one.base % c)
        for slot in one.slots:
            rows = slot.alive
            scale = where(rows, slot.scale, 1)
            left = but(rows, _divides(c, scale))
            upper, divided = _divided(slot, scale, c)
            divided = both(left, divided)
            endless = both(divided, decided(np.equal(slot.upper, NO_UPPER)))
            finite = but(divided, endless)
            narrows = both(
                finite, both(decided(np.less(upper, slot.upper)), _divides(upper, slot.upper))
            )
            stays = but(both(finite, _divides(slot.upper, upper)), narrows)
            other = but(but(but(left, endless), narrows), stays)
            kept = slot._replace(
                scale=where(either(endless, stays), slot.scale, 0),
                upper=where(endless, upper, slot.upper),
            )
            total = add(total, _one(kept))
            if narrows is not False:
                inner = self._narrowed(slot, narrows, where(narrows, upper, 1))
                total = add(total, scaled(inner, where(narrows, scale, 0)))
            if other is not False:
                inner = self.hide(restricted(_one(slot), other), other)
                total = add(total, _with(inner, upper=c))
        return total

    def _narrowed(self, slot: Slot, rows: Mask, upper: Int) -> Sum:
        """Return (atom % upper) // lower in some rows, as one term."""
        form = self._form(slot.atom)
        one = self.one_term(self.remainder(restricted(form, rows), upper))
        divides = both(rows, decided(np.not_equal(slot.lower, 1)))
        if divides is False:
            return one
        by = where(divides, slot.lower, 1)
        quotient = self._quotient_of_one(restricted(one, divides), by)
        return add(restricted(one, but(rows, divides)), quotient)

    def _form(self, atom: Atom) -> Sum:
        """Return the sum that an atom stands for."""
        if isinstance(atom, Var):
            return self.variable(atom)
        if isinstance(atom, Hidden):
            return atom.sum
        return Sum((Slot(atom, 1),), 0, 1)

    # -- text ------------------------------------------------------------------------------

    def text(self, a: Sum) -> Sum:
        """Return a sum as it is written: joined, and what joining has freed is part of it."""
        a = _in_text_order(joined(a))
        freed = [_freed(slot) for slot in a.slots]
        tops = [
            slot.atom.sum.top
            for slot, plain in zip(a.slots, freed, strict=True)
            if plain is not False and isinstance(slot.atom, Hidden)
        ]
        if not tops:
            return a
        step = max(tops) + 1
        slots: list[Slot] = []
        there: list[Mask] = []
        base = a.base
        for slot, plain in zip(a.slots, freed, strict=True):
            kept = slot._replace(scale=where(plain, 0, slot.scale), rank=slot.rank * step)
            _insert(slots, there, kept)
            if plain is not False and isinstance(slot.atom, Hidden):
                inner = scaled(slot.atom.sum, where(plain, slot.scale, 0))
                base = base + inner.base
                for part in inner.slots:
                    _insert(slots, there, part._replace(rank=slot.rank * step + part.rank))
        return _in_text_order(joined(Sum(_living(slots), base, len(a.slots) * step)))


def _freed(slot: Slot) -> Mask:
    """Return where joining has left a hidden sum of several without quotient and remainder."""
    if not isinstance(slot.atom, Hidden):
        return False
    plain = both(slot.alive, both(equal(slot.lower, 1), equal(slot.upper, NO_UPPER)))
    return plain if plain is False else but(plain, _is_one_term(slot.atom.sum))


def _one(slot: Slot) -> Sum:
    return Sum(_living([slot._replace(rank=0)]), 0, 1)


def _with(a: Sum, lower: Int = 1, upper: Int = NO_UPPER) -> Sum:
    return a._replace(slots=tuple(slot._replace(lower=lower, upper=upper) for slot in a.slots))


def least(a: Int, b: Int) -> Int:
    """Return the smaller of two numbers."""
    return np.minimum(a, b) if _is_column(a, b) else min(a, b)


def most(a: Int, b: Int) -> Int:
    """Return the larger of two numbers."""
    return np.maximum(a, b) if _is_column(a, b) else max(a, b)


def _is_one_term(a: Sum) -> Mask:
    """Return where a sum is one term and nothing else."""
    count = np.sum(np.broadcast_arrays(0, *(slot.alive for slot in a.slots)), axis=0)
    return both(decided(count == 1), decided(np.equal(a.base, 0)))


def _any_alive(a: Sum) -> Mask:
    found: Mask = False
    for slot in a.slots:
        found = either(found, slot.alive)
    return found


def _parts(a: Sum, c: Int) -> tuple[Sum, Sum]:
    """Return the quotients of what c divides, and what it does not divide."""
    whole, extra = [], []
    for slot in a.slots:
        exact = _divides(c, slot.scale)
        whole.append(slot._replace(scale=where(exact, slot.scale // c, 0)))
        extra.append(slot._replace(scale=where(exact, 0, slot.scale)))
    exact = _divides(c, a.base)
    return (
        Sum(_living(whole), where(exact, a.base // c, 0), a.top),
        Sum(_living(extra), where(exact, 0, a.base), a.top),
    )


def _divided(slot: Slot, scale: Int, c: Int) -> tuple[Int, Mask]:
    """Return l * k where c is s * k, s > 0 the scale of the term and l its `lower`; and where."""
    positive = decided(np.greater(scale, 0))
    by = where(positive, scale, 1)
    fits = both(positive, _divides(by, c))
    return where(fits, slot.lower * (c // by), 1), fits


def _same(a: Sum, b: Sum) -> Mask:
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


def _merged(rows: Mask, a: Sum, b: Sum) -> Sum:
    """Return `a` in some rows and `b` in the others, atom by atom."""
    slots = []
    for atom in dict.fromkeys(slot.atom for slot in (*b.slots, *a.slots)):
        groups = [[slot for slot in s.slots if slot.atom is atom] for s in (a, b)]
        missing = Slot(atom, 0)
        most = max(map(len, groups))
        mine, other = ([*group, *[missing] * (most - len(group))] for group in groups)
        slots += [_chosen(rows, x, y) for x, y in zip(mine, other, strict=True)]
    return Sum(tuple(slots), where(rows, a.base, b.base), max(a.top, b.top))


def _in_text_order(a: Sum) -> Sum:
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
