"""Barriers: where threads wait for what other threads of their block do in shared storage.

    for k in 8:                           for k in 8:
      X[threadIdx.x] = f(k)                 X[threadIdx.x] = f(k)
      L = L + X[63 - threadIdx.x]    ->     barrier
                                            L = L + X[63 - threadIdx.x]
                                            barrier

A barrier stands between two accesses to one element by different threads, at least one of which
writes, those of different iterations included; without any of the barriers some such pair would
have none. No barrier stands under a condition that differs between threads: such conditions are
moved inwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

from autotune.errors import LoweringError
from autotune.ir.expr import Buffer, Const, Expr, Load, SizeVar, Var
from autotune.ir.ops import binary, const, fold, logical_not
from autotune.ir.printer import excerpt
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    Function,
    If,
    Seq,
    Stmt,
    Store,
    WarpReduce,
    seq,
)
from autotune.ir.uniform import is_thread_loop, is_uniform
from autotune.ir.visitor import StmtRewriter, free_vars, stmt_exprs, walk, walk_expr
from autotune.lowering.columns import Apart, accesses
from autotune.lowering.gpu_nest import is_kernel_loop
from autotune.lowering.sharing import Access, Conflicts
from autotune.lowering.sinking import sunk


def insert_barriers(function: Function) -> Function:
    """Return the function with the barriers that its kernels need.

    Parameters
    ----------
    function : Function
        Nests of loops over blocks and threads, each around what one thread does.

    Raises
    ------
    LoweringError
        If threads had to wait where not all of them come.
    """
    return function.with_body(_Kernels(function.attrs.get("states", {})).stmt(function.body))


class _Kernels(StmtRewriter):
    """Finds what the threads of each kernel do."""

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
        if body is inside:
            return node
        return For(node.var, node.extent, node.kind, body, node.thread_tag)


def _synchronised(loops: Sequence[For], body: Stmt, states: Mapping[str, bool]) -> Stmt:
    written = {s.buffer for s in walk(body) if isinstance(s, Store)}
    carried = {b for b in written if b.name in states and b.scope == "global"}
    if carried:  # steps hand on values through states and, from stage to stage, temporaries
        carried |= {b for b in written & _loaded(body) if b.scope == "global"}
        _check_blocks(loops, body, carried, states)
    if not carried and not any(buffer.scope == "shared" for buffer in written):
        return body
    threads = []
    for loop in loops:
        if is_thread_loop(loop):
            if not isinstance(loop.extent, Const):
                raise LoweringError(
                    f"{loop.thread_tag} has the extent `{loop.extent}`, which is not known when "
                    "the kernel is compiled, but its threads share memory; bind a loop of "
                    "constant length"
                )
            threads.append((loop.var, int(loop.extent.value)))
    own = {buffer.name: states[buffer.name] for buffer in carried if buffer.name in states}
    sync = _Sync(Conflicts(threads, own), {var for var, _ in threads}, carried)
    for loop in loops:
        if not is_thread_loop(loop) and isinstance(loop.extent, Const):
            sync.conflicts.ranges[loop.var] = int(loop.extent.value)
    body, _ = sync.visit(body)
    return _Pruned(sync, body).result


def _check_blocks(
    loops: Sequence[For], body: Stmt, carried: Set[Buffer], states: Mapping[str, bool]
) -> None:
    """Refuse scans of which a block needs what another one computes.

    Parameters
    ----------
    loops : sequence of For
        Over blocks and threads.
    body : Stmt
        What one thread does.
    carried : set of Buffer
        Arrays in global storage that the scan writes and reads.
    states : mapping of str to bool
        As `Apart` takes them.
    """
    blocks = {loop.var: loop.extent for loop in loops if not is_thread_loop(loop)}
    threads = [loop for loop in loops if is_thread_loop(loop)]
    for loop in threads:
        body = For(loop.var, loop.extent, loop.kind, body, loop.thread_tag)
    found = [access for access in accesses(body) if access.buffer in carried]
    shared = Apart(blocks, states).shared(found)
    if shared is not None:
        name, index = shared.buffer.name, excerpt(shared.index)
        if name in states:
            what, parts = f"columns of {name!r}, the state of a scan,", "init and update"
        else:
            what, parts = f"elements of {name!r}, which a scan computes in each step,", "all stages"
        why = remedy = ""
        if not states.get(name, True):
            why = ", as far as can be told of indices that run backwards"
            remedy = ", let indices run upwards"
        elif any(isinstance(var, SizeVar) for var in free_vars(shared.index)):
            why = ", as far as can be told of sizes that only a call knows"
            remedy = ", give sizes as numbers"
        raise LoweringError(
            f"blocks share {what} at `{index}`{why}, and cannot wait for one another between "
            f"steps; bind the same columns of {parts} to one block{remedy}, or let one block "
            "compute all"
        )


def _loaded(body: Stmt) -> Set[Buffer]:
    """Return what a statement reads."""
    return {access.buffer for access in accesses(body) if not access.writes}


@dataclass(frozen=True)
class Summary:
    """What a statement does to shared storage.

    Attributes
    ----------
    first, last : tuple of Access
        Accesses that may come before its first barrier, and after its last.
    waits : bool
        Whether threads come to a barrier in any case.
    """

    first: tuple[Access, ...] = ()
    last: tuple[Access, ...] = ()
    waits: bool = False


_WAIT = Summary(waits=True)


def _then(a: Summary, b: Summary) -> Summary:
    """Return the summary of one statement and then another."""
    return Summary(
        a.first if a.waits else _union(a.first, b.first),
        b.last if b.waits else _union(a.last, b.last),
        a.waits or b.waits,
    )


def _union(a: tuple[Access, ...], b: tuple[Access, ...]) -> tuple[Access, ...]:
    return (*a, *b)


class _Conflict(Exception):
    """Two accesses that no barrier separates."""


class _Sync:
    """Puts barriers in, and summarises statements that have those that they need.

    Parameters
    ----------
    conflicts : Conflicts
        Decides about pairs of accesses.
    threads : set of Var
        Variables of the loops over threads.
    carried : set of Buffer
        Arrays in global storage that threads share as they do shared storage.
    """

    def __init__(self, conflicts: Conflicts, threads: set[Var], carried: Set[Buffer]) -> None:
        self.conflicts = conflicts
        self.threads = threads
        self.carried = carried
        self.simplifier = Simplifier()
        self.earlier: dict[Var, Var] = {}

    def visit(self, stmt: Stmt) -> tuple[Stmt, Summary]:
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
                return stmt, _WAIT
            case CopyAhead(body) | Arrive(body):
                return stmt, self._copied(body)
            case _:
                return stmt, _single(stmt, self.carried)

    def _copied(self, body: Stmt) -> Summary:
        """Return the summary of copies, which write where they start and where they arrive."""
        try:
            return self.check(body)
        except _Conflict:
            raise LoweringError(
                f"threads copy to elements of {_written(body)} that others copy to; give each "
                "element to one thread"
            ) from None

    def clash(self, before: Summary, after: Summary) -> bool:
        """Whether a barrier is needed between two statements."""
        return any(self.conflicts.between(a, b) for a in before.last for b in after.first)

    # -- sequences ---------------------------------------------------------------------------------

    def _sequence(self, stmts: Sequence[Stmt]) -> tuple[Stmt, Summary]:
        """Put a barrier before each statement that conflicts with what came since the last one."""
        result: list[Stmt] = []
        total = Summary()
        for stmt in stmts:
            inner, summary = self.visit(stmt)
            if self.clash(total, summary):
                result.append(Barrier())
                total = _then(total, _WAIT)
            result.append(inner)
            total = _then(total, summary)
        unchanged = len(result) == len(stmts) and all(map(_same, result, stmts))
        return (Seq(tuple(stmts)) if unchanged else seq(*result)), total

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, loop: For) -> tuple[Stmt, Summary]:
        if not is_uniform(loop.extent, self.threads):
            return self._uneven(loop)
        with self.inside(loop):
            body, summary = self.visit(loop.body)
            if self.clash(self.before(loop, summary), summary):
                body, summary = self._carried(loop, body, summary)
        result = loop if body is loop.body else _with_body(loop, body)
        return result, self.outside(loop, summary)

    @contextmanager
    def inside(self, loop: For) -> Iterator[None]:
        """Know the range of a loop's variable."""
        longest = self.conflicts.longest(loop.extent)
        if longest is not None:
            self.conflicts.ranges[loop.var] = longest
        yield
        self.conflicts.ranges.pop(loop.var, None)

    def before(self, loop: For, summary: Summary) -> Summary:
        """Return what came before an iteration in earlier ones, given the summary of one."""
        if summary.waits:
            previous = fold("-", loop.var, const(1, loop.var.dtype))
            is_later = binary("<=", 1, loop.var)
            last = [a.at(loop.var, previous).where(is_later) for a in summary.last]
        else:
            other = self.earlier.setdefault(loop.var, Var(loop.var.name, loop.var.dtype))
            last = [a.at(loop.var, other).anywhere_in(other, loop.extent) for a in summary.last]
        return Summary(last=tuple(last))

    def outside(self, loop: For, summary: Summary) -> Summary:
        """Return the summary of a whole loop, given that of one iteration."""
        var, extent = loop.var, loop.extent
        if not summary.waits:
            first = tuple(a.anywhere_in(var, extent) for a in summary.first)
            return Summary(first, tuple(a.anywhere_in(var, extent) for a in summary.last))
        runs = self.simplifier.bounds(extent)[0] >= 1
        final = fold("-", extent, const(1, extent.dtype))
        return Summary(
            tuple(a.at(var, const(0, var.dtype)) for a in summary.first),
            tuple(a.at(var, final) for a in summary.last),
            runs,
        )

    def _carried(self, loop: For, body: Stmt, summary: Summary) -> tuple[Stmt, Summary]:
        """Put a barrier where iterations conflict, before the first statement that does."""
        around: list[Stmt] = []
        inner = body
        while isinstance(inner, Allocate):
            around.append(inner)
            inner = inner.body
        stmts = list(inner.stmts) if isinstance(inner, Seq) else [inner]
        earlier = self.before(loop, summary)
        total = Summary()
        place = 0
        while place < len(stmts):
            own = self.check(stmts[place])
            if not total.waits and self.clash(earlier, own):
                break
            total = _then(total, own)
            place += 1
        body, summary = self._sequence([*stmts[:place], Barrier(), *stmts[place:]])
        for allocation in reversed(around):
            assert isinstance(allocation, Allocate)
            body = Allocate(allocation.buffer, body)
        if self.clash(self.before(loop, summary), summary):
            return self._carried(loop, body, summary)
        return body, summary

    # -- what differs between threads --------------------------------------------------------------

    def _uneven(self, loop: For) -> tuple[Stmt, Summary]:
        """Give a loop whose length differs between threads one length, if they wait inside."""
        try:
            summary = self.check(loop, True)
        except _Conflict:
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

    def _branch(self, stmt: If) -> tuple[Stmt, Summary]:
        if stmt.condition.lanes == 1 and is_uniform(stmt.condition, self.threads):
            then, summary = self.visit(stmt.then)
            orelse, other = (None, Summary())
            if stmt.orelse is not None:
                orelse, other = self.visit(stmt.orelse)
            same = then is stmt.then and orelse is stmt.orelse
            result = stmt if same else If(stmt.condition, then, orelse)
            return result, _either(stmt.condition, summary, other)
        try:
            return stmt, self.check(stmt, True)
        except _Conflict:
            inner = sunk(stmt)
            if inner is None:
                raise LoweringError(
                    f"threads write elements of {_written(stmt)} that others write or read in the "
                    "same step; give each element to one thread"
                ) from None
            return self.visit(inner)

    # -- checks ------------------------------------------------------------------------------------

    def check(self, stmt: Stmt, alone: bool = False) -> Summary:
        """Return the summary of a statement that has the barriers that it needs.

        Parameters
        ----------
        stmt : Stmt
            Any statement.
        alone : bool
            Whether some threads may come to it without the others.

        Raises
        ------
        _Conflict
            If it has not, or holds what all threads must come to while some may come alone.
        """
        match stmt:
            case Seq(stmts):
                total = Summary()
                for inner in stmts:
                    summary = self.check(inner, alone)
                    if self.clash(total, summary):
                        raise _Conflict
                    total = _then(total, summary)
                return total
            case Allocate(_, body) | CopyAhead(body) | Arrive(body):
                return self.check(body, alone)
            case For(_, _, _, body):
                with self.inside(stmt):
                    summary = self.check(body, alone)
                    if self.clash(self.before(stmt, summary), summary):
                        raise _Conflict
                return self.outside(stmt, summary)
            case If(condition, then, orelse):
                other = Summary() if orelse is None else self.check(orelse, alone)
                return _either(condition, self.check(then, alone), other)
            case Barrier() | WarpReduce() if alone:
                raise _Conflict
            case Barrier():
                return _WAIT
            case _:
                return _single(stmt, self.carried)


