"""Barrier analysis: accesses of a statement before its first and after its last barrier.

A statement is summarised by its accesses to storage that threads share. A barrier is missing if two
accesses may touch one element, at least one writes, and no barrier is between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass

from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Expr, Var
from autotune.ir.ops import binary, const, fold, logical_not
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    If,
    Seq,
    Stmt,
    Store,
    WarpReduce,
)
from autotune.ir.visitor import loads
from autotune.lowering.dependence.accesses import Access
from autotune.lowering.dependence.sharing_conflicts import Conflicts


@dataclass(frozen=True)
class AccessSummary:
    """The accesses of a statement to shared storage."""

    #: Accesses that may come before its first barrier, and after its last.
    first: tuple[Access, ...] = ()
    last: tuple[Access, ...] = ()
    #: Whether threads always reach a barrier.
    synchronizes: bool = False

    def then(self, other: AccessSummary) -> AccessSummary:
        """Return the summary of this statement followed by another."""
        return AccessSummary(
            self.first if self.synchronizes else (*self.first, *other.first),
            other.last if other.synchronizes else (*self.last, *other.last),
            self.synchronizes or other.synchronizes,
        )


SYNC = AccessSummary(synchronizes=True)


def either(condition: Expr, a: AccessSummary, b: AccessSummary) -> AccessSummary:
    """Return the summary of a choice between two statements."""
    no = logical_not(condition)
    return AccessSummary(
        (*(x.where(condition) for x in a.first), *(x.where(no) for x in b.first)),
        (*(x.where(condition) for x in a.last), *(x.where(no) for x in b.last)),
        a.synchronizes and b.synchronizes,
    )


class MissingBarrierError(Exception):
    """Two accesses that no barrier separates."""


class BarrierAnalysis:
    """Summarises statements, and finds statements with missing barriers.

    `conflicts`: decides about pairs of accesses.
    `carried`: arrays in global storage that threads share, like shared storage.
    """

    def __init__(self, conflicts: Conflicts, carried: Set[Buffer]) -> None:
        self.conflicts = conflicts
        self.carried = carried
        self._simplifier = Simplifier()
        self._earlier: dict[Var, Var] = {}

    def check(self, stmt: Stmt, alone: bool = False) -> AccessSummary:
        """Return the summary of a statement; raise an error if a barrier is missing.

        `alone`: whether only some of the threads may reach it.

        Raises MissingBarrierError if a barrier is missing, or if only some threads may reach a
        statement that needs all.
        """
        match stmt:
            case Seq(stmts):
                total = AccessSummary()
                for inner in stmts:
                    summary = self.check(inner, alone)
                    if self.conflict(total, summary):
                        raise MissingBarrierError
                    total = total.then(summary)
                return total
            case Allocate(_, body) | CopyAhead(body) | Arrive(body):
                return self.check(body, alone)
            case For(_, _, _, body):
                with self.inside(stmt):
                    summary = self.check(body, alone)
                    if self.conflict(self.before(stmt, summary), summary):
                        raise MissingBarrierError
                return self.outside(stmt, summary)
            case If(condition, then, orelse):
                other = AccessSummary() if orelse is None else self.check(orelse, alone)
                return either(condition, self.check(then, alone), other)
            case Barrier() | WarpReduce() if alone:
                raise MissingBarrierError
            case Barrier():
                return SYNC
            case _:
                return self.single(stmt)

    def conflict(self, before: AccessSummary, after: AccessSummary) -> bool:
        """Whether a barrier is needed between two statements."""
        return any(self.conflicts.between(a, b) for a in before.last for b in after.first)

    @contextmanager
    def inside(self, loop: For) -> Iterator[None]:
        """Use the range of a loop's variable inside the loop."""
        longest = self.conflicts.longest(loop.extent)
        if longest is not None:
            self.conflicts.ranges[loop.var] = longest
        try:
            yield
        finally:
            self.conflicts.ranges.pop(loop.var, None)

    def before(self, loop: For, summary: AccessSummary) -> AccessSummary:
        """Return the summary of all earlier iterations, from the summary of one."""
        if summary.synchronizes:
            previous = fold("-", loop.var, const(1, loop.var.dtype))
            is_later = binary("<=", 1, loop.var)
            last = [a.at(loop.var, previous).where(is_later) for a in summary.last]
        else:
            other = self._earlier.setdefault(loop.var, Var(loop.var.name, loop.var.dtype))
            last = [a.at(loop.var, other).anywhere_in(other, loop.extent) for a in summary.last]
        return AccessSummary(last=tuple(last))

    def outside(self, loop: For, summary: AccessSummary) -> AccessSummary:
        """Return the summary of a whole loop, given that of one iteration."""
        var, extent = loop.var, loop.extent
        if not summary.synchronizes:
            first = tuple(a.anywhere_in(var, extent) for a in summary.first)
            return AccessSummary(first, tuple(a.anywhere_in(var, extent) for a in summary.last))
        runs = self._simplifier.bounds(extent)[0] >= 1
        final = fold("-", extent, const(1, extent.dtype))
        return AccessSummary(
            tuple(a.at(var, const(0, var.dtype)) for a in summary.first),
            tuple(a.at(var, final) for a in summary.last),
            runs,
        )

    def single(self, stmt: Stmt) -> AccessSummary:
        """Return the accesses of a single statement to shared storage and to arrays of scans."""
        found = [
            Access(load.buffer, load.index, False)
            for load in loads(stmt)
            if self._is_shared(load.buffer)
        ]
        if isinstance(stmt, Store) and self._is_shared(stmt.buffer):
            found.append(Access(stmt.buffer, stmt.index, True))
        return AccessSummary(tuple(found), tuple(found))

    def _is_shared(self, buffer: Buffer) -> bool:
        return buffer.scope == "shared" or buffer in self.carried
