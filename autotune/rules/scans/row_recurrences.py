"""Running sums along rows in vectors: sums inside each vector, combined with all before it.

A row is divided into vectors, and these into groups. Lanes compute the sums inside groups, which
are sums of adjacent elements. A scan over the vectors adds up their sums. A result is the sum
inside its group, plus the groups before it in its vector, plus the vectors before that. Products,
maxima and minima are computed in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from autotune import te
from autotune.rules.scans.recurrences import Recurrence

GROUP: Final = 4
"""Elements of a group: a vector of 16 takes three additions inside groups and three across."""


@dataclass(frozen=True)
class RowSums:
    """The phases; if each row is one block, the first three are None.

    Attributes
    ----------
    lane_sums : Tensor (blocks, ..., lanes) or None
        Sum of each lane of a block.
    ends : Tensor (blocks, ...) or None
        Sum of each block.
    starts : Tensor (blocks, ...) or None
        Sum of all before each block; a scan.
    groups : Tensor (..., blocks, vectors, lanes)
        Sums inside groups.
    before : Tensor (vectors, ..., blocks)
        Sum of all before each vector; a scan.
    length : int or Expr
        Steps of a block.
    lanes : int
        Elements of a vector.
    series : Recurrence
    """

    lane_sums: Any
    ends: Any
    starts: Any
    groups: Any
    before: Any
    length: Any
    lanes: int
    series: Recurrence

    def element(self, j: Any, *i: Any) -> Any:
        """Return the value of a row at a step."""
        c, b, lane = j // self.length, j % self.length // self.lanes, j % self.lanes
        groups, zero = self.groups, self.series.neutral
        own = (
            te.if_then_else(lane >= by, groups[(*i, c, b, lane - by)], zero)
            for by in range(0, self.lanes, GROUP)
        )
        return self.series.combine(self.before[(b, *i, c)], reduce(self.series.combine, own))


def row_sums(series: Recurrence, lanes: int, length: Any = None) -> RowSums:
    """Return the values of a recurrence without weights in vectors of `lanes` elements.

    Rows are in blocks of `length` elements, a multiple of `lanes`, or whole if that is None.
    """
    rows, n, zero, combine = series.columns, series.steps, series.neutral, series.combine
    whole = length is None
    if whole:
        length = te.ceildiv(n, lanes) * lanes
    blocks, vectors = te.ceildiv(n, length), te.ceildiv(length, lanes)

    def value(i: Any, c: Any, b: Any, lane: Any, behind: int = 0) -> Any:
        """Return an element, or one some lanes before it; neutral if the vector has none."""
        at = c * length + b * lanes + lane - behind
        inside = at < n
        inside = te.all(lane >= behind, inside) if behind else inside
        return te.if_then_else(inside, series.value(at, *i), zero)

    starts: Any
    lane_sums, ends, starts = (None,) * 3
    if not whole:
        lane_sums, ends, starts = _starts(series, value, blocks, vectors, lanes)

    def group(*index: Any) -> Any:
        *i, c, b, lane = index
        return reduce(combine, (value(i, c, b, lane, by) for by in range(GROUP)))

    groups = te.compute((*rows, blocks, vectors, lanes), group, name="groups")
    inside = te.placeholder((vectors, *rows, blocks), series.dtype, name="inside")

    def first(_: Any, *index: Any) -> Any:
        *i, c = index
        return zero if whole else starts[(c, *i)]

    def later(b: Any, *index: Any) -> Any:
        own = (groups[(*index, b - 1, end)] for end in range(GROUP - 1, lanes, GROUP))
        return combine(inside[(b - 1, *index)], reduce(combine, own))

    before = te.scan(
        te.compute((1, *rows, blocks), first, name="first"),
        te.compute(inside.shape, later, name="later"),
        inside,
        name="before",
    )
    return RowSums(lane_sums, ends, starts, groups, before, length, lanes, series)


def _starts(
    series: Recurrence, value: Any, blocks: Any, vectors: Any, lanes: int
) -> tuple[Any, Any, Any]:
    """Return the sums of lanes of blocks, of blocks, and of all before each block."""
    k = te.reduce_axis((0, vectors), name="k")

    def lane_sum(c: Any, *index: Any) -> Any:
        *i, lane = index
        return series.reduce(value(i, c, k.var, lane), k)

    shape = (blocks, *series.columns)
    lane_sums = te.compute((*shape, lanes), lane_sum, name="lane_sums")
    ends = te.compute(
        shape,
        lambda *i: reduce(series.combine, (lane_sums[(*i, lane)] for lane in range(lanes))),
        name="ends",
    )
    return lane_sums, ends, series.before(blocks, ends).by_steps().scan
