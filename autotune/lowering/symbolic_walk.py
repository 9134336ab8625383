"""The walk of `lowering.strides` over the text of a guarded sum, for all knob values at once.

Terms are written by descending scale. Where the walk's result depends on an order that knob
values decide, both orders are walked and the values choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from autotune.ir.expr import Const, Expr, Var
from autotune.ir.ops import binary, logical_not, select
from autotune.lowering.conditions import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Logic,
    When,
    contradict,
    joined,
    without,
)
from autotune.lowering.guarded import Hidden, Opaque, Sum, Sums, Term
from autotune.lowering.strides import ABSENT, NO_MODULUS, Touch

MOST_CASES = 100
"""Cases that the walk of one index may be split into."""


def symbolic_touches(index: Sum, sums: Sums) -> dict[Var, Touch] | None:
    """Return the touch of each variable in a canonical index, as expressions over knobs.

    None if there are more than `MOST_CASES` cases, or if terms may cancel that are not written
    the same.
    """
    left = 0 if _may_cancel(index, sums) else MOST_CASES

    def cases(assumed: When) -> dict[Var, Touch] | None:
        nonlocal left
        left -= 1
        if left < 0:
            return None
        text = _Text(index, sums, assumed)
        walk = _Walk(sums.logic, text)
        try:
            walk.visit(text.phrases)
            return walk.found
        except _UndecidedOrder as undecided:
            test = undecided.condition
        yes = cases((*assumed, (test, True)))
        no = None if yes is None else cases((*assumed, (test, False)))
        if yes is None or no is None:
            return None
        pairs = {var: (yes.get(var, ABSENT), no.get(var, ABSENT)) for var in yes | no}
        return {
            var: Touch(select(test, a.stride, b.stride), select(test, a.mod, b.mod))
            for var, (a, b) in pairs.items()
        }

    return cases(())


def _may_cancel(index: Sum, sums: Sums) -> bool:
    """Whether two terms that are not variables, one of them subtracted, share a variable.

    For some knob values they may be one index; their equality shows in values only.
    """
    inner = [term for term in index.terms if not isinstance(term.index, Var)]
    for one, other in combinations(inner, 2):
        signs = [sums.logic.bounds(sums.logic.value(term.scale)) for term in (one, other)]
        opposite = min(low for low, _ in signs) < 0 < max(high for _, high in signs)
        apart = one.index is other.index or contradict(one.when, other.when)
        if opposite and not apart and not _variables(one).isdisjoint(_variables(other)):
            return True
    return False


def _variables(term: Term) -> set[Var]:
    if isinstance(term.index, Var):
        return {term.index}
    return {v for part in _inside(term) for inner in part.terms for v in _variables(inner)}


def _inside(term: Term) -> Sequence[Sum]:
    """Return the sums whose text a term's index is."""
    if isinstance(term.index, Hidden):
        return [term.index.sum]
    return term.index.children if isinstance(term.index, Opaque) else []


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A place in the text where a variable stands, multiplied by `factor` (1: bare)."""

    var: Var
    when: When
    factor: Expr
    mod: int | Expr


@dataclass(frozen=True, eq=False)
class _Phrase:
    """A term in the text: a leaf, or the sums inside it."""

    term: Term
    when: When
    leaf: _Leaf | None
    parts: tuple[tuple[_Phrase, ...], ...]

    def leaves(self) -> Iterator[_Leaf]:
        """Yield all leaves."""
        if self.leaf is not None:
            yield self.leaf
        for part in self.parts:
            for phrase in part:
                yield from phrase.leaves()


class _UndecidedOrder(Exception):
    """Raised with a condition on which the order of two terms depends, or if both are there."""

    def __init__(self, condition: Expr) -> None:
        self.condition = condition


class _Text:
    """An index as phrases, and whether the order of two phrases can matter to the walk.

    Attributes
    ----------
    phrases : tuple of _Phrase
        Those that are there in some case where `assumed` holds.
    assumed : When
        What need not be said any more.
    has_repeats : bool
        Whether some variable may stand in several places at once; if not, no order matters.
    """

    def __init__(self, index: Sum, sums: Sums, assumed: When) -> None:
        self._sums = sums
        self._logic = sums.logic
        self.assumed = assumed
        self.phrases = self._phrases(index, (), NO_MODULUS)
        self._owners = [(leaf, phrase) for phrase in self.phrases for leaf in phrase.leaves()]
        self.has_repeats = any(self._others(leaf) for leaf, _ in self._owners)
        self._leaks = self.has_repeats and any(
            self._leaks_into(a, b) for a, b in permutations(self._owners, 2)
        )

    def _phrases(
        self, index: Sum, around: When, mod: int | Expr, is_inside: bool = False
    ) -> tuple[_Phrase, ...]:
        found = []
        for term in index.terms:
            alive = self._sums.alive(term)
            both = None if alive is None else joined(self.assumed, around, alive)
            known = None if both is None else self._logic.given(both)
            if known is None:
                continue
            when = without(known, self.assumed)
            inner = mod if term.upper is None else self._logic.value(term.upper)
            if isinstance(term.index, Var):
                factor = self._factor(term, self._sums.lonely(index, term) if is_inside else FALSE)
                leaf = _Leaf(term.index, when, factor, inner)
                found.append(_Phrase(term, when, leaf, ()))
            else:
                modulus = term.index.modulus if isinstance(term.index, Opaque) else None
                if modulus is not None:
                    inner = modulus
                parts = (self._phrases(part, when, inner, True) for part in _inside(term))
                found.append(_Phrase(term, when, None, tuple(parts)))
        return tuple(found)

    def _factor(self, term: Term, lonely: Expr) -> Expr:
        """Return the constant a variable is multiplied by in the text, 1 if it stands bare.

        Negative ones are subtracted, but for a term that is alone inside a division.
        """
        if not term.is_plain:
            return ONE
        scale = self._logic.value(term.scale)
        if self._logic.bounds(scale)[0] >= 0:
            return scale
        return select(lonely, scale, binary("max", scale, binary("-", ZERO, scale)))

    # -- what order may change ---------------------------------------------------------------

    def matters(self, a: _Phrase, b: _Phrase) -> bool:
        """Whether the walk may find other touches if `a` and `b` change places."""
        if self._leaks:
            return not (self._is_harmless(a) and self._is_harmless(b))
        return any(
            x.var is y.var
            and not (x.factor is y.factor and x.mod is y.mod)
            and not contradict(x.when, y.when)
            for x in a.leaves()
            for y in b.leaves()
        )

    def _is_harmless(self, phrase: _Phrase) -> bool:
        """Whether a phrase is one variable that takes its own factor, wherever it stands."""
        leaf = phrase.leaf
        if leaf is None or not self._logic.exceeds_one(leaf.factor, leaf.when):
            return False
        return not self._others(leaf)

    def _others(self, leaf: _Leaf) -> list[tuple[_Leaf, _Phrase]]:
        """Return the other places of the leaf's variable that may be there too."""
        return [
            (other, phrase)
            for other, phrase in self._owners
            if other.var is leaf.var and other is not leaf and not contradict(other.when, leaf.when)
        ]

    def _leaks_into(self, source: tuple[_Leaf, _Phrase], target: tuple[_Leaf, _Phrase]) -> bool:
        """Whether the factor of a variable met again may be left for another, new variable.

        Not if that is surely written before, or met where the first may have been met before.
        """
        (leaf, phrase), (taker, taking) = source, target
        if leaf.var is taker.var or self._logic.bounds(leaf.factor)[1] <= 1:
            return False
        if self._is_surely_first(taking, phrase):
            return False
        for earlier, place in self._others(leaf):
            if self._is_surely_first(phrase, place):
                continue
            together = joined(leaf.when, taker.when, earlier.when)
            if together is None or self._logic.exceeds_one(taker.factor, together):
                continue
            if place is phrase or not any(
                other.var is taker.var and not without(other.when, together)
                for other in place.leaves()
            ):
                return True
        return False

    def _is_surely_first(self, a: _Phrase, b: _Phrase) -> bool:
        if a is b:
            return False
        for phrase in self.phrases:
            if phrase is a:
                return written_first(a.term, b.term, self._logic) is TRUE
            if phrase is b:
                return written_first(b.term, a.term, self._logic) is FALSE
        raise AssertionError("phrases of another text")


