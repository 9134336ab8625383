"""Converts the index sets of a contraction to loops over its output and over reduced indices.

The indices of a contraction are arbitrary; loops run over the elements of the output and, for each
of them, over the aggregated values. This needs a unimodular change of indices:

1. congruences (index expressions with fractions) are solved; the solutions have free integers;
2. the output's index expressions are brought into echelon form, so that an output element
   determines some of these integers, or is not written (`Loops.solved`);
3. the others are chosen among the contraction's own ranges, those of fewest values first, so that
   their bounds need no guard; the rest is completed to a basis;
4. a reduced index that the output confines to a window (``0 <= o - 3 * g < 3``) is counted from
   the start of that window (``g = o // 3``);
5. a range that these bounds do not imply becomes a guard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.tile.binding.bound_program import Contract
from autotune.tile.check.dimension_arithmetic import LIMIT
from autotune.tile.index_sets.affine_forms import Affine
from autotune.tile.index_sets.index_conditions import (
    AtLeast,
    Condition,
    Divides,
    RangeCondition,
    reach,
)
from autotune.tile.index_sets.index_set import IndexSet, IndexSetTooComplexError
from autotune.tile.index_sets.lattice import (
    Matrix,
    completed,
    congruent,
    echelon,
    inverse,
    is_primitive,
    product,
)


@dataclass(frozen=True, slots=True)
class Reduced:
    """An index that is reduced over: all integers from `low` to `high`, both included."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Quotient:
    """``name = floor(form / divisor)``, of output indices."""

    name: str
    form: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class Loops:
    """A contraction as loops."""

    #: Names of the output's dimensions: the name of an index, if it is the whole expression.
    output: tuple[str, ...]
    #: Reduced indices with tight bounds; an index with a single value is left out.
    reduced: tuple[Reduced, ...]
    #: Names for quotients of output indices.
    quotients: tuple[Quotient, ...]
    #: The reads: for each dimension of each tensor a polynomial in output indices, quotients and
    #: reduced indices. They are whole where `solved` holds.
    reads: tuple[tuple[Affine, ...], ...]
    #: Necessary conditions on output indices for an element to be written.
    solved: tuple[Condition, ...]
    #: Conditions, over all of these, in addition to the bounds; none is implied by the others.
    guards: tuple[AtLeast, ...]
    #: Conditions on output indices for the written elements (`solved` included); () if all are
    #: written. None if no conjunction of such conditions describes them.
    written: tuple[Condition, ...] | None
    #: Whether no index set is valid: all elements are 0.
    empty: bool = False


def loops(contract: Contract) -> Loops:
    """Return the loops of a contraction.

    Raises IndexSetTooComplexError if isl cannot decide a question about it, or a number in it does
    not fit in 64 bits.
    """
    output = _output_names(contract)
    lattice = _lattice(contract.domain)
    if lattice is None or contract.domain.is_empty():
        none = tuple(() for _ in contract.reads)
        never: tuple[Condition, ...] = (AtLeast(Affine.of({}, -1)),)
        return Loops(output, (), (), none, (), (), never, empty=True)
    return _Change(contract, output, *lattice).loops()


def _lattice(domain: IndexSet) -> tuple[list[int], Matrix] | None:
    """Return offset and basis of the integers for which all index expressions are whole."""
    congruences = []
    for r in domain.ranges:
        terms, constant, d = r.form.whole()
        if r.whole and d > 1:
            congruences.append(([terms.get(name, 0) for name in domain.names], constant, d))
    return congruent(congruences, len(domain.names))


def _output_names(contract: Contract) -> tuple[str, ...]:
    names: list[str] = []
    for k, form in enumerate(contract.output):
        names.append(_name(form, f"o{k}", contract, names))
    return tuple(names)


def _name(form: Affine, otherwise: str, contract: Contract, taken: Sequence[str]) -> str:
    """Return the index that equals a form, if it is free, else a new name."""
    alone = next((name for name in form.names if form == Affine.of({name: 1})), otherwise)
    if alone not in taken and alone != otherwise:
        return alone
    while otherwise in (*contract.indices, *taken):
        otherwise += "_"
    return otherwise


