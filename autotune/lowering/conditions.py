"""Conditions over knobs, decided where the knobs' ranges decide them, else kept as expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from autotune.ir import dtypes
from autotune.ir.expr import (
    COMPARISON,
    LOGIC,
    Binary,
    Call,
    Const,
    Expr,
    Knob,
    Load,
    Not,
    Select,
    Var,
)
from autotune.ir.intervals import Intervals
from autotune.ir.ops import binary, const, logical_not, select
from autotune.ir.poly import Monomial, Poly, add, multiply, normal, to_expr, to_poly
from autotune.ir.visitor import walk_expr

Literal: TypeAlias = tuple[Expr, bool]
"""A condition, and the outcome that is asked for."""

When: TypeAlias = tuple[Literal, ...]
"""Literals that all hold; () always does."""

ZERO: Final = const(0)
ONE: Final = const(1)
TRUE: Final = const(True)
FALSE: Final = const(False)


def is_knob_only(node: Expr) -> bool:
    """Whether an expression is one number once the knobs have values."""
    return not any(isinstance(n, Load) or _is_open(n) for n in walk_expr(node))


def _is_open(node: Expr) -> bool:
    return isinstance(node, Var) and not isinstance(node, Knob)


def contradict(a: When, b: When) -> bool:
    """Whether one asks for a condition that the other forbids."""
    return any(e is f and x != y for e, x in a for f, y in b)


def joined(*whens: When) -> When | None:
    """Return the literals of all, or None if they contradict one another."""
    total: dict[Expr, bool] = {}
    for when in whens:
        for condition, outcome in when:
            if total.setdefault(condition, outcome) != outcome:
                return None
    return tuple(total.items())


def shared(a: When, b: When) -> When:
    """Return the literals that stand in both."""
    return tuple((e, x) for e, x in a if any(e is f and x == y for f, y in b))


def without(when: When, known: When) -> When:
    """Return the literals of `when` that do not stand in `known`."""
    return tuple((e, x) for e, x in when if not any(e is f and x == y for f, y in known))


class Ratio(NamedTuple):
    """num / den: a whole number wherever it counts. Multiplying by `den` gives `num` back."""

    num: Expr
    den: Expr = ONE

    def same(self, other: Ratio) -> bool:
        """Whether both are written the same."""
        return self.num is other.num and self.den is other.den


UNIT: Final = Ratio(ONE)


class Logic:
    """Simplifies and decides expressions over knobs by polynomials and the knobs' ranges."""

    def __init__(self) -> None:
        self._intervals = Intervals()
        self._normal: dict[Expr, Expr] = {}
        self._sizes: dict[Expr, int] = {}

    def normal(self, node: Expr) -> Expr:
        """Return an integer expression or a condition in a simple form of the same value."""
        found = self._normal.get(node)
        if found is None:
            found = self._simplified(node)
            self._normal[node] = self._normal[found] = found
        return found

    def _simplified(self, node: Expr) -> Expr:
        low, high = self.bounds(node)
        if low == high:
            return const(low, node.dtype)
        if isinstance(node, Binary):
            a, b = self.normal(node.a), self.normal(node.b)
            if node.op in ("+", "-", "*"):
                return normal(binary(node.op, a, b))
            if node.op in ("//", "%"):
                return self._division(node.op, a, b)
            if node.op in ("min", "max"):
                return self._extremum(node.op, a, b)
            if node.op in COMPARISON and dtypes.is_index(a.dtype):
                return self.compare(node.op, a, b)
            return self.decided(binary(node.op, a, b))
        if isinstance(node, Select):
            test, true, false = map(self.normal, node.children)
            return select(test, true, false)
        if isinstance(node, Not):
            return logical_not(self.normal(node.a))
        children = tuple(map(self.normal, node.children))
        if isinstance(node, Call) and node.name == "gcd":
            for this, other in (children, children[::-1]):
                if exact_quotient(this, other) is not None and self.bounds(other)[0] >= 0:
                    return other
        return node.with_children(children)

    def _division(self, op: str, a: Expr, b: Expr) -> Expr:
        """Take what is a multiple of the divisor out of a division, and the rest if it fits."""
        if self.bounds(b)[0] < 1:
            return binary(op, a, b)
        whole: Poly = {}
        rest: Poly = {}
        for monomial, coefficient in to_poly(a).items():
            quotient = exact_quotient(to_expr({monomial: coefficient}, a.dtype), b)
            if quotient is None:
                rest[monomial] = coefficient
            else:
                whole = add(whole, to_poly(quotient))
        left = to_expr(rest, a.dtype)
        for shift, low in ((ZERO, left), (const(-1), normal(binary("+", left, b)))):
            if self.compare("<", low, b) is TRUE and self.compare(">=", low, ZERO) is TRUE:
                quotient = binary("+", to_expr(whole, a.dtype), shift)
                return low if op == "%" else normal(quotient)
        if op == "%":
            return binary("%", left, b)
        return normal(binary("+", to_expr(whole, a.dtype), binary("//", left, b)))

    def _extremum(self, op: str, a: Expr, b: Expr) -> Expr:
        smaller, larger = (a, b) if op == "min" else (b, a)
        if self.compare("<=", a, b) is TRUE:
            return smaller
        if self.compare(">=", a, b) is TRUE:
            return larger
        for this, other in ((a, b), (b, a)):  # min(min(x, y), y)
            if isinstance(this, Binary) and this.op == op and (this.a is other or this.b is other):
                return this
        return binary(op, a, b)

    def bounds(self, node: Expr) -> tuple[int, int]:
        """Return inclusive bounds of an expression."""
        return self._intervals.bounds(node)

    def decided(self, condition: Expr) -> Expr:
        """Return the condition, as a constant if it is decided."""
        low, high = self.bounds(condition)
        return const(bool(low)) if low == high else condition

    def compare(self, op: str, a: Expr, b: Expr) -> Expr:
        """Return `a op b`, as a constant if it is decided."""
        if op in ("==", "!=") and b is ONE and self.bounds(a)[0] >= 1:  # one form: a > 1
            larger = self.compare(">", a, b)
            return larger if op == "!=" else logical_not(larger)
        difference = normal(binary("-", a, b))
        verdict = self.decided(binary(op, difference, ZERO))
        return verdict if isinstance(verdict, Const) else self.decided(binary(op, a, b))

    def all_of(self, conditions: Iterable[Expr]) -> Expr:
        """Return the conjunction."""
        total: Expr = TRUE
        for condition in conditions:
            total = binary("and", total, condition)
        return self.decided(total)

    def holds(self, when: When) -> Expr:
        """Return literals as one condition."""
        return self.all_of(c if outcome else logical_not(c) for c, outcome in when)

    def where(self, when: When, true: Expr, false: Expr) -> Expr:
        """Return `true` where the literals hold, else `false`."""
        if true is false:
            return true
        if len(when) == 1 and not when[0][1]:
            return select(self.decided(when[0][0]), false, true)
        return select(self.holds(when), true, false)

    def literal(self, condition: Expr, outcome: bool) -> When | None:
        """Return one literal: () if it always holds, None if it never does."""
        verdict = self.decided(condition)
        if isinstance(verdict, Not):
            return self.literal(verdict.a, not outcome)
        if isinstance(verdict, Const):
            return () if bool(verdict.value) == outcome else None
        return ((verdict, outcome),)

    def negated(self, when: When) -> When | None:
        """Return the literal that not all of `when` hold, None if all always do."""
        if len(when) == 1:
            return self.literal(when[0][0], not when[0][1])
        return self.literal(self.holds(when), False)

    def given(self, when: When) -> When | None:
        """Return literals without what simpler ones imply, None if they cannot all hold."""
        known: dict[Expr, Expr] = {}
        kept: list[Literal] = []
        for condition, outcome in sorted(when, key=lambda literal: self._size(literal[0])):
            literal = self.literal(_assuming(condition, known), outcome)
            if literal is None:
                return None
            for test, truth in literal:
                known[test] = const(truth)
            kept += literal
        return joined(tuple(kept))

    def _size(self, node: Expr) -> int:
        """Return how much there is to read, parts read again counted once."""
        found = self._sizes.get(node)
        if found is None:
            found = self._sizes[node] = sum(1 for _ in walk_expr(node))
        return found

    def given_that(self, when: When, condition: Expr) -> Expr:
        """Return a condition as it is where `when` holds."""
        known = {test: const(outcome) for test, outcome in when}
        return self.decided(_assuming(condition, known))

    def exceeds_one(self, node: Expr, when: When) -> bool:
        """Whether a number above 0 is surely above 1 where `when` holds.

        So is, besides what its bounds show, a multiple of a number that does not divide another.
        """
        if self.bounds(node)[0] > 1:
            return True
        for condition, outcome in when:
            if not outcome and isinstance(condition, Binary) and condition.op == "==":
                rest = condition.a
                if isinstance(rest, Binary) and rest.op == "%":
                    multiple = exact_quotient(node, rest.b)
                    if multiple is not None and self.bounds(multiple)[0] >= 1:
                        return True
        return False

    def nonzero(self, node: Expr) -> When | None:
        """Return the literal that `node` is not 0."""
        return self.literal(self.compare("==", node, ZERO), False)

    # -- ratios ----------------------------------------------------------------------------

    def ratio(self, num: Expr, den: Expr = ONE) -> Ratio:
        """Return num / den in lowest terms, as far as polynomials show common factors."""
        num, den = self.normal(num), self.normal(den)
        if den is ONE or num is ZERO:
            return Ratio(num, ONE)
        parts = to_poly(den)
        ((atoms, factor),) = parts.items() if len(parts) == 1 else (((den,), 1),)
        for part in (*atoms, const(factor)):
            reduced, rest = exact_quotient(num, part), exact_quotient(den, part)
            if reduced is not None and rest is not None:
                num, den = reduced, rest
        inverse = exact_quotient(den, num)
        if inverse is not None and self.bounds(inverse)[0] >= 1:
            num, den = ONE, inverse
        return Ratio(num, den)

    def times(self, a: Ratio, b: Ratio) -> Ratio:
        """Return a * b."""
        return self.ratio(binary("*", a.num, b.num), binary("*", a.den, b.den))

    def over(self, a: Ratio, b: Ratio) -> Ratio:
        """Return a / b."""
        return self.ratio(binary("*", a.num, b.den), binary("*", a.den, b.num))

    def value(self, a: Ratio) -> Expr:
        """Return a ratio as an expression, which counts where the division is exact."""
        if a.den is ONE:
            return a.num
        den = a.den if self.bounds(a.den)[0] >= 1 else binary("max", a.den, ONE)
        return self.normal(binary("//", a.num, den))

    def is_whole(self, a: Ratio) -> Expr:
        """Return the condition that a ratio is a whole number."""
        if a.den is ONE:
            return TRUE
        den = a.den if self.bounds(a.den)[0] >= 1 else binary("max", a.den, ONE)
        return self.compare("==", binary("%", a.num, den), ZERO)


