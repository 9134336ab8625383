"""Normal forms of indices over knobs: one form for all candidates, with numbers as expressions.

The form depends only on the program; its numbers depend on the knobs. So substituting knob values
in the form gives the same result as the form of the schedule with these values.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from autotune.ir import dtypes
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.algebra.polynomials import exact_quotient, normal
from autotune.ir.expr import BinaryOp, Cast, Const, Expr, Select, Var, is_const
from autotune.ir.ops import binary, const, logical_not, select
from autotune.lowering.nest.regions import as_index, is_knob_only

ZERO: Final = const(0, dtypes.INDEX)
ONE: Final = const(1, dtypes.INDEX)
TRUE: Final = const(True)
FALSE: Final = const(False)


@dataclass(frozen=True, eq=False)
class Division:
    """A quotient (`//`) or remainder (`%`) that cannot be simplified term by term."""

    op: str
    inside: Form
    divisor: Expr


@dataclass(frozen=True, eq=False)
class Opaque:
    """Any other integer: the forms in it, from left to right, and its modulus."""

    parts: tuple[Form, ...]
    modulus: Expr | None


Atom: TypeAlias = "Var | Division | Opaque"


@dataclass(frozen=True, eq=False)
class Form:
    """A sum of atoms, each times an integer over knobs, 0 where it is absent, and a constant."""

    #: In order of first appearance.
    scales: Mapping[Atom, Expr]
    #: The constant; what else than knobs decides is an atom.
    base: Expr = ZERO


class Logic:
    """Conditions and choices over knobs, decided where the knobs' ranges decide them."""

    def __init__(self, intervals: Intervals | None = None) -> None:
        self._intervals = intervals or Intervals()

    def compare(self, op: str, a: Expr, b: Expr) -> Expr:
        """Return `a op b`; equal parts of both cancel."""
        plain = self._decided(binary(op, a, b))
        if isinstance(plain, Const):
            return plain
        difference = self._decided(binary(op, normal(binary("-", a, b)), ZERO))
        return difference if isinstance(difference, Const) else plain

    def _decided(self, condition: Expr) -> Expr:
        low, high = self._intervals.bounds(condition)
        return condition if low != high else const(bool(low))

    def is_nonzero(self, number: Expr) -> Expr:
        """Return the condition that a number is not 0."""
        if not isinstance(number, Select):
            return self.compare("!=", number, ZERO)
        true, false = self.is_nonzero(number.true), self.is_nonzero(number.false)
        return binary(
            "or",
            binary("and", number.condition, true),
            binary("and", logical_not(number.condition), false),
        )

    def is_nonnegative(self, number: Expr) -> bool:
        """Whether the ranges of the knobs show that a number is never negative."""
        return self._intervals.bounds(number)[0] >= 0