@dataclass(frozen=True, slots=True)
class _Choice:
    """A candidate for a reduced index: a form in z with whole coefficients `row` of the free z."""

    place: int
    name: str
    form: Affine
    row: list[int]
    low: int
    high: int


class _Change:
    """The change of indices of one contraction.

    Original indices are ``offset + basis @ z`` for integers z. The output determines the first
    `rank` of them (`leading`). The others are free, and the reduced indices are as many forms that
    determine them.
    """

    def __init__(
        self, contract: Contract, output: tuple[str, ...], offset: list[int], basis: Matrix
    ) -> None:
        self.contract = contract
        self.output = output
        n = len(contract.domain.names)
        self.z = tuple(f"z{k}" for k in range(n))
        self.indices = self.spelled(offset, basis)
        rows = [self.row(form.substituted(self.indices), 0) for form in contract.output]
        _, unimodular = echelon([row for row in rows if row is not None], n)
        self.indices = self.spelled(offset, product(basis, unimodular) if n else [])
        ranges = [
            RangeCondition(r.form.substituted(self.indices), r.size, r.whole)
            for r in contract.domain.ranges
        ]
        rank = len(output)
        self.domain = IndexSet(self.z, (*ranges[:rank], *map(primitive, ranges[rank:])))
        self.solved, self.leading = self.solve()
        self.rank = len(self.leading)

    def spelled(self, offset: list[int], basis: Matrix) -> dict[str, Affine]:
        """Return the original indices as polynomials in z."""
        names = self.contract.domain.names
        return {
            name: Affine.of(dict(zip(self.z, row, strict=True)), x)
            for name, x, row in zip(names, offset, basis, strict=True)
        }

    def row(self, form: Affine, first: int) -> list[int] | None:
        """Return coefficients of z from `first` on; None if the form is not always whole."""
        if form.denominator != 1:
            return None
        return [int(form.coefficient(name)) for name in self.z[first:]]

    def solve(self) -> tuple[tuple[Divides, ...], list[Affine]]:
        """Solve the output's forms for the leading z, each by its pivot, if it has one."""
        conditions: list[Divides] = []
        leading: list[Affine] = []
        for name, r in zip(self.output, self.domain.ranges, strict=False):
            rest = Affine.of({name: 1}, -r.form.constant)
            for z, known in zip(self.z, leading, strict=False):
                rest += known * -r.form.coefficient(z)
            place = len(leading)
            pivot = int(r.form.coefficient(self.z[place])) if place < len(self.z) else 0
            if pivot != 1 and not self.holds_for_all(rest, pivot):
                conditions.append(Divides(rest, pivot))
            if pivot:
                leading.append(rest * Fraction(1, pivot))
        return tuple(conditions), leading

    def holds_for_all(self, form: Affine, modulus: int) -> bool:
        """Whether a form of output indices has a single value, which the modulus divides."""
        sizes = dict(zip(self.output, self.contract.type.shape, strict=True))
        only = all(sizes[name] == 1 for name in form.names)
        value = form.constant
        return only and (value % modulus == 0 if modulus else value == 0)

    def loops(self) -> Loops:
        """Return the loops."""
        choices = self.choices()
        reduced = [Reduced(c.name, c.low, c.high) for c in choices if c.low < c.high]
        values = dict(zip(self.z, [*self.leading, *self.following(choices)], strict=True))
        ranges = [
            RangeCondition(r.form.substituted(values), r.size, r.whole)
            for r in self.domain.ranges[len(self.output) :]
        ]
        reduced, quotients, moved = self.windowed(reduced, ranges)
        ranges = [RangeCondition(r.form.substituted(moved), r.size, r.whole) for r in ranges]
        values = {name: form.substituted(moved) for name, form in values.items()}
        indices = {name: form.substituted(values) for name, form in self.indices.items()}
        reads = tuple(
            tuple(form.substituted(indices) for form in read.indices)
            for read in self.contract.reads
        )
        forms = [*(form for read in reads for form in read), *(c.form for c in self.solved)]
        self.check_reach(reduced, quotients, [*forms, *(primitive(r).form for r in ranges)])
        box = self.box(reduced, quotients)
        guards = needed(box, ranges)
        shadow = box.restricted(*guards).projection(self.box((), ()))
        written = None if shadow is None else (*self.solved, *shadow)
        return Loops(self.output, tuple(reduced), quotients, reads, self.solved, guards, written)

    def check_reach(
        self, reduced: Sequence[Reduced], quotients: Sequence[Quotient], forms: Sequence[Affine]
    ) -> None:
        """Raise an error for loops in which a number might not fit in 64 bits."""
        shape = zip(self.output, self.contract.type.shape, strict=True)
        box = {name: (0, size - 1) for name, size in shape}
        box |= {r.name: (r.low, r.high) for r in reduced}
        for q in quotients:
            most = reach(q.form, box) // q.divisor + 1
            box[q.name] = (-most, most)
        if any(reach(form, box) >= LIMIT for form in (*forms, *(q.form for q in quotients))):
            raise IndexSetTooComplexError("the loops of a contraction need numbers above 2^62")

    def windowed(
        self, reduced: Sequence[Reduced], ranges: list[RangeCondition]
    ) -> tuple[list[Reduced], tuple[Quotient, ...], dict[str, Affine]]:
        """Count reduced indices from the start of their windows in the output.

        The bounds of moved indices are added to `ranges`.
        """
        kept: list[Reduced] = []
        quotients: list[Quotient] = []
        moved: dict[str, Affine] = {}
        for r in reduced:
            windows = (self.window(r, x) for x in ranges)
            found = min(filter(None, windows), key=lambda w: w[0], default=None)
            if found is None or found[0] > r.high - r.low:
                kept.append(r)
                continue
            count, form, divisor = found
            taken = [*self.output, *(k.name for k in kept), *(q.name for q in quotients)]
            start = _name(Affine(()), f"q{len(quotients)}", self.contract, taken)
            quotients.append(Quotient(start, form, divisor))
            moved[r.name] = Affine.of({start: 1})
            if count > 1:
                back = _name(Affine(()), f"r{len(kept)}", self.contract, [*taken, start])
                kept.append(Reduced(back, 0, count - 1))
                moved[r.name] += Affine.of({back: -1})
            ranges.append(RangeCondition(Affine.of({r.name: 1}, -r.low), r.high - r.low + 1))
        return kept, tuple(quotients), moved

    def window(self, r: Reduced, x: RangeCondition) -> tuple[int, Affine, int] | None:
        """Return the number of values of a reduced index in its window for each output element.

        Where ``0 <= e - c * w < size`` and e is a form of output indices, w is ``e // c - t`` with
        ``0 <= t <= (size - 1) // c``.

        Returns the number of t, e and c, or None.
        """
        step = x.form.coefficient(r.name)
        form = x.form if step < 0 else x.form * -1 + Affine.of({}, x.size - 1)
        rest = form + Affine.of({r.name: abs(step)})
        over_output = all(name in self.output for name in rest.names)
        if abs(step) < 2 or not x.whole or x.form.denominator != 1 or not over_output:
            return None
        return (x.size - 1) // int(abs(step)) + 1, rest, int(abs(step))

    def box(self, reduced: Sequence[Reduced], quotients: Sequence[Quotient]) -> IndexSet:
        """Return the points within the bounds of the loops and `solved`."""
        shape = zip(self.output, self.contract.type.shape, strict=True)
        ranges = [RangeCondition(Affine.of({name: 1}), size) for name, size in shape]
        ranges += [
            RangeCondition(q.form + Affine.of({q.name: -q.divisor}), q.divisor) for q in quotients
        ]
        ranges += [
            RangeCondition(Affine.of({r.name: 1}, -r.low), r.high - r.low + 1) for r in reduced
        ]
        names = (*self.output, *(q.name for q in quotients), *(r.name for r in reduced))
        return IndexSet(names, tuple(ranges), self.solved)

    def choices(self) -> list[_Choice]:
        """Choose as many forms as there are free z, which determine these as whole numbers."""
        free = len(self.z) - self.rank
        chosen: list[_Choice] = []
        for candidate in self.candidates():
            rows = [*(c.row for c in chosen), candidate.row]
            if len(rows) <= free and is_primitive(rows, free):
                chosen.append(candidate)
        chosen.sort(key=lambda c: c.place)
        for row in completed([c.row for c in chosen], free)[len(chosen) :]:
            form = Affine.of(dict(zip(self.z[self.rank :], row, strict=True)))
            chosen.append(self.choice(len(chosen), form, row))
        taken = list(self.output)
        for k, c in enumerate(chosen):
            name = c.name if c.name and c.name not in taken else ""
            name = name or _name(Affine(()), f"r{k}", self.contract, taken)
            taken.append(name)
            chosen[k] = replace(c, name=name)
        return chosen

    def candidates(self) -> list[_Choice]:
        """Return the contraction's own whole forms, those with the fewest values first."""
        found = []
        for place, r in enumerate(self.domain.ranges[len(self.output) :]):
            row = self.row(r.form, self.rank)
            if row is not None and any(row):
                found.append(self.choice(place, r.form, row))
        return sorted(found, key=lambda c: (c.high - c.low, not c.name, c.place))

    def choice(self, place: int, form: Affine, row: list[int]) -> _Choice:
        """Make a choice from a form, named after an index if they differ by a constant only."""
        same = [(n, index) for n, index in self.indices.items() if index.terms == form.terms]
        name, form = same[0] if same else ("", form)
        bounds = self.domain.bounds(form)
        assert bounds is not None
        return _Choice(place, name, form, row, int(bounds[0]), int(bounds[1]))

    def following(self, choices: Sequence[_Choice]) -> list[Affine]:
        """Return the free z as polynomials in output and reduced indices."""
        known = dict(zip(self.z, self.leading, strict=False))
        ahead = known | dict.fromkeys(self.z[self.rank :], Affine(()))
        shifted = [
            Affine.of({c.name: 1} if c.low < c.high else {}, c.low if c.low == c.high else 0)
            + c.form.substituted(ahead) * -1
            for c in choices
        ]
        back = inverse([c.row for c in choices])
        return [sum((v * c for v, c in zip(shifted, row, strict=True)), Affine(())) for row in back]


