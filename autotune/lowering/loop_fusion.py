"""Loop fusion: a loop that computes elements joins the loop that reads each of them in its turn.

::

    for (x, 0, 8)                            for (r, 0, 8)
      vectorized (v, 0, 4)                     vectorized (w, 0, 4)
        B[x*4 + v] = f(X[x*4 + v])               B[r*4 + w] = f(X[r*4 + w])
    for (r, 0, 8)                    ->          S[w] = S[w] + B[r*4 + w]
      vectorized (w, 0, 4)
        S[w] = S[w] + B[r*4 + w]

The elements are then still in registers, and what waits in one computation overlaps the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.ir.algebra.polynomials import to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Const, Expr, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Seq, Stmt, Store, seq, split_guards
from autotune.ir.visitor import (
    all_loads,
    all_written,
    mentions,
    substitute,
    substitute_stmt,
    transform,
)

_IN_ORDER = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.UNROLL_HINTED)


def fuse_loops(function: PrimFunc) -> PrimFunc:
    """Return the function with loops fused where one reads what the other writes, once, in order.

    Both are loops around a single store, perhaps in vectors of the same length. Nothing between or
    in them may depend on the order of their iterations in any other way.
    """
    return function.with_body(transform(function.body, after=_fused))


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops around one store under guards."""

    loops: tuple[For, ...]
    guards: tuple[Expr, ...]
    store: Store


def _nest(stmt: Stmt) -> _Nest | None:
    loops = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    guards, store = split_guards(stmt)
    known = all(isinstance(loop.extent, Const) for loop in loops)
    return _Nest((*loops,), (*guards,), store) if known and isinstance(store, Store) else None


def _fused(node: Stmt) -> Stmt | None:
    """Return a sequence of statements with loops fused; None if there are none."""
    if not isinstance(node, Seq):
        return None
    left = list(node.stmts)
    nests = [_nest(stmt) if isinstance(stmt, For) else None for stmt in left]
    for number, consumer in enumerate(nests):
        if consumer is None or not any(nests[:number]):
            continue
        read = {load.buffer for load in all_loads(left[number])}
        for before in range(number - 1, -1, -1):
            producer = nests[before]
            if producer is None or producer.store.buffer not in read:
                continue
            between = [*left[before + 1 : number], left[number]]
            joined = _joined(producer, consumer) if _may_wait(producer, between) else None
            if joined is not None:
                left[before], left[number] = Seq(()), joined
                nests[before] = nests[number] = None
                break
    return None if all(a is b for a, b in zip(left, node.stmts, strict=True)) else seq(*left)


def _may_wait(producer: _Nest, stmts: Sequence[Stmt]) -> bool:
    """Whether a nest may run during the last of some statements, which may read its result."""
    used = {load.buffer for load in all_loads(producer.loops[0])}
    own = producer.store.buffer
    reads = any(load.buffer is own for stmt in stmts[:-1] for load in all_loads(stmt))
    return not reads and own not in used and all(
        all_written(stmt).isdisjoint({*used, own}) for stmt in stmts
    )  # fmt: skip


def _joined(producer: _Nest, consumer: _Nest) -> Stmt | None:
    """Return the loops of a consumer with the iterations of its producer inside."""
    (loop, *lanes), (outer, *inner) = producer.loops, consumer.loops
    places = {load.index for load in all_loads(outer) if load.buffer is producer.store.buffer}
    in_order = loop.kind in _IN_ORDER and outer.kind in _IN_ORDER
    extent, total = loop.length, outer.length
    if len(places) != 1 or len(lanes) != len(inner) or not in_order or total < extent:
        return None
    pairs = list(zip(lanes, inner, strict=True))
    if any(a.kind is not b.kind or a.extent is not b.extent for a, b in pairs):
        return None
    index = substitute(producer.store.index, {a.var: b.var for a, b in pairs})
    (place,) = places
    if not _is_in_turn(index, loop.var, place, outer.var):
        return None
    made = substitute_stmt(loop.body, {loop.var: outer.var})
    if total > extent and not _is_guarded(producer, extent, total):
        made = If(binary("<", outer.var, const(extent)), made)
    return Simplifier().stmt(outer.with_body(seq(made, outer.body)))


def _is_in_turn(index: Expr, var: Var, place: Expr, turn: Var) -> bool:
    """Whether an index, linear in a variable, is a place for equal values of their variables."""
    moved = [t for t in to_poly(index) if any(mentions(atom, var) for atom in t)]
    return moved == [(var,)] and to_poly(substitute(index, {var: turn})) == to_poly(place)


def _is_guarded(producer: _Nest, first: int, end: int) -> bool:
    """Whether guards exclude the iterations of a nest that are not its own."""
    simplifier = Simplifier({producer.loops[0].var: (first, end - 1)})
    for lane in producer.loops[1:]:
        simplifier.bind(lane.var, 0, lane.length - 1)
    verdicts = map(simplifier.expr, producer.guards)
    return any(isinstance(verdict, Const) and not verdict.value for verdict in verdicts)
