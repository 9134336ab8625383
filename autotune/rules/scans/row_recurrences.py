"""Running sums along rows in vectors: sums inside each vector, combined with all before it.

A row is divided into vectors. Each lane adds the lane before it, then the sum two lanes before it,
then the one four lanes before it, and so on, until it has the sum inside its vector. A scan over
the vectors adds up their sums. Products, maxima and minima are computed in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from autotune import te
from autotune.rules.scans.recurrences import Recurrence

#: Least number of chunks in a row.
_CHUNKS: Final = 16


@dataclass(frozen=True)
class RowSums:
    """The phases."""

    #: Tensors (chunks, ..., lanes): sum of each lane of a chunk, and those of half as many lanes
    #: each; the last one, (chunks, ...), is the sum of each chunk. Empty if a row is one block.
    ends: list[Any]
    #: Tensors (..., blocks, vectors, lanes): sums of 2, 4, 8, ... lanes; the last ones are
    #: those of all lanes up to each.
    within: list[Any]
    #: Tensor (vectors, ..., blocks): sum of all before each vector; a scan.
    before: Any
    #: Steps of a block.
    length: Any
    #: Elements of a vector.
    lanes: int
    series: Recurrence

    def element(self, j: Any, *i: Any) -> Any:
        """Return the value of a row at a step."""
        c, b, lane = j // self.length, j % self.length // self.lanes, j % self.lanes
        return self.series.combine(self.before[(b, *i, c)], self.within[-1][(*i, c, b, lane)])


def row_sums(series: Recurrence, lanes: int, parts: Any = None) -> RowSums:
    """Return the values of a recurrence without weights in vectors of `lanes` elements.

    Rows are whole, or divided into some number of parts, of which each starts from the sum of all
    before. All parts but the last are summed first, in chunks, so that there is work for as many
    threads as there are parts.
    """
    rows, n, zero, combine = series.columns, series.steps, series.neutral, series.combine
    chunks = 1 if parts is None else te.ceildiv(_CHUNKS, parts)
    chunk = te.ceildiv(n, (1 if parts is None else parts) * chunks * lanes)
    vectors = chunk * chunks
    length = vectors * lanes
    blocks = te.ceildiv(n, length)

    def value(i: Any, at: Any, lane: Any, behind: int = 0) -> Any:
        """Return an element, or one some lanes before it; neutral if the vector has none."""
        at = at + lane - behind
        inside = at < n
        inside = te.all(lane >= behind, inside) if behind else inside
        return te.if_then_else(inside, series.value(at, *i), zero)

    ends: list[Any] = []
    starts: Any = None
    if parts is not None:
        count = (blocks - 1) * chunks + 1  # The sum of the last part is not needed.
        ends = _ends(series, value, count, chunk, lanes)
        starts = series.before_blocks(ends[-1])
    within: list[Any] = []

    def pair(by: int, *index: Any) -> Any:
        """Combine a lane with the one some lanes before it."""
        *i, c, b, lane = index
        if not within:
            at = c * length + b * lanes
            return combine(value(i, at, lane), value(i, at, lane, by))
        before = te.if_then_else(lane >= by, within[-1][(*i, c, b, lane - by)], zero)
        return combine(within[-1][index], before)

    for by in (1 << n for n in range(lanes.bit_length() - 1)):
        shape = (*rows, blocks, vectors, lanes)
        within.append(te.compute(shape, partial(pair, by), name=f"sums{2 * by}"))
    inside = te.placeholder((vectors + 1, *rows, blocks), series.dtype, name="inside")

    def first(_: Any, *index: Any) -> Any:
        *i, c = index
        return zero if starts is None else starts[(c * chunks, *i)]

    def later(b: Any, *index: Any) -> Any:
        return combine(inside[(b - 1, *index)], within[-1][(*index, b - 1, lanes - 1)])

    before = te.scan(
        te.compute((1, *rows, blocks), first, name="first"),
        te.compute(inside.shape, later, name="later"),
        inside,
        name="before",
    )
    return RowSums(ends, within, before, length, lanes, series)


def _ends(series: Recurrence, value: Any, count: Any, vectors: Any, lanes: int) -> list[Any]:
    """Return the sums of lanes of chunks, those of half as many lanes each, and of chunks."""
    k = te.reduce_axis((0, vectors), name="k")

    def lane_sum(c: Any, *index: Any) -> Any:
        *i, lane = index
        return series.reduce(value(i, (c * vectors + k.var) * lanes, lane), k)

    shape = (count, *series.columns)
    stages = [te.compute((*shape, lanes), lane_sum, name="lane_sums")]

    def pair(half: int, source: Any, *index: Any) -> Any:
        *i, lane = index
        return series.combine(source[(*i, lane)], source[(*i, lane + half)])

    for half in (lanes >> n for n in range(1, lanes.bit_length() - 1)):
        of_two = partial(pair, half, stages[-1])
        stages.append(te.compute((*shape, half), of_two, name=f"sums_of_{half}_lanes"))
    ends = te.compute(shape, lambda *i: pair(1, stages[-1], *i, 0), name="ends")
    return [*stages, ends]
