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
from autotune.ir.ops import const
from autotune.rules.scans.recurrences import Recurrence

#: Least number of chunks in a row.
_CHUNKS: Final = 16


@dataclass(frozen=True)
class RowSums:
    """The phases."""

    #: Tensors (chunks, ..., lanes): sum of each lane of a chunk, and those of half as many lanes
    #: each; the last one, (chunks, ...), is the sum of each chunk. Empty if rows are whole.
    ends: list[Any]
    #: Tensors (..., parts, vectors, lanes): sums of 2, 4, 8, ... lanes; the last ones are those of
    #: all lanes up to each. If the recurrence has weights, each is a pair with their products.
    within: list[tuple[Any, ...]]
    #: Tensor (vectors, ..., parts): sum of all before each vector; a scan.
    before: Any
    #: Steps of a part.
    length: Any
    #: Elements of a vector.
    lanes: int
    series: Recurrence

    def element(self, j: Any, *i: Any) -> Any:
        """Return the value of a row at a step."""
        c, b, lane = j // self.length, j % self.length // self.lanes, j % self.lanes
        effect = [tensor[(*i, c, b, lane)] for tensor in self.within[-1]]
        return self.series.after(effect, self.before[(b, *i, c)])


def row_sums(series: Recurrence, lanes: int, parts: Any = None) -> RowSums:
    """Return the values of a recurrence in vectors of `lanes` elements.

    Rows are whole, or, if there are no weights, divided into some number of parts, of which each
    starts from the sum of all before. All parts but the last are summed first, in chunks, so that
    there is work for as many threads as there are parts.
    """
    rows, n, zero = series.columns, series.steps, series.neutral
    chunks = 1 if parts is None else te.ceildiv(_CHUNKS, parts)
    chunk = te.ceildiv(n, (1 if parts is None else parts) * chunks * lanes)
    vectors = chunk * chunks
    length = vectors * lanes
    number = te.ceildiv(n, length)

    def effect(i: Any, at: Any, lane: Any, behind: int = 0) -> list[Any]:
        """Return the effect of a step, or of one some lanes before it; none outside the vector."""
        at = at + lane - behind
        inside = at < n
        inside = te.all(lane >= behind, inside) if behind else inside
        found = [te.if_then_else(inside, series.value(at, *i), zero)]
        if series.weight is not None:
            one = const(1, series.dtype)
            found.append(te.if_then_else(te.all(inside, at > 0), series.weight(at, *i), one))
        return found

    ends: list[Any] = []
    starts: Any = None
    if parts is not None:
        count = (number - 1) * chunks + 1  # The sum of the last part is not needed.
        ends = _ends(series, effect, count, chunk, lanes)
        starts = series.before_blocks(ends[-1])
    within: list[tuple[Any, ...]] = []

    def pair(by: int, *index: Any) -> Any:
        """Combine the effect of lanes with that of lanes before them."""
        *i, c, b, lane = index
        at = c * length + b * lanes
        if not within:
            return series.both(effect(i, at, lane, by), effect(i, at, lane))
        nothing = (zero, const(1, series.dtype))
        earlier = [
            te.if_then_else(lane >= by, tensor[(*i, c, b, lane - by)], none)
            for tensor, none in zip(within[-1], nothing, strict=False)
        ]
        return series.both(earlier, [tensor[index] for tensor in within[-1]])

    for by in (1 << n for n in range(lanes.bit_length() - 1)):
        shape = (*rows, number, vectors, lanes)
        within.append(tuple(_computed(shape, partial(pair, by), f"sums{2 * by}")))
    inside = te.placeholder((vectors, *rows, number), series.dtype, name="inside")

    def first(_: Any, *index: Any) -> Any:
        *i, c = index
        return zero if starts is None else starts[(c * chunks, *i)]

    def later(b: Any, *index: Any) -> Any:
        whole = [tensor[(*index, b - 1, lanes - 1)] for tensor in within[-1]]
        return series.after(whole, inside[(b - 1, *index)])

    before = te.scan(
        te.compute((1, *rows, number), first, name="first"),
        te.compute(inside.shape, later, name="later"),
        inside,
        name="before",
    )
    return RowSums(ends, within, before, length, lanes, series)


def _computed(shape: Any, element: Any, name: str) -> list[Any]:
    """Return the tensors of a stage that stores one element of each."""
    made = te.compute(shape, element, name=name)
    return made if isinstance(made, list) else [made]


def _ends(series: Recurrence, effect: Any, count: Any, vectors: Any, lanes: int) -> list[Any]:
    """Return the sums of lanes of chunks, those of half as many lanes each, and of chunks."""
    k = te.reduce_axis((0, vectors), name="k")

    def lane_sum(c: Any, *index: Any) -> Any:
        *i, lane = index
        (value,) = effect(i, (c * vectors + k.var) * lanes, lane)
        return series.reduce(value, k)

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
