"""Loop fusion: a loop that computes elements joins the loop that reads each of them in its turn.

::

    for (x, 0, 32)                           for (r, 0, 8)
      B[x] = f(X[x])                           unrolled (u, 0, 4)
    for (r, 0, 8)                    ->          B[r*4 + u] = f(X[r*4 + u])
      unrolled (u, 0, 4)                         S[u] = S[u] + B[r*4 + u]
        S[u] = S[u] + B[r*4 + u]

The elements are then still in registers, and what waits in one computation overlaps the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.ir.algebra.polynomials import Poly, add, split_multiple, to_expr, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Const, Expr, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Seq, Stmt, Store, seq, split_guards
from autotune.ir.visitor import (
    all_loads,
    all_written,
    free_vars,
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
    (loop, *lanes), depth = producer.loops, len(consumer.loops) - len(producer.loops) + 1
    outer, inner = consumer.loops[:depth], consumer.loops[depth:]
    places = {
        load.index for load in all_loads(consumer.loops[0]) if load.buffer is producer.store.buffer
    }
    in_order = all(s.kind in _IN_ORDER for s in (loop, *outer))
    if len(places) != 1 or depth < 1 or not in_order:
        return None
    pairs = list(zip(lanes, inner, strict=True))
    if any(a.kind is not b.kind or a.extent is not b.extent for a, b in pairs):
        return None
    index = substitute(producer.store.index, {a.var: b.var for a, b in pairs})
    (place,) = places
    turn = _solution(to_poly(index), to_poly(place), loop.var)
    total = None if turn is None else _count(turn, outer)
    extent = _length(loop)
    if turn is None or total is None or total < extent:
        return None
    at = to_expr(turn)
    made = substitute_stmt(loop.body, {loop.var: at})
    if total > extent and not _is_guarded(producer, extent, total):
        made = If(binary("<", at, const(extent)), made)
    made = seq(made, outer[-1].body)
    for around in reversed(outer):
        made = around.with_body(made)
    return Simplifier().stmt(made)


def _solution(index: Poly, place: Poly, var: Var) -> Poly | None:
    """Return the value of a variable for which an index is at a place."""
    rest = dict(index)
    scale = rest.pop((var,), 0)
    if scale <= 0 or any(var is v for t in rest for atom in t for v in free_vars(atom)):
        return None
    turn, other = split_multiple(add(place, rest, -1), {(): scale})
    return None if other else turn


def _count(turn: Poly, loops: Sequence[For]) -> int | None:
    """Return how many values a sum takes, if it counts them in order over the loops."""
    total = 1
    for loop in reversed(loops):
        if turn.get((loop.var,)) != total:
            return None
        total *= _length(loop)
    return total if len(turn) == len(loops) else None


def _is_guarded(producer: _Nest, first: int, end: int) -> bool:
    """Whether guards exclude the iterations of a nest that are not its own."""
    simplifier = Simplifier({producer.loops[0].var: (first, end - 1)})
    for lane in producer.loops[1:]:
        simplifier.bind(lane.var, 0, _length(lane) - 1)
    verdicts = map(simplifier.expr, producer.guards)
    return any(isinstance(verdict, Const) and not verdict.value for verdict in verdicts)


def _length(loop: For) -> int:
    assert isinstance(loop.extent, Const)
    return int(loop.extent.value)
