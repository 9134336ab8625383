"""Splits loops where guards change their truth, so that most iterations run without them.

    for x in 3:                          for x in 2:
      for y in vectorized(16):             for y in vectorized(16):
        if x*16 + y < 37:         ->         C[x*16 + y] = ...
          C[x*16 + y] = ...              for y in vectorized(5):
                                           C[32 + y] = ...

A guard is dealt with at the innermost loop it depends on that may have any length:

- If it holds in the first or last iterations of a serial loop, whatever the loops further in do,
  the loop is split there. A part in which nothing is left to do is dropped, so a guard around a
  whole body only shortens the loop.
- Elsewhere (a parallel loop, which stays one region; a guard that is not linear in the variable)
  the condition that it holds throughout the loops further in is tested before them, and chooses
  between a copy without the guard and the guarded code.

Vectors and unrolled loops have constant lengths, so their guards go to the loop around. What is
left there is a remainder: of a constant number of lanes where that is constant, else guarded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from autotune.ir.expr import Const, Expr, Var
from autotune.ir.ops import binary, const, likely
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, For, Function, If, LoopKind, Produce, Seq, Stmt, seq
from autotune.ir.sums import INF
from autotune.ir.visitor import (
    Rewriter,
    StmtRewriter,
    child_stmts,
    free_vars,
    stmt_exprs,
    substitute,
    walk,
    walk_expr,
)
from autotune.lowering.facts import (
    NOTHING,
    Assuming,
    extremum,
    is_empty,
)
from autotune.lowering.prove import Prover

#: Nodes that all copies may have together: so many times the function's (five are what guards
#: on three axes of an unrolled tile take), but some tens of statements in any case, and not so many
#: that compiling takes seconds. Beyond, guards stay.
TIMES, AT_LEAST, AT_MOST = 6, 2_000, 20_000

_FIXED = (LoopKind.VECTORIZED, LoopKind.UNROLLED)
_IN_ORDER = (LoopKind.SERIAL, LoopKind.UNROLL_HINTED)
_THREADS = (LoopKind.THREAD, LoopKind.VTHREAD)


def partition(function: Function) -> Function:
    """Return the function with loops split where guards change, as far as copies are allowed."""
    return function.with_body(_Partition(function.body).stmt(function.body))


def shorten(function: Function) -> Function:
    """Return the function with loops of constant length ended where a guard ends them."""
    return function.with_body(_Shorten(function.body).stmt(function.body))


class Sizes:
    """Counts the nodes of statements, each as often as unrolling writes it out."""

    def __init__(self) -> None:
        self._exprs: dict[Expr, int] = {}

    def of(self, stmt: Stmt) -> int:
        """Return the number of nodes of a statement."""
        total = 1 + sum(map(self.of, child_stmts(stmt)))
        if isinstance(stmt, For):
            if stmt.kind is LoopKind.UNROLLED and isinstance(stmt.extent, Const):
                total *= int(stmt.extent.value)
            return total
        for expr in stmt_exprs(stmt):
            if expr not in self._exprs:
                self._exprs[expr] = sum(1 for _ in walk_expr(expr))
            total += self._exprs[expr]
        return total


@dataclass
class Guards:
    """Conditions that hold for all iterations of loops further in where one number is at most 0.

    Attributes
    ----------
    excess : Expr
        The number, over the loop's variable and those around it.
    conditions : dict of Expr to None
        The conditions, in order.
    is_exact : bool
        Whether none of them depends on the loops further in.
    is_here : bool
        Whether none of them is tested in a loop further in.
    """

    excess: Expr
    conditions: dict[Expr, None] = field(default_factory=dict)
    is_exact: bool = True
    is_here: bool = True


@dataclass(frozen=True)
class Part:
    """The iterations low, ..., high - 1 of a loop."""

    low: Expr
    high: Expr
    body: Stmt

    @property
    def is_constant(self) -> bool:
        """Whether its iterations are known."""
        return isinstance(self.low, Const) and isinstance(self.high, Const)


class _Splitter(Prover):
    """Finds the guards of a loop and splits it, innermost loops first.

    Attributes
    ----------
    tested : set of Var
        Variables that conditions depend on.
    """

    def __init__(self, body: Stmt) -> None:
        super().__init__()
        self.threads: set[Var] = set()
        self._variables = {
            over: free_vars(over)
            for stmt in walk(body)
            for _, over in self.choices.parts(stmt)
            if over is not None
        }
        self.tested = {var for variables in self._variables.values() for var in variables}

    def visit_For(self, node: For) -> Stmt:
        """Split the loops inside, then this one."""
        if node.kind in _THREADS:
            self.threads.add(node.var)
        loop = super().visit_For(node)
        return self.split(loop) if isinstance(loop, For) and loop.var in self.tested else loop

    def split(self, loop: For) -> Stmt:
        """Return what becomes of a loop whose inner loops have been dealt with."""
        raise NotImplementedError

    # -- guards ----------------------------------------------------------------------------

    def guards(self, loop: For) -> list[Guards]:
        """Return the guards to deal with at a loop, those that keep vectors from being first."""
        found: dict[Expr, Guards] = {}
        for stmt, inner in _inside(loop.body, {}):
            for part, over in self.choices.parts(stmt):
                if over is not None:
                    self._collect(loop, part, over, inner, found)
        return sorted(found.values(), key=lambda guards: guards.is_exact)

    def _collect(
        self,
        loop: For,
        condition: Expr,
        over: Expr,
        inner: Mapping[Var, For],
        found: dict[Expr, Guards],
    ) -> None:
        variables = self._variables.get(over)
        if variables is None:
            variables = self._variables[over] = free_vars(over)
        if not any(var is loop.var for var in variables):
            return
        within = [inner[var] for var in variables if var in inner]
        if any(x.kind not in _FIXED for x in within) or not self.threads.isdisjoint(variables):
            return
        worst = self.worst(over, within)
        if worst is None or isinstance(worst, Const):
            return
        guards = found.setdefault(worst, Guards(worst))
        guards.conditions[condition] = None
        guards.is_exact = guards.is_exact and not within
        guards.is_here = guards.is_here and not inner

    def worst(self, over: Expr, loops: list[For]) -> Expr | None:
        """Return the largest value over the iterations of some loops, if it is linear in them."""
        ends: dict[Var, Expr] = {}
        for loop in loops:
            factor = self.factor(over, loop.var)
            if factor is None or not isinstance(loop.extent, Const):
                return None
            ends[loop.var] = binary("-", loop.extent, const(1)) if factor > 0 else const(0)
        return self.simplifier.expr(substitute(over, ends))

    def factor(self, node: Expr, var: Var) -> int | None:
        """Return what a variable is multiplied with in a sum; None if it is not linear in it."""
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
            for inner in walk(stmt)
            for part, _ in self.choices.parts(inner)
        )

    def smallest(self, stmt: Stmt, guards: Guards) -> Stmt:
        """Return the smallest statement, inside no further loop, with all tests of some guards."""
        match stmt:
            case Allocate() | Produce():
                return self.smallest(stmt.body, guards)
            case Seq():
                holders = [inner for inner in stmt.stmts if self.mentions(inner, guards)]
                return self.smallest(holders[0], guards) if len(holders) == 1 else stmt
            case _:
                return stmt

    def within(self, guards: Guards, stmt: Stmt) -> Stmt:
        """Return a statement for where some guards hold, whatever the loops further in do."""
        return Assuming(dict.fromkeys(guards.conditions, True), self.choices).stmt(stmt)

    def without(self, guards: Guards, stmt: Stmt) -> Stmt:
        """Return a statement for where some guards do not hold throughout."""
        if guards.is_exact:
            stmt = Assuming(dict.fromkeys(guards.conditions, False), self.choices).stmt(stmt)
        prover = Prover(self)
        prover.facts.append(binary("-", const(1), guards.excess))
        return prover.stmt(stmt)

    # -- parts -----------------------------------------------------------------------------

    def cut(self, var: Var, part: Part, guards: Guards) -> tuple[Part, Part] | None:
        """Return the iterations in which guards hold and, before or after, those where not all do.

        None where the guards are not linear in the loop's variable.
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
            return Part(part.low, end, body), Part(end, part.high, rest)
        first = binary("//", binary("+", at_zero, const(-factor - 1)), const(-factor))
        begin = self._within(first, part)
        return Part(begin, part.high, body), Part(part.low, begin, rest)

    def _within(self, bound: Expr, part: Part) -> Expr:
        """Return a bound as it is among the iterations of a part."""
        within = binary("max", part.low, binary("min", bound, part.high))
        simple = self.simplifier.expr(within)
        return extremum(simple, self.at_most_zero)

    def loop_over(self, loop: For, part: Part) -> Stmt:
        """Return the loop over some of its iterations."""
        extent = self.simplifier.expr(binary("-", part.high, part.low))
        if is_empty(part.body) or (isinstance(extent, Const) and extent.value <= 0):
            return NOTHING
        if isinstance(extent, Const) and extent.value == 1:
            return self._replaced(loop.var, part.low, part.body)
        if isinstance(part.low, Const) and part.low.value == 0:
            return For(loop.var, extent, loop.kind, part.body)
        var = Var(loop.var.name, loop.var.dtype)
        self.simplifier.bind(var, 0, max(0.0, self.simplifier.bounds(extent)[1] - 1))
        body = self._replaced(loop.var, binary("+", var, part.low), part.body)
        return For(var, extent, loop.kind, body)

    def _replaced(self, var: Var, value: Expr, body: Stmt) -> Stmt:
        return _Replaced({var: value}, self.simplifier).stmt(body)


