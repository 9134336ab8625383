"""Prefix sums along rows in vectors: sums inside each vector, plus the sum of all before it.

A row is divided into vectors, and these into groups. Lanes compute the sums inside groups, which
are sums of adjacent elements. A scan over the vectors adds up their sums. A result is the sum
inside its group, plus the groups before it in its vector, plus the vectors before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from autotune import te

GROUP = 4
"""Elements of a group: a vector of 16 takes three additions inside groups and three across."""


@dataclass(frozen=True)
class RowSums:
    """The phases; if each row is one block, the first three are None.

    Attributes
    ----------
    lane_sums : Tensor (blocks, m, lanes) or None
        Sum of each lane of a block.
    ends : Tensor (blocks, m) or None
        Sum of each block.
    starts : Tensor (blocks, m) or None
        Sum of all before each block; a scan.
    groups : Tensor (m, blocks, vectors, lanes)
        Sums inside groups.
    before : Tensor (vectors, m, blocks)
        Sum of all before each vector; a scan.
    result : Tensor (m, n)
    """

    lane_sums: Any
    ends: Any
    starts: Any
    groups: Any
    before: Any
    result: Any


def row_sums(X: Any, lanes: int, length: Any = None) -> RowSums:
    """Return the sums along the rows of X [m, n] in vectors of `lanes` elements.

    Rows are in blocks of `length` elements, a multiple of `lanes`, or whole if that is None.
    """
    (m, n), zero = X.shape, te.const(0, X.dtype)
    whole = length is None
    if whole:
        length = te.ceildiv(n, lanes) * lanes
    blocks, vectors = te.ceildiv(n, length), te.ceildiv(length, lanes)

    def value(i: Any, c: Any, b: Any, lane: Any, behind: int = 0) -> Any:
        """Return an element, or one some lanes before it; 0 if the vector or the row has none."""
        at = c * length + b * lanes + lane - behind
        inside = at < n
        return te.if_then_else(te.all(lane >= behind, inside) if behind else inside, X[i, at], zero)

    starts: Any
    extents = blocks, m, vectors, lanes
    lane_sums, ends, starts = (None,) * 3 if whole else _starts(value, extents, X.dtype)
    groups = te.compute(
        (m, blocks, vectors, lanes),
        lambda i, c, b, lane: reduce(add, (value(i, c, b, lane, by) for by in range(GROUP))),
        name="groups",
    )

    def total(i: Any, c: Any, b: Any) -> Any:
        return reduce(add, (groups[i, c, b, end] for end in range(GROUP - 1, lanes, GROUP)))

    inside = te.placeholder((vectors, m, blocks), X.dtype, name="inside")
    first = te.compute(
        (1, m, blocks), lambda _, i, c: zero if whole else starts[c, i], name="first"
    )
    later = te.compute(
        inside.shape, lambda b, i, c: inside[b - 1, i, c] + total(i, c, b - 1), name="later"
    )
    before = te.scan(first, later, inside, name="before")

    def element(i: Any, j: Any) -> Any:
        c, b, lane = j // length, j % length // lanes, j % lanes
        own = (
            te.if_then_else(lane >= by, groups[i, c, b, lane - by], zero)
            for by in range(0, lanes, GROUP)
        )
        return before[b, i, c] + reduce(add, own)

    return RowSums(
        lane_sums, ends, starts, groups, before, te.compute((m, n), element, name="Y")
    )


def _starts(value: Any, extents: tuple[Any, Any, Any, int], dtype: str) -> tuple[Any, Any, Any]:
    """Return the sums of lanes of blocks, of blocks, and of all before each block."""
    blocks, m, vectors, lanes = extents
    k = te.reduce_axis((0, vectors), name="k")
    lane_sums = te.compute(
        (blocks, m, lanes),
        lambda c, i, lane: te.sum(value(i, c, k, lane), axis=k, dtype=dtype),
        name="lane_sums",
    )
    ends = te.compute(
        (blocks, m),
        lambda c, i: reduce(add, (lane_sums[c, i, lane] for lane in range(lanes))),
        name="ends",
    )
    state = te.placeholder((blocks, m), dtype, name="start")
    none = te.compute((1, m), lambda _, i: te.const(0, dtype), name="none")
    more = te.compute((blocks, m), lambda c, i: state[c - 1, i] + ends[c - 1, i], name="more")
    return lane_sums, ends, te.scan(none, more, state, name="starts")