class _Walk:
    """The walk of `strides.text_touches`, on phrases."""

    def __init__(self, logic: Logic, text: _Text) -> None:
        self.found: dict[Var, Touch] = {}
        self._logic = logic
        self._text = text
        self._pending: Expr = ONE
        self._met: dict[Var, list[When]] = {}

    def visit(self, phrases: Sequence[_Phrase]) -> None:
        """Walk the text of a sum."""
        for phrase in self._ordered(phrases):
            if phrase.leaf is not None:
                self._meet(phrase.leaf)
            for part in phrase.parts:
                self.visit(part)

    def _meet(self, leaf: _Leaf) -> None:
        logic = self._logic
        bare = logic.compare("==", leaf.factor, ONE)
        pending = leaf.factor
        if self._pending is not ONE:
            pending = select(bare, self._pending, leaf.factor)
        known: Expr = FALSE
        for earlier in self._met.get(leaf.var, []):
            if not contradict(earlier, leaf.when):
                known = binary("or", known, logic.holds(without(earlier, leaf.when)))
        known = logic.decided(known)
        new = logic.all_of((logic.holds(leaf.when), logical_not(known)))
        old = self.found.get(leaf.var, ABSENT)
        self.found[leaf.var] = Touch(
            select(new, pending, old.stride), select(new, leaf.mod, old.mod)
        )
        self._met.setdefault(leaf.var, []).append(leaf.when)
        left = select(known, pending, ONE)
        self._pending = logic.where(leaf.when, left, self._pending)

    # -- order of terms ----------------------------------------------------------------------

    def _ordered(self, phrases: Sequence[_Phrase]) -> list[_Phrase]:
        """Return phrases in the order of the text, as far as it matters."""
        if not self._text.has_repeats:
            return list(phrases)
        before: dict[int, set[int]] = {i: set() for i in range(len(phrases))}
        for i, j in combinations(range(len(phrases)), 2):
            first = self._is_first(phrases[i], phrases[j])
            if first is not None:
                before[j if first else i].add(i if first else j)
        ordered = []
        left = list(before)
        while left:
            ready = (i for i in left if not any(j in before[i] for j in left))
            following = next(ready, left[0])
            left.remove(following)
            ordered.append(phrases[following])
        return ordered

    def _is_first(self, a: _Phrase, b: _Phrase) -> bool | None:
        """Whether `a`, found before `b`, is written before it; None if that does not matter."""
        if contradict(a.when, b.when):
            return None
        condition = written_first(a.term, b.term, self._logic)
        condition = self._logic.given_that(self._text.assumed, condition)
        if isinstance(condition, Const):
            return bool(condition.value)
        if not self._text.matters(a, b):
            return None
        for test, _ in (*a.when, *b.when):
            raise _UndecidedOrder(test)
        raise _UndecidedOrder(condition)


def written_first(a: Term, b: Term, logic: Logic) -> Expr:
    """Return the condition that `a`, found before `b`, is written before it.

    Text is by descending scale, then lower, then upper, then as found.
    """
    first: Expr = TRUE
    if b.upper is None and a.upper is not None:
        first = FALSE
    elif a.upper is not None and b.upper is not None:
        first = logic.compare(">=", logic.value(a.upper), logic.value(b.upper))
    for left, right in ((a.lower, b.lower), (a.scale, b.scale)):
        x, y = logic.value(left), logic.value(right)
        larger, at_least = logic.compare(">", x, y), logic.compare(">=", x, y)
        # x > y, or x == y and what the keys so far say
        first = logic.decided(binary("or", larger, binary("and", at_least, first)))
    return first
