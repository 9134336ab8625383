"""Base of loop splitting: finds the guards that a loop decides, and makes partial loops.

Loops are visited innermost first; a subclass of `Splitter` transforms each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from operator import not_
from typing import ClassVar

from autotune.ir.algebra.canonical_sums import INF, Sum, sum_expr
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Const, Expr, Var, is_const
from autotune.ir.ops import binary, cast, const
from autotune.ir.stmt import NOTHING, Allocate, For, LoopKind, Produce, Seq, Stmt, is_empty
from autotune.ir.visitor import (
    Rewriter,
    Substitution,
    all_allocated,
    child_stmts,
    free_vars,
    stmt_exprs,
    substitute,
    substitute_stmt,
    walk,
    walk_expr,
)
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.guards.facts import ConditionRewriter, extremum
from autotune.lowering.guards.prove_guards import Prover

#: Loops whose length has to be constant.
FIXED = (LoopKind.VECTORIZED, LoopKind.UNROLLED)

_UNROLLED = (LoopKind.UNROLLED, LoopKind.UNROLL_HINTED)
#: Loops whose iterations are threads.
THREADS = (LoopKind.THREAD, LoopKind.VTHREAD)


@dataclass
class Guards:
    """Conditions that hold in all iterations of inner loops if one number is at most 0."""

    #: The number, over the variables of the loop and of enclosing loops.
    excess: Expr
    #: The conditions, in order.
    conditions: dict[Expr, None] = field(default_factory=dict)
    #: For each condition a number that is at most 0 if it holds in some iteration of inner loops.
    least: dict[Expr, None] = field(default_factory=dict)
    #: Whether none of them depends on inner loops.
    is_exact: bool = True
    #: Whether none of them is tested in an inner loop.
    is_here: bool = True
    #: Whether some of them depend on threads; the number is then the largest one of all threads.
    of_threads: bool = False


@dataclass(frozen=True)
class LoopSegment:
    """The iterations low, ..., high - 1 of a loop."""

    low: Expr
    high: Expr
    body: Stmt

    @property
    def is_constant(self) -> bool:
        """Whether its iterations are known."""
        return isinstance(self.low, Const) and isinstance(self.high, Const)


class Sizes:
    """Counts the nodes of statements after unrolling."""

    def __init__(self) -> None:
        self._exprs: dict[Expr, int] = {}
        self._stmts: dict[Stmt, int] = {}

    def of(self, stmt: Stmt) -> int:
        """Return the number of nodes of a statement."""
        found = self._stmts.get(stmt)
        if found is None:
            found = self._stmts[stmt] = self._of(stmt)
        return found

    def _of(self, stmt: Stmt) -> int:
        total = 1 + sum(map(self.of, child_stmts(stmt)))
        if isinstance(stmt, For):
            if stmt.kind in _UNROLLED and isinstance(stmt.extent, Const):
                total *= int(stmt.extent.value)
            return total
        for expr in stmt_exprs(stmt):
            if expr not in self._exprs:
                self._exprs[expr] = sum(1 for _ in walk_expr(expr))
            total += self._exprs[expr]
        return total


class Splitter:
    """Finds the guards of loops and splits these, innermost loops first.

    `body`: the statement whose loops are split.
    """

    #: Limit of the nodes of all copies: a multiple of the body's, at least and at most so many.
    TIMES: ClassVar[int] = 0
    AT_LEAST: ClassVar[int] = 0
    AT_MOST: ClassVar[int] = 0

    def __init__(self, body: Stmt) -> None:
        self.body = body
        self.sizes = Sizes()
        self._copied = 0
        #: Visits the loops and removes decided guards; it owns `choices` and `simplifier`.
        self.prover = Prover(finish=self._finish)
        self.choices, self.simplifier = self.prover.choices, self.prover.simplifier
        loops = (stmt for stmt in walk(body) if isinstance(stmt, For))
        #: Variables of loops whose iterations are threads.
        self.threads = {loop.var for loop in loops if loop.kind in THREADS}
        self._variables = {
            over: free_vars(over)
            for stmt in walk(body)
            for _, over in self.choices.parts_of(stmt)
            if over is not None
        }
        #: Variables that conditions depend on.
        self.tested = {var for variables in self._variables.values() for var in variables}

    def run(self) -> Stmt:
        """Return the statement with its loops split."""
        return self.prover.stmt(self.body)

    def _finish(self, loop: For) -> Stmt:
        return self.split(loop) if loop.var in self.tested else loop

    def split(self, loop: For) -> Stmt:
        """Return the result for a loop whose inner loops are done."""
        raise NotImplementedError

    @cached_property
    def _allowance(self) -> int:
        """Nodes that all copies may have together."""
        return max(self.AT_LEAST, min(self.TIMES * self.sizes.of(self.body), self.AT_MOST))

    def may_copy(self, stmt: Stmt, times: int = 1) -> bool:
        """Whether some copies of a statement are within the limit, of which they then use a part.

        A statement with allocations is not copied.
        """
        nodes = times * self.sizes.of(stmt)
        if all_allocated(stmt) or self._copied + nodes > self._allowance:
            return False
        self._copied += nodes
        return True

    # -- guards ----------------------------------------------------------------------------

    def guards(self, loop: For) -> list[Guards]:
        """Return the guards that a loop handles; those that prevent vectors come first."""
        found: dict[Expr, Guards] = {}
        longest = self._longest(loop.body)
        for stmt, inner in inside(loop.body, {}, self.choices.is_plain):
            for part, over in self.choices.parts_of(stmt):
                if over is not None and any(v is loop.var for v in self._variables_of(over)):
                    within = {var: longest[var] for var in inner}
                    self._collect(loop, part, over, within, found)
        return sorted(found.values(), key=lambda guards: guards.is_exact)

    def _longest(self, stmt: Stmt) -> dict[Var, For]:
        """Return the longest loop of each variable.

        A condition is decided wherever it stands, and copies of a loop may differ in length.
        """
        found: dict[Var, For] = {}
        for loop in (inner for inner in walk(stmt) if isinstance(inner, For)):
            known = found.setdefault(loop.var, loop)
            if self.simplifier.bounds(known.extent)[1] < self.simplifier.bounds(loop.extent)[1]:
                found[loop.var] = loop
        return found

    def _collect(
        self,
        loop: For,
        condition: Expr,
        over: Expr,
        inner: Mapping[Var, For],
        found: dict[Expr, Guards],
    ) -> None:
        variables = self._variables_of(over)
        within = [inner[var] for var in variables if var in inner]
        by_threads = not self.threads.isdisjoint(variables)
        if any(x.kind not in FIXED for x in within):
            return
        if by_threads and not _is_private(loop):
            return
        extremes = self.extremes(over, within)
        if extremes is None:
            return
        most, least = extremes
        worst = self.worst_of_threads(most) if by_threads else most
        if worst is None or isinstance(worst, Const):
            return
        guards = found.setdefault(worst, Guards(worst))
        guards.conditions[condition] = None
        guards.least[least] = None
        guards.is_exact = guards.is_exact and not within and not by_threads
        guards.is_here = guards.is_here and not inner
        guards.of_threads = guards.of_threads or by_threads

    def _variables_of(self, over: Expr) -> list[Var]:
        found = self._variables.get(over)
        if found is None:
            found = self._variables[over] = free_vars(over)
        return found

    def extremes(self, over: Expr, loops: list[For]) -> tuple[Expr, Expr] | None:
        """Return bounds of the values over all iterations of some loops: the most, the least.

        It is None if the number is not linear in them, or if their lengths are unknown.
        """
        most: dict[Var, Expr] = {}
        least: dict[Var, Expr] = {}
        for loop in loops:
            factor = self.factor(over, loop.var)
            last = self.simplifier.bounds(loop.extent)[1] - 1
            if factor is None or last == INF:
                return None
            ends = const(0), const(int(last))
            least[loop.var], most[loop.var] = ends if factor > 0 else ends[::-1]
        expr = self.simplifier.expr
        return expr(substitute(over, most)), expr(substitute(over, least))

    def worst_of_threads(self, over: Expr) -> Expr | None:
        """Return a bound of a number's values in all threads; None if there is none."""
        form = self.simplifier.form(over)
        apart = [self.threads.isdisjoint(free_vars(term.atom)) for term in form.terms]
        of_threads = tuple(compress(form.terms, map(not_, apart)))
        most = self.simplifier.sum_bounds(Sum(of_threads, form.base))[1]
        if most == INF:
            return None
        return sum_expr(Sum(tuple(compress(form.terms, apart)), int(most)), over.dtype)

    def factor(self, node: Expr, var: Var) -> int | None:
        """Return the coefficient of a variable in a sum; None if the sum is not linear in it."""
        factor = None
        for term in self.simplifier.form(node).terms:
            if term.atom is var and term.lower == 1 and term.upper == INF and factor is None:
                factor = term.scale
            elif any(part is var for part in walk_expr(term.atom)):
                return None
        return factor

    def mentions(self, stmt: Stmt, guards: Guards) -> bool:
        """Whether a statement tests some of the conditions."""
        return any(
            part in guards.conditions
            for inner, _ in inside(stmt, {}, self.choices.is_plain)
            for part, _ in self.choices.parts_of(inner)
        )

    def smallest(self, stmt: Stmt, guards: Guards) -> Stmt:
        """Return the smallest statement, outside inner loops, with all tests of some guards."""
        match stmt:
            case Allocate() | Produce():
                return self.smallest(stmt.body, guards)
            case Seq():
                holders = [inner for inner in stmt.stmts if self.mentions(inner, guards)]
                return self.smallest(holders[0], guards) if len(holders) == 1 else stmt
            case _:
                return stmt

    def within(self, guards: Guards, stmt: Stmt) -> Stmt:
        """Return a statement for the case that some guards hold in all inner iterations."""
        return ConditionRewriter(dict.fromkeys(guards.conditions, const(True)), self.choices).stmt(
            stmt
        )

    def without(self, guards: Guards, stmt: Stmt) -> Stmt:
        """Return a statement for the case that some guards do not always hold."""
        if guards.is_exact:
            stmt = ConditionRewriter(
                dict.fromkeys(guards.conditions, const(False)), self.choices
            ).stmt(stmt)
        prover = Prover(self.prover)
        prover.facts.append(binary("-", const(1), guards.excess))
        return prover.stmt(stmt)

    # -- parts -----------------------------------------------------------------------------

    def cut(
        self, var: Var, part: LoopSegment, guards: Guards
    ) -> tuple[LoopSegment, LoopSegment] | None:
        """Return the iterations in which guards hold, and those before or after them.

        It is None if the guards are not linear in the loop's variable.
        """
        factor = self.factor(guards.excess, var)
        if factor is None:
            return None
        at_zero = substitute(guards.excess, {var: const(0)})
        rest = self.without(guards, part.body)
        body = self.within(guards, part.body)
        if factor > 0:  # factor * var + at_zero <= 0
            last = binary("//", binary("-", const(0), at_zero), const(factor))
            end = self._within(binary("+", last, const(1)), part)
            return LoopSegment(part.low, end, body), LoopSegment(end, part.high, rest)
        first = binary("//", binary("+", at_zero, const(-factor - 1)), const(-factor))
        begin = self._within(first, part)
        return LoopSegment(begin, part.high, body), LoopSegment(part.low, begin, rest)

    def _within(self, bound: Expr, part: LoopSegment) -> Expr:
        """Return a bound, limited to the iterations of a part."""
        within = binary("max", part.low, binary("min", bound, part.high))
        simple = self.simplifier.expr(within)
        return extremum(simple, self.prover.at_most_zero)

    def loop_over(self, loop: For, part: LoopSegment) -> Stmt:
        """Return the loop over some of its iterations."""
        extent = self.simplifier.expr(binary("-", part.high, part.low))
        if is_empty(part.body) or (isinstance(extent, Const) and extent.value <= 0):
            return NOTHING
        if is_const(extent, 1):
            return self._replaced(loop.var, part.low, part.body)
        if extent is loop.extent:
            return For(loop.var, extent, loop.kind, part.body)
        # A variable of its own: a condition on it means this loop alone. A parallel loop is never
        # two, and its number of threads is found by its variable.
        is_parallel = loop.kind is LoopKind.PARALLEL
        var = loop.var if is_parallel else Var(loop.var.name, loop.var.dtype)
        self.simplifier.bind(var, 0, max(0.0, self.simplifier.bounds(extent)[1] - 1))
        if is_const(part.low, 0):
            return For(var, extent, loop.kind, substitute_stmt(part.body, {loop.var: var}))
        body = self._replaced(loop.var, binary("+", var, part.low), part.body)
        return For(var, extent, loop.kind, body)

    def _replaced(self, var: Var, value: Expr, body: Stmt) -> Stmt:
        return _Replaced({var: cast(var.dtype, value)}, self.simplifier).stmt(body)