def _assuming(condition: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """Return a condition in which known parts have their truth."""
    found = known.get(condition)
    if found is not None:
        return found
    if isinstance(condition, Not):
        return logical_not(_assuming(condition.a, known))
    if isinstance(condition, Binary) and condition.op in LOGIC:
        a, b = _assuming(condition.a, known), _assuming(condition.b, known)
        return binary(condition.op, a, b)
    return condition


def exact_quotient(node: Expr, divisor: Expr) -> Expr | None:
    """Return node / divisor if the division is exact for all knob values, as polynomials show."""
    if divisor is node:
        return ONE
    by = to_poly(divisor)
    leading = max(by, key=_degree)
    quotient: Poly = {}
    rest = to_poly(node)
    while rest:
        monomial = max(rest, key=_degree)
        left = list(monomial)
        for atom in leading:
            place = next((i for i, other in enumerate(left) if other is atom), None)
            if place is None:
                return None
            del left[place]
        if rest[monomial] % by[leading]:
            return None
        term: Poly = {tuple(left): rest[monomial] // by[leading]}
        quotient = add(quotient, term)
        rest = add(rest, multiply(term, by), -1)
    return to_expr(quotient, node.dtype)


def _degree(monomial: Monomial) -> tuple[int, list[int]]:
    """Order monomials by degree, then by their atoms: in an order that products keep."""
    return len(monomial), sorted((id(atom) for atom in monomial), reverse=True)