class Forms:
    """Makes the forms of integer expressions in the loops that have been entered."""

    def __init__(self, intervals: Intervals | None = None) -> None:
        self.logic = Logic(intervals)
        self._last: dict[Var, Expr | None] = {}
        self._known: dict[Expr, Form] = {}
        self._divisions: dict[object, Division] = {}
        self._opaques: dict[object, Opaque] = {}

    def enter(self, var: Var, extent: Expr) -> bool:
        """Enter a loop; the variable of an empty loop is 0.

        Returns whether the variable had another range before, so that forms are new.
        """
        last: Expr | None = None
        if is_knob_only(extent):
            last = normal(binary("-", as_index(extent), ONE))
            if not self.logic.is_nonnegative(last):
                last = binary("max", last, ZERO)
        changed = var in self._last and self._last[var] is not last
        if changed:
            self._known.clear()
        self._last[var] = last
        return changed

    def moves(self, var: Var) -> Expr:
        """Return the condition that the variable of a loop takes more than one value."""
        last = self._last.get(var)
        return TRUE if last is None else self.logic.compare(">", last, ZERO)

    def of(self, node: Expr) -> Form:
        """Return the form of an integer expression."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._of(node)
        return found

    def _of(self, node: Expr) -> Form:
        if is_knob_only(node) and dtypes.is_index(node.dtype):
            return Form({}, normal(as_index(node)))
        match node:
            case Var():
                return Form({node: ONE})
            case Cast() if dtypes.is_index(node.dtype) and dtypes.is_index(node.a.dtype):
                return self.of(node.a)
            case BinaryOp() if dtypes.is_index(node.dtype):
                return self._binary(node, self.of(node.a), self.of(node.b))
            case Select() if dtypes.is_index(node.dtype) and is_knob_only(node.condition):
                return self._choice(node.condition, self.of(node.true), self.of(node.false))
        return self._opaque(node)

    def _opaque(self, node: Expr) -> Form:
        """Return the form of a new atom, or of the known one that has the same forms in it."""
        modulus = None
        if isinstance(node, BinaryOp) and node.op == "%" and is_knob_only(node.b):
            modulus = node.b
        parts = tuple(self._parts(node))
        key = (_frame(node), *((part.base, *part.scales.items()) for part in parts))
        atom = self._opaques.get(key)
        if atom is None:
            atom = self._opaques[key] = Opaque(parts, modulus)
        return Form({atom: ONE})

    def _parts(self, node: Expr) -> list[Form]:
        """Return the forms of the integers in an expression of any kind, from left to right."""
        found: list[Form] = []
        for child in node.children:
            found += [self.of(child)] if dtypes.is_integer(child.dtype) else self._parts(child)
        return found

    # -- sums --------------------------------------------------------------------------------

    def _binary(self, node: BinaryOp, a: Form, b: Form) -> Form:
        match node.op:
            case "+":
                return self._sum(a, b)
            case "-":
                return self._difference(a, b)
            case "*" if not (a.scales and b.scales):
                return self._scaled(a, b.base) if not b.scales else self._scaled(b, a.base)
            case "//" | "%" if not b.scales:
                return self._divided(node, a, b.base)
            case "min" | "max":
                return self._extremum(node, a, b)
        return self._opaque(node)

    @staticmethod
    def _sum(a: Form, b: Form, factor: Expr = ONE) -> Form:
        scales = dict(a.scales)
        for atom, scale in b.scales.items():
            scales[atom] = _plus(scales.get(atom, ZERO), _times(scale, factor))
        return Form(scales, _plus(a.base, _times(b.base, factor)))

    @staticmethod
    def _scaled(form: Form, factor: Expr) -> Form:
        scales = {atom: _times(scale, factor) for atom, scale in form.scales.items()}
        return Form(scales, _times(form.base, factor))

    def _choice(self, condition: Expr, a: Form, b: Form) -> Form:
        """Return the form that is `a` where a condition holds, else `b`.

        The atoms of both keep their places in it even if the condition is decided.
        """
        scales = {
            atom: select(condition, a.scales.get(atom, ZERO), b.scales.get(atom, ZERO))
            for atom in {**a.scales, **b.scales}
        }
        return Form(scales, select(condition, a.base, b.base))

    def _difference(self, a: Form, b: Form) -> Form:
        """Return a - b; a quotient or remainder that both have by value cancels."""
        total = dict(self._sum(a, b, const(-1, dtypes.INDEX)).scales)
        for own in a.scales:
            for other in b.scales:
                if own is other:
                    continue
                same = self._same(own, other)
                if same is not FALSE:
                    total[own] = _plus(total[own], select(same, total[other], ZERO))
                    total[other] = select(same, ZERO, total[other])
        return Form(total, _plus(a.base, _times(b.base, const(-1, dtypes.INDEX))))

    def _same(self, a: Atom, b: Atom) -> Expr:
        """Return the condition that two divisions are written the same."""
        if not (isinstance(a, Division) and isinstance(b, Division)) or a.op != b.op:
            return FALSE
        x, y = a.inside.scales, b.inside.scales
        if not any(atom in y for atom in x):
            return FALSE  # they are the same only where both are 0
        same = self.logic.compare("==", a.divisor, b.divisor)
        same = binary("and", same, self.logic.compare("==", a.inside.base, b.inside.base))
        for atom in {**x, **y}:
            equal = self.logic.compare("==", x.get(atom, ZERO), y.get(atom, ZERO))
            if isinstance(atom, Var):
                equal = binary("or", equal, logical_not(self.moves(atom)))
            same = binary("and", same, equal)
        return same

    # -- divisions ---------------------------------------------------------------------------

    def _divided(self, node: BinaryOp, form: Form, divisor: Expr) -> Form:
        """Return a quotient or remainder: terms that the divisor divides leave it.

        What remains is its own remainder, and its quotient 0, where it is smaller than the
        divisor.
        """
        positive = self.logic.compare(">=", divisor, ONE)
        if positive is FALSE:
            return self._opaque(node)
        if positive is not TRUE:
            by = self._divided_by(node.op, form, binary("max", divisor, ONE))
            return self._choice(positive, by, self._opaque(node))
        return self._divided_by(node.op, form, divisor)

    def _divided_by(self, op: str, form: Form, divisor: Expr) -> Form:
        """As `_divided`, by a positive divisor; (x // a) // b is x // (a * b)."""
        quotients = [a for a in form.scales if isinstance(a, Division) and a.op == "//"]
        if op == "%" or len(quotients) != 1:
            return self._parted(op, form, divisor)
        (inner,) = quotients
        scale = form.scales[inner]
        bare = binary("and", self.logic.compare(">=", scale, ZERO),
                      self.logic.compare("<=", scale, ONE))  # fmt: skip
        if bare is FALSE:
            return self._parted(op, form, divisor)
        present = self.logic.compare("==", scale, ONE)
        by = select(present, inner.divisor, ONE)
        rest = Form({a: s for a, s in form.scales.items() if a is not inner}, form.base)
        restored = self._sum(self._scaled(rest, by), inner.inside, select(present, ONE, ZERO))
        joined = self._parted(op, restored, _times(by, divisor))
        if bare is TRUE:
            return joined
        return self._choice(logical_not(bare), self._parted(op, form, divisor), joined)

    def _parted(self, op: str, form: Form, divisor: Expr) -> Form:
        outside: dict[Atom, Expr] = {}
        inside: dict[Atom, Expr] = {}
        for atom, scale in form.scales.items():
            outside[atom], inside[atom] = self._split(scale, divisor)
        whole, rest = binary("//", form.base, divisor), binary("%", form.base, divisor)
        within = Form({a: s for a, s in inside.items() if not is_const(s, 0)}, rest)
        small = self._is_within(within, divisor)
        remains = select(small, ZERO, ONE)
        if op == "//":
            total = Form(outside, whole)
        else:
            scales = {atom: select(small, scale, ZERO) for atom, scale in inside.items()}
            total = Form(scales, select(small, rest, ZERO))
        return Form({**total.scales, self._division(op, within, divisor): remains}, total.base)

    def _split(self, scale: Expr, divisor: Expr) -> tuple[Expr, Expr]:
        """Return the scale of a term outside a quotient, if the divisor divides it, and inside."""
        exact = exact_quotient(scale, divisor)
        if exact is not None:
            return exact, ZERO
        if scale is ONE:
            divides = self.logic.compare("==", divisor, ONE)
            quotient: Expr = ONE
        else:
            divides = self.logic.compare("==", binary("%", scale, divisor), ZERO)
            quotient = binary("//", scale, divisor)
        return select(divides, quotient, ZERO), select(divides, ZERO, scale)

    def _division(self, op: str, inside: Form, divisor: Expr) -> Division:
        key = (op, divisor, inside.base, *inside.scales.items())
        found = self._divisions.get(key)
        if found is None:
            found = self._divisions[key] = Division(op, inside, divisor)
        return found

    # -- bounds ------------------------------------------------------------------------------

    def _is_within(self, form: Form, divisor: Expr) -> Expr:
        """Return the condition under which 0 <= form < divisor is known."""
        low, high, known = self._bounds(form)
        inside = binary("and", known, self.logic.compare(">=", low, ZERO))
        return binary("and", inside, self.logic.compare("<", high, divisor))

    def _bounds(self, form: Form) -> tuple[Expr, Expr, Expr]:
        """Return the least and the largest value, and the condition under which they are known."""
        low = high = form.base
        known: Expr = TRUE
        for atom, scale in form.scales.items():
            ends = self._ends(atom)
            if ends is None or ends[2] is not TRUE:
                absent = self.logic.compare("==", scale, ZERO)
                known = binary("and", known, binary("or", ends[2], absent) if ends else absent)
            if ends is not None:
                a, b = _times(scale, ends[0]), _times(scale, ends[1])
                if not self.logic.is_nonnegative(scale):
                    a, b = binary("min", a, b), binary("max", a, b)
                low, high = _plus(low, a), _plus(high, b)
        return low, high, known

    def _ends(self, atom: Atom) -> tuple[Expr, Expr, Expr] | None:
        """Return the bounds of an atom as `_bounds` does, None if they are never known."""
        match atom:
            case Var():
                last = self._last.get(atom)
                return None if last is None else (ZERO, last, TRUE)
            case Division(op="%"):
                return ZERO, _plus(atom.divisor, const(-1, dtypes.INDEX)), TRUE
            case Division():
                low, high, known = self._bounds(atom.inside)
                low, high = (binary("//", end, atom.divisor) for end in (low, high))
                return low, high, known
        return None

    def _extremum(self, node: BinaryOp, a: Form, b: Form) -> Form:
        """Return a minimum or maximum, decided where one side is known to be the smaller."""
        low, high, known = self._bounds(self._difference(a, b))
        below = binary("and", known, self.logic.compare("<=", high, ZERO))
        above = binary("and", known, self.logic.compare(">=", low, ZERO))
        smaller, larger = (a, b) if node.op == "min" else (b, a)
        undecided = self._choice(above, larger, self._opaque(node))
        return self._choice(below, smaller, undecided)


def _frame(node: Expr) -> Expr:
    """Return an expression without its integers: the part around their forms."""
    return node.with_children(
        tuple(
            _hole(child.dtype) if dtypes.is_integer(child.dtype) else _frame(child)
            for child in node.children
        )
    )


@functools.cache
def _hole(dtype: str) -> Var:
    hole: Var = Var("", dtype)
    return hole


def _plus(a: Expr, b: Expr) -> Expr:
    return normal(binary("+", a, b))


def _times(a: Expr, b: Expr) -> Expr:
    return normal(binary("*", a, b))
