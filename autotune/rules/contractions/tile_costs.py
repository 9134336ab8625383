"""Estimates the time of a contraction in tiles, to choose the knobs of its first configuration."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.expr import Read
from autotune.rules.contractions.contraction import AxisGroup, TiledContraction, packs
from autotune.rules.stage_graph import extent, is_open, likely_shape
from autotune.rules.streamed_stores import LARGE
from autotune.rules.threads import PARALLEL, bytes_of

#: Rows of a tile along one axis, whatever the result; equal parts of a result that may be a tile's.
_HEIGHTS: Final = (6, 4, 3, 2, 1, 5, 7, 8, 10, 12, 14, 16, 24)
_EQUAL_PARTS: Final = (1, 2, 3)

#: Cycles: of a multiply-add until its sum can be used, of a tile besides its sums, and of an
#: element that is packed from another place than its neighbour, alone or in a transposed tile.
_LATENCY: Final = 4
_TILE: Final = 20
_STRIDED: Final = 1.5
_TRANSPOSED: Final = 0.6

#: Part of a load's cycles that no multiply-add hides, and the same where multiply-adds read
#: elements of rows by themselves; cycles of a vector that is not in a register; steps whose single
#: vectors are read ahead.
_ISSUE: Final = 0.5
_ISSUE_EMBEDDED: Final = 0.15
_SPILL: Final = 2
_AHEAD: Final = 4

#: Cycles of a step in a loop of few steps, which is not written out for lack of registers.
_LOOP: Final = 2
_FEW_STEPS: Final = 8

#: Cycles of a vector that is read across the boundary of cache lines, of a step to another page of
#: a tensor that exceeds the caches of a core, of a vector from the second cache, and of one that is
#: masked, because tiles do not divide the result; steps of sums whose tiles are not told apart.
_UNALIGNED: Final = 1.3
_PAGE: Final = 4
_FAR: Final = 2
_MASKED: Final = 3
_SHORT: Final = 64

#: Cycles of a step to a row that is no longer in a cache, because all rows share few places of it;
#: vectors that are read side by side, and cycles of each more.
_EVICTED: Final = 8
_APART: Final = 11
_CROWDED: Final = 6

#: Cycles that the units which multiply need for each further vector that a strided vector is
#: gathered from.
_SHUFFLE: Final = 2

#: Rows of a large tensor that are read side by side as fast as memory can, cycles of each more.
_STREAMS: Final = 4
_STREAM: Final = 2
_PAGE_BYTES: Final = 4096
_NEAR_BYTES: Final = 1 << 14
_CACHE_BYTES: Final = 1 << 20

#: Cycles of each element of a panel that exceeds so many bytes: caches; what allocators keep.
_FETCHED: Final = ((1 << 19, 1.0), (1 << 22, 1.5), (1 << 25, 1.5))
#: The same if each task packs its part of it: cycles of reading it from memory.
_FETCHED_BY_TASKS: Final = ((0, 0.5), (1 << 25, 1.5))

#: As measured without AVX-512, by the bytes of a tensor; each limit that it exceeds adds its
#: cycles. They are of a step to another page, of an element that a task packs, and of a vector of
#: a row that is read as a whole.
_PAGE_BY_BYTES: Final = ((0, 12.0), (4_000_000, 25.0), (8_000_000, 40.0), (16_000_000, 90.0))
_PACKED_BY_BYTES: Final = (
    (_CACHE_BYTES, 1.0), (4_000_000, 0.5), (8_000_000, 2.0), (16_000_000, 3.0)
)  # fmt: skip
_STREAMED_BY_BYTES: Final = ((0, 0.9), (_CACHE_BYTES, 0.9), (4_000_000, 1.5), (8_000_000, 3.5))

#: Cycles of a multiply-add whose sum is in the cache, and of copying a vector of sums to the
#: result; most rows of a tile of such sums.
_SUM_IN_CACHE: Final = 2.0
_COPIED: Final = 2.0
_STREAMED_ROWS: Final = 8

#: Tasks pack operands whose panels have so many elements, for results of at most so many rows, with
#: so many vectors in a row for each thread.
_LEAST_PANEL: Final = 1 << 14
_MOST_ROWS: Final = 128
_VECTORS_PER_THREAD: Final = 8

#: Most rows of a result, and fewest vectors in one, with sums in the cache.
_FEW_ROWS: Final = 4
_LONG: Final = 8


@dataclass(frozen=True, eq=False)
class Tiling:
    """How a contraction is computed in tiles.

    `rows`: rows of a tile along groups.
    `vectors`: vectors in each row.
    `packed`: what is packed.
    `streams`: whether sums stay in the cache: a large operand is read in rows that are as long as
    possible, because it is read once or twice.
    """

    way: TiledContraction
    rows: Mapping[AxisGroup, int]
    vectors: int
    packed: frozenset[Read]
    streams: bool = False


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
    def embeds(self) -> bool:
        """Whether multiply-adds read an element of a row by themselves, as those of AVX-512 do."""
        return self.count >= 32


@dataclass(frozen=True, slots=True)
class _Operand:
    """What is read in each step of a sum.

    `rows`: for each group of rows, by the number of rows: how many of them read different elements.
    `loads`: cycles of a load, for each vector of a row if `is_wide`, else for each row.
    `is_wide`: whether it depends on the vector.
    `shuffles`: cycles of a vector in the units that multiply, to gather its elements.
    `pitch`: largest distance of two steps of the sum in bytes, 0 if they follow each other.
    `spread`: bytes of a cache that its steps evict, if it is not packed.
    `page_steps`: for rows, the part of the steps that go to another page.
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
class _Facts:
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
    operands: tuple[_Operand, ...]