class _Replaced(Rewriter):
    """Replaces a variable in a statement and simplifies the expressions around it."""

    def __init__(self, mapping: Mapping[Var, Expr], simplifier: Simplifier) -> None:
        super().__init__()
        self.replaced = Substitution(mapping).expr
        self.simplifier = simplifier

    def visit_For(self, node: For) -> Stmt:
        extent = self.expr(node.extent)
        self.simplifier.bind(node.var, 0, max(0.0, self.simplifier.bounds(extent)[1] - 1))
        return node.with_body(self.stmt(node.body), extent)

    def expr(self, node: Expr) -> Expr:
        new = self.replaced(node)
        return node if new is node else self.simplifier.expr(new)


def _is_private(loop: For) -> bool:
    """Whether a thread may have some iterations of a loop apart: it exchanges nothing in them."""
    if loop.kind not in (LoopKind.UNROLLED, LoopKind.SERIAL):
        return False
    return not any(access.buffer.scope == "shared" for access in accesses(loop.body))


def inside(
    stmt: Stmt,
    loops: Mapping[Var, For],
    is_passed: Callable[[Stmt], bool] = lambda stmt: False,
) -> Iterator[tuple[Stmt, Mapping[Var, For]]]:
    """Yield each statement with the loops between it and the root.

    `is_passed`: whether a statement is passed over, with all in it.
    """
    if is_passed(stmt):
        return
    yield stmt, loops
    within = {**loops, stmt.var: stmt} if isinstance(stmt, For) else loops
    for child in child_stmts(stmt):
        yield from inside(child, within, is_passed)
