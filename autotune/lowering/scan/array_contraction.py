"""Array contraction: a temporary keeps what one iteration of a loop needs of it.

::

    S[0] = 0                                      s[0] = 0
    for (t, 0, 32)                                for (t, 0, 32)
      vectorized (j, 0, 16)                         vectorized (j, 0, 16)
        W[t*16 + j] = f(t*16 + j)          ->         w[j] = f(t*16 + j)
      vectorized (j, 0, 16)                         vectorized (j, 0, 16)
        Y[t*16 + j] = S[t] + W[t*16 + j]              Y[t*16 + j] = s[0] + w[j]
      S[t + 1] = S[t] + W[t*16 + 15]                s[0] = s[0] + w[15]

Such temporaries become registers.
"""

from __future__ import annotations

from dataclasses import replace

from autotune.ir.algebra.polynomials import Poly, add, to_expr, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Expr
from autotune.ir.ops import const
from autotune.ir.stmt import (
    Allocate,
    For,
    LoopKind,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    allocated,
    seq,
    split_allocations,
    split_guards,
)
from autotune.ir.visitor import AccessRewriter, all_accessed, transform
from autotune.lowering.dependence.accesses import Access, accesses, linear_in, varies

#: Index of each access, and how many iterations later its element is the one of an iteration.
_Turns = dict[Expr, int]


def contract_arrays(function: PrimFunc) -> PrimFunc:
    """Return a function with scans whose temporaries hold what an iteration needs, where possible.

    The temporary is used in one serial loop, and perhaps written before. Each iteration has a part
    of its own, as long as the loop moves on by, and uses no other, or only the next one after it.
    """
    info = function.info
    if not info.scan_states:
        return function
    gone: set[str] = set()

    def contracted(node: Stmt) -> Stmt | None:
        if not isinstance(node, Allocate):
            return None
        made = _contracted(node)
        if made is not None:
            gone.add(node.buffer.name)
        return made

    result = function.with_body(transform(function.body, after=contracted))
    states = {name: apart for name, apart in info.scan_states.items() if name not in gone}
    return replace(result, info=replace(info, scan_states=states)) if gone else result


def _contracted(node: Allocate) -> Stmt | None:
    """Return an allocation with a smaller array; None where that may not be."""
    others, inner = split_allocations(node.body)
    stmts = list(inner.stmts) if isinstance(inner, Seq) else [inner]
    using = [n for n, stmt in enumerate(stmts) if node.buffer in all_accessed(stmt)]
    loop = stmts[using[-1]] if using else None
    if not isinstance(loop, For) or loop.kind is not LoopKind.SERIAL:
        return None
    found = _turns(loop, node.buffer)
    if found is None:
        return None
    part, turns = found
    earlier = [access for n in using[:-1] for access in accesses(stmts[n])]
    if not all(_is_first(access, part) for access in earlier if access.buffer is node.buffer):
        return None
    whole = node.buffer
    small = Buffer(whole.name, whole.dtype, (const(part),), whole.scope)

    def place(buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        if buffer is not whole:
            return buffer, index
        passed: Poly = {(loop.var,): part, (): part * turns.get(index, 0)}
        return small, to_expr(add(to_poly(index), passed, -1), index.dtype)

    start = AccessRewriter(lambda buffer, index: (small if buffer is whole else buffer, index))
    for n in using[:-1]:
        stmts[n] = start.stmt(stmts[n])
    stmts[using[-1]] = loop.with_body(AccessRewriter(place).stmt(loop.body))
    return allocated([*others, small], seq(*stmts))


def _turns(loop: For, buffer: Buffer) -> tuple[int, _Turns] | None:
    """Return by how much a loop moves on in an array, and the turn of each element it accesses.

    None unless all that is of one turn comes before what is of the next one.
    """
    turns: _Turns = {}
    length, last = 0, 0
    for stmt in loop.body.stmts if isinstance(loop.body, Seq) else [loop.body]:
        own = [access for access in accesses(stmt) if access.buffer is buffer]
        for access in own:
            known = Simplifier()
            rest, moved = linear_in(loop.var, access, known)
            low, high = known.bounds(to_expr(rest, access.index.dtype))
            if moved <= 0 or (length and moved != length) or varies(rest, loop.var):
                return None
            length = moved
            if not 0 <= low <= high < 2 * length or low // length != high // length:
                return None
            turn = int(low // length)
            if turns.setdefault(access.index, turn) != turn or turn < last:
                return None
            last = turn
        is_store = isinstance(split_guards(stmt)[1], Store)
        if not is_store and len({turns[access.index] for access in own}) > 1:
            return None
    return (length, turns) if length else None


def _is_first(access: Access, length: int) -> bool:
    """Whether an access before a loop writes what its first iteration uses."""
    known = Simplifier()
    rest, _ = linear_in(None, access, known)
    low, high = known.bounds(to_expr(rest, access.index.dtype))
    return access.writes and 0 <= low <= high < length
