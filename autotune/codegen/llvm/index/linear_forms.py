"""Index arithmetic of the emitter: integer linear forms over SSA values with known ranges.

Linear forms fold constants, cancel floor divisions and prove signs by ranges before any text is
written. The rest of an address is a short sum, each part of which is computed at its own loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

_ids = itertools.count()


class Atom:
    """A 64-bit SSA value that is opaque to linear forms.

    Attributes
    ----------
    ref : str
        Its name in the LLVM text.
    low, high : int or None
        Bounds of its value, None where unknown.
    depth : int
        Nesting depth of the scope that defines it.
    """

    __slots__ = ("depth", "high", "id", "low", "ref")

    def __init__(self, ref: str, low: int | None, high: int | None, depth: int) -> None:
        self.ref, self.low, self.high, self.depth = ref, low, high, depth
        self.id = next(_ids)


Key = tuple[tuple[int, int], ...]


class Linear:
    """The sum of `const` and of `coefficient * atom` over `terms`; immutable."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Atom, int], const: int) -> None:
        self.terms = terms
        self.const = const

    @property
    def is_const(self) -> bool:
        """Whether the value is known."""
        return not self.terms

    @property
    def key(self) -> Key:
        """The variable part as a dictionary key."""
        return tuple(sorted((atom.id, c) for atom, c in self.terms.items()))

    def __add__(self, other: Linear) -> Linear:
        if not other.terms:
            return Linear(self.terms, self.const + other.const)
        if not self.terms:
            return Linear(other.terms, self.const + other.const)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + coefficient
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        return Linear(terms, self.const + other.const)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> Linear:
        """Return `factor` times this form."""
        if factor == 1:
            return self
        if factor == 0:
            return constant(0)
        return Linear({atom: c * factor for atom, c in self.terms.items()}, self.const * factor)

    def variable(self) -> Linear:
        """Return the form without its constant."""
        return Linear(self.terms, 0) if self.const else self

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """Least and greatest possible value, None where unknown."""
        low: int | None = self.const
        high: int | None = self.const
        for atom, c in self.terms.items():
            at_low, at_high = (atom.low, atom.high) if c > 0 else (atom.high, atom.low)
            low = None if low is None or at_low is None else low + c * at_low
            high = None if high is None or at_high is None else high + c * at_high
        return low, high

    def split_by(self, divisor: int) -> tuple[Linear, Linear]:
        """Return (q, r) with this form equal to `divisor * q + r`.

        The constant of r lies in [0, divisor); q takes every term that `divisor` divides.
        """
        whole = {a: c // divisor for a, c in self.terms.items() if c % divisor == 0}
        rest = {a: c for a, c in self.terms.items() if c % divisor != 0}
        return Linear(whole, self.const // divisor), Linear(rest, self.const % divisor)


def constant(value: int) -> Linear:
    """Return the form of a known value."""
    return Linear({}, value)


def of_atom(atom: Atom) -> Linear:
    """Return the form of one atom."""
    return Linear({atom: 1}, 0)


def within(form: Linear, low: int, high: int) -> bool:
    """Whether `form` is known to lie in [low, high]."""
    least, most = form.bounds
    return least is not None and most is not None and low <= least and most <= high


def non_negative(forms: Iterable[Linear]) -> bool:
    """Whether all forms are known to be at least 0."""
    return all(low is not None and low >= 0 for low in (form.bounds[0] for form in forms))


def product_bounds(a: Linear, b: Linear) -> tuple[int | None, int | None]:
    """Bounds of the product of two forms."""
    (a_low, a_high), (b_low, b_high) = a.bounds, b.bounds
    if a_low is None or b_low is None:
        return None, None
    if a_high is None or b_high is None:
        return (0, None) if a_low >= 0 and b_low >= 0 else (None, None)
    corners = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
    return min(corners), max(corners)
