"""Linear polynomials in the indices of a contraction, with exact rational coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from autotune.tile.index_sets.lattice import independent
from autotune.tile.syntax.syntax_tree import BinaryExpr, Expr, Name, Negate, names_in


class SizeNeeded(Exception):
    """A coefficient depends on a dimension whose size is not known yet."""


@dataclass(frozen=True, slots=True)
class Affine:
    """``sum(coefficient * index) + constant``; terms with coefficient 0 are left out."""

    terms: tuple[tuple[str, Fraction], ...]
    constant: Fraction = Fraction(0)

    @classmethod
    def of(cls, terms: Mapping[str, Fraction | int], constant: Fraction | int = 0) -> Affine:
        """Return the polynomial with these coefficients."""
        kept = tuple((name, Fraction(c)) for name, c in terms.items() if c)
        return cls(kept, Fraction(constant))

    def coefficient(self, name: str) -> Fraction:
        """Return the coefficient of an index, which may be 0."""
        return dict(self.terms).get(name, Fraction(0))

    @property
    def names(self) -> tuple[str, ...]:
        """Indices with a coefficient, in order of first appearance."""
        return tuple(name for name, _ in self.terms)

    @property
    def denominator(self) -> int:
        """Least positive integer that makes all coefficients and the constant whole."""
        return math.lcm(self.constant.denominator, *(c.denominator for _, c in self.terms))

    def whole(self) -> tuple[dict[str, int], int, int]:
        """Return whole coefficients, a whole constant and their common denominator."""
        d = self.denominator
        return {name: int(c * d) for name, c in self.terms}, int(self.constant * d), d

    def at(self, values: Mapping[str, Any]) -> tuple[Any, int]:
        """Return numerator and denominator for some values (integers or integer arrays)."""
        terms, constant, d = self.whole()
        return sum((c * values[name] for name, c in terms.items()), start=constant), d

    def substituted(self, values: Mapping[str, Affine]) -> Affine:
        """Return the polynomial with some indices replaced by polynomials."""
        result = Affine((), self.constant)
        for name, c in self.terms:
            result += values[name] * c if name in values else Affine(((name, c),))
        return result

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for name, c in other.terms:
            terms[name] = terms.get(name, Fraction(0)) + c
        return Affine.of(terms, self.constant + other.constant)

    def __mul__(self, factor: Fraction | int) -> Affine:
        return Affine.of({n: c * factor for n, c in self.terms}, self.constant * factor)

    def __str__(self) -> str:
        text = ""
        for name, c in [*self.terms, ("", self.constant)]:
            if c or not (name or text):
                size = f"{abs(c)} * {name}" if name and abs(c) != 1 else name or str(abs(c))
                sign = " - " if c < 0 else " + "
                text += (sign if text else sign.strip(" +")) + size
        return text


#: Value of an expression without indices; None if it depends on an unknown size.
Valued = Callable[[Expr], Fraction | None]


def affine(expr: Expr, valued: Valued) -> Affine:
    """Return a checked index expression as a polynomial.

    `expr`: an expression that `check` found linear in the indices (the names in lower case).
    `valued`: value of the parts that have no index.

    Raises SizeNeeded if a coefficient is not known. An unknown constant counts as 0.
    """
    if not any(is_index(name.text) for name in names_in(expr)):
        return Affine.of({}, valued(expr) or 0)
    match expr:
        case Name(text):
            return Affine.of({text: 1})
        case Negate(value):
            return affine(value, valued) * -1
        case BinaryExpr("+", left, right):
            return affine(left, valued) + affine(right, valued)
        case BinaryExpr("-", left, right):
            return affine(left, valued) + affine(right, valued) * -1
        case BinaryExpr("*", left, right):
            if any(is_index(name.text) for name in names_in(right)):
                left, right = right, left
            return affine(left, valued) * _known(right, valued)
        case BinaryExpr("/", left, right):
            return affine(left, valued) * (1 / _known(right, valued))
    raise AssertionError(f"not an index expression: {expr}")


def _known(expr: Expr, valued: Valued) -> Fraction:
    value = valued(expr)
    if value is None:
        raise SizeNeeded
    return value


def is_index(name: str) -> bool:
    """Whether a name is an index (lower case) and not a tensor or dimension."""
    return name[:1].islower()


def free_direction(names: Iterable[str], forms: Iterable[Affine]) -> str | None:
    """Return an index that can grow without changing any form; None if there is none.

    Every form of a contraction is bounded from both sides, so a set of indices is finite exactly
    if the coefficients have full column rank.
    """
    own, whole = list(names), [form.whole()[0] for form in forms]
    rows = [[terms.get(name, 0) for terms in whole] for name in own]
    bounded = independent(rows, len(whole))
    return next((n for n, is_bounded in zip(own, bounded, strict=True) if not is_bounded), None)
