"""Canonical sums of integers: terms scale * ((atom % upper) // lower) and a constant.

Sums are added term by term and printed by descending scale, as TVM v0.8 prints them; listings and
features rely on exactly this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autotune.ir import dtypes
from autotune.ir.expr import Const, Expr
from autotune.ir.ops import const, fold

INF = float("inf")


class Term(NamedTuple):
    """scale * ((atom % upper) // lower), with a positive `lower`.

    `upper` is INF where there is no modulus, else a multiple of `lower`.
    """

    atom: Expr
    lower: int = 1
    upper: float = INF
    scale: int = 1

    def times(self, factor: int) -> Term:
        """Return factor * this term."""
        return Term(self.atom, self.lower, self.upper, self.scale * factor)


class Sum(NamedTuple):
    """The sum of `terms` and the constant `base`.

    Terms with one atom stand together, the largest `lower` first. No scale is 0.
    """

    terms: tuple[Term, ...] = ()
    base: int = 0


def sum_of(term: Term) -> Sum:
    """Return a term as a sum: a constant if its atom is one, nothing if its scale is 0."""
    if isinstance(term.atom, Const):
        value = int(term.atom.value)
        if term.upper != INF:
            value %= int(term.upper)
        return Sum((), value // term.lower * term.scale)
    return Sum((term,) if term.scale else (), 0)


def add(a: Sum, b: Sum, factor: int = 1) -> Sum:
    """Return a + factor * b: terms that differ only in scale are merged or cancel."""
    base = a.base + factor * b.base
    if not b.terms:
        return Sum(a.terms, base)
    terms = list(a.terms)
    for term in b.terms:
        _insert(terms, term if factor == 1 else term.times(factor))
    return Sum(tuple([t for t in terms if t.scale]), base)


def _insert(terms: list[Term], new: Term) -> None:
    """Add `new`, merging it with an equal term."""
    if new.scale == 0:
        return
    met = False
    for i, term in enumerate(terms):
        same = term.atom is new.atom
        if same and term.lower == new.lower and term.upper == new.upper:
            terms[i] = Term(term.atom, term.lower, term.upper, term.scale + new.scale)
            return
        if (same and new.lower > term.lower) or (met and not same):
            terms.insert(i, new)
            return
        met = same
    terms.append(new)


def scaled(a: Sum, factor: int) -> Sum:
    """Return factor * a."""
    if factor == 0:
        return Sum()
    return Sum(tuple(t.times(factor) for t in a.terms), a.base * factor)


def joined(terms: Sequence[Term]) -> list[Term]:
    """Join quotients and remainders of one atom; return all terms by descending scale."""
    work = list(terms)
    for i, left in enumerate(work):
        if left.scale == 0:
            continue
        for j in range(i + 1, len(work)):
            left, right = work[i], work[j]
            if left.atom is not right.atom or left.upper < right.lower:
                break
            if left.upper == right.upper and left.lower == right.lower:
                work[j] = right._replace(scale=right.scale + left.scale)
                work[i] = left._replace(scale=0)
            elif (
                left.lower == right.upper
                and right.scale != 0
                and left.scale % right.scale == 0
                and left.lower == left.scale // right.scale * right.lower
            ):
                # (x // c) * c * k + (x % c) * k is x * k.
                work[j] = right._replace(upper=left.upper)
                work[i] = left._replace(scale=0)
                break
    kept = [t for t in work if t.scale]
    kept.sort(key=lambda t: (-t.scale, -t.lower, -t.upper))
    return kept


def number(value: int, dtype: str) -> Expr:
    """Return a constant, or a sum of parts if it is too large: exact in indices, else wrapped."""
    if dtypes.min_value(dtype) <= value <= dtypes.max_value(dtype):
        return const(value, dtype)
    high, low = divmod(value, 1 << 16)
    return fold("+", fold("*", number(high, dtype), const(1 << 16, dtype)), const(low, dtype))


def term_expr(term: Term, factor: int, dtype: str) -> Expr:
    """Return factor * term as an expression."""
    node = term.atom
    if term.upper != INF:
        node = fold("%", node, number(int(term.upper), dtype))
    if term.lower != 1:
        node = fold("//", node, number(term.lower, dtype))
    scale = term.scale * factor
    return node if scale == 1 else fold("*", node, number(scale, dtype))


def sum_expr(form: Sum, dtype: str) -> Expr:
    """Return a sum as an expression: positive terms first, then negative ones."""
    total: Expr = const(0, dtype)
    terms = joined(form.terms)
    for term in terms:
        if term.scale > 0:
            total = fold("+", total, term_expr(term, 1, dtype))
    if form.base > 0:
        total = fold("+", total, number(form.base, dtype))
    for term in terms:
        if term.scale < 0:
            total = fold("-", total, term_expr(term, -1, dtype))
    if form.base < 0:
        total = fold("-", total, number(-form.base, dtype))
    return total


def one_term(form: Sum, dtype: str) -> Term:
    """Return a sum as one term, hiding it in the term's atom if it has several."""
    if len(form.terms) == 1 and form.base == 0:
        return form.terms[0]
    terms = joined(form.terms)
    if len(terms) == 1 and form.base == 0:
        return terms[0]
    return Term(sum_expr(form, dtype))
