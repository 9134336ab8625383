"""Copies a function for each small value of a size that says how often unrolled loops run.

::

    unrolled (i, 0, max(1, min(3, m))) {     ->     if (m < 2) {
      f(i)                                            f(0)
    }                                               } else if (m < 3) {
                                                      f(0); f(1)
                                                    } else {
                                                      f(0); f(1); f(2)
                                                    }

Their elements can be in registers then. One size has cases; loops over others stay.
"""

from __future__ import annotations

from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import BinaryOp, Const, Expr, SizeVar
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import free_vars, walk, walk_expr

#: Most copies of a function: at least `_FEW` of `rules/contractions/packed_panels.py`, which relies
#: on a copy for each number of rows.
_MOST = 16


def split_by_size(function: PrimFunc) -> PrimFunc:
    """Return an analysed function in which unrolled loops run a constant number of times.

    It is as it was if no length of such a loop is the minimum of a size and a number.
    """
    found = _limit(function.body)
    if found is None:
        return function
    size, limit = found
    body = Simplifier({size: (limit, INF)}).stmt(function.body)
    for value in range(limit - 1, 0, -1):
        low = 0 if value == 1 else value
        own = Simplifier({size: (low, value)}).stmt(function.body)
        body = If(binary("<", size, const(value + 1, size.dtype)), own, body)
    return function.with_body(body)


def _limit(body: Stmt) -> tuple[SizeVar, int] | None:
    """Return a size, and the number from which on it makes no difference to unrolled loops."""
    limits: dict[SizeVar, int] = {}
    for loop in walk(body):
        if isinstance(loop, For) and loop.kind is LoopKind.UNROLLED:
            for size, limit in _minima(loop.extent):
                limits[size] = max(limits.get(size, 0), limit)
    least = min(limits.items(), key=lambda item: item[1], default=None)
    return None if least is None or least[1] > _MOST else least


def _minima(extent: Expr) -> list[tuple[SizeVar, int]]:
    """Return the minima of a size and a number in a length that depends on this size alone."""
    return [
        (size, int(limit.value))
        for node in walk_expr(extent)
        if isinstance(node, BinaryOp) and node.op == "min"
        for size, limit in (node.children, node.children[::-1])
        if isinstance(size, SizeVar) and isinstance(limit, Const) and {*free_vars(extent)} == {size}
    ]