class _Partition(_Splitter):
    """Splits serial loops, and tests before inner loops what cannot be split.

    Attributes
    ----------
    allowance : int
        Nodes that copies may still have.
    """

    def __init__(self, body: Stmt) -> None:
        super().__init__(body)
        self.sizes = Sizes()
        self.allowance = max(AT_LEAST, min(TIMES * self.sizes.of(body), AT_MOST))

    def split(self, loop: For) -> Stmt:
        if loop.kind in (LoopKind.VECTORIZED, *_THREADS) or _has_threads(loop.body):
            return loop
        main = Part(const(0), loop.extent, loop.body)
        before: list[Stmt] = []
        after: list[Stmt] = []
        for guards in self.guards(loop):
            if not self.mentions(main.body, guards):  # decided with others
                continue
            if self.at_most_zero(guards.excess):
                main = replace(main, body=self.within(guards, main.body))
                continue
            # A copy of the loop is a copy also of what has nothing to do with the guards.
            within = self.sizes.of(self.smallest(main.body, guards))
            most = 2 * within >= self.sizes.of(main.body)
            pair = self.cut(loop.var, main, guards) if most else None
            if pair is not None and pair[0].low is pair[0].high:  # nothing is gained
                continue
            if pair is not None and self._may_split(loop, *pair):
                rest = self.loop_over(loop, pair[1])
                if pair[0].low is main.low:
                    after.insert(0, rest)
                else:
                    before.append(rest)
                main = pair[0]
            elif loop.kind is not LoopKind.UNROLLED and not (guards.is_exact and guards.is_here):
                main = replace(main, body=self._versions(main.body, guards))
        if main.body is loop.body:
            return loop
        return seq(*before, self.loop_over(loop, main), *after)

    def _may_split(self, loop: For, main: Part, rest: Part) -> bool:
        if loop.kind is LoopKind.UNROLLED:  # written out anyway, where the lengths are constant
            return main.is_constant and rest.is_constant
        if is_empty(rest.body) or rest.low is rest.high:
            return True
        return loop.kind in _IN_ORDER and self._may_copy(rest.body)

    def _may_copy(self, stmt: Stmt) -> bool:
        """Whether a copy is within the allowance, which it then uses."""
        nodes = self.sizes.of(stmt)
        if nodes > self.allowance or _allocates(stmt):
            return False
        self.allowance -= nodes
        return True

    def _versions(self, body: Stmt, guards: Guards) -> Stmt:
        """Choose between the smallest statement with the guards and that without, by a test."""
        whole = self.smallest(body, guards)
        rest = self.without(guards, whole)
        if not self._may_copy(rest):
            return body
        then = self.within(guards, whole)
        chosen = If(likely(self._test(guards)), then, None if is_empty(rest) else rest)
        return _Exchanged(whole, chosen).stmt(body)

    def _test(self, guards: Guards) -> Expr:
        """Return the condition that guards hold throughout, most of its terms positive."""
        below = self.simplifier.expr(binary("-", const(0), guards.excess))
        scales = [term.scale for term in self.simplifier.form(below).terms]
        if min(scales) > 0:
            return self.simplifier.expr(binary("<=", const(0), below))
        return self.simplifier.expr(binary("<=", guards.excess, const(0)))