class _Pruned(StmtRewriter):
    """Takes out barriers, from the first on, as long as the others suffice.

    Attributes
    ----------
    result : Stmt
        What is left.
    """

    def __init__(self, sync: _Sync, body: Stmt) -> None:
        super().__init__()
        self.without: Stmt | None = None
        self.result = body
        for barrier in [stmt for stmt in walk(body) if isinstance(stmt, Barrier)]:
            self.without = barrier
            fewer = self.stmt(self.result)
            try:
                sync.check(fewer)
            except _Conflict:
                continue
            self.result = fewer

    def visit_Barrier(self, node: Barrier) -> Stmt:
        return Seq(()) if node is self.without else node


def _either(condition: Expr, a: Summary, b: Summary) -> Summary:
    """Return the summary of a choice between two statements."""
    no = logical_not(condition)
    return Summary(
        (*(x.where(condition) for x in a.first), *(x.where(no) for x in b.first)),
        (*(x.where(condition) for x in a.last), *(x.where(no) for x in b.last)),
        a.waits and b.waits,
    )


def _single(stmt: Stmt, carried: Set[Buffer]) -> Summary:
    """Return what a single statement does to shared storage, and to what scans carry."""
    found = [
        Access(node.buffer, node.index, False)
        for expr in stmt_exprs(stmt)
        for node in walk_expr(expr)
        if isinstance(node, Load) and _is_shared(node.buffer, carried)
    ]
    if isinstance(stmt, Store) and _is_shared(stmt.buffer, carried):
        found.append(Access(stmt.buffer, stmt.index, True))
    return Summary(tuple(found), tuple(found))


def _is_shared(buffer: Buffer, carried: Set[Buffer]) -> bool:
    return buffer.scope == "shared" or buffer in carried


def _written(stmt: Stmt) -> str:
    names = [s.buffer.name for s in walk(stmt) if isinstance(s, Store)]
    return ", ".join(map(repr, dict.fromkeys(names)))


def _with_body(loop: For, body: Stmt) -> For:
    return For(loop.var, loop.extent, loop.kind, body, loop.thread_tag)


def _same(a: Stmt, b: Stmt) -> bool:
    return a is b
