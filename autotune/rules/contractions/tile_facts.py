"""What the estimated time of a contraction in tiles depends on: what is read, and from where."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.expr import Read
from autotune.rules.contractions.contraction import AxisGroup, TiledContraction, packs
from autotune.rules.stage_graph import extent, is_open, likely_shape
from autotune.rules.threads import PARALLEL, bytes_of

#: Bytes of a page, and of the caches of a core.
PAGE_BYTES: Final = 4096
CACHE_BYTES: Final = 1 << 20

#: Most rows of a result with sums in the cache, and of one for which tasks pack operands.
MOST_ROWS: Final = 128
_ROWS_OF_TASKS: Final = 192

#: Rows of a tile along one axis, whatever the result.
_HEIGHTS: Final = (6, 4, 3, 2, 1, 5, 7, 8, 10, 12, 14, 16, 24)

#: Steps of a sum that are written out if registers remain, at most.
_FEW_STEPS: Final = 8

#: Cycles of an element that is packed from another place than its neighbour, alone or in a
#: transposed tile.
_STRIDED: Final = 1.5
_TRANSPOSED: Final = 0.6

#: Cycles of a vector that is read across the boundary of cache lines, and of a step to another page
#: of a tensor that exceeds the caches of a core.
_UNALIGNED: Final = 1.3
_PAGE: Final = 12

#: Cycles that the units which multiply need for each further vector that a strided vector is
#: gathered from.
_SHUFFLE: Final = 2

#: Cycles of each element of a panel that exceeds so many bytes: caches; what allocators keep.
_FETCHED: Final = ((1 << 19, 1.0), (1 << 22, 1.5), (1 << 25, 1.5))
#: The same if each task packs its part of it: cycles of reading it from memory.
_FETCHED_BY_TASKS: Final = ((0, 0.6), (1 << 25, 1.5))

#: As measured without AVX-512, by the bytes of a tensor; each limit that it exceeds adds its
#: cycles. They are of a step to another page, of an element that a task packs, and of a vector of
#: a row that is read as a whole.
_PAGE_BY_BYTES: Final = ((0, 12.0), (4_000_000, 25.0), (8_000_000, 40.0), (16_000_000, 90.0))
_PACKED_BY_BYTES: Final = (
    (CACHE_BYTES, 1.0), (4_000_000, 0.5), (8_000_000, 2.0), (16_000_000, 3.0)
)  # fmt: skip
_STREAMED_BY_BYTES: Final = ((0, 0.9), (CACHE_BYTES, 0.9), (4_000_000, 1.5), (8_000_000, 3.5))

#: How much more than the average a thread may have to do if tasks pack operands.
_UNEVEN: Final = 1.2

#: Panels of so many elements, with so many vectors in a row for each thread, are estimated as
#: packed by tasks.
_LEAST_PANEL: Final = 1 << 14
_VECTORS_PER_THREAD: Final = 8


@dataclass(frozen=True, slots=True)
class Registers:
    """What tiles may need.

    `count`: vector registers.
    `lanes`: lanes of a vector register.
    `widths`: possible vectors in a row.
    `threads`: threads that share the work.
    """

    count: int
    lanes: int
    widths: tuple[int, ...]
    threads: int

    @property
    def sums(self) -> int:
        """Largest number of vectors of sums."""
        return self.count - 2

    @property
    def embeds(self) -> bool:
        """Whether multiply-adds read an element of a row by themselves, as those of AVX-512 do."""
        return self.count >= 32


@dataclass(frozen=True, slots=True)
class StepReads:
    """What is read in each step of a sum.

    `rows`: for each group of rows, by the number of rows: how many of them read different elements.
    `loads`: cycles of a load, for each vector of a row if `is_wide`, else for each row.
    `is_wide`: whether it depends on the vector.
    `shuffles`: cycles of a vector in the units that multiply, to gather its elements.
    `pitch`: largest distance of two steps of the sum in bytes, 0 if they follow each other.
    `spread`: bytes of a cache that its steps evict, if it is not packed.
    `page_steps`: the part of the steps that go to another page.
    `page`: cycles of such a step.
    `in_place`: whether it is a vector that is not packed.
    `is_large`: whether the tensor exceeds the caches of a core.
    `long_rows`: cycles of a vector of a row that is read as a whole.
    """

    rows: tuple[tuple[float, ...], ...]
    loads: float
    is_wide: bool
    pitch: int
    spread: int = 0
    in_place: bool = False
    is_large: bool = False
    shuffles: float = 0
    page_steps: float = 0
    page: float = 0
    long_rows: float = 0


@dataclass(frozen=True, slots=True)
class TileFacts:
    """What the estimate depends on.

    `rows`: elements along the groups that have rows of tiles; `others`: along all further groups.
    `columns`, `lanes`: elements along the vector, and of a vector.
    `steps`: of a sum.
    `window`: innermost steps in which rows read what others read in other steps, or 1.
    `slides`: along which groups of rows they do.
    `shared`: as of the contraction.
    `stored`, `packing`: cycles of storing a vector, and of all packing.
    """

    rows: tuple[int, ...]
    others: int
    columns: int
    lanes: int
    steps: int
    window: int
    slides: tuple[bool, ...]
    shared: int
    stored: float
    packing: float
    operands: tuple[StepReads, ...]


def tile_heights(size: int) -> tuple[int, ...]:
    """Return the possible rows of a tile along a group of so many elements, at least one.

    They are those of the list, and for each the lowest with as few tiles: 13 rows may have one tile
    of 13, or two of 7.
    """
    counts = (-(-size // most) for most in _HEIGHTS)
    even = (-(-size // count) for count in counts)
    return tuple(dict.fromkeys(n for n in (*_HEIGHTS, *even) if n <= size))


def packings(way: TiledContraction, constants: Collection[te.Tensor]) -> list[frozenset[Read]]:
    """Return the possible sets of packed reads: those that must be, and all that may be packed."""
    must = frozenset(r for r in way.vector_reads if not way.along(r))
    may = must | {r for r in way.vector_reads if packs(way, r, constants)}
    return [must] if may == must else [may, must]


def packed_by_tasks(
    way: TiledContraction, read: Read, threads: int, columns: int, rows: int
) -> bool:
    """Whether each task packs its part of an operand, since it has all rows that read this part.

    Not if tasks are so few that threads have unequal parts of them. All threads then pack a large
    operand before the tasks, or one of them a small one.

    `columns`: of a tile.
    `rows`: most rows of a task.
    """
    tasks = math.prod(g.size for g in way.batches) * -(-way.vector.size // columns)
    is_even = -(-tasks // threads) * threads <= _UNEVEN * tasks
    return is_even and _rows_in_tasks(way, read, min(rows, _ROWS_OF_TASKS))


def _rows_in_tasks(way: TiledContraction, read: Read, most: int) -> bool:
    """Whether all rows that read a part of an operand are at most so many."""
    used, _ = way.panel_of(read)
    return math.prod(g.size for g in way.rows) <= most and not any(g in way.rows for g in used)


def facts_of(
    way: TiledContraction,
    packed: Collection[Read],
    registers: Registers,
    constants: Collection[te.Tensor],
) -> TileFacts:
    """Return what the time of any tiles depends on, if some operands are packed."""
    tiled = way.rows[:2]
    operands = []
    for read in dict.fromkeys(way.operands.values()):
        rows = tuple(_distinct(way, read, g, max(_HEIGHTS)) for g in tiled)
        if not way.varies(read):
            steps, page = _page_steps(way, read), _page(read, registers)
            spread = _spread(way, read)
            operands.append(StepReads(rows, 0.5, False, 0, spread, page_steps=steps, page=page))
        else:
            loads = max(0.5, way.lanes / registers.lanes)
            if read in packed:
                operands.append(StepReads(rows, loads, True, 0))
            else:
                operands.append(_in_place(way, read, rows, loads, registers))
    others = (g.size for g in way.groups if g is not way.vector and g not in tiled)
    packing = sum(_packing(way, r, registers) for r in packed if r.tensor not in constants)
    return TileFacts(
        tuple(g.size for g in tiled),
        math.prod(others),
        way.vector.size,
        way.lanes,
        math.prod(map(extent, way.reduced)),
        *_window(way, tiled),
        way.shared,
        _stored(way),
        packing,
        tuple(operands),
    )


def _distinct(way: TiledContraction, read: Read, group: AxisGroup, most: int) -> tuple[float, ...]:
    """Return how many different elements each number of rows reads in each step, on average."""
    if not way.uses(read, group):
        return (1.0,) * (most + 1)
    each = way.repeats(read, group)
    if each > 1 or not (way.has_shared_windows and way.slides(read, group)):
        return tuple(_groups_of_rows(n, each) for n in range(most + 1))
    step, offsets = way.window(read, group)
    reached = ({step * row + at for row in range(n) for at in offsets} for n in range(most + 1))
    return tuple(len(places) / len(offsets) for places in reached)


def _groups_of_rows(rows: int, each: int) -> float:
    """Return how many groups of `each` rows a tile reads; by default, none lies across groups."""
    return -(-rows // each) if rows == 0 or each % rows == 0 or rows % each == 0 else math.inf


def _in_place(
    way: TiledContraction,
    read: Read,
    rows: tuple[tuple[float, ...], ...],
    loads: float,
    registers: Registers,
) -> StepReads:
    steps = _steps_apart(way, read)
    step = way.along(read)
    shuffles = _SHUFFLE * (step - 1) * loads
    loads *= _UNALIGNED if step == 1 else 2 * step
    size, page = bytes_of(read.tensor), _page(read, registers)
    return StepReads(
        rows, loads, True, max(steps, default=0), _spread(way, read), True, size > CACHE_BYTES,
        shuffles, _page_steps(way, read), page, _beyond(_STREAMED_BY_BYTES, size),
    )  # fmt: skip


def _window(way: TiledContraction, groups: Sequence[AxisGroup]) -> tuple[int, tuple[bool, ...]]:
    """Return in how many innermost steps rows read what others read in others, along which groups.

    These are steps that are written out if registers remain: few, and of neighbouring rows.
    """
    last = [axis for axis in way.reduced if extent(axis) > 1][-1:]
    slides = tuple(any(way.slides(r, g, last) for r in way.operands.values()) for g in groups)
    own = [(r, g) for r in way.operands.values() for g in way.rows if way.slides(r, g, last)]
    near = all(way.window(r, g)[0] == 1 for r, g in own)
    steps = extent(last[0]) if last and own and near else 1
    return (steps if steps <= _FEW_STEPS else 1), slides


def _steps_apart(way: TiledContraction, read: Read) -> list[int]:
    """Return how many bytes steps along each axis of a sum are apart; about a row in open sizes."""
    size, tensor = dtypes.itemsize(read.dtype), read.tensor
    row = likely_shape(tensor)[-1] if any(map(is_open, tensor.shape)) else 0
    return [abs(row if n is None else n) * size for n in way.strides(read, way.reduced)]


def _spread(way: TiledContraction, read: Read) -> int:
    """Return how many bytes of a cache would be evicted by what tiles of a column read.

    Rows of a power of two of bytes are kept in few of the places of a cache, as far as an address
    within a page decides it.
    """
    steps = zip(_steps_apart(way, read), map(extent, way.reduced), strict=True)
    apart, count = max(steps, default=(0, 0))
    return math.gcd(apart, PAGE_BYTES) * count


def _page(read: Read, registers: Registers) -> float:
    """Return about how many cycles a step to another page of a large tensor takes."""
    return _PAGE if registers.embeds else _beyond(_PAGE_BY_BYTES, bytes_of(read.tensor))


def _page_steps(way: TiledContraction, read: Read) -> float:
    """Return how many pages a step goes on, on average, in a large tensor."""
    if bytes_of(read.tensor) <= CACHE_BYTES:
        return 0.0
    pages, inner = 0.0, 1
    for axis, step in reversed(list(zip(way.reduced, _steps_apart(way, read), strict=True))):
        if extent(axis) > 1:
            pages += min(1.0, step / PAGE_BYTES) / inner
            inner *= extent(axis)
    return min(1.0, pages)


def _stored(way: TiledContraction) -> float:
    """Return the cycles of storing a vector of sums; across rows each lane is moved and stored."""
    if way.sums is not None:
        return 2 * math.log2(way.lanes)
    last = [g for g in way.groups if g.size > 1][-1:]
    return 1 if last == [way.vector] else 2 * way.lanes


def _packing(way: TiledContraction, read: Read, registers: Registers) -> float:
    """Return about how many cycles each of some threads needs to pack an operand."""
    size, threads = way.panel_size(read), registers.threads
    strided = _TRANSPOSED if way.lies_along_sum(read) else _STRIDED
    step = way.along(read)
    each = (2 * step + _SHUFFLE * (step - 1)) / way.lanes if step else strided
    vectors = math.prod(g.size for g in way.batches) * way.vector.size // way.lanes
    is_large = size >= _LEAST_PANEL and vectors >= _VECTORS_PER_THREAD * threads
    by_tasks = is_large and _rows_in_tasks(way, read, MOST_ROWS)
    table = _FETCHED_BY_TASKS if registers.embeds else _PACKED_BY_BYTES
    each += _beyond(table if by_tasks else _FETCHED, size * dtypes.itemsize(read.dtype))
    return size * each / (threads if by_tasks or size >= PARALLEL else 1)


def _beyond(table: Sequence[tuple[int, float]], size: int) -> float:
    """Return the sum of the cycles of all limits that some bytes exceed."""
    return sum(cycles for limit, cycles in table if size > limit)