def primitive(r: RangeCondition) -> RangeCondition:
    """Return a range over integers as one of a form without common divisor, which is whole."""
    d = r.form.denominator
    form, top = r.form * d, d * (r.size - 1) if r.whole else d * r.size - 1
    g = math.gcd(*(int(c) for _, c in form.terms))
    if not g:
        return r
    low = -(form.constant // g)
    high = (top - form.constant) // g
    terms = {name: c / g for name, c in form.terms}
    return RangeCondition(Affine.of(terms, -low), int(high - low) + 1)


def needed(box: IndexSet, ranges: Iterable[RangeCondition]) -> tuple[AtLeast, ...]:
    """Return the ends of ranges that neither the box nor the other ends imply."""
    ends: list[AtLeast] = []
    for r in ranges:
        d = r.form.denominator
        form, top = r.form * d, d * (r.size - 1) if r.whole else d * r.size - 1
        for end in (_tightened(form), _tightened(form * -1 + Affine.of({}, top))):
            if end not in ends and not box.restricted(_fails(end)).is_empty():
                ends.append(end)
    for end in list(ends):
        others = [e for e in ends if e is not end]
        if box.restricted(*others, _fails(end)).is_empty():
            ends = others
    return tuple(ends)


def _tightened(form: Affine) -> AtLeast:
    """Return ``form >= 0``, of whole coefficients, without their common divisor."""
    g = math.gcd(*(int(c) for _, c in form.terms)) or 1
    return AtLeast(Affine.of({n: c / g for n, c in form.terms}, form.constant // g))


def _fails(end: AtLeast) -> AtLeast:
    """Return the opposite of ``form >= 0``, for a form of whole numbers."""
    return AtLeast(end.form * -1 + Affine.of({}, -1))
