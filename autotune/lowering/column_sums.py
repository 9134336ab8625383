"""Arithmetic of canonical index sums for many candidates at once, with the loops in scope known.

The rules are those of `ir.canonical`, `ir.sums` and `ir.sum_rules`, step by step; a property test
holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autotune.ir.expr import Var
from autotune.lowering.candidate_columns import (
    Int,
    Mask,
    both,
    but,
    decided,
    divides,
    either,
    equal,
    least,
    most,
    where,
)
from autotune.lowering.column_terms import (
    NO_UPPER,
    Atom,
    Extremum,
    Hidden,
    Slot,
    Sum,
    add,
    constant,
    has_terms,
    in_text_order,
    insert,
    is_one_term,
    joined,
    living,
    merged,
    restricted,
    same_text,
    scaled,
)


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
        return Sum(living([Slot(var, where(runs, 1, 0))]), 0, 1)

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
        left, right = has_terms(a), has_terms(b)
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
        number = but(True, has_terms(a))
        single = either(is_one_term(a), number)
        several = but(True, single)
        if several is False:
            return a
        hidden = self.hide(restricted(a, several), several)
        return add(restricted(a, single), hidden)

    def hide(self, a: Sum, rows: Mask) -> Sum:
        """Return a sum as the atom of one term, the same atom wherever the text is the same."""
        a = in_text_order(a)
        total = Sum()
        family = self._hidden.setdefault(frozenset(slot.atom for slot in a.slots), [])
        for known in family:
            if rows is False:
                return total
            differs = both(both(rows, known.used), but(True, same_text(a, known.sum)))
            here = but(rows, differs)
            if here is False:
                continue
            fresh = but(here, known.used)
            if fresh is not False:
                known.sum = merged(fresh, a, known.sum)
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
            multiple = both(rows, divides(c, scale))
            lower, divided = _divided(slot, scale, c)
            divided = but(both(rows, divided), multiple)
            endless = decided(np.equal(slot.upper, NO_UPPER))
            even = both(divided, either(endless, divides(lower, slot.upper)))
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
            left = but(rows, divides(c, scale))
            upper, divided = _divided(slot, scale, c)
            divided = both(left, divided)
            endless = both(divided, decided(np.equal(slot.upper, NO_UPPER)))
            finite = but(divided, endless)
            narrows = both(
                finite, both(decided(np.less(upper, slot.upper)), divides(upper, slot.upper))
            )
            stays = but(both(finite, divides(slot.upper, upper)), narrows)
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
        a = in_text_order(joined(a))
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
            insert(slots, there, kept)
            if plain is not False and isinstance(slot.atom, Hidden):
                inner = scaled(slot.atom.sum, where(plain, slot.scale, 0))
                base = base + inner.base
                for part in inner.slots:
                    insert(slots, there, part._replace(rank=slot.rank * step + part.rank))
        return in_text_order(joined(Sum(living(slots), base, len(a.slots) * step)))


def _freed(slot: Slot) -> Mask:
    """Return where joining has left a hidden sum of several without quotient and remainder."""
    if not isinstance(slot.atom, Hidden):
        return False
    plain = both(slot.alive, both(equal(slot.lower, 1), equal(slot.upper, NO_UPPER)))
    return plain if plain is False else but(plain, is_one_term(slot.atom.sum))


def _one(slot: Slot) -> Sum:
    return Sum(living([slot._replace(rank=0)]), 0, 1)


def _with(a: Sum, lower: Int = 1, upper: Int = NO_UPPER) -> Sum:
    return a._replace(slots=tuple(slot._replace(lower=lower, upper=upper) for slot in a.slots))


def _parts(a: Sum, c: Int) -> tuple[Sum, Sum]:
    """Return the quotients of what c divides, and what it does not divide."""
    whole, extra = [], []
    for slot in a.slots:
        exact = divides(c, slot.scale)
        whole.append(slot._replace(scale=where(exact, slot.scale // c, 0)))
        extra.append(slot._replace(scale=where(exact, 0, slot.scale)))
    exact = divides(c, a.base)
    return (
        Sum(living(whole), where(exact, a.base // c, 0), a.top),
        Sum(living(extra), where(exact, 0, a.base), a.top),
    )


def _divided(slot: Slot, scale: Int, c: Int) -> tuple[Int, Mask]:
    """Return l * k where c is s * k, s > 0 the scale of the term and l its `lower`; and where."""
    positive = decided(np.greater(scale, 0))
    by = where(positive, scale, 1)
    fits = both(positive, divides(by, c))
    return where(fits, slot.lower * (c // by), 1), fits
