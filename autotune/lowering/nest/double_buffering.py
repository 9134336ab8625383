"""Double buffering: a temporary gets two halves, and the next iteration's half is computed early.

for (i, 0, n)                    allocate A[2 * size]
allocate A[size]               A[0:size] = f(0)
A = f(i)                  ->   for (i, 0, n)
use(A)                           if (i + 1 < n)
A[(i + 1) % 2 * size :] = f(i + 1)
use(A[i % 2 * size :])
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.errors import LoweringError
from autotune.ir.expr import BinaryOp, Buffer, Expr, Var
from autotune.ir.ops import binary, chain, const, fold, likely
from autotune.ir.stmt import (
    Allocate,
    For,
    If,
    LoopKind,
    Produce,
    Seq,
    Stmt,
    allocated,
    seq,
    top_level,
)
from autotune.ir.visitor import AccessRewriter, all_loads, all_written, transform

_IN_ORDER = (LoopKind.SERIAL, LoopKind.UNROLLED)


def double_buffer(body: Stmt, stages: Mapping[Buffer, str]) -> Stmt:
    """Return a statement in which some temporaries are computed one iteration ahead.

    `body`: with each temporary allocated in the loop that it is computed in.
    `stages`: the temporaries, and the stages that compute them.

    Raises LoweringError if a temporary is computed in no loop, in a loop whose iterations are not
    sequential, or from a tensor that is computed in the same loop.
    """
    rewriter = _DoubleBuffer(stages)
    result = transform(body, after=rewriter.ahead)
    for buffer, stage in stages.items():
        if buffer not in rewriter.done:
            raise LoweringError(
                f"stage {stage!r} is double-buffered, but no loop computes it again and again; "
                "use compute_at to compute it at a serial loop"
            )
    return result


class _DoubleBuffer:
    """Finds the loops that the temporaries are computed in, inner ones first."""

    def __init__(self, stages: Mapping[Buffer, str]) -> None:
        self.stages = stages
        self.done: set[Buffer] = set()
        self.taken: set[str] = set()

    def ahead(self, loop: Stmt) -> Stmt | None:
        """Return a loop that computes its temporaries ahead; None if it has no such temporaries."""
        if not isinstance(loop, For):
            return None
        found, parts = top_level(loop.body)
        buffers = [b for b in found if b in self.stages and b not in self.done]
        if not buffers:
            return None
        self.done.update(buffers)
        self._check(loop, buffers, parts)
        return _ahead(loop, buffers, self.taken)

    def _check(self, loop: For, buffers: list[Buffer], stmts: list[Stmt]) -> None:
        parts = [(part, all_written(part)) for part in stmts]
        for part, written in parts:
            own = written.intersection(buffers)
            if not own:
                continue
            where = f"stage {self.stages[own.pop()]!r} is double-buffered in loop {loop.var.name!r}"
            if loop.kind not in _IN_ORDER:
                raise LoweringError(
                    f"{where}, which is {loop.kind}: its iterations do not run one after another; "
                    "compute it at a serial loop"
                )
            others = {buffer for other, stored in parts if other is not part for buffer in stored}
            for read in (load.buffer for load in all_loads(part)):
                if read in others:
                    raise LoweringError(
                        f"{where}, but reads {read.name!r}, which is computed in the same loop; "
                        f"compute {read.name!r} further out, or double-buffer that alone"
                    )


def _ahead(loop: For, buffers: list[Buffer], taken: set[str]) -> Stmt:
    """Return a loop that computes some buffers one iteration ahead, after their first values."""
    doubled = {b: Buffer(b.name, b.dtype, (const(2), *b.shape), b.scope) for b in buffers}
    var = loop.var
    following = binary("+", var, 1)
    used = _Half(doubled, binary("%", var, 2), var, var)
    produced = _Half(doubled, binary("%", following, 2), var, following)
    first = _Half(doubled, const(0), var, const(0), fresh=taken)
    prologue: list[Stmt] = []

    def rewrite(stmt: Stmt) -> Stmt:
        match stmt:
            case Allocate(buffer, body):
                inner = rewrite(body)
                return inner if buffer in doubled else Allocate(buffer, inner)
            case Seq(stmts):
                return seq(*map(rewrite, stmts))
            case Produce() if all_written(stmt).intersection(doubled):
                any_turn = likely(binary("<", const(0), loop.extent))
                prologue.append(If(any_turn, first.stmt(stmt)))
                return If(likely(binary("<", following, loop.extent)), produced.stmt(stmt))
            case _:
                return used.stmt(stmt)

    body = together(rewrite(loop.body))
    result = seq(*prologue, For(var, loop.extent, loop.kind, body))
    return allocated(list(doubled.values())[::-1], result)


class _Half(AccessRewriter):
    """Directs accesses to one half of the doubled buffers, with the loop variable replaced.

    `doubled`: new buffers by old.
    `half`: 0 or 1.
    `var`, `value`: the loop variable, and its replacement.
    `fresh`: used names. If given, allocations get new buffers with unused names, which are added to
    the set, because the statement is a second copy.
    """

    def __init__(
        self, doubled: Mapping[Buffer, Buffer], half: Expr, var: Var, value: Expr,
        fresh: set[str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(self._found)
        self.half = half
        self.fresh = fresh is not None
        self.taken: set[str] = set() if fresh is None else fresh
        self.buffers = dict(doubled)
        self.starts = {new: chain("*", new.shape[1:], self.half) for new in doubled.values()}
        self._memo[var] = value

    def _found(self, buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        new = self.buffers.get(buffer, buffer)
        start = self.starts.get(new)
        return new, index if start is None else binary("+", start, index)

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        a, b = self.expr(node.a), self.expr(node.b)
        return node if a is node.a and b is node.b else fold(node.op, a, b)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        buffer = node.buffer
        if self.fresh:
            shape = tuple(map(self.expr, buffer.shape))
            name = f"{buffer.name}.first"
            while name in self.taken:
                name += ".first"
            self.taken.add(name)
            buffer = Buffer(name, buffer.dtype, shape, buffer.scope)
            self.buffers[node.buffer] = buffer
        return Allocate(buffer, self.stmt(node.body))


def together(body: Stmt) -> Stmt:
    """Return the statements of a loop; adjacent statements under the same guard are merged."""
    if isinstance(body, Allocate):
        return Allocate(body.buffer, together(body.body))
    merged: list[Stmt] = []
    for stmt in body.stmts if isinstance(body, Seq) else [body]:
        last = merged[-1] if merged else None
        if isinstance(stmt, If) and isinstance(last, If) and stmt.condition is last.condition:
            merged[-1] = If(last.condition, seq(last.then, stmt.then))
        else:
            merged.append(stmt)
    return seq(*merged)
