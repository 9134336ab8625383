"""Canonical index sums over symbolic knobs: what `ir.canonical` does, for all knob values at once.

Which form the simplifier gives an index depends on values: what divides, what fits, which loops
have length 1. Here each term of a sum carries the conditions under which it is there, so that one
guarded sum holds the forms of all candidates. The rules are those of `ir.canonical.Canonical`,
step by step; a property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from autotune.ir.expr import Expr, Var
from autotune.ir.ops import binary, logical_not, select
from autotune.lowering.conditions import (
    FALSE,
    ONE,
    UNIT,
    ZERO,
    Logic,
    Ratio,
    When,
    contradict,
    joined,
    shared,
    without,
)

Bounds: TypeAlias = tuple[Expr | None, Expr | None]
"""Inclusive ends over knobs; None where there is none known."""


UNKNOWN: Bounds = (None, None)


@dataclass(frozen=True, eq=False)
class Hidden:
    """A sum as the index of a term: what stands inside a quotient or a remainder."""

    sum: Sum


@dataclass(frozen=True, eq=False)
class Opaque:
    """An expression the simplifier does not look into, such as min(a, b) or a load.

    `modulus` is the number that it is a remainder by, if it is one.
    """

    children: tuple[Sum, ...]
    bounds: Bounds
    modulus: Expr | None = None


Index: TypeAlias = Var | Hidden | Opaque


@dataclass(frozen=True, eq=False)
class Term:
    """scale * ((index % upper) // lower), there only where `when` holds and `scale` is not 0.

    Numbers are over knobs; `upper` is None where there is no modulus.
    """

    index: Index
    scale: Ratio = UNIT
    when: When = ()
    lower: Ratio = UNIT
    upper: Ratio | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is scale * index."""
        return self.lower.same(UNIT) and self.upper is None

    def is_like(self, other: Term) -> bool:
        """Whether two terms differ in scale and conditions only."""
        if self.upper is None or other.upper is None:
            same = self.upper is other.upper
        else:
            same = self.upper.same(other.upper)
        return same and self.index is other.index and self.lower.same(other.lower)


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of `terms` and `base`, an expression over knobs."""

    terms: tuple[Term, ...]
    base: Expr = ZERO


NOTHING = Sum(())

MOST_TERMS = 50
"""Terms, alternatives included, that a sum may have."""


class TooManyTerms(Exception):
    """Raised where a sum has so many cases that it is not worth having."""


class Sums:
    """Arithmetic of guarded sums.

    Attributes
    ----------
    logic : Logic
        Decides conditions.
    extents : dict of Var to Expr or None
        Largest extents of the loops in scope, which run from 0; None where a call decides.
    """

    def __init__(self) -> None:
        self.logic = Logic()
        self.extents: dict[Var, Expr | None] = {}
        self._hidden: dict[object, Hidden] = {}
        self._opaque: dict[object, Opaque] = {}

    # -- sums ------------------------------------------------------------------------------

    def constant(self, value: Expr) -> Sum:
        """Return a sum without terms."""
        return Sum((), self.logic.normal(value))

    def variable(self, var: Var) -> Sum:
        """Return the sum of one loop variable, which is 0 where its loop has length 1."""
        return self.guarded(Sum((Term(var),)), self._runs(var))

    def _runs(self, var: Var) -> When | None:
        """Return the literal that a variable takes more than one value."""
        extent = self.extents.get(var)
        if extent is None:
            return ()
        return self.logic.literal(self.logic.compare(">", extent, ONE), True)

    def add(self, a: Sum, b: Sum, factor: int = 1) -> Sum:
        """Return a + b, or a - b for the factor -1."""
        op = "+" if factor == 1 else "-"
        terms = list(a.terms)
        for term in b.terms:
            scale = term.scale
            if factor == -1:
                scale = self.logic.ratio(binary("-", ZERO, scale.num), scale.den)
            self._insert(terms, replace(term, scale=scale))
        if len(terms) > MOST_TERMS:
            raise TooManyTerms
        return Sum(tuple(terms), self.logic.normal(binary(op, a.base, b.base)))

    def scaled(self, a: Sum, factor: Expr) -> Sum:
        """Return factor * a."""
        ratio = self.logic.ratio(factor)
        terms = (replace(t, scale=self.logic.times(t.scale, ratio)) for t in a.terms)
        kept = tuple(term for term in terms if term.scale.num is not ZERO)
        return Sum(kept, self.logic.normal(binary("*", a.base, factor)))

    def guarded(self, a: Sum, when: When | None) -> Sum:
        """Return `a` where `when` holds, else 0."""
        if when is None:
            return NOTHING
        terms = ((t, joined(t.when, when)) for t in a.terms)
        return Sum(
            tuple(replace(t, when=both) for t, both in terms if both is not None),
            self.logic.where(when, a.base, ZERO),
        )

    def choose(self, condition: Expr, a: Sum, b: Sum) -> Sum:
        """Return `a` where the condition over knobs holds, else `b`."""
        test = self.logic.decided(condition)
        chosen = self.guarded(a, self.logic.literal(test, True))
        other = self.guarded(b, self.logic.literal(test, False))
        return Sum(self.add(chosen, other).terms, select(test, a.base, b.base))

    def _insert(self, terms: list[Term], new: Term) -> None:
        """Add a term, merging it with those of the same index, lower and upper.

        Terms that exclude one another stay apart, unless they are one term in both cases.
        """
        place = len(terms)
        for i, old in enumerate(terms):
            if old.index is not new.index:
                continue
            place = i + 1
            if old.is_like(new):
                merged = self._merged(old, new)
                if merged is not None:
                    del terms[i]
                    if merged.scale.num is not ZERO:
                        self._insert(terms, merged)
                    return
        terms.insert(place, new)

    def _merged(self, old: Term, new: Term) -> Term | None:
        both = shared(old.when, new.when)
        mine, other = without(old.when, both), without(new.when, both)
        if contradict(mine, other):
            one_or_other = len(mine) == len(other) == 1 and old.scale.same(new.scale)
            return replace(old, when=both) if one_or_other else None
        logic = self.logic
        if not mine and not other and old.scale.den is new.scale.den:
            total = logic.ratio(binary("+", old.scale.num, new.scale.num), old.scale.den)
            return replace(old, scale=total)
        scales = (
            logic.where(when, logic.value(term.scale), ZERO)
            for when, term in ((mine, old), (other, new))
        )
        return replace(old, scale=logic.ratio(binary("+", *scales)), when=both)

    # -- bounds ----------------------------------------------------------------------------

    def bounds(self, a: Sum) -> Bounds:
        """Return inclusive bounds of a sum over the loops in scope."""
        total: list[Expr | None] = [a.base, a.base]
        for term in a.terms:
            when = term.when
            if isinstance(term.index, Var):  # which is 0, as is its bound, where it does not run
                when = without(when, self._runs(term.index) or ())
            for side, end in enumerate(self._term_bounds(term)):
                so_far = total[side]
                if end is None or so_far is None:
                    total[side] = None
                else:
                    total[side] = binary("+", so_far, self.logic.where(when, end, ZERO))
        low, high = (None if end is None else self.logic.normal(end) for end in total)
        return low, high

    def _term_bounds(self, term: Term) -> Bounds:
        logic = self.logic
        low, high = self._index_bounds(term.index)
        if term.upper is not None:  # a remainder stays only where its index leaves [0, upper)
            low, high = ZERO, binary("-", logic.value(term.upper), ONE)
        if not term.lower.same(UNIT):
            lower = logic.value(term.lower)
            low, high = (None if end is None else binary("//", end, lower) for end in (low, high))
        scale = logic.value(term.scale)
        low, high = (None if end is None else binary("*", end, scale) for end in (low, high))
        smallest, largest = logic.bounds(scale)
        if smallest >= 0:
            return low, high
        if largest <= 0:
            return high, low
        if low is None or high is None:
            return None, None
        return binary("min", low, high), binary("max", low, high)

    def _index_bounds(self, index: Index) -> Bounds:
        if isinstance(index, Hidden):
            return self.bounds(index.sum)
        if isinstance(index, Opaque):
            return index.bounds
        extent = self.extents.get(index)
        return ZERO, None if extent is None else binary("-", extent, ONE)

    def sign(self, a: Sum) -> tuple[Expr, Expr]:
        """Return the conditions that a sum is provably at most 0, and at least 0."""
        low, high = self.bounds(a)
        return (
            FALSE if high is None else self.logic.compare("<=", high, ZERO),
            FALSE if low is None else self.logic.compare(">=", low, ZERO),
        )

    # -- division --------------------------------------------------------------------------

    def divided(self, op: str, a: Sum, divisor: Expr) -> Sum:
        """Return a // divisor or a % divisor, for a divisor of at least 1.

        Terms that the divisor divides leave the division. If the others lie in [0, divisor), the
        quotient of them vanishes and the remainder is they themselves.
        """
        whole, extra = self._parts(a, divisor)
        if not extra.terms:
            rest = self.constant(binary(op, extra.base, divisor))
            return self.add(whole, rest) if op == "//" else rest
        below, _ = self.sign(self.add(extra, self.constant(binary("-", divisor, ONE)), -1))
        _, positive = self.sign(extra)
        fits = self.logic.all_of((positive, below))
        overflows = self.logic.literal(fits, False)
        inside = self._quotient if op == "//" else self._remainder
        rest = NOTHING if overflows is None else self.guarded(inside(extra, divisor), overflows)
        kept = whole if op == "//" else self.guarded(extra, self.logic.literal(fits, True))
        return self.add(kept, rest)

    def _parts(self, a: Sum, divisor: Expr) -> tuple[Sum, Sum]:
        """Return the quotients of what the divisor divides, and what it does not divide."""
        logic, by = self.logic, self.logic.ratio(divisor)
        whole: list[Term] = []
        extra: list[Term] = []
        for term in a.terms:
            quotient = logic.over(term.scale, by)
            exact = logic.is_whole(quotient)
            if quotient.num is ONE:  # only 1 divides 1
                quotient, exact = UNIT, logic.compare("==", quotient.den, ONE)
            for parts, scale, outcome in ((whole, quotient, True), (extra, term.scale, False)):
                literal = logic.literal(exact, outcome)
                when = None if literal is None else joined(term.when, literal)
                if when is not None:
                    parts.append(replace(term, scale=scale, when=when))
        base = logic.ratio(a.base, divisor)
        exact = logic.is_whole(base)
        return (
            Sum(tuple(whole), select(exact, logic.value(base), ZERO)),
            Sum(tuple(extra), select(exact, ZERO, a.base)),
        )

    def _quotient(self, extra: Sum, divisor: Expr) -> Sum:
        """Return extra // divisor, none of whose terms the divisor divides."""
        total = NOTHING
        several: When = ()
        for term, alone in self._single_terms(extra, divisor):
            single = replace(term, scale=UNIT, lower=self._shrunk(term, divisor), when=())
            when = joined(term.when, ((alone, True),))
            total = self.add(total, self.guarded(Sum((single,)), when))
            several += self._unless(term, alone)
        rest = Term(self.hidden(extra), when=several, lower=Ratio(divisor))
        return self.add(total, Sum((rest,)))

    def _remainder(self, extra: Sum, divisor: Expr) -> Sum:
        """Return extra % divisor, none of whose terms the divisor divides."""
        total = NOTHING
        several: When = ()
        for term, condition in self._single_terms(extra, divisor):
            single, alone = self._narrowed(term, self._shrunk(term, divisor), condition)
            when = joined(term.when, ((alone, True),))
            total = self.add(total, self.guarded(single, when))
            several += self._unless(term, alone)
        rest = Term(self.hidden(extra), when=several, upper=Ratio(divisor))
        return self.add(total, Sum((rest,)))

    def _unless(self, term: Term, alone: Expr) -> When:
        """Return the literal that not this term stands alone."""
        alive = self.alive(term)
        here = FALSE if alive is None else self.logic.holds(alive)
        return ((self.logic.all_of((here, alone)), False),)

    def _shrunk(self, term: Term, divisor: Expr) -> Ratio:
        """Return what a term's index is divided by where the scale divides `divisor`."""
        return self.logic.over(self.logic.times(term.lower, Ratio(divisor)), term.scale)

    def _narrowed(self, term: Term, upper: Ratio, alone: Expr) -> tuple[Sum, Expr]:
        """Return a term, alone where `alone` holds, under the modulus `upper`, and where so.

        A modulus of its own has to be a divisor or a multiple of it.
        """
        logic = self.logic
        bare = replace(term, when=())
        if term.upper is None:
            return Sum((replace(bare, upper=upper),)), alone
        stays = logic.is_whole(logic.over(upper, term.upper))
        narrows = logic.is_whole(logic.over(term.upper, upper))
        index = term.index.sum if isinstance(term.index, Hidden) else Sum((Term(term.index),))
        inner = self.divided("%", index, logic.value(upper))
        inner = self.divided("//", inner, logic.value(term.lower))
        narrowed = self.scaled(inner, logic.value(term.scale))
        either = logic.decided(binary("or", stays, narrows))
        return self.choose(stays, Sum((bare,)), narrowed), logic.all_of((alone, either))

    def _single_terms(self, extra: Sum, divisor: Expr) -> list[tuple[Term, Expr]]:
        """Return the terms that may stand alone and whose scale may divide the divisor.

        With each comes the condition under which this is so.
        """
        logic = self.logic
        found = []
        for term in extra.terms:
            positive = logic.compare(">", logic.value(term.scale), ZERO)
            exact = logic.is_whole(logic.over(logic.ratio(divisor), term.scale))
            condition = logic.all_of((self.lonely(extra, term), positive, exact))
            if condition is not FALSE:
                found.append((term, condition))
        return found

    def lonely(self, a: Sum, term: Term) -> Expr:
        """Return the condition under which, if a term of `a` is there, nothing else is."""
        alone = [self.logic.compare("==", a.base, ZERO)]
        for other in a.terms:
            if other is not term and not contradict(term.when, other.when):
                alive = self.alive(other)
                if alive is not None:
                    alone.append(logical_not(self.logic.holds(without(alive, term.when))))
        return self.logic.all_of(alone)

    def alive(self, term: Term) -> When | None:
        """Return the literals under which a term is there, None if it never is."""
        nonzero = self.logic.nonzero(self.logic.value(term.scale))
        return None if nonzero is None else joined(term.when, nonzero)

    def hidden(self, a: Sum) -> Hidden:
        """Return a sum as an index; equal sums are one index."""
        a = self.recombined(a)
        return self._hidden.setdefault(_key(a), Hidden(a))

    def opaque(
        self,
        head: object,
        operands: Sequence[Sum],
        bounds: Bounds = UNKNOWN,
        modulus: Expr | None = None,
    ) -> Sum:
        """Return the sum of one expression that is not looked into.

        Those with the same head, which tells what becomes of the operands, are one index.
        """
        children = tuple(self.recombined(operand, expand=True) for operand in operands)
        key = (head, *map(_key, children))
        index = self._opaque.setdefault(key, Opaque(children, bounds, modulus))
        return Sum((Term(index),))

    # -- quotient and remainder together -----------------------------------------------------

    def recombined(self, a: Sum, expand: bool = False) -> Sum:
        """Return the sum with (x // c)*c*k + (x % c)*k made x*k wherever both are there.

        With `expand`, a sum that this sets free joins the sum.
        """
        terms = list(a.terms)
        made_of = [{place} for place in range(len(terms))]
        pairs = [(i, j) for j in range(len(terms)) for i in range(len(terms)) if i != j]
        while pairs:
            i, j = pairs.pop(0)
            together = self._together(terms[i], terms[j])
            if together is None:
                continue
            merged, terms[i], terms[j] = together
            new = len(terms)
            if new > MOST_TERMS:
                raise TooManyTerms
            terms.append(merged)
            made_of.append(made_of[i] | made_of[j])
            others = [k for k in range(new) if made_of[k].isdisjoint(made_of[new])]
            pairs += [pair for k in others for pair in ((k, new), (new, k))]
        total = NOTHING
        for term in terms:
            alone = Sum((term,))
            if expand and term.is_plain and isinstance(term.index, Hidden):
                inner = self.recombined(term.index.sum, expand)
                alone = self.guarded(self.scaled(inner, self.logic.value(term.scale)), term.when)
            total = self.add(total, alone)
        return self.simplified(Sum(total.terms, self.logic.normal(binary("+", total.base, a.base))))

    def simplified(self, a: Sum) -> Sum:
        """Return a sum whose terms carry no literal that others imply."""
        total = Sum((), a.base)
        for term in a.terms:
            when = self.logic.given(term.when)
            if when is not None and term.scale.num is not ZERO:
                total = self.add(total, Sum((replace(term, when=when),)))
        return total

    def _together(self, left: Term, right: Term) -> tuple[Term, Term, Term] | None:
        """Merge a quotient and a remainder; also return what is left of each where they differ."""
        logic = self.logic
        if left.index is not right.index or right.upper is None:
            return None
        whens = self.alive(left), self.alive(right)
        if whens[0] is None or whens[1] is None:
            return None
        both = joined(whens[0], whens[1])
        edges = logic.over(left.lower, right.upper)
        steps = logic.over(
            logic.times(left.scale, right.lower), logic.times(right.scale, left.lower)
        )
        matching = logic.all_of(logic.compare("==", r.num, r.den) for r in (edges, steps))
        literal = logic.literal(matching, True)
        when = None if both is None or literal is None else joined(both, literal)
        if when is None:
            return None
        merged = Term(left.index, right.scale, when, right.lower, left.upper)
        return merged, self._rest(left, when), self._rest(right, when)

    def _rest(self, term: Term, taken: When) -> Term:
        """Return a term where `taken` does not hold; its scale is 0 if that is nowhere."""
        negated = self.logic.negated(without(taken, term.when))
        when = None if negated is None else joined(term.when, negated)
        return replace(term, scale=Ratio(ZERO)) if when is None else replace(term, when=when)


def _key(a: Sum) -> object:
    """Return what equal sums share: identities, which last as long as the sums."""
    terms = (
        (
            id(t.index),
            tuple(id(e) for e in (*t.scale, *t.lower, *(t.upper or ()))),
            frozenset((id(e), x) for e, x in t.when),
        )
        for t in a.terms
    )
    return id(a.base), frozenset(terms)
