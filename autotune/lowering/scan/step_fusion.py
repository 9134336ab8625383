"""Loop fusion of scans: loops before and after the steps of a scan join them.

::

    for (i, 0, 32)                              for (i, 0, 32)
      vectorized (j, 0, 16)                       vectorized (j, 0, 16)
        W[i*16 + j] = f(i*16 + j)                   W[i*16 + j] = f(i*16 + j)
    for (t, 0, 31)                                vectorized (j, 0, 16)
      S[t + 1] = S[t] + W[t*16 + 15]     ->         Y[i*16 + j] = S[i] + W[i*16 + j]
    for (k, 0, 32)                                if (i < 31)
      vectorized (j, 0, 16)                         S[i + 1] = S[i] + W[i*16 + 15]
        Y[k*16 + j] = S[k] + W[k*16 + j]

Values are then still in registers where they are needed, and other work is done while a step waits
for the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from autotune.ir.algebra.polynomials import Poly, add, to_expr
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Const, Var
from autotune.ir.ops import binary
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Seq, Stmt, allocated, seq
from autotune.ir.visitor import all_accessed, all_written, substitute_stmt, transform
from autotune.lowering.dependence.accesses import Access, accesses, linear_in, varies
from autotune.lowering.dependence.dependence_test import DependenceTest


def fuse_steps(function: PrimFunc) -> PrimFunc:
    """Return the function with loops over steps of scans fused with others of about their length.

    This is legal if no iteration of the later loop needs what the earlier one computes, or
    overwrites what it reads, in a later iteration.
    """
    states = function.info.scan_states

    def fused(node: Stmt) -> Stmt | None:
        return _fused(node, states) if isinstance(node, Seq) and node.stmts else None

    return function.with_body(transform(function.body, after=fused)) if states else function


def _fused(node: Seq, states: Mapping[str, bool]) -> Stmt | None:
    """Return a sequence with loops fused into a loop over steps; None if there are none."""
    *left, last = node.stmts
    buffers = []
    while isinstance(last, Allocate):  # may begin with the sequence
        buffers.append(last.buffer)
        last = last.body
    left += last.stmts if isinstance(last, Seq) else [last]
    found = next((n for n, stmt in enumerate(left) if _carries(stmt, states)), None)
    if found is None:
        return None
    is_same = True
    for other in [*range(found + 1, len(left)), *reversed(range(found))]:
        first, second = sorted((found, other))
        between = left[first + 1 : second]
        if all(_are_independent(left[other], stmt) for stmt in between):
            joined = _joined(left[first], left[second])
            if joined is not None:
                left[found], left[other] = joined, Seq(())
                is_same = False
    return None if is_same else allocated(buffers, seq(*left))


def _carries(stmt: Stmt, states: Mapping[str, bool]) -> bool:
    """Whether a statement is a loop of which an iteration reads a state that another one writes."""
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.SERIAL:
        return False
    if not any(buffer.name in states for buffer in all_written(stmt)):
        return False
    found = [access for access in accesses(stmt.body) if access.buffer.name in states]
    return DependenceTest({stmt.var: stmt.extent}, {}).shared(found) is not None


def _are_independent(a: Stmt, b: Stmt) -> bool:
    """Whether two statements may change places."""
    return all_written(a).isdisjoint(all_accessed(b)) and all_written(b).isdisjoint(all_accessed(a))


def _joined(first: Stmt, second: Stmt) -> Stmt | None:
    """Return two loops as one; None if they are no loops of about one length, or need their order.

    The body of the second comes first if it needs nothing of the other in the same iteration.
    """
    if not isinstance(first, For) or not isinstance(second, For):
        return None
    if any(loop.kind is not LoopKind.SERIAL for loop in (first, second)):
        return None
    longer = _longer(first, second)
    if longer is None:
        return None
    early, late = (_within(loop, longer) for loop in (first, second))
    pairs = [
        (one, other)
        for one, other in product(accesses(late), accesses(early))
        if one.buffer is other.buffer and (one.writes or other.writes)
    ]
    if all(_is_behind(one, other, longer.var, 0) for one, other in pairs):
        return longer.with_body(seq(late, early))
    if all(_is_behind(one, other, longer.var, 1) for one, other in pairs):
        return longer.with_body(seq(early, late))
    return None


def _longer(first: For, second: For) -> For | None:
    """Return the longer of two loops; None if it is longer by more than one iteration."""
    if first.extent is second.extent:
        return first
    a, b = first.extent, second.extent
    if not isinstance(a, Const) or not isinstance(b, Const) or abs(a.value - b.value) > 1:
        return None
    return first if a.value > b.value else second


def _within(loop: For, longer: For) -> Stmt:
    """Return an iteration of a loop inside one that is perhaps longer."""
    body = substitute_stmt(loop.body, {loop.var: longer.var})
    is_all = loop.extent is longer.extent
    return body if is_all else If(binary("<", longer.var, loop.extent), body)


def _is_behind(one: Access, other: Access, var: Var, by: int) -> bool:
    """Whether an access is before another one that is `by` iterations of a loop later, or more."""
    known = Simplifier()
    (low, moved), (high, moved_other) = (linear_in(var, access, known) for access in (one, other))
    after: Poly = {(): by * moved}
    distance = add(add(high, low, -1), after)
    if moved != moved_other or moved <= 0 or varies(distance, var):
        return False
    return known.bounds(to_expr(distance, one.index.dtype))[0] > 0