class _Shorten(_Splitter):
    """Ends vectorised and unrolled loops where a guard on them alone ends them."""

    def split(self, loop: For) -> Stmt:
        if loop.kind not in _FIXED:
            return loop
        part = Part(const(0), loop.extent, loop.body)
        for guards in self.guards(loop):
            pair = self.cut(loop.var, part, guards) if guards.is_exact else None
            if pair is not None and is_empty(pair[1].body) and pair[0].is_constant:
                part = pair[0]
        return loop if part.body is loop.body else self.loop_over(loop, part)


class _Replaced(Rewriter):
    """Replaces a variable throughout a statement and simplifies what it stood in."""

    def __init__(self, mapping: Mapping[Var, Expr], simplifier: Simplifier) -> None:
        super().__init__()
        self.mapping = mapping
        self.simplifier = simplifier

    def expr(self, node: Expr) -> Expr:
        new = substitute(node, self.mapping)
        return node if new is node else self.simplifier.expr(new)


class _Exchanged(StmtRewriter):
    """Replaces one statement by another."""

    def __init__(self, old: Stmt, new: Stmt) -> None:
        super().__init__()
        self.old, self.new = old, new

    def stmt(self, node: Stmt) -> Stmt:
        return self.new if node is self.old else super().stmt(node)


def _inside(stmt: Stmt, loops: Mapping[Var, For]) -> Iterator[tuple[Stmt, Mapping[Var, For]]]:
    """Yield each statement with the loops between it and the root."""
    yield stmt, loops
    within = {**loops, stmt.var: stmt} if isinstance(stmt, For) else loops
    for child in child_stmts(stmt):
        yield from _inside(child, within)


def _has_threads(stmt: Stmt) -> bool:
    return any(isinstance(inner, For) and inner.kind in _THREADS for inner in walk(stmt))


def _allocates(stmt: Stmt) -> bool:
    return any(isinstance(inner, Allocate) for inner in walk(stmt))
