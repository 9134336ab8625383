"""Converts functions of GPU threads to ordinary loops with the same results, for CPUs.

    blockIdx.x in 8, threadIdx.x in 64         parallel (blockIdx.x, 0, 8)
      allocate S[64] shared                      allocate S[64]
      allocate x[1] local                        allocate x[64 * 1]
      for (k, 0, 4)                              for (k, 0, 4)
        x[0] = A[k*64 + threadIdx.x]     ->        for (threadIdx.x, 0, 64)
        S[threadIdx.x] = x[0]                        x[threadIdx.x] = A[k*64 + threadIdx.x]
        barrier                                      S[threadIdx.x] = x[threadIdx.x]
        B[...] += x[0] * S[63 - threadIdx.x]       for (threadIdx.x, 0, 64)
        barrier                                      B[...] += x[threadIdx.x] * S[...]

Barriers divide the body of a block into parts; the threads run each part one after the other. Loops
and conditions around a barrier must be the same for all threads, and enclose the thread loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from autotune.errors import CodegenError
from autotune.ir.evaluate.warp_reductions import lower_warp_reductions
from autotune.ir.expr import Buffer, Const, Expr, Ramp, is_const
from autotune.ir.ops import binary, row_major
from autotune.ir.printer import excerpt
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    If,
    LoopKind,
    PrimFunc,
    Produce,
    Seq,
    Stmt,
    allocated,
    seq,
)
from autotune.ir.visitor import (
    AccessRewriter,
    StmtRewriter,
    all_accessed,
    all_allocated,
    child_stmts,
    is_thread_loop,
    is_uniform,
    transform,
    walk,
)
from autotune.lowering.storage_rewrite import elements

#: Largest number of iterations, including inner loops, of a loop with an unroll hint that is
#: unrolled.
UNROLLED = 32

_BOUND = (LoopKind.THREAD, LoopKind.VTHREAD)


def simt_on_cpu(function: PrimFunc) -> PrimFunc:
    """Return a function in final form without axes of blocks and threads, and without barriers.

    The outermost loop of blocks that has more than one runs in parallel.

    Raises CodegenError if only some threads of a block reach a barrier, as far as this is known
    statically.
    """
    body = transform(lower_warp_reductions(function).body, after=_arrived)
    return function.with_body(_Blocks().stmt(body))


class _Blocks(StmtRewriter):
    """Finds the blocks of a function: the bodies of outermost thread loops."""

    def __init__(self) -> None:
        super().__init__()
        self.in_parallel = False

    def visit_For(self, node: For) -> Stmt:
        if is_thread_loop(node):
            return _Threads(node).result
        if node.kind not in _BOUND:
            return self.rebuild_stmt(node)
        kind = LoopKind.SERIAL
        unit = is_const(node.extent, 1)
        if node.kind is LoopKind.THREAD and not (self.in_parallel or unit):
            kind = LoopKind.PARALLEL
        outer = self.in_parallel
        self.in_parallel = outer or kind is LoopKind.PARALLEL
        body = self.stmt(node.body)
        self.in_parallel = outer
        return For(node.var, node.extent, kind, body)

    def visit_Barrier(self, node: Barrier) -> Stmt:
        return Seq(())


class _Threads:
    """Converts the code of a block's threads to loops over threads between barriers."""

    def __init__(self, nest: For) -> None:
        self._own: dict[Buffer, tuple[Buffer, Expr]] = {}
        self._kept: list[Buffer] = []
        body = self._run(nest, ())
        #: The loops.
        self.result = AccessRewriter(self._own_part).stmt(body) if self._own else body

    def _own_part(self, buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        """Return a thread's part of a buffer that has the values of all threads."""
        if buffer not in self._own:
            return buffer, index
        wide, start = self._own[buffer]
        return wide, _moved(index, start)

    def _run(self, stmt: Stmt, axes: tuple[For, ...]) -> Stmt:
        """Return a statement run by all threads of `axes`."""
        return self._whole(stmt, axes) if _waits(stmt) else self._part(stmt, axes)

    def _part(self, stmt: Stmt, axes: tuple[For, ...]) -> Stmt:
        """Return a statement without barriers, run by each thread of `axes`."""
        used = all_accessed(stmt)
        body = transform(stmt, after=_sequential)
        for buffer in self._kept:
            if buffer in used:
                body = Allocate(buffer, body)
        for axis in reversed(axes):
            body = For(axis.var, axis.extent, LoopKind.SERIAL, body)
        return allocated(all_allocated(stmt, "shared")[::-1], body)

    def _whole(self, stmt: Stmt, axes: tuple[For, ...]) -> Stmt:
        """Return a statement with barriers, run by the threads of `axes` together."""
        match stmt:
            case Barrier():
                return Seq(())
            case Seq():
                return seq(*(self._run(part, axes) for part in _parts(stmt)))
            case For(var, extent, kind, body):
                _require_uniform(extent, axes, f"in loop {var.name!r} of length")
                if kind is LoopKind.THREAD:
                    return self._whole(body, (*axes, stmt))
                return For(var, extent, LoopKind.SERIAL, self._whole(body, axes))
            case If(condition, then, orelse):
                _require_uniform(condition, axes, "under the condition")
                no = None if orelse is None else self._run(orelse, axes)
                return If(condition, self._run(then, axes), no)
            case Allocate(buffer, body):
                return self._allocation(buffer, body, axes)
            case Produce(_, body):
                return self._whole(body, axes)
            case _:
                raise CodegenError(f"no barrier can stand in a {type(stmt).__name__}")

    def _allocation(self, buffer: Buffer, body: Stmt, axes: tuple[For, ...]) -> Stmt:
        """Return an allocation: for the block, or for all threads if it is used across barriers."""
        for extent in buffer.shape:
            _require_uniform(extent, axes, f"where {buffer.name!r} has the size")
        if buffer.scope == "shared":
            return Allocate(buffer, self._whole(body, axes))
        uses = [looped for part, looped in _pieces(body, False) if buffer in all_accessed(part)]
        if len(uses) <= 1 and not any(uses):
            self._kept.append(buffer)
            return self._whole(body, axes)
        counts = [axis.extent for axis in axes]
        thread = row_major([axis.var for axis in axes], counts)
        shape = (*counts, *buffer.shape)
        wide = Buffer(buffer.name, buffer.dtype, shape, buffer.scope)
        self._own[buffer] = wide, binary("*", thread, elements(buffer))
        return Allocate(wide, self._whole(body, axes))


def _require_uniform(expr: Expr, axes: tuple[For, ...], where: str) -> None:
    """Raise an error if a loop or condition around a barrier differs between threads."""
    if not is_uniform(expr, {axis.var for axis in axes}):
        raise CodegenError(
            f"a barrier stands {where} `{excerpt(expr)}`, which differs between the threads of a "
            "block: all of them must come to it; put the condition around what is between barriers "
            "instead"
        )


def _sequential(node: Stmt) -> Stmt | None:
    """Make loops of threads serial; shared storage is allocated elsewhere.

    Unroll hints are meant for GPUs, which have no loops over threads. Here only short loops are
    unrolled, such as those of virtual threads around single statements.
    """
    if isinstance(node, Allocate) and node.buffer.scope == "shared":
        return node.body
    if not isinstance(node, For) or node.kind not in (*_BOUND, LoopKind.UNROLL_HINTED):
        return None
    short = node.kind is LoopKind.UNROLL_HINTED and _iterations(node) <= UNROLLED
    return For(node.var, node.extent, LoopKind.UNROLLED if short else LoopKind.SERIAL, node.body)


def _arrived(node: Stmt) -> Stmt | None:
    """Make asynchronous copies synchronous, at the place where they arrive."""
    if isinstance(node, CopyAhead):
        return Seq(())
    return node.body if isinstance(node, Arrive) else None


def _iterations(stmt: Stmt) -> float:
    """Return an upper bound of the number of times that the statements of a nest run."""
    inside = max(map(_iterations, child_stmts(stmt)), default=1.0)
    if not isinstance(stmt, For):
        return inside
    return inside * stmt.extent.value if isinstance(stmt.extent, Const) else math.inf


def _moved(index: Expr, start: Expr) -> Expr:
    if isinstance(index, Ramp):
        return Ramp(binary("+", start, index.base), index.stride, index.lanes)
    return binary("+", start, index)


def _waits(stmt: Stmt) -> bool:
    """Whether there is a barrier in a statement."""
    return any(isinstance(inner, Barrier) for inner in walk(stmt))


def _parts(stmt: Seq) -> Iterator[Stmt]:
    """Yield the statements of a sequence; adjacent statements without barriers form one."""
    together: list[Stmt] = []
    for inner in stmt.stmts:
        if not _waits(inner):
            together.append(inner)
            continue
        if together:
            yield seq(*together)
            together = []
        yield inner
    if together:
        yield seq(*together)


def _pieces(stmt: Stmt, looped: bool) -> Iterator[tuple[Stmt, bool]]:
    """Yield the parts of a statement between barriers, and whether each is in an inner loop."""
    if not _waits(stmt):
        yield stmt, looped
        return
    match stmt:
        case Seq():
            for part in _parts(stmt):
                yield from _pieces(part, looped)
        case For(kind=kind, body=body):
            yield from _pieces(body, looped or kind is not LoopKind.THREAD)
        case If(_, then, orelse):
            for side in (then, orelse):
                if side is not None:
                    yield from _pieces(side, looped)
        case Allocate(_, body) | Produce(_, body):
            yield from _pieces(body, looped)
