"""Removes guards that follow from the ranges of loops and from enclosing guards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from autotune.ir.algebra.canonical_sums import INF, Sum, Term, add, scaled
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import BinaryOp, Call, Const, Expr, SizeVar
from autotune.ir.ops import binary, chain, const, likely
from autotune.ir.stmt import NOTHING, For, If, Stmt, Store, is_empty
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.guards.facts import ConditionFinder, ConditionRewriter, extremum, is_exact

#: Largest number of facts in one proof; guards that need more are rare.
STEPS = 2


class Prover(StmtRewriter):
    """Removes the conditions of statements that enclosing loops and guards decide.

    `around`: a prover with the facts at the place of the statements.
    `finish`: transforms a loop after its body, inner loops first; by default loops are kept.
    `is_settled`: whether nothing in a loop is to be decided; by default whether it is plain.
    `store`: transforms a store; by default its conditions are decided.
    """

    def __init__(
        self,
        around: Prover | None = None,
        finish: Callable[[For], Stmt] | None = None,
        is_settled: Callable[[For], bool] | None = None,
        store: Callable[[Store], Stmt] | None = None,
    ) -> None:
        super().__init__()
        self._finish = finish
        self._store = store or self._decided
        #: Has the ranges of the loops' variables.
        self.simplifier: Simplifier = Simplifier() if around is None else around.simplifier
        #: Finds the conditions.
        self.choices: ConditionFinder = ConditionFinder() if around is None else around.choices
        self._is_settled = is_settled or self.choices.is_plain
        #: Integers known to be at most 0.
        self.facts: list[Expr] = [] if around is None else list(around.facts)

    # -- proofs ----------------------------------------------------------------------------

    def decide(self, condition: Expr, over: Expr | None) -> bool | None:
        """Return the truth of a condition, given its excess; None if it is unknown."""
        if isinstance(condition, Const):
            return bool(condition.value)
        if over is None:
            return None
        if self.at_most_zero(over):
            return True
        below = add(Sum((), 1), self.simplifier.form(over), -1)
        return False if self._at_most_zero(below) else None

    def at_most_zero(self, node: Expr) -> bool:
        """Whether an integer is provably at most 0."""
        if isinstance(node, Const):
            return node.value <= 0
        return self._at_most_zero(self.simplifier.form(node))

    def _at_most_zero(self, goal: Sum) -> bool:
        if self.simplifier.sum_bounds(goal)[1] <= 0:
            return True
        facts = [form for form in map(self.simplifier.form, self.facts) if form.terms]
        ends = {t: None for fact in facts for t in fact.terms if isinstance(t.atom, SizeVar)}
        return self._below(goal, 1, [*facts, *self._divisions((*goal.terms, *ends))], STEPS)

    def _divisions(self, terms: Iterable[Term]) -> Iterator[Sum]:
        """Yield c * q - a and a - c * q - (c - 1), both at most 0, for each quotient q = a // c."""
        for term in terms:
            if term.upper == INF and term.lower > 1:
                product = Sum((term._replace(scale=term.lower),), 0)
                rest = add(self.simplifier.form(term.atom), product, -1)
                yield scaled(rest, -1)
                yield add(rest, Sum((), term.lower - 1), -1)

    def _below(self, goal: Sum, limit: int, facts: list[Sum], steps: int) -> bool:
        """Whether goal < limit, possibly after subtracting a multiple of a fact (<= 0)."""
        if self._highest(goal, facts) < limit:
            return True
        if not steps:
            return False
        for place, fact in enumerate(facts):
            others = facts[:place] + facts[place + 1 :]
            for p, q in _multiples(goal, fact):
                if self._below(add(scaled(goal, p), fact, -q), p * limit, others, steps - 1):
                    return True
        return False

    def _highest(self, form: Sum, facts: list[Sum]) -> float:
        """Return an upper bound of a sum; facts also bound the operands of quotients."""
        total = self.simplifier.sum_bounds(form)[1]
        for term in form.terms:
            if term.upper == INF and term.lower > 1 and term.scale > 0:
                low, high = self.simplifier.bounds(term.atom)
                best = high
                inner = self.simplifier.form(term.atom)
                for fact in facts:
                    for p, q in _multiples(inner, fact):
                        rest = self.simplifier.sum_bounds(add(scaled(inner, p), fact, -q))[1]
                        best = min(best, math.floor(rest / p) if rest < INF else INF)
                if best < high < INF and best >= low:
                    total -= term.scale * (high // term.lower - best // term.lower)
        return total

    # -- statements ------------------------------------------------------------------------

    def visit_For(self, node: For) -> Stmt:
        """Visit the body, then call `finish` on the loop if it is left."""
        loop = self._proved(node)
        if self._finish is None or not isinstance(loop, For):
            return loop
        return self._finish(loop)

    def _proved(self, node: For) -> Stmt:
        """Visit the body, assuming that the variable is less than each bound of the extent."""
        if self._is_settled(node):
            return node
        extent = extremum(node.extent, self.at_most_zero)
        if self.at_most_zero(extent):
            return NOTHING
        self.simplifier.bind(node.var, 0, max(0.0, self.simplifier.bounds(extent)[1] - 1))
        known = len(self.facts)
        if not isinstance(extent, Const) and is_exact(extent):
            beyond = binary("+", node.var, const(1))
            self.facts += [binary("-", beyond, end) for end in _ends(extent)]
        body = self.stmt(node.body)
        del self.facts[known:]
        if is_empty(body):
            return NOTHING
        return node.with_body(body, extent)

    def visit_If(self, node: If) -> Stmt:
        """Decide the parts of the condition; in each branch, assume its condition."""
        parts = self._open(node.condition)
        if parts is None:
            return NOTHING if node.orelse is None else self.stmt(node.orelse)
        if not parts:
            return self.stmt(node.then)
        known = len(self.facts)
        for over in parts.values():
            self._learn(over, True)
        then = self.stmt(node.then)
        del self.facts[known:]
        orelse = None
        if node.orelse is not None:
            if len(parts) == 1:
                self._learn(next(iter(parts.values())), False)
            orelse = self.stmt(node.orelse)
            del self.facts[known:]
        if is_empty(then) and is_empty(orelse):
            return NOTHING
        condition = chain("and", parts, True)
        if isinstance(node.condition, Call) and node.condition.name == "likely":
            condition = likely(condition)
        return node.with_parts(condition, then, orelse)

    def _open(self, condition: Expr) -> dict[Expr, Expr | None] | None:
        """Return the undecided parts of a condition and their excess; None if it is never true."""
        known = len(self.facts)
        parts: dict[Expr, Expr | None] = {}
        for part, over in self.choices.parts(condition).items():
            truth = self.decide(part, over)
            if truth is False:
                del self.facts[known:]
                return None
            if truth is None:
                parts[part] = over
                self._learn(over, True)
        del self.facts[known:]
        for part, over in list(parts.items())[:-1]:  # parts that a later one implies
            rest = {p: o for p, o in parts.items() if p is not part}
            for other in rest.values():
                self._learn(other, True)
            if self.decide(part, over):
                parts = rest
            del self.facts[known:]
        return parts

    def _learn(self, over: Expr | None, truth: bool) -> None:
        """Add the fact that a condition with this excess holds, or that it does not."""
        if over is not None:
            self.facts.append(over if truth else binary("-", const(1), over))

    def visit_Store(self, node: Store) -> Stmt:
        """Transform a store."""
        return self._store(node)

    def _decided(self, node: Store) -> Stmt:
        """Decide the choices between values."""
        known: dict[Expr, Expr] = {}
        for condition in self.choices.of(node):
            parts = self._open(condition)
            if parts is None:
                known[condition] = const(False)
            elif len(parts) < len(self.choices.parts(condition)):
                known[condition] = chain("and", parts, True)
        return ConditionRewriter(known, self.choices).stmt(node) if known else node


def _ends(extent: Expr) -> Iterator[Expr]:
    """Yield the upper bounds of a loop's variable."""
    if isinstance(extent, BinaryOp) and extent.op == "max":
        for zero, end in (extent.children, extent.children[::-1]):
            if isinstance(zero, Const) and zero.value <= 0:
                yield from _ends(end)
                return
    if isinstance(extent, BinaryOp) and extent.op == "min":
        for part in extent.children:
            yield from _ends(part)
    else:
        yield extent


def _multiples(goal: Sum, fact: Sum) -> Iterator[tuple[int, int]]:
    """Yield (p, q), both above 0, for which p * goal - q * fact lacks a term of both."""
    for term in goal.terms:
        for other in fact.terms:
            same = term.atom is other.atom and term[1:3] == other[1:3]
            if same and (term.scale > 0) == (other.scale > 0):
                shared = math.gcd(term.scale, other.scale)
                yield abs(other.scale) // shared, abs(term.scale) // shared
