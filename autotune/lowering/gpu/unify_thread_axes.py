"""One loop per hardware thread axis: nested loops over the same axis become guards.

In listings and features two thread axes with the same tag are two loops, as in the schedule; the
hardware has one index for both.
"""

from __future__ import annotations

from autotune.ir.expr import Expr, Var
from autotune.ir.ops import binary, likely
from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import Rewriter, walk


def unify_threads(function: PrimFunc) -> PrimFunc:
    """Let a thread loop inside another one of its tag use the outer one's index.

    ::

        // attr threadIdx.x = 64                 // attr threadIdx.x = 64
        produce A:                               produce A:
          // attr threadIdx.x' = 32       ->       if (threadIdx.x < 32)
          A[threadIdx.x'] = f(threadIdx.x')          A[threadIdx.x] = f(threadIdx.x)
        B[threadIdx.x] = g(A)                    B[threadIdx.x] = g(A)

    The inner loop is not longer than the outer one; lowering requires it.
    """
    loops = (stmt for stmt in walk(function.body) if isinstance(stmt, For))
    if not any(loop.kind is LoopKind.THREAD for loop in loops):
        return function
    return function.with_body(_Unify().stmt(function.body))


class _Unify(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._open: dict[str, For] = {}
        self._renamed: dict[Expr, Expr] = {}

    def visit_For(self, node: For) -> Stmt:
        if node.kind is not LoopKind.THREAD:
            return self.rebuild_stmt(node)
        around = self._open.get(node.thread_tag)
        if around is not None:
            return self._guarded(node, around)
        self._open[node.thread_tag] = node
        rebuilt = self.rebuild_stmt(node)
        del self._open[node.thread_tag]
        return rebuilt

    def _guarded(self, node: For, around: For) -> Stmt:
        """Return the body under a guard for the iterations of the inner loop."""
        extent, length = self.expr(node.extent), self.expr(around.extent)
        body = self._with(node, around.var)
        return body if extent is length else If(likely(binary("<", around.var, extent)), body)

    def _with(self, node: For, var: Var) -> Stmt:
        """Return the loop's body with `var` as its variable."""
        before = self._renamed
        self._rename({**before, node.var: var})
        body = self.stmt(node.body)
        self._rename(before)
        return body

    def _rename(self, renamed: dict[Expr, Expr]) -> None:
        self._renamed = renamed
        self.forget()
        self._memo.update(renamed)
