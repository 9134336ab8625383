"""Turns loops marked VECTORIZED into vector loads, stores and arithmetic.

    for x in vectorized(16):                    C[i*16 + ramp(0, 1, 16)] =
        C[i*16 + x] = A[i*16 + x] * B[i]   ->       A[i*16 + ramp(0, 1, 16)] * broadcast(B[i])

A guard that differs between iterations becomes a vector condition. A loop that cannot be vectorised
(an inner extent depends on its iterations, an element is combined over them) becomes serial.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Const, Expr, Ramp, Var, is_const
from autotune.ir.ops import binary, cast, fold
from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Seq, Stmt, Store, seq
from autotune.ir.visitor import (
    all_allocated,
    all_loads,
    substitute,
    substitute_stmt,
    transform,
    walk,
)
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.dependence.dependence_test import DependenceTest
from autotune.lowering.vector.lane_rewriter import (
    VectorizeError,
    first_two_lanes,
    vectorize_iterations,
)

#: Longer loops are split into vectors of the largest length that divides them, up to this many
#: lanes.
MAX_LANES = 64
#: If that length is smaller than this, they are split into vectors of `MAX_LANES` and a shorter
#: tail.
MIN_LANES = 16
#: Lanes of loops whose extent is not constant.
SYMBOLIC_LANES = 16

logger = logging.getLogger(__name__)


def vectorize(function: PrimFunc) -> PrimFunc:
    """Return the function with every VECTORIZED loop as vectors, or serial if that is impossible.

    Loops that became serial are in `info.not_vectorized`, as pairs of name and reason.
    """
    states = function.info.scan_states
    refused: list[tuple[str, str]] = []

    def vectors(loop: Stmt) -> Stmt | None:
        if not isinstance(loop, For) or loop.kind is not LoopKind.VECTORIZED:
            return None
        try:
            return _vectorized(loop, states)
        except VectorizeError as refusal:
            logger.debug("loop %s is not vectorized: %s", loop.var.name, refusal)
            refused.append((loop.var.name, str(refusal)))
            return For(loop.var, loop.extent, LoopKind.SERIAL, loop.body)

    result = function.with_body(transform(function.body, after=vectors))
    if not refused:
        return result
    return replace(result, info=replace(result.info, not_vectorized=tuple(refused)))


def _vectorized(loop: For, states: Mapping[str, bool]) -> Stmt:
    var, body = loop.var, loop.body
    _check_accesses(loop, states)
    if not isinstance(loop.extent, Const):
        return _symbolic(loop)
    extent = loop.length
    if extent < 1:
        return Seq(())
    lanes = max(n for n in range(1, min(extent, MAX_LANES) + 1) if extent % n == 0)
    if lanes < min(extent, MIN_LANES):
        lanes = MAX_LANES
    count, rest = divmod(extent, lanes)
    main = _vectors(loop, Const(count, var.dtype), lanes)
    if rest == 0:
        return main
    start = Const(count * lanes, var.dtype)
    if rest > 1:
        return seq(main, vectorize_iterations(body, var, start, rest, ".rest"))
    if all_allocated(body):
        raise VectorizeError(f"one of {extent} iterations is left over")
    return seq(main, substitute_stmt(body, {var: start}))


def _vectors(loop: For, count: Expr, lanes: int) -> Stmt:
    """Run the first `count * lanes` iterations as vectors."""
    var, body = loop.var, loop.body
    if is_const(count, 1):
        zero = Const(0, var.dtype)
        if lanes == 1:
            return substitute_stmt(body, {var: zero})
        return vectorize_iterations(body, var, zero, lanes)
    outer = Var(f"{var.name}.outer", var.dtype)
    start = fold("*", outer, Const(lanes, outer.dtype))
    return For(outer, count, LoopKind.SERIAL, vectorize_iterations(body, var, start, lanes))


def _symbolic(loop: For) -> Stmt:
    """Run whole vectors, then the rest under a mask."""
    var, lanes = loop.var, Const(SYMBOLIC_LANES, loop.extent.dtype)
    count = fold("//", loop.extent, lanes)
    start = cast(var.dtype, fold("*", count, lanes))
    rest = If(binary("<", var, loop.extent), loop.body)
    return seq(
        _vectors(loop, cast(var.dtype, count), SYMBOLIC_LANES),
        vectorize_iterations(rest, var, start, SYMBOLIC_LANES, ".rest"),
    )


def _check_accesses(loop: For, states: Mapping[str, bool]) -> None:
    """Refuse a loop if an iteration may read or overwrite an element that another one wrote.

    A buffer that the body writes must have the same index everywhere, which differs between
    iterations if several statements have it, so that no lane accesses another lane's element.
    Allocations of an iteration are private. In an array with steps, each iteration may have its own
    columns, or read other steps than it writes.
    """
    own = {*all_allocated(loop.body), *_apart(loop, states)}
    stored: dict[Buffer, Expr] = {}
    shared: set[Buffer] = set()
    for stmt in walk(loop.body):
        if isinstance(stmt, Store) and stmt.buffer not in own:
            if stmt.buffer in stored:
                shared.add(stmt.buffer)
            if stored.setdefault(stmt.buffer, stmt.index) is not stmt.index:
                raise VectorizeError(f"{stmt.buffer.name} is written at several places")
    for load in all_loads(loop.body):
        if load.buffer in stored:
            shared.add(load.buffer)
            if stored[load.buffer] is not load.index:
                raise VectorizeError(f"{load.buffer.name} is read at other elements than written")
    for buffer in shared:
        if not _distinct(loop, stored[buffer]):
            raise VectorizeError(f"iterations may share an element of {buffer.name}")


def _apart(loop: For, states: Mapping[str, bool]) -> set[Buffer]:
    """Return the arrays with steps in which iterations access disjoint elements."""
    if not states:
        return set()
    found = [access for access in accesses(loop.body) if access.buffer.name in states]
    apart = DependenceTest({loop.var: loop.extent}, states)
    buffers = {access.buffer for access in found}
    return {b for b in buffers if apart.shared([x for x in found if x.buffer is b]) is None}


def _distinct(loop: For, index: Expr) -> bool:
    """Whether `index` is known to differ between the iterations of a vector, or to be constant."""
    first_two = first_two_lanes(index, loop.var)
    if first_two.lanes == 1:
        return True
    if isinstance(first_two, Ramp):
        return not is_const(first_two.stride, 0)
    if not isinstance(loop.extent, Const) or not 1 <= loop.extent.value <= MAX_LANES:
        return False
    simplify = Simplifier({}).expr
    first = substitute(index, {loop.var: Const(0, loop.var.dtype)})
    apart = {
        simplify(substitute(index, {loop.var: Const(i, loop.var.dtype)}) - first)
        for i in range(loop.length)
    }
    return len(apart) == loop.extent.value and all(isinstance(a, Const) for a in apart)
