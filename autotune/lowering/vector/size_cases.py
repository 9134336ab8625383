"""Copies a function for each length that unrolled loops over a part of a size may have.

::

    unrolled (i, 0, even_part(m, 3)) {     ->     if (m <= 1) {
      f(i)                                          f(0)
    }                                             } else if (even_part(m, 3) <= 2) {
                                                    f(0); f(1)
                                                  } else {
                                                    f(0); f(1); f(2)
                                                  }

Their elements can be in registers then. One size has cases; loops over parts of others stay.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotune import te
from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Expr, SizeVar
from autotune.ir.ops import binary, const
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import free_vars, substitute_stmt, walk

#: Most copies of a function: at least the rows of any tile in registers.
_MOST = 24


def even_part(size: Any, most: Any) -> Any:
    """Return the length of parts of a size, as nearly equal as can be, of at most `most` each.

    12 is 2 parts of 6 where parts are at most 8. A part has an element at least.
    """
    parts = te.max(1, te.ceildiv(size, most))
    return te.max(1, te.min(most, te.ceildiv(size, parts)))


@dataclass(frozen=True)
class SizeCopy:
    """A copy of a function.

    `condition`: holds for the sizes that it is for, if those of the copies before do not.
    """

    condition: Expr
    function: PrimFunc


def split_by_size(function: PrimFunc) -> list[SizeCopy]:
    """Return copies of an analysed function; in each, loops over parts have a constant length.

    There is one copy if no length of an unrolled loop is an `even_part` of a size.
    """
    found = _parts(function.body)
    if found is None:
        return [SizeCopy(const(True), function)]
    size, most, part = found
    copies = []
    for length in range(1, most + 1):
        value, body, high = part, function.body, INF
        if length <= most // 2:  # only a size of this length has such parts
            value, high = size, length
        else:
            body = substitute_stmt(body, {part: const(length, part.dtype)})
        low = 0 if length == 1 else length
        body = Simplifier({size: (low, high)}).stmt(body)
        here = const(True) if length == most else binary("<=", value, const(length, value.dtype))
        copies.append(SizeCopy(here, function.with_body(body)))
    return copies


def join_copies(copies: Sequence[SizeCopy]) -> PrimFunc:
    """Return the function that does what the first copy does whose condition holds.

    Storage that each copy has is allocated once: an allocation costs a call time, and more if the
    memory is returned to the system at its end.
    """
    *others, last = copies
    if not others:
        return last.function
    owned = [set(_allocated(copy.function.body)) for copy in copies]
    shared = [b for b in _allocated(last.function.body) if all(b in own for own in owned)]
    body, offsets = _without(shared, last.function.body), dict(last.function.info.line_offsets)
    refused = list(last.function.info.not_vectorized)
    for copy in reversed(others):
        info, known = copy.function.info, {buffer: var for var, buffer in offsets.items()}
        same = {var: known[to] for var, to in info.line_offsets.items() if to in known}
        offsets |= {var: to for var, to in info.line_offsets.items() if to not in known}
        refused += info.not_vectorized
        own = _without(shared, copy.function.body)
        body = If(copy.condition, substitute_stmt(own, same), body)
    for buffer in reversed(shared):
        body = Allocate(buffer, body)
    info = replace(last.function.info, line_offsets=offsets, not_vectorized=tuple(refused))
    return replace(last.function, body=body, info=info)


def _allocated(body: Stmt) -> list[Buffer]:
    """Return the buffers that a body begins with."""
    return [body.buffer, *_allocated(body.body)] if isinstance(body, Allocate) else []


def _without(shared: Collection[Buffer], body: Stmt) -> Stmt:
    """Return a body without some of the allocations that it begins with."""
    if not isinstance(body, Allocate):
        return body
    rest = _without(shared, body.body)
    return rest if body.buffer in shared else replace(body, body=rest)


def _parts(body: Stmt) -> tuple[SizeVar, int, Expr] | None:
    """Return a size, the largest length of its parts, and that length, in unrolled loops."""
    loops = (s for s in walk(body) if isinstance(s, For) and s.kind is LoopKind.UNROLLED)
    extents = dict.fromkeys(loop.extent for loop in loops)
    found = [part for part in map(_part, extents) if part is not None and part[1] <= _MOST]
    return min(found, key=lambda part: part[1], default=None)


def _part(extent: Expr) -> tuple[SizeVar, int, Expr] | None:
    """Return the size that a length is a part of, its limit, and the length; None if it is none."""
    sizes = {*free_vars(extent)}
    size = sizes.pop() if len(sizes) == 1 else None
    known = Canonical()
    _, most = known.known.bounds(extent)
    if not isinstance(size, SizeVar) or most == INF:
        return None
    return (size, int(most), extent) if extent is known.expr(even_part(size, int(most))) else None
