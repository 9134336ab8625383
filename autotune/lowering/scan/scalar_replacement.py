"""Scalar replacement in scans: unrolled steps pass values in registers, not through a ring buffer.

::

    unrolled (t, 0, 4)                       local[j] = ring[i*64 + j]
      vectorized (j, 0, 64)                  unrolled (t, 0, 4)
        ring[i*64 + j] = f(ring[...])  ->      vectorized (j, 0, 64)
                                                 local[j] = f(local[j])
                                             ring[i*64 + j] = local[j]
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ir.buffer_names import NameSupply
from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.stmt import (
    Allocate,
    For,
    LoopKind,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    seq,
    split_guards,
    under_guards,
)
from autotune.ir.visitor import Rewriter, StmtRewriter, free_vars, loads, walk


def replace_with_scalars(function: PrimFunc) -> PrimFunc:
    """Return the function with ring buffers of scans in local arrays during unrolled steps.

    This is legal if these steps read and write one place of the ring.
    """
    states = set(function.info.scan_states) - {buffer.name for buffer in function.params}
    if not states:
        return function
    return function.with_body(
        _ScalarReplacement(states, NameSupply.of_buffers(function)).stmt(function.body)
    )


class _ScalarReplacement(StmtRewriter):
    def __init__(self, rings: set[str], names: NameSupply) -> None:
        super().__init__()
        self.rings = rings
        self.names = names

    def visit_For(self, node: For) -> Stmt:
        steps = self.rebuild_stmt(node)
        if not isinstance(steps, For) or steps.kind is not LoopKind.UNROLLED:
            return steps
        outer, lanes = split_guards(steps.body)
        if not isinstance(lanes, For) or lanes.kind is not LoopKind.VECTORIZED:
            return steps
        inner, body = split_guards(lanes.body)
        if not _is_flat(body):
            return steps
        for ring, index in self._kept(body):
            guards = [guard for guard in (*outer, *inner) if not _has(guard, steps.var)]
            rest = [guard for guard in (*outer, *inner) if _has(guard, steps.var)]
            # The place must be inside the ring even without the other guards.
            tied = any(_has(guard, var) for guard in rest for var in free_vars(index))
            if _has(index, steps.var) or tied:
                continue
            return self._carried(steps, lanes, ring, index, guards)
        return steps

    def _kept(self, body: Stmt) -> Iterator[tuple[Buffer, Expr]]:
        """Yield the ring buffers that a step reads and writes at a single place, and the place."""
        written = {s.buffer: s.index for s in walk(body) if isinstance(s, Store)}
        for ring, index in written.items():
            if ring.name in self.rings and all(at is index for at in _places(body, ring)):
                yield ring, index

    def _carried(
        self, steps: For, lanes: For, ring: Buffer, index: Expr, guards: list[Expr]
    ) -> Stmt:
        name = self.names.unused(f"{ring.name}.local")
        local = Buffer(name, ring.dtype, (lanes.extent,), "local")
        place = ring, index
        return Allocate(
            local,
            seq(
                _copied((local, lanes.var), place, lanes, guards),
                _Exchanged(ring, local, lanes.var).stmt(steps),
                _copied(place, (local, lanes.var), lanes, guards),
            ),
        )


def _copied(
    to: tuple[Buffer, Expr], source: tuple[Buffer, Expr], lanes: For, guards: list[Expr]
) -> Stmt:
    """Return the loop over lanes that copies, under some guards."""
    return lanes.with_body(under_guards(guards, Store(*to, Load(*source))))


class _Exchanged(Rewriter):
    """Replaces a place of a buffer by a place of another buffer."""

    def __init__(self, old: Buffer, new: Buffer, index: Expr) -> None:
        super().__init__()
        self.old, self.new, self.index = old, new, index

    def visit_Load(self, node: Load) -> Expr:
        return Load(self.new, self.index) if node.buffer is self.old else self.rebuild(node)

    def visit_Store(self, node: Store) -> Stmt:
        if node.buffer is not self.old:
            return self.rebuild_stmt(node)
        return Store(self.new, self.index, self.expr(node.value))


def _is_flat(stmt: Stmt) -> bool:
    return isinstance(stmt, Store) or (
        isinstance(stmt, Seq) and all(isinstance(inner, Store) for inner in stmt.stmts)
    )


def _places(stmt: Stmt, ring: Buffer) -> Iterator[Expr]:
    """Yield where a buffer is read or written."""
    for inner in walk(stmt):
        if isinstance(inner, Store) and inner.buffer is ring:
            yield inner.index
        yield from (load.index for load in loads(inner) if load.buffer is ring)


def _has(expr: Expr, var: Var) -> bool:
    return any(other is var for other in free_vars(expr))
