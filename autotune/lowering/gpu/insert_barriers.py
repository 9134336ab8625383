"""Inserts barriers where threads of a block exchange data through shared storage.

    for k in 8:                           for k in 8:
      X[threadIdx.x] = f(k)                 X[threadIdx.x] = f(k)
      L = L + X[63 - threadIdx.x]    ->     barrier
                                            L = L + X[63 - threadIdx.x]
                                            barrier

There is a barrier between two accesses to one element if different threads make them and at least
one writes, also if they are in different iterations. Every barrier is needed by some such pair. No
barrier is inside a condition that differs between threads: such conditions are moved inwards.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence, Set

from autotune.errors import LoweringError
from autotune.ir.expr import Buffer, Const, Expr, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    If,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    allocated,
    seq,
    split_allocations,
)
from autotune.ir.visitor import StmtRewriter, all_loads, is_thread_loop, is_uniform, transform, walk
from autotune.lowering.dependence.dependence_test import refuse_sharing_blocks
from autotune.lowering.dependence.sharing_conflicts import Conflicts
from autotune.lowering.gpu.barrier_analysis import (
    SYNC,
    AccessSummary,
    BarrierAnalysis,
    MissingBarrierError,
    either,
)
from autotune.lowering.gpu.block_thread_nest import is_kernel_loop
from autotune.lowering.guards.hoist_guards import sink_conditions


def insert_barriers(function: PrimFunc) -> PrimFunc:
    """Return the function with the barriers that its kernels need.

    `function`: nests of loops over blocks and threads, each around the code of one thread.

    Raises LoweringError if a barrier is needed at a place that only some threads reach.
    """
    return function.with_body(_Kernels(function.info.scan_states).stmt(function.body))


class _Kernels(StmtRewriter):
    """Finds the thread code of each kernel."""

    def __init__(self, states: Mapping[str, bool]) -> None:
        super().__init__()
        self.states = states
        self.around: list[For] = []

    def visit_For(self, node: For) -> Stmt:
        if not is_kernel_loop(node):
            return node
        self.around.append(node)
        inside = node.body
        if is_thread_loop(node) and not is_thread_loop(inside):
            body = _synchronised(self.around, inside, self.states)
        else:
            body = self.stmt(inside)
        self.around.pop()
        return node.with_body(body)


def _synchronised(loops: Sequence[For], body: Stmt, states: Mapping[str, bool]) -> Stmt:
    written = {s.buffer for s in walk(body) if isinstance(s, Store)}
    carried = {b for b in written if b.name in states and b.scope == "global"}
    if carried:  # steps pass values through states and, between stages, through temporaries
        read = {load.buffer for load in all_loads(body)}
        carried |= {b for b in written & read if b.scope == "global"}
        refuse_sharing_blocks(loops, body, carried, states)
    if not carried and not any(buffer.scope == "shared" for buffer in written):
        return body
    threads = [(loop.var, _length(loop)) for loop in loops if is_thread_loop(loop)]
    own = {buffer.name: states[buffer.name] for buffer in carried if buffer.name in states}
    sync = _Sync(Conflicts(threads, own), {var for var, _ in threads}, carried)
    for loop in loops:
        if not is_thread_loop(loop) and isinstance(loop.extent, Const):
            sync.conflicts.ranges[loop.var] = loop.length
    body, _ = sync.visit(body)
    return _pruned(sync, body)


def _length(loop: For) -> int:
    """Return the length of a loop over threads that share memory."""
    if not isinstance(loop.extent, Const):
        raise LoweringError(
            f"{loop.thread_tag} has the extent `{loop.extent}`, which is not known when the kernel "
            "is compiled, but its threads share memory; bind a loop of constant length"
        )
    return loop.length


class _Sync(BarrierAnalysis):
    """Inserts barriers, and summarises the accesses of statements.

    `conflicts`: decides about pairs of accesses.
    `threads`: variables of the loops over threads.
    `carried`: arrays in global storage that threads share as they do shared storage.
    """

    def __init__(self, conflicts: Conflicts, threads: set[Var], carried: Set[Buffer]) -> None:
        super().__init__(conflicts, carried)
        self.threads = threads

    def visit(self, stmt: Stmt) -> tuple[Stmt, AccessSummary]:
        """Return a statement with the barriers that it needs inside, and its summary."""
        match stmt:
            case Seq(stmts):
                return self._sequence(stmts)
            case Allocate(buffer, body):
                inner, summary = self.visit(body)
                return (stmt if inner is body else Allocate(buffer, inner)), summary
            case For():
                return self._loop(stmt)
            case If():
                return self._branch(stmt)
            case Barrier():
                return stmt, SYNC
            case CopyAhead(body) | Arrive(body):
                return stmt, self._copied(body)
            case _:
                return stmt, self.single(stmt)

    def _copied(self, body: Stmt) -> AccessSummary:
        """Return the summary of asynchronous copies: they write at their start and end."""
        try:
            return self.check(body)
        except MissingBarrierError:
            raise LoweringError(
                f"threads copy to elements of {_written(body)} that others copy to; give each "
                "element to one thread"
            ) from None

    # -- sequences ---------------------------------------------------------------------------------

    def _sequence(self, stmts: Sequence[Stmt]) -> tuple[Stmt, AccessSummary]:
        """Insert a barrier before each statement that conflicts with earlier statements."""
        result: list[Stmt] = []
        total = AccessSummary()
        for stmt in stmts:
            inner, summary = self.visit(stmt)
            if self.conflict(total, summary):
                result.append(Barrier())
                total = total.then(SYNC)
            result.append(inner)
            total = total.then(summary)
        unchanged = len(result) == len(stmts) and all(map(operator.is_, result, stmts))
        return (Seq(tuple(stmts)) if unchanged else seq(*result)), total

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, loop: For) -> tuple[Stmt, AccessSummary]:
        if not is_uniform(loop.extent, self.threads):
            return self._uneven(loop)
        with self.inside(loop):
            body, summary = self.visit(loop.body)
            if self.conflict(self.before(loop, summary), summary):
                body, summary = self._carried(loop, body, summary)
        return loop.with_body(body), self.outside(loop, summary)

    def _carried(self, loop: For, body: Stmt, summary: AccessSummary) -> tuple[Stmt, AccessSummary]:
        """Insert a barrier before the first statement that conflicts across iterations."""
        buffers, inner = split_allocations(body)
        stmts = list(inner.stmts) if isinstance(inner, Seq) else [inner]
        earlier = self.before(loop, summary)
        total = AccessSummary()
        place = 0
        while place < len(stmts):
            own = self.check(stmts[place])
            if not total.synchronizes and self.conflict(earlier, own):
                break
            total = total.then(own)
            place += 1
        body, summary = self._sequence([*stmts[:place], Barrier(), *stmts[place:]])
        body = allocated(buffers, body)
        if self.conflict(self.before(loop, summary), summary):
            return self._carried(loop, body, summary)
        return body, summary

    # -- loops and conditions that differ between threads
    # --------------------------------------------------------------

    def _uneven(self, loop: For) -> tuple[Stmt, AccessSummary]:
        """Give a loop with barriers the same length for all threads."""
        try:
            summary = self.check(loop, True)
        except MissingBarrierError:
            longest = self._longest(loop)
            guard = binary("<", loop.var, loop.extent)
            return self.visit(For(loop.var, longest, loop.kind, If(guard, loop.body)))
        return loop, summary

    def _longest(self, loop: For) -> Expr:
        longest = self.conflicts.longest(loop.extent)
        if longest is None:
            raise LoweringError(
                f"loop {loop.var.name!r} is of another length, `{loop.extent}`, in each thread, "
                "and threads have to wait for one another in it; give it a constant length"
            )
        return const(longest, loop.extent.dtype)

    def _branch(self, stmt: If) -> tuple[Stmt, AccessSummary]:
        if stmt.condition.lanes == 1 and is_uniform(stmt.condition, self.threads):
            then, summary = self.visit(stmt.then)
            orelse, other = (None, AccessSummary())
            if stmt.orelse is not None:
                orelse, other = self.visit(stmt.orelse)
            result = stmt.with_parts(stmt.condition, then, orelse)
            return result, either(stmt.condition, summary, other)
        try:
            return stmt, self.check(stmt, True)
        except MissingBarrierError:
            inner = sink_conditions(stmt)
            if inner is None:
                raise LoweringError(
                    f"threads write elements of {_written(stmt)} that others write or read in the "
                    "same step; give each element to one thread"
                ) from None
            return self.visit(inner)


def _pruned(sync: _Sync, body: Stmt) -> Stmt:
    """Return a statement without its unnecessary barriers, which are removed from the first on."""
    for barrier in [stmt for stmt in walk(body) if isinstance(stmt, Barrier)]:
        fewer = _without(barrier, body)
        try:
            sync.check(fewer)
        except MissingBarrierError:
            continue
        body = fewer
    return body


def _without(barrier: Barrier, body: Stmt) -> Stmt:
    return transform(body, before=lambda node: Seq(()) if node is barrier else None)


def _written(stmt: Stmt) -> str:
    names = [s.buffer.name for s in walk(stmt) if isinstance(s, Store)]
    return ", ".join(map(repr, dict.fromkeys(names)))
