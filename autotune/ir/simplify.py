"""Canonical simplification of index arithmetic, no stronger than TVM v0.8's.

A sum is a list of terms scale * ((atom % upper) // lower) plus a constant, printed by
descending scale. Listings and features rely on exactly this form, so it does not try to be clever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from autotune.ir import dtypes
from autotune.ir.expr import (
    COMPARISON,
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Knob,
    Load,
    Not,
    Select,
    SizeVar,
    Var,
)
from autotune.ir.ops import const, fold, gcd, logical_not, select
from autotune.ir.stmt import Allocate, For, If, Seq, Stmt, Store, seq
from autotune.ir.visitor import Rewriter

INF = float("inf")
#: An inclusive range of integer values; infinite where nothing is known.
Bounds = tuple[float, float]


class Term(NamedTuple):
    """scale * ((atom % upper) // lower); `upper` is INF where there is no modulus."""

    atom: Expr
    lower: int = 1
    upper: float = INF
    scale: int = 1


class Sum(NamedTuple):
    """The sum of `terms` and the constant `base`.

    Terms with one atom stand together, the largest `lower` first.
    """

    terms: tuple[Term, ...]
    base: int


def _insert(terms: list[Term], new: Term) -> None:
    """Add `new`, merging it with an equal term."""
    if new.scale == 0:
        return
    start = next((i for i, t in enumerate(terms) if t.atom is new.atom), len(terms))
    for i in range(start, len(terms)):
        term = terms[i]
        if term.atom is not new.atom or new.lower > term.lower:
            terms.insert(i, new)
            return
        if term.lower == new.lower and term.upper == new.upper:
            merged = term.scale + new.scale
            terms[i] = term._replace(scale=merged)
            return
    terms.append(new)


def _add(a: Sum, b: Sum, factor: int = 1) -> Sum:
    terms = list(a.terms)
    for term in b.terms:
        _insert(terms, term._replace(scale=term.scale * factor))
    return Sum(tuple(t for t in terms if t.scale), a.base + factor * b.base)


def _merged(terms: tuple[Term, ...]) -> list[Term]:
    """Merge quotient and remainder of one index, drop zeros, sort by descending scale."""
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


def _number(value: int, dtype: str) -> Expr:
    """Return a constant; one too large is a sum of parts: exact in indices, else wrapped."""
    if dtypes.min_value(dtype) <= value <= dtypes.max_value(dtype):
        return const(value, dtype)
    high, low = divmod(value, 1 << 16)
    scaled = fold("*", _number(high, dtype), const(1 << 16, dtype))
    return fold("+", scaled, const(low, dtype))


def _term_expr(term: Term, factor: int, dtype: str) -> Expr:
    node = term.atom
    if term.upper != INF:
        node = fold("%", node, _number(int(term.upper), dtype))
    if term.lower != 1:
        node = fold("//", node, _number(term.lower, dtype))
    scale = term.scale * factor
    return node if scale == 1 else fold("*", node, _number(scale, dtype))


def _sum_expr(form: Sum, dtype: str) -> Expr:
    total: Expr = const(0, dtype)
    terms = _merged(form.terms)
    for term in terms:
        if term.scale > 0:
            total = fold("+", total, _term_expr(term, 1, dtype))
    if form.base > 0:
        total = fold("+", total, _number(form.base, dtype))
    for term in terms:
        if term.scale < 0:
            total = fold("-", total, _term_expr(term, -1, dtype))
    if form.base < 0:
        total = fold("-", total, _number(-form.base, dtype))
    return total


class Simplifier(Rewriter):
    """Rewrites integer expressions canonically and decides what the variables' ranges decide.

    Parameters
    ----------
    ranges
        Inclusive bounds of variables; one whose bounds meet becomes that constant, which is
        also how knob values are substituted.
    otherwise
        Bounds of variables that `ranges` does not name.
    """

    def __init__(
        self, ranges: Mapping[Var, Bounds] | None = None, otherwise: Bounds = (-INF, INF)
    ) -> None:
        super().__init__()
        self._otherwise = otherwise
        self.ranges: dict[Var, Bounds] = dict(ranges or {})
        self._forms: dict[Expr, Sum] = {}
        self._bounds: dict[Expr, Bounds] = {}
        self._wraps: dict[Expr, bool] = {}
        self._buffers: dict[Buffer, Buffer] = {}

    def bind(self, var: Var, low: float, high: float) -> None:
        """Tell the range of a variable that is now in scope."""
        known = self.ranges.get(var)
        if known is not None and known != (low, high):
            self.forget()
        self.ranges[var] = (low, high)

    def forget(self) -> None:
        """Drop what was derived from the ranges known so far."""
        super().forget()
        self._forms.clear()
        self._bounds.clear()
        self._wraps.clear()

    # -- forms -------------------------------------------------------------------------

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
            low, high = self.ranges.get(node, (-INF, INF))
            return Sum((), int(low)) if low == high else Sum((Term(node),), 0)
        if isinstance(node, Binary):
            if node.op in ("+", "-"):
                return _add(self.form(node.a), self.form(node.b), 1 if node.op == "+" else -1)
            if node.op == "*":
                return self._product(node)
            if node.op in ("//", "%"):
                return self._division(node)
            if node.op in ("min", "max"):
                return self._extremum(node)
        atom = self._atom(node)
        return self.form(atom) if self._has_form(atom) else Sum((Term(atom),), 0)

    @staticmethod
    def _has_form(node: Expr) -> bool:
        return isinstance(node, (Const, Var)) or (
            isinstance(node, Binary) and node.op in ("+", "-", "*", "//", "%", "min", "max")
        )

    def _atom(self, node: Expr) -> Expr:
        if isinstance(node, Select):
            test = self.expr(node.condition)
            if isinstance(test, Const):
                return self.expr(node.true if test.value else node.false)
            return select(test, self.expr(node.true), self.expr(node.false))
        if isinstance(node, Call) and node.name == "gcd":
            return gcd(*(self.expr(child) for child in node.children))
        if isinstance(node, Load):
            return Load(self._buffers.get(node.buffer, node.buffer), self.expr(node.index))
        if isinstance(node, Cast):
            return self._cast(node)
        return super().rebuild(node)

    def _cast(self, node: Cast) -> Expr:
        from autotune.ir.ops import cast

        return cast(node.dtype, self.expr(node.a))

    def _product(self, node: Binary) -> Sum:
        a, b = self.form(node.a), self.form(node.b)
        if not a.terms:
            a, b = b, a
        if not b.terms:
            if b.base == 0:
                return Sum((), 0)
            terms = tuple(t._replace(scale=t.scale * b.base) for t in a.terms)
            return Sum(terms, a.base * b.base)
        return Sum((Term(fold("*", self.expr(node.a), self.expr(node.b))),), 0)

    def _may_wrap(self, node: Expr) -> bool:
        """Whether integers of any size enter: their sums may wrap, so only congruences hold.

        Those are loaded ones and those cast to a type that may not hold them.
        """
        found = self._wraps.get(node)
        if found is None:
            anything = isinstance(node, Cast) and self.bounds(node) == (-INF, INF)
            found = isinstance(node, Load) or anything or any(map(self._may_wrap, node.children))
            self._wraps[node] = found
        return found

    def _opaque(self, node: Binary) -> Sum:
        return self._of_term(Term(fold(node.op, self.expr(node.a), self.expr(node.b))))

    def _extremum(self, node: Binary) -> Sum:
        if self._may_wrap(node):
            return self._opaque(node)
        low, high = self.sum_bounds(_add(self.form(node.a), self.form(node.b), -1))
        if high <= 0:
            return self.form(node.a if node.op == "min" else node.b)
        if low >= 0:
            return self.form(node.b if node.op == "min" else node.a)
        return Sum((Term(fold(node.op, self.expr(node.a), self.expr(node.b))),), 0)

    def _division(self, node: Binary) -> Sum:
        if self._may_wrap(node):
            return self._opaque(node)
        divisor = self.form(node.b)
        dividend = self.form(node.a)
        if divisor.terms or divisor.base <= 0:
            if not divisor.terms and not dividend.terms and divisor.base:
                value = dividend.base // divisor.base if node.op == "//" else (
                    dividend.base % divisor.base)
                return Sum((), value)
            return Sum((Term(fold(node.op, self.expr(node.a), self.expr(node.b))),), 0)
        c = divisor.base
        whole = Sum(
            tuple(t for t in dividend.terms if t.scale % c == 0),
            dividend.base if dividend.base % c == 0 else 0,
        )
        extra = _add(dividend, whole, -1)
        low, high = self.sum_bounds(extra)
        fits = low >= 0 and high < c
        if node.op == "%":
            if fits or not (extra.terms or extra.base):
                return extra
            return self._of_term(self._modulus_of(self._as_term(extra, node.dtype), c, node.dtype))
        quotient = Sum(
            tuple(t._replace(scale=t.scale // c) for t in whole.terms), whole.base // c
        )
        if fits:
            return quotient
        rest = self._quotient_of(self._as_term(extra, node.dtype), c, node.dtype)
        return _add(quotient, self._of_term(rest))

    def _of_term(self, term: Term) -> Sum:
        if isinstance(term.atom, Const):
            value = int(term.atom.value)
            if term.upper != INF:
                value %= int(term.upper)
            return Sum((), value // term.lower * term.scale)
        return Sum((term,) if term.scale else (), 0)

    def _as_term(self, form: Sum, dtype: str) -> Term:
        """Return the sum as one term, hiding it in the term's index if it has several."""
        if len(form.terms) == 1 and form.base == 0:
            return form.terms[0]
        merged = _merged(form.terms)
        if len(merged) == 1 and form.base == 0:
            return merged[0]
        return Term(_sum_expr(form, dtype))

    def _quotient_of(self, term: Term, c: int, dtype: str) -> Term:
        """Return term // c."""
        if term.scale % c == 0:
            return term._replace(scale=term.scale // c)
        if term.scale > 0 and c % term.scale == 0:
            lower = term.lower * (c // term.scale)
            if term.upper == INF or term.upper % lower == 0:
                return term._replace(scale=1, lower=lower)
            if term.upper <= lower:
                return Term(const(0, dtype))
            index = fold("%", term.atom, const(int(term.upper), dtype))
            return Term(index, lower)
        return Term(_term_expr(term, 1, dtype), lower=c)

    def _modulus_of(self, term: Term, c: int, dtype: str) -> Term:
        """Return term % c."""
        if term.scale % c == 0:
            return term._replace(scale=0)
        if term.scale > 0 and c % term.scale == 0:
            upper = term.lower * (c // term.scale)
            if term.upper == INF or term.upper % upper == 0:
                if term.upper != INF and upper < term.upper:
                    narrowed = self._as_term(
                        self.form(fold("%", term.atom, const(upper, dtype))), dtype
                    )
                    if term.lower != 1:
                        narrowed = self._quotient_of(narrowed, term.lower, dtype)
                    return narrowed._replace(scale=narrowed.scale * term.scale)
                return term._replace(upper=upper)
            if upper % term.upper == 0:
                return term
        return Term(_term_expr(term, 1, dtype), upper=c)

    def _to_expr(self, form: Sum, dtype: str) -> Expr:
        """Return the expression of a sum; an index that merging has freed joins the sum."""
        total = Sum((), form.base)
        for term in _merged(form.terms):
            plain = term.lower == 1 and term.upper == INF
            if plain and isinstance(term.atom, Binary) and term.atom.op in ("+", "-"):
                total = _add(total, self.form(term.atom), term.scale)
            else:
                total = _add(total, Sum((term,), 0))
        return _sum_expr(total, dtype)

    # -- bounds ------------------------------------------------------------------------

    def sum_bounds(self, form: Sum) -> Bounds:
        """Return inclusive bounds of a sum."""
        low = high = float(form.base)
        for term in form.terms:
            a, b = self.bounds(term.atom)
            if term.upper != INF and not (a >= 0 and b < term.upper):
                a, b = 0, term.upper - 1
            if term.lower != 1:
                a, b = _floordiv_bound(a, term.lower), _floordiv_bound(b, term.lower)
            ends = (a * term.scale, b * term.scale)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def bounds(self, node: Expr) -> Bounds:
        """Return inclusive bounds of an integer expression."""
        found = self._bounds.get(node)
        if found is None:
            found = self._bounds[node] = self._bounds_of(node)
        return found

    def _bounds_of(self, node: Expr) -> Bounds:
        match node:
            case Const():
                return float(node.value), float(node.value)
            case Knob():
                return self.ranges.get(node, (float(node.low), float(node.high)))
            case Var():
                size = isinstance(node, SizeVar)
                return self.ranges.get(node, (0, INF) if size else self._otherwise)
            case Binary(op=op) if op in ("+", "-"):
                return self.sum_bounds(self.form(node))
            case Binary():
                bounds = self._binary_bounds(node.op, self.bounds(node.a), self.bounds(node.b))
                return self._ceildiv_bounds(node, bounds) if node.op == "//" else bounds
            case Select():
                (a, b), (c, d) = self.bounds(node.true), self.bounds(node.false)
                return min(a, c), max(b, d)
            case Cast() if dtypes.is_integer(node.dtype) and dtypes.is_integer(node.a.dtype):
                low, high = self.bounds(node.a)
                fits = dtypes.min_value(node.dtype) <= low and high <= dtypes.max_value(node.dtype)
                fits = fits or dtypes.holds(node.dtype, node.a.dtype)
                return (low, high) if fits else (-INF, INF)
            case Cast() if node.a.dtype == dtypes.BOOL:
                return 0, 1
            case Call(name="gcd"):
                return 1, max(self.bounds(child)[1] for child in node.children)
            case _:
                return -INF, INF

    def _ceildiv_bounds(self, node: Binary, bounds: Bounds) -> Bounds:
        """Tighten `bounds` of a quotient (b + rest) // b, which is 1 + rest // b."""
        divisor, dividend = self.form(node.b), self.form(node.a)
        positive = self.bounds(node.b)
        rest = _add(dividend, divisor, -1)
        if positive[0] < 1 or len(rest.terms) >= len(dividend.terms):
            return bounds
        low, high = self._binary_bounds("//", self.sum_bounds(rest), positive)
        return max(bounds[0], low + 1), min(bounds[1], high + 1)

    @staticmethod
    def _binary_bounds(op: str, x: Bounds, y: Bounds) -> Bounds:
        (a, b), (c, d) = x, y
        if op == "*":
            ends = [_times(p, q) for p in x for q in y]
            return min(ends), max(ends)
        if op == "min":
            return min(a, c), min(b, d)
        if op == "max":
            return max(a, c), max(b, d)
        if op == "//" and c >= 1:
            ends = [_floordiv_bound(p, q) for p in x for q in y]
            return min(ends), max(ends)
        if op == "%" and c >= 1:
            return (a, b) if a >= 0 and b < c else (0, min(d - 1, b) if a >= 0 else d - 1)
        return -INF, INF

    # -- expressions -------------------------------------------------------------------

    def rebuild(self, node: Expr) -> Expr:
        """Return the simplified expression."""
        if dtypes.is_integer(node.dtype) and node.lanes == 1:
            return self._to_expr(self.form(node), node.dtype)
        if isinstance(node, Binary):
            if node.op in COMPARISON and dtypes.is_integer(node.a.dtype) and node.lanes == 1:
                return self._comparison(node)
            return fold(node.op, self.expr(node.a), self.expr(node.b))
        if isinstance(node, Not):
            return logical_not(self.expr(node.a))
        if isinstance(node, Call) and node.name in ("likely", "if_then_else"):
            test = self.expr(node.children[0])
            if isinstance(test, Const):
                if node.name == "likely":
                    return test
                return self.expr(node.children[1 if test.value else 2])
        return self._atom(node)

    def _comparison(self, node: Binary) -> Expr:
        if self._may_wrap(node):
            return fold(node.op, self.expr(node.a), self.expr(node.b))
        op, a, b = node.op, node.a, node.b
        if op in (">", ">="):
            op, a, b = ("<" if op == ">" else "<="), b, a
        x, y = self.form(a), self.form(b)
        low, high = self.sum_bounds(_add(x, y, -1))
        verdict = _verdict(op, low, high)
        if verdict is not None:
            return const(verdict)
        if not y.terms:
            x, y = Sum(x.terms, 0), Sum((), y.base - x.base)
        elif not x.terms:
            x, y = Sum((), x.base - y.base), Sum(y.terms, 0)
        return Binary(op, self._to_expr(x, a.dtype), self._to_expr(y, a.dtype))

    # -- statements --------------------------------------------------------------------

    def visit_For(self, node: For) -> Stmt:
        """Tell the loop's range to what stands in it."""
        extent = self.expr(node.extent)
        self.bind(node.var, 0, max(0.0, self.bounds(extent)[1] - 1))
        body = self.stmt(node.body)
        if isinstance(extent, Const) and extent.value <= 0:
            return Seq(())
        if extent is node.extent and body is node.body:
            return node
        return For(node.var, extent, node.kind, body, node.thread_tag)

    def visit_If(self, node: If) -> Stmt:
        """Decide the condition if the ranges do."""
        condition = self.expr(node.condition)
        if isinstance(condition, Const):
            if condition.value:
                return self.stmt(node.then)
            return Seq(()) if node.orelse is None else self.stmt(node.orelse)
        then = self.stmt(node.then)
        orelse = None if node.orelse is None else self.stmt(node.orelse)
        if all(branch is None or _is_empty(branch) for branch in (then, orelse)):
            return Seq(())
        if condition is node.condition and then is node.then and orelse is node.orelse:
            return node
        return If(condition, then, orelse)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Simplify the extents, which makes the buffer another one."""
        shape = tuple(self.expr(extent) for extent in node.buffer.shape)
        buffer = node.buffer
        if any(new is not old for new, old in zip(shape, buffer.shape, strict=True)):
            buffer = Buffer(buffer.name, buffer.dtype, shape, buffer.scope)
            self._buffers[node.buffer] = buffer
        body = self.stmt(node.body)
        if buffer is node.buffer and body is node.body:
            return node
        return Allocate(buffer, body)

    def visit_Store(self, node: Store) -> Stmt:
        """Simplify index and value."""
        buffer = self._buffers.get(node.buffer, node.buffer)
        index, value = self.expr(node.index), self.expr(node.value)
        if buffer is node.buffer and index is node.index and value is node.value:
            return node
        return Store(buffer, index, value)

    def visit_Seq(self, node: Seq) -> Stmt:
        """Simplify in order, dropping what has become empty."""
        stmts = [self.stmt(stmt) for stmt in node.stmts]
        if all(new is old for new, old in zip(stmts, node.stmts, strict=True)):
            return node
        return seq(*stmts)


def _is_empty(stmt: Stmt) -> bool:
    return isinstance(stmt, Seq) and not stmt.stmts


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _floordiv_bound(a: float, c: float) -> float:
    if abs(c) == INF:
        return 0.0 if a >= 0 else -1.0
    return a if abs(a) == INF else float(int(a) // int(c))


def _verdict(op: str, low: float, high: float) -> bool | None:
    """Truth of `difference op 0` where the difference lies in [low, high]; None if open."""
    if op == "<":
        return True if high < 0 else (False if low >= 0 else None)
    if op == "<=":
        return True if high <= 0 else (False if low > 0 else None)
    if low > 0 or high < 0:
        return op == "!="
    return op == "==" if low == high == 0 else None


def simplify(node: Expr, ranges: Mapping[Var, Bounds] | None = None) -> Expr:
    """Return an expression in canonical form, given inclusive bounds of its variables."""
    return Simplifier(ranges).expr(node)
