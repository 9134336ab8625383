"""Canonical forms of integer expressions and conditions: the rules of simplification.

No stronger than TVM v0.8's, on purpose: listings and features rely on these forms; final forms ask
for one rule more (`has_digits`). Rules for the quotient and the remainder of one term are in
`division_rules`, constant folding is in `ops.fold`.
"""

from __future__ import annotations

import math

from autotune.ir import dtypes
from autotune.ir.algebra import division_rules
from autotune.ir.algebra.canonical_sums import (
    INF,
    Sum,
    Term,
    add,
    joined,
    one_term,
    scaled,
    sum_expr,
    sum_of,
)
from autotune.ir.algebra.intervals import ANYTHING, Bounds, decide_comparison
from autotune.ir.algebra.sum_bounds import SumBounds
from autotune.ir.expr import (
    COMPARISON,
    BinaryOp,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
)
from autotune.ir.ops import cast, const, fold, gcd, likely, logical_not, select


class Canonical:
    """Rewrites expressions canonically and folds conditions that the ranges of variables decide.

    Integers that are not indices (`dtypes.is_index`) are data, which wraps: only constants fold.

    `ranges`: inclusive bounds of variables. A variable with equal bounds becomes a constant; knob
    values are substituted in this way.
    `otherwise`: bounds of variables that `ranges` does not name.
    `known`: bounds expressions in place of `SumBounds` by these ranges.
    `has_digits`: applies (s * w + e) // (s * k) = w // k where 0 <= e < s, which TVM v0.8 does not.
    """

    def __init__(
        self,
        ranges: dict[Var, Bounds] | None = None,
        otherwise: Bounds = ANYTHING,
        known: SumBounds | None = None,
        has_digits: bool = False,
    ) -> None:
        self.has_digits = has_digits
        #: Bounds expressions.
        self.known = known or SumBounds(self.form, {} if ranges is None else ranges, otherwise)
        #: The new buffer of each replaced buffer.
        self.buffers: dict[Buffer, Buffer] = {}
        self._exprs: dict[Expr, Expr] = {}
        self._forms: dict[Expr, Sum] = {}

    def forget(self) -> None:
        """Clear results that were derived from the ranges known so far."""
        self._exprs.clear()
        self._forms.clear()
        self.known.forget()

    # -- integers ----------------------------------------------------------------------

    def form(self, node: Expr) -> Sum:
        """Return the canonical sum of an integer scalar expression."""
        found = self._forms.get(node)
        if found is None:
            found = self._forms[node] = self._form(node)
        return found

    def _form(self, node: Expr) -> Sum:
        if isinstance(node, Const):
            return Sum((), int(node.value))
        if isinstance(node, Var):
            low, high = self.known.ranges.get(node, ANYTHING)
            return Sum((), int(low)) if low == high else Sum((Term(node),))
        if isinstance(node, BinaryOp):
            if node.op in ("+", "-"):
                return add(self.form(node.a), self.form(node.b), 1 if node.op == "+" else -1)
            if node.op == "*":
                return self._product(node)
            if node.op in ("//", "%"):
                return self._division(node)
            if node.op in ("min", "max"):
                return self._extremum(node)
        atom = self._atom(node)
        return self.form(atom) if self._has_form(atom) else Sum((Term(atom),))

    @staticmethod
    def _has_form(node: Expr) -> bool:
        return isinstance(node, (Const, Var)) or (
            isinstance(node, BinaryOp) and node.op in ("+", "-", "*", "//", "%", "min", "max")
        )

    def _opaque(self, node: BinaryOp) -> Sum:
        """Return the operation as one term, its operands simplified."""
        return sum_of(Term(fold(node.op, self.expr(node.a), self.expr(node.b))))

    def _product(self, node: BinaryOp) -> Sum:
        """Put a constant factor into every term; other products are one term."""
        a, b = self.form(node.a), self.form(node.b)
        if not a.terms:
            return scaled(b, a.base)
        return self._opaque(node) if b.terms else scaled(a, b.base)

    def _extremum(self, node: BinaryOp) -> Sum:
        """min(a, b) and max(a, b) are a or b where the bounds of a - b tell which."""
        if not self.known.may_wrap(node):
            low, high = self.known.sum_bounds(add(self.form(node.a), self.form(node.b), -1))
            if high <= 0:
                return self.form(node.a if node.op == "min" else node.b)
            if low >= 0:
                return self.form(node.b if node.op == "min" else node.a)
        return self._opaque(node)

    def _division(self, node: BinaryOp) -> Sum:
        """Simplify a division; only positive constant divisors have rules."""
        if self.known.may_wrap(node):
            return self._opaque(node)
        divisor = self.form(node.b)
        if divisor.terms or divisor.base <= 0:
            return self._opaque(node)
        divide = self._quotient if node.op == "//" else self._remainder
        return divide(self.form(node.a), divisor.base, node.dtype)

    def _quotient(self, dividend: Sum, c: int, dtype: str) -> Sum:
        """(c * w + e) // c is w + e // c, which is w where 0 <= e < c."""
        whole, extra = self._parts(dividend, c)
        quotient = Sum(tuple(t._replace(scale=t.scale // c) for t in whole.terms), whole.base // c)
        if self._is_remainder(extra, c):
            return quotient
        extra = self._without_digit(extra, c)
        return add(quotient, sum_of(division_rules.quotient(one_term(extra, dtype), c, dtype)))

    def _remainder(self, dividend: Sum, c: int, dtype: str) -> Sum:
        """(c * w + e) % c is e % c, which is e where 0 <= e < c."""
        extra = self._parts(dividend, c)[1]
        if self._is_remainder(extra, c):
            return extra
        high = self._without_digit(extra, c)
        rest = division_rules.remainder(one_term(high, dtype), c, dtype, self.form)
        return add(sum_of(rest), add(extra, high, -1))

    def _without_digit(self, form: Sum, c: int) -> Sum:
        """Return s * w of a sum s * w + e where s divides c and 0 <= e < s, else the sum."""
        scales = {math.gcd(t.scale, c) for t in form.terms} if self.has_digits else ()
        for scale in sorted(scales, reverse=True):
            high, digit = self._parts(form, scale)
            if high.terms and self._is_remainder(digit, scale):
                return high
        return form

    @staticmethod
    def _parts(dividend: Sum, c: int) -> tuple[Sum, Sum]:
        """Split a sum into the part that c divides and the rest."""
        base = dividend.base if dividend.base % c == 0 else 0
        whole = Sum(tuple(t for t in dividend.terms if t.scale % c == 0), base)
        return whole, add(dividend, whole, -1)

    def _is_remainder(self, form: Sum, c: int) -> bool:
        low, high = self.known.sum_bounds(form)
        return low >= 0 and high < c

    def _to_expr(self, form: Sum, dtype: str) -> Expr:
        """Return the expression of a sum; an atom that is alone after joining is simplified."""
        total = Sum((), form.base)
        for term in joined(form.terms):
            plain = term.lower == 1 and term.upper == INF
            if plain and isinstance(term.atom, BinaryOp) and term.atom.op in ("+", "-"):
                total = add(total, self.form(term.atom), term.scale)
            else:
                total = add(total, Sum((term,)))
        return sum_expr(total, dtype)

    # -- expressions -------------------------------------------------------------------

    def expr(self, node: Expr) -> Expr:
        """Return the simplified expression."""
        found = self._exprs.get(node)
        if found is None:
            found = self._exprs[node] = self._expr(node)
        return found

    def _expr(self, node: Expr) -> Expr:
        if dtypes.is_index(node.dtype) and node.lanes == 1:
            return self._to_expr(self.form(node), node.dtype)
        if isinstance(node, BinaryOp):
            if node.op in COMPARISON and dtypes.is_index(node.a.dtype) and node.lanes == 1:
                return self._comparison(node)
            return fold(node.op, self.expr(node.a), self.expr(node.b))
        if isinstance(node, Not):
            return logical_not(self.expr(node.a))
        return self._atom(node)

    def _atom(self, node: Expr) -> Expr:
        """Return a node other than arithmetic, with its operands simplified."""
        match node:
            case Select() | Call(name="if_then_else"):
                return self._choice(node)
            case Call(name="likely"):
                return likely(self.expr(node.children[0]))
            case Call(name="gcd"):
                return gcd(*(self.expr(child) for child in node.children))
            case Load():
                return Load(self.buffers.get(node.buffer, node.buffer), self.expr(node.index))
            case Cast():
                return cast(node.dtype, self.expr(node.a))
            case _:
                if not node.children:
                    return node
                return node.with_children(tuple(map(self.expr, node.children)))

    def _choice(self, node: Expr) -> Expr:
        """Return one side if the condition is decided."""
        test, true, false = node.children
        decided = self.expr(test)
        if isinstance(decided, Const):
            return self.expr(true if decided.value else false)
        if isinstance(node, Select):
            return select(decided, self.expr(true), self.expr(false))
        return node.with_children((decided, self.expr(true), self.expr(false)))

    def _comparison(self, node: BinaryOp) -> Expr:
        """Decide a comparison by the bounds of the difference, or write it with < and <=.

        A constant beside terms goes to the side that has none.
        """
        if self.known.may_wrap(node):
            return fold(node.op, self.expr(node.a), self.expr(node.b))
        op, a, b = node.op, node.a, node.b
        if op in (">", ">="):
            op, a, b = ("<" if op == ">" else "<="), b, a
        x, y = self.form(a), self.form(b)
        decided = decide_comparison(op, *self.known.sum_bounds(add(x, y, -1)))
        if decided is not None:
            return const(decided)
        if not y.terms:
            x, y = Sum(x.terms), Sum((), y.base - x.base)
        elif not x.terms:
            x, y = Sum((), x.base - y.base), Sum(y.terms)
        return BinaryOp(op, self._to_expr(x, a.dtype), self._to_expr(y, a.dtype))
