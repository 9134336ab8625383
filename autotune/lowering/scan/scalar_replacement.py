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

from autotune.ir.expr import Buffer, Expr, Load
from autotune.ir.name_supply import NameSupply
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
from autotune.ir.visitor import AccessRewriter, free_vars, mentions, transform, walk
from autotune.lowering.dependence.accesses import accesses


def replace_with_scalars(function: PrimFunc) -> PrimFunc:
    """Return the function with ring buffers of scans in local arrays during unrolled steps.

    This is legal if these steps read and write one place of the ring.
    """
    states = set(function.info.scan_states) - {buffer.name for buffer in function.params}
    if not states:
        return function
    rings = _ScalarReplacement(states, NameSupply.of_buffers(function))
    return function.with_body(transform(function.body, after=rings.replaced))


class _ScalarReplacement:
    def __init__(self, rings: set[str], names: NameSupply) -> None:
        self.rings = rings
        self.names = names

    def replaced(self, steps: Stmt) -> Stmt | None:
        """Return unrolled steps with a ring in a local array; None where that may not be."""
        if not isinstance(steps, For) or steps.kind is not LoopKind.UNROLLED:
            return None
        outer, lanes = split_guards(steps.body)
        if not isinstance(lanes, For) or lanes.kind is not LoopKind.VECTORIZED:
            return None
        inner, body = split_guards(lanes.body)
        if not all(isinstance(stmt, (Store, Seq)) for stmt in walk(body)):
            return None
        for ring, index in self._kept(body):
            guards = [guard for guard in (*outer, *inner) if not mentions(guard, steps.var)]
            rest = [guard for guard in (*outer, *inner) if mentions(guard, steps.var)]
            # The place must be inside the ring even without the other guards.
            tied = any(mentions(guard, var) for guard in rest for var in free_vars(index))
            if mentions(index, steps.var) or tied:
                continue
            return self._carried(steps, lanes, ring, index, guards)
        return None

    def _kept(self, body: Stmt) -> Iterator[tuple[Buffer, Expr]]:
        """Yield the ring buffers that a step reads and writes at a single place, and the place."""
        written = {s.buffer: s.index for s in walk(body) if isinstance(s, Store)}
        for ring, index in written.items():
            places = (a.index for a in accesses(body) if a.buffer is ring)
            if ring.name in self.rings and all(place is index for place in places):
                yield ring, index

    def _carried(
        self, steps: For, lanes: For, ring: Buffer, index: Expr, guards: list[Expr]
    ) -> Stmt:
        name = self.names.unused(f"{ring.name}.local")
        local = Buffer(name, ring.dtype, (lanes.extent,), "local")
        place = ring, index
        kept = AccessRewriter(lambda b, i: (local, lanes.var) if b is ring else (b, i))
        return Allocate(
            local,
            seq(
                _copied((local, lanes.var), place, lanes, guards),
                kept.stmt(steps),
                _copied(place, (local, lanes.var), lanes, guards),
            ),
        )


def _copied(
    to: tuple[Buffer, Expr], source: tuple[Buffer, Expr], lanes: For, guards: list[Expr]
) -> Stmt:
    """Return the loop over lanes that copies, under some guards."""
    return lanes.with_body(under_guards(guards, Store(*to, Load(*source))))
