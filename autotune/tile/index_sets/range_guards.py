"""Ranges as guards: removes common divisors and redundant guards."""

from __future__ import annotations

import math
from collections.abc import Iterable

from autotune.tile.index_sets.affine_forms import Affine
from autotune.tile.index_sets.index_conditions import AtLeast, RangeCondition
from autotune.tile.index_sets.index_set import IndexSet


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
