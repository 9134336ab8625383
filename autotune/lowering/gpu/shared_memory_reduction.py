"""Reductions across the threads of a block, through shared memory."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.errors import LoweringError
from autotune.ir.expr import Buffer, Const, Expr, Load, Var
from autotune.ir.name_supply import NameSupply
from autotune.ir.ops import binary, const
from autotune.ir.stmt import (
    Allocate,
    For,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    ThreadReduce,
    seq,
)
from autotune.ir.visitor import StmtRewriter, substitute, walk
from autotune.lowering.nest.tuple_stores import store_together


def share_reductions(function: PrimFunc) -> PrimFunc:
    """Lower reductions across threads: each thread shares its value and combines all values.

    A barrier is needed between the store and the loop; a later pass inserts it.

    ::

        // attr threadIdx.x = n              // attr threadIdx.x = n
        r = thread_reduce(+, f, threadIdx.x)    all[threadIdx.x] = f
                                        ->   r[0] = 0
                                             for (i, 0, n)
                                               r[0] = r[0] + all[i]
    """
    if not any(isinstance(stmt, ThreadReduce) for stmt in walk(function.body)):
        return function
    return function.with_body(_Share(function).stmt(function.body))


class _Share(StmtRewriter):
    def __init__(self, function: PrimFunc) -> None:
        super().__init__()
        self._threads: dict[Var, Expr] = {}
        self._names = NameSupply.of_buffers(function)

    def visit_For(self, node: For) -> Stmt:
        if node.kind is not LoopKind.THREAD or not node.thread_tag.startswith("threadIdx"):
            return self.rebuild_stmt(node)
        self._threads[node.var] = node.extent
        rebuilt = self.rebuild_stmt(node)
        del self._threads[node.var]
        return rebuilt

    def visit_ThreadReduce(self, node: ThreadReduce) -> Stmt:
        over: dict[Var, Expr] = {}
        for thread in node.threads:
            assert isinstance(thread, Var)
            if thread not in self._threads:
                raise LoweringError(f"a reduction across {thread.name} stands in no loop over it")
            extent = self._threads[thread]
            alone = isinstance(extent, Const) and extent.value == 1
            over[thread] = const(0) if alone else Var(f"{thread.name}.all")
        size: Expr = const(1)
        for extent in self._threads.values():
            size = binary("*", size, extent)
        together = [
            Buffer(self._names.unused(f"{r.name}.shared"), r.dtype, (size,), "shared")
            for r in node.results
        ]
        own, other = self._place({}), self._place(over)
        zero = const(0)
        share = [Store(b, own, value) for b, value in zip(together, node.operands, strict=True)]
        start = [
            Store(r, zero, value)
            for r, value in zip(node.results, node.combiner.identity, strict=True)
        ]
        combined = node.combiner.combine(
            [Load(r, zero) for r in node.results], [Load(b, other) for b in together]
        )
        body = store_together(
            [Store(r, zero, value) for r, value in zip(node.results, combined, strict=True)],
            self._names.unused,
        )
        for thread, var in over.items():
            if isinstance(var, Var):
                body = For(var, self._threads[thread], LoopKind.SERIAL, body)
        body = seq(*share, *start, body)
        for buffer in together:
            body = Allocate(buffer, body)
        return body

    def _place(self, others: Mapping[Var, Expr]) -> Expr:
        """Return the index of a thread's value, with `others` for some thread variables."""
        place: Expr = const(0)
        for var, extent in self._threads.items():
            place = binary("+", binary("*", place, extent), var)
        return substitute(place, others)