def tile_heights(size: int) -> tuple[int, ...]:
    """Return the possible rows of a tile along a group of so many elements.

    Results of few rows may be divided into equal tiles without a remainder: 13 rows into one tile.
    """
    equal = (-(-size // parts) for parts in _EQUAL_PARTS)
    most = min(size, max(_HEIGHTS))
    return tuple(dict.fromkeys(n for n in (*_HEIGHTS, *equal) if n <= most))


def packings(way: TiledContraction, constants: Collection[te.Tensor]) -> list[frozenset[Read]]:
    """Return the possible sets of packed reads: those that must be, and all that may be packed."""
    must = frozenset(r for r in way.vector_reads if not way.along(r))
    may = must | {r for r in way.vector_reads if packs(way, r, constants)}
    return [must] if may == must else [may, must]


def fastest(
    ways: Sequence[TiledContraction], registers: Registers, constants: Collection[te.Tensor]
) -> Tiling:
    """Return the tiling with the least estimated time; what is constant is packed for free."""
    found: list[tuple[float, Tiling]] = []
    for way in ways:
        for packed in packings(way, constants):
            facts = _facts(way, packed, registers, constants)
            cycles, counts, vectors = _fastest(facts, registers)
            rows = dict(zip(way.rows, counts, strict=False))
            few = math.prod(g.size for g in way.rows) <= _FEW_ROWS
            streams = few and _is_far(facts, vectors)
            found.append((cycles, Tiling(way, rows, vectors, packed, streams)))
            if not registers.embeds and _streams_well(way, packed):
                tiling = Tiling(way, _streamed_rows(way), vectors, packed, streams=True)
                found.append((_streaming(facts, registers), tiling))
    return min(found, key=lambda pair: pair[0])[1]


@functools.lru_cache(maxsize=256)  # each structure of a space is traced anew
def _fastest(facts: _Facts, registers: Registers) -> tuple[float, tuple[int, ...], int]:
    options = [tile_heights(size) for size in facts.rows]
    most = -(-facts.columns // facts.lanes)
    every = (
        (_cycles(facts, registers, counts, width), counts, width)
        for counts in product(*options)
        for width in registers.widths
        if math.prod(counts) * width <= registers.count - 2
        and width <= most
        and facts.shared % (width * facts.lanes) == 0
    )
    return min(every, key=lambda found: (found[0], *(-n for n in found[1])))


def _facts(
    way: TiledContraction,
    packed: Collection[Read],
    registers: Registers,
    constants: Collection[te.Tensor],
) -> _Facts:
    tiled = way.rows[:2]
    operands = []
    for read in dict.fromkeys(way.operands.values()):
        rows = tuple(_distinct(way, read, g, max(_HEIGHTS)) for g in tiled)
        if not way.varies(read):
            steps, page = _page_steps(way, read), _page(read, registers)
            spread = _spread(way, read)
            operands.append(_Operand(rows, 0.5, False, 0, spread, page_steps=steps, page=page))
        else:
            loads = max(0.5, way.lanes / registers.lanes)
            if read in packed:
                operands.append(_Operand(rows, loads, True, 0))
            else:
                operands.append(_in_place(way, read, rows, loads, registers))
    others = (g.size for g in way.groups if g is not way.vector and g not in tiled)
    packing = sum(_packing(way, r, registers) for r in packed if r.tensor not in constants)
    return _Facts(
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


def _cycles(facts: _Facts, registers: Registers, rows: Sequence[int], vectors: int) -> float:
    """Return about how many cycles each of some threads needs."""
    tiles = facts.others * -(-facts.columns // (vectors * facts.lanes))
    for size, own in zip(facts.rows, rows, strict=True):
        tiles *= -(-size // own)
    height = math.prod(rows)
    loads, elements, shuffles, crowd, columns = 0.0, 0.0, 0.0, 0.0, vectors * facts.lanes
    ragged = columns < facts.columns and facts.columns % columns
    for operand in facts.operands:
        count = math.prod(own[n] for n, own in zip(rows, operand.rows, strict=True))
        if operand.is_wide:
            if operand.in_place and operand.is_large:
                loads += _STREAM * max(0, count - _STREAMS)
            page = operand.page * _page_part(operand, facts, vectors)
            crowd += count * operand.in_place
            kept = operand.pitch == 0 or facts.steps * vectors * facts.lanes * 4 <= _NEAR_BYTES
            each = operand.loads * (1 if kept else _FAR)
            if operand.in_place and ragged:  # in the last tile, or all if sums are short
                tiles_across = -(-facts.columns // columns) if facts.steps > _SHORT else 1
                each *= 1 + (_MASKED - 1) / tiles_across
            wide = vectors * each + (page if page else 0)
            taken = facts.steps * vectors * facts.lanes * 4
            if registers.embeds and max(taken, operand.spread) > _CACHE_BYTES:
                wide = max(wide, vectors * _EVICTED)
            loads += count * wide
            if operand.shuffles:  # no 0 of infinitely many, which is not a number
                shuffles += count * vectors * operand.shuffles
        else:
            elements += count * operand.loads
            loads += count * operand.loads + operand.page * operand.page_steps
            if registers.embeds and operand.spread > _CACHE_BYTES:
                loads += _EVICTED
    part = max(0.5, facts.lanes / registers.lanes)
    # Beside the sums, the vectors that rows share are in registers, and an element of a row; if it
    # is a single vector, those of the next steps, too. One more is for vectors that are not packed,
    # because some rows share only a part of them.
    shared = 1 if height == 1 else vectors if vectors > 1 else _AHEAD
    needed = height * vectors + shared + 1
    needed += any(operand.in_place for operand in facts.operands)
    spilled = max(0, needed - registers.count)
    # A multiply-add that reads an element by itself needs as much of the units as a whole vector.
    units = loads + (elements if registers.embeds else 0)
    step = max(height * vectors * part + shuffles, units, _LATENCY)
    step += _CROWDED * max(0, crowd - _APART)
    step += (_ISSUE_EMBEDDED if registers.embeds else _ISSUE) * loads + _SPILL * spilled
    if facts.window > 1 and not registers.embeds:
        sizes = zip(facts.rows, rows, facts.slides, strict=True)
        divide = all(size % own == 0 for size, own, slides in sizes if slides)
        room = spare_registers(registers.count, height, vectors)
        step += _LOOP if divide and facts.window - 1 > room else 0
    each = facts.steps * step + height * vectors * facts.stored + _TILE
    return -(-tiles // registers.threads) * each + facts.packing


def _streaming(facts: _Facts, registers: Registers) -> float:
    """Return about how many cycles each of some threads needs if sums stay in the cache."""
    vectors = facts.others * -(-facts.columns // facts.lanes)
    height = math.prod(facts.rows)
    step = _SUM_IN_CACHE * height
    step += sum(operand.long_rows + operand.shuffles for operand in facts.operands)
    each = facts.steps * step + height * (facts.stored + _COPIED)
    return vectors * each / registers.threads + facts.packing


def _streams_well(way: TiledContraction, packed: Collection[Read]) -> bool:
    """Whether the estimate holds: few rows that all read the same vectors, no batches."""
    return (
        can_stream(way, packed)
        and len(way.rows) <= 1
        and not way.batches
        and math.prod(group.size for group in way.rows) <= _MOST_ROWS
        and not any(way.uses(read, g) for read in way.vector_reads for g in way.rows)
    )


def _streamed_rows(way: TiledContraction) -> dict[AxisGroup, int]:
    """Return the rows of a tile whose sums are in the cache: a large divisor, or nearly equal."""
    if not way.rows:
        return {}
    (group,) = way.rows
    tiles = -(-group.size // _STREAMED_ROWS)
    whole = max(n for n in range(1, _STREAMED_ROWS + 1) if group.size % n == 0)
    is_large = 2 * whole >= min(_STREAMED_ROWS, group.size)
    return {group: whole if is_large else -(-group.size // tiles)}


def spare_registers(count: int, height: int, vectors: int) -> int:
    """Return how many registers a tile leaves for elements that its rows share across steps."""
    return count - (height + 1) * vectors - height


def _window(
    way: TiledContraction, groups: Sequence[AxisGroup]
) -> tuple[int, tuple[bool, ...]]:
    """Return in how many innermost steps rows read what others read in others, along which groups.

    These are steps that are written out if registers remain: few, and of neighbouring rows.
    """
    last = [axis for axis in way.reduced if extent(axis) > 1][-1:]
    slides = tuple(any(way.slides(r, g, last) for r in way.operands.values()) for g in groups)
    own = [(r, g) for r in way.operands.values() for g in way.rows if way.slides(r, g, last)]
    near = all(way.window(r, g)[0] == 1 for r, g in own)
    steps = extent(last[0]) if last and own and near else 1
    return (steps if steps <= _FEW_STEPS else 1), slides


def _is_far(facts: _Facts, vectors: int) -> bool:
    """Whether many steps of a sum go to another page of a large tensor."""
    return any(_page_part(o, facts, vectors) >= 1 / 4 for o in facts.operands)


def _page_part(operand: _Operand, facts: _Facts, vectors: int) -> float:
    """Return what part of a page a step of a sum goes on in a large tensor, at most 1."""
    width = vectors * facts.lanes * 4
    if not (operand.is_large and operand.is_wide and width < operand.pitch):
        return 0.0
    return min(1.0, operand.pitch / _PAGE_BYTES)


def _spread(way: TiledContraction, read: Read) -> int:
    """Return how many bytes of a cache would be evicted by what tiles of a column read.

    Rows of a power of two of bytes are kept in few of the places of a cache, as far as an address
    within a page decides it.
    """
    steps = zip(_steps_apart(way, read), map(extent, way.reduced), strict=True)
    apart, count = max(steps, default=(0, 0))
    return math.gcd(apart, _PAGE_BYTES) * count


def _page_steps(way: TiledContraction, read: Read) -> float:
    """Return how many pages a step goes on, on average, in a large tensor that rows read."""
    if bytes_of(read.tensor) <= _CACHE_BYTES:
        return 0.0
    pages, inner = 0.0, 1
    for axis, step in reversed(list(zip(way.reduced, _steps_apart(way, read), strict=True))):
        if extent(axis) > 1:
            pages += min(1.0, step / _PAGE_BYTES) / inner
            inner *= extent(axis)
    return min(1.0, pages)


def _steps_apart(way: TiledContraction, read: Read) -> list[int]:
    """Return how many bytes steps along each axis of a sum are apart; about a row in open sizes."""
    size, tensor = dtypes.itemsize(read.dtype), read.tensor
    row = likely_shape(tensor)[-1] if any(map(is_open, tensor.shape)) else 0
    return [abs(row if n is None else n) * size for n in way.strides(read, way.reduced)]


def can_stream(way: TiledContraction, packed: Collection[Read]) -> bool:
    """Whether sums may stay in the cache: something long is read in place, or much is stored."""
    wide = way.vector.size >= _LONG * way.lanes and way.sums is None
    in_place = any(r not in packed for r in way.vector_reads)
    shares_window = any(way.slides(r, way.vector) for r in way.vector_reads)
    apart = not shares_window and not way.shared
    return wide and (in_place or bytes_of(way.whole) >= LARGE) and apart


def _stored(way: TiledContraction) -> float:
    """Return the cycles of storing a vector of sums; across rows each lane is moved and stored."""
    if way.sums is not None:
        return 2 * math.log2(way.lanes)
    last = [g for g in way.groups if g.size > 1][-1:]
    return 1 if last == [way.vector] else 2 * way.lanes


def _beyond(table: Sequence[tuple[int, float]], size: int) -> float:
    """Return the sum of the cycles of all limits that some bytes exceed."""
    return sum(cycles for limit, cycles in table if size > limit)


def _page(read: Read, registers: Registers) -> float:
    """Return about how many cycles a step to another page of a large tensor takes."""
    return _PAGE if registers.embeds else _beyond(_PAGE_BY_BYTES, bytes_of(read.tensor))


def _in_place(
    way: TiledContraction,
    read: Read,
    rows: tuple[tuple[float, ...], ...],
    loads: float,
    registers: Registers,
) -> _Operand:
    steps = _steps_apart(way, read)
    step = way.along(read)
    shuffles = _SHUFFLE * (step - 1) * loads
    loads *= _UNALIGNED if step == 1 else 2 * step
    size, page = bytes_of(read.tensor), _page(read, registers)
    return _Operand(
        rows, loads, True, max(steps, default=0), _spread(way, read), True, size > _CACHE_BYTES, shuffles, page=page,
        long_rows=_beyond(_STREAMED_BY_BYTES, size),
    )  # fmt: skip


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


def _packing(way: TiledContraction, read: Read, registers: Registers) -> float:
    """Return about how many cycles each of some threads needs to pack an operand."""
    size, threads = way.panel_size(read), registers.threads
    strided = _TRANSPOSED if way.lies_along_sum(read) else _STRIDED
    step = way.along(read)
    each = (2 * step + _SHUFFLE * (step - 1)) / way.lanes if step else strided
    by_tasks = packed_by_tasks(way, read, threads)
    table = _FETCHED_BY_TASKS if registers.embeds else _PACKED_BY_BYTES
    each += _beyond(table if by_tasks else _FETCHED, size * dtypes.itemsize(read.dtype))
    return size * each / (threads if by_tasks or size >= PARALLEL else 1)


def packed_by_tasks(way: TiledContraction, read: Read, threads: int) -> bool:
    """Whether each task packs its part of an operand, since it has all rows that read this part."""
    used, _ = way.panel_of(read)
    vectors = math.prod(g.size for g in way.batches) * way.vector.size // way.lanes
    return (
        way.panel_size(read) >= _LEAST_PANEL
        and math.prod(g.size for g in way.rows) <= _MOST_ROWS
        and not any(g in way.rows for g in used)
        and vectors >= _VECTORS_PER_THREAD * threads
    )
