"""Loops over the steps of scans."""

from __future__ import annotations

from collections.abc import Sequence, Set

from autotune.ir.expr import Buffer
from autotune.ir.stmt import Allocate, For, LoopKind, Produce, Stmt, allocated
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.nest.regions import is_loop_free

_SEPARATE = (LoopKind.PARALLEL, LoopKind.THREAD, LoopKind.VTHREAD)


def hoist_allocations(scan: Produce, kept: Set[Buffer], rings: Sequence[Buffer] = ()) -> Stmt:
    """Return a scan inside the allocations that all its steps may share, and its ring buffers.

    Allocations in parallel loops, of varying size, or in `kept` are not moved. Storage with the
    lifetime of a kernel is allocated inside the scan, which is one kernel.
    """
    hoist = _Hoist(kept)
    body = hoist.stmt(scan.body)
    found = [*rings, *hoist.found]
    inside = [buffer for buffer in found if buffer.scope != "global"]
    around = [buffer for buffer in found if buffer.scope == "global"]
    return allocated(around, Produce(scan.name, allocated(inside, body)))


class _Hoist(StmtRewriter):
    def __init__(self, kept: Set[Buffer]) -> None:
        super().__init__()
        self.kept = kept
        self.found: list[Buffer] = []

    def visit_For(self, node: For) -> Stmt:
        return node if node.kind in _SEPARATE else self.rebuild_stmt(node)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        if node.buffer in self.kept or not all(map(is_loop_free, node.buffer.shape)):
            return self.rebuild_stmt(node)
        self.found.append(node.buffer)
        return self.stmt(node.body)
