"""Splits loops where the truth of guards changes, so that most iterations run without guards.

    for x in 3:                          for x in 2:
      for y in vectorized(16):             for y in vectorized(16):
        if x*16 + y < 37:         ->         C[x*16 + y] = ...
          C[x*16 + y] = ...              for y in vectorized(5):
                                           C[32 + y] = ...

A guard is handled at the innermost loop that it depends on and that may have any length:

- If it holds in the first or last iterations of a serial loop, for all iterations of inner loops,
  the loop is split there. An empty part is dropped, so a guard around a whole body only shortens
  the loop.
- Otherwise (a parallel loop, which remains one region; a guard that is not linear in the variable)
  a test before the inner loops checks whether the guard always holds in them. It chooses between a
  copy without the guard and the guarded code.

Vectors and unrolled loops have constant lengths, so the enclosing loop handles their guards. Its
tail has a vector with fewer lanes if their number is constant, else a guarded vector. Steps of a
sum that are written out, of which the tail has an unknown number, are a loop there if copies would
be too large.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from autotune.ir.expr import Expr
from autotune.ir.ops import binary, const, likely
from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Stmt, Store, is_empty, seq
from autotune.ir.visitor import all_allocated, mentions, transform, walk
from autotune.lowering.guards.loop_splitting import (
    FIXED,
    THREADS,
    Guards,
    LoopSegment,
    Splitter,
    inside,
)

_IN_ORDER = (LoopKind.SERIAL, LoopKind.UNROLL_HINTED)


def partition(function: PrimFunc) -> PrimFunc:
    """Return the function with loops split where guards change, within the limit for copies.

    If copies exceed it, they are made smaller, or fewer, as `_Saving` says.
    """
    kind = _OpenPartition if function.sizes else _Partition
    for saving in _Saving:
        splitter = kind(function.body, saving)
        try:
            body = splitter.run()
        except _LimitExceeded:
            continue
        break
    # Where an outer loop has ended at its first iteration, guards of inner loops are constant.
    return partition(function.with_body(body)) if splitter.ended else function.with_body(body)


def shorten(function: PrimFunc) -> PrimFunc:
    """Return the function with loops of constant length ended where a guard ends them."""
    return function.with_body(_Shorten(function.body).run())


class _LimitExceeded(Exception):
    """Copies have more nodes than they may, and could be smaller."""


class _Saving(IntEnum):
    """What is done to have smaller or fewer copies; each includes those before."""

    NOTHING = 0
    LAST_STEPS = 1  # the last steps of a sum that are written out are loops
    STEPS = 2  # all steps of sums in copies are loops
    GUARDS = 3  # guards remain that inner loops do not repeat


class _Partition(Splitter):
    """Splits serial loops; guards that no split removes are tested before inner loops."""

    # Guards on three axes of an unrolled tile need a factor of five; some tens of statements; what
    # compiles within seconds. Guards beyond the limit are kept.
    TIMES, AT_LEAST, AT_MOST = 6, 2_000, 20_000

    def __init__(self, body: Stmt, saving: _Saving = _Saving.NOTHING) -> None:
        super().__init__(body)
        self.saving = saving
        #: Whether some loop was ended where guards leave nothing of an iteration.
        self.ended = False

    def split(self, loop: For) -> Stmt:
        if loop.kind in (LoopKind.VECTORIZED, *THREADS) or _has_threads(loop.body):
            return loop
        main = LoopSegment(const(0), loop.extent, loop.body)
        before: list[Stmt] = []
        after: list[Stmt] = []
        for guards in self.guards(loop):
            if not self.mentions(main.body, guards):  # decided together with others
                continue
            if self.prover.at_most_zero(guards.excess):
                main = replace(main, body=self.within(guards, main.body))
                continue
            if self.saving is _Saving.GUARDS and not self._repeats(main.body, guards):
                continue
            # A copy of the loop also copies statements that do not depend on the guards.
            within = self.sizes.of(self.smallest(main.body, guards))
            most = guards.of_threads or 2 * within >= self.sizes.of(main.body)
            pair = self.cut(loop.var, main, guards) if most else None
            if pair is not None and pair[0].low is pair[0].high:  # nothing is gained
                main = self._ended(loop, main, guards)
                continue
            if pair is not None:
                pair = pair[0], replace(pair[1], body=self._smaller(pair[1]))
            if guards.of_threads and pair is not None and not pair[0].is_constant:
                continue
            if pair is not None and self._may_split(loop, *pair):
                rest = self.loop_over(loop, pair[1])
                if pair[0].low is main.low:
                    after.insert(0, rest)
                else:
                    before.append(rest)
                main = pair[0]
            elif guards.of_threads or loop.kind is LoopKind.UNROLLED:
                continue
            elif not (guards.is_exact and guards.is_here):
                main = replace(main, body=self._versions(main.body, guards))
        if main.body is loop.body and main.high is loop.extent:
            return loop
        return seq(*before, self.loop_over(loop, main), *after)

    def _repeats(self, stmt: Stmt, guards: Guards) -> bool:
        """Whether an inner serial loop tests some of the conditions."""
        return any(
            part in guards.conditions
            for inner, loops in inside(stmt, {}, self.choices.is_plain)
            if any(loop.kind is LoopKind.SERIAL for loop in loops.values())
            for part, _ in self.choices.parts_of(inner)
        )

    def _ended(self, loop: For, main: LoopSegment, guards: Guards) -> LoopSegment:
        """Return iterations without the last ones, if guards leave nothing of these."""
        if loop.kind not in (*_IN_ORDER, LoopKind.UNROLLED) or len(guards.least) != 1:
            return main
        (least,) = guards.least
        pair = self.cut(loop.var, main, replace(guards, excess=least))
        if pair is None or not (pair[0].is_constant and is_empty(pair[1].body)):
            return main
        if pair[0].low is not main.low or pair[0].high is main.high:
            return main
        self.ended = True
        return replace(pair[0], body=main.body)

    def _smaller(self, rest: LoopSegment) -> Stmt:
        """Return the body of iterations that seldom run, smaller if copies must be."""
        if self.saving >= _Saving.STEPS:
            return _with_steps_in_loops(rest.body)
        rolls = self.saving is _Saving.LAST_STEPS and not rest.is_constant
        return self._rolled(rest.body) if rolls else rest.body

    def _rolled(self, stmt: Stmt) -> Stmt:
        """Return what seldom runs with the last steps that are written out as a shorter loop."""

        def rolled(node: Stmt) -> Stmt | None:
            if not isinstance(node, For) or node.kind is not LoopKind.UNROLLED:
                return None
            whole = LoopSegment(const(0), node.extent, node.body)
            for guards in self.guards(node):
                pair = self.cut(node.var, whole, guards) if guards.is_exact else None
                if pair is not None and is_empty(pair[1].body) and not _stores_along(node):
                    return self.loop_over(replace(node, kind=LoopKind.SERIAL), pair[0])
            return None

        return transform(stmt, after=rolled)

    def _may_split(self, loop: For, main: LoopSegment, rest: LoopSegment) -> bool:
        unrolled = loop.kind is LoopKind.UNROLLED
        if unrolled and not (main.is_constant and rest.is_constant):
            return False
        if is_empty(rest.body) or rest.low is rest.high:
            return True
        if unrolled:  # unrolled anyway, except for its allocations
            return not all_allocated(rest.body)
        return loop.kind in _IN_ORDER and self.may_copy(rest.body)

    def may_copy(self, stmt: Stmt, times: int = 1) -> bool:
        """As of `Splitter`; _LimitExceeded if the limit forbids it, and copies could be smaller."""
        may = super().may_copy(stmt, times)
        if not may and self.saving is not _Saving.GUARDS and not all_allocated(stmt):
            raise _LimitExceeded
        return may

    def _versions(self, body: Stmt, guards: Guards) -> Stmt:
        """Choose by a test between the smallest statement with the guards and a copy without."""
        if isinstance(body, For) and body.kind is LoopKind.PARALLEL:  # stays directly inside
            return body.with_body(self._versions(body.body, guards))
        whole = self.smallest(body, guards)
        rest = self.without(guards, whole)
        if self.saving >= _Saving.STEPS:
            rest = _with_steps_in_loops(rest)
        if not self.may_copy(rest):
            return body
        then = self.within(guards, whole)
        chosen = If(likely(self._test(guards)), then, None if is_empty(rest) else rest)
        return transform(body, before=lambda node: chosen if node is whole else None)

    def _test(self, guards: Guards) -> Expr:
        """Return the condition that guards always hold, with mostly positive terms."""
        below = self.simplifier.expr(binary("-", const(0), guards.excess))
        scales = [term.scale for term in self.simplifier.form(below).terms]
        if min(scales) > 0:
            return self.simplifier.expr(binary("<=", const(0), below))
        return self.simplifier.expr(binary("<=", guards.excess, const(0)))


class _OpenPartition(_Partition):
    """The same where only calls know the sizes: the ends of all axes have guards."""

    # With fewer copies, guards remain in the sums of the tiles with most rows. Beyond twice as many
    # only the time to compile grows.
    AT_MOST = 2 * _Partition.AT_MOST


class _Shorten(Splitter):
    """Ends vectorised and unrolled loops where a guard on them alone ends them."""

    def split(self, loop: For) -> Stmt:
        if loop.kind not in FIXED:
            return loop
        part = LoopSegment(const(0), loop.extent, loop.body)
        for guards in self.guards(loop):
            pair = self.cut(loop.var, part, guards) if guards.is_exact else None
            if pair is not None and is_empty(pair[1].body) and pair[0].is_constant:
                part = pair[0]
        return loop if part.body is loop.body else self.loop_over(loop, part)


def _with_steps_in_loops(stmt: Stmt) -> Stmt:
    """Return a statement in which steps of sums that are written out are loops."""

    def rolled(node: Stmt) -> Stmt | None:
        if not isinstance(node, For) or node.kind is not LoopKind.UNROLLED or _stores_along(node):
            return None
        return replace(node, kind=LoopKind.SERIAL)

    return transform(stmt, after=rolled)


def _stores_along(loop: For) -> bool:
    """Whether the iterations of a loop store in places of their own."""
    stores = (stmt for stmt in walk(loop.body) if isinstance(stmt, Store))
    return any(mentions(store.index, loop.var) for store in stores)


def _has_threads(stmt: Stmt) -> bool:
    return any(isinstance(inner, For) and inner.kind in THREADS for inner in walk(stmt))
