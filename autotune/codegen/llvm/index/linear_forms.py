"""Index arithmetic of the emitter: integer linear forms over SSA values with known ranges.

Linear forms fold constants, cancel floor divisions and prove signs by ranges before any text is
written. The rest of an address is a short sum, each part of which is computed at its own loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from autotune.ir.algebra.intervals import Bounds
from autotune.ir.algebra.polynomials import add

_ids = itertools.count()


class Atom:
    """A 64-bit SSA value that is opaque to linear forms.

    `ref`: its name in the LLVM text.
    `bounds`: bounds of its value.
    `depth`: nesting depth of the scope that defines it.
    `multiples`: of a loop variable: names of its multiples by factor. Its loop defines those that
    are in here when its body has been written, and adds the factor to each at every step: so no
    step multiplies, and LLVM need not look for what to reduce to additions.
    """

    __slots__ = ("bounds", "depth", "id", "multiples", "ref")

    def __init__(
        self, ref: str, bounds: Bounds, depth: int, multiples: dict[int, str] | None = None
    ) -> None:
        self.ref, self.bounds, self.depth, self.multiples = ref, bounds, depth, multiples
        self.id = next(_ids)


Key = tuple[tuple[int, int], ...]


class Linear:
    """The sum of `const` and of `coefficient * atom` over `terms`; immutable."""

    __slots__ = ("_key", "const", "terms")

    def __init__(self, terms: dict[Atom, int], const: int) -> None:
        self.terms = terms
        self.const = const
        self._key: Key | None = None

    @property
    def is_const(self) -> bool:
        """Whether the value is known."""
        return not self.terms

    @property
    def key(self) -> Key:
        """The variable part as a dictionary key."""
        if self._key is None:
            self._key = tuple(sorted([(atom.id, c) for atom, c in self.terms.items()]))
        return self._key

    def __add__(self, other: Linear) -> Linear:
        terms = self.terms or other.terms
        if self.terms and other.terms:
            terms = add(self.terms, other.terms)
        return Linear(terms, self.const + other.const)

    def __sub__(self, other: Linear) -> Linear:
        return Linear(add(self.terms, other.terms, -1), self.const - other.const)

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
    def bounds(self) -> Bounds:
        """Least and greatest possible value."""
        low: float = self.const
        high = low
        for atom, c in self.terms.items():
            least, most = atom.bounds
            if c < 0:
                least, most = most, least
            low += c * least
            high += c * most
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
    return low <= least and most <= high


def non_negative(forms: Iterable[Linear]) -> bool:
    """Whether all forms are known to be at least 0."""
    return all(form.bounds[0] >= 0 for form in forms)
