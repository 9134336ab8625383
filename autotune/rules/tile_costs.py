"""Estimates the time of a contraction in tiles, to choose the knobs of its first configuration."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.expr import Read
from autotune.rules.contraction import Contraction, Group, packs
from autotune.rules.stage_graph import extent

#: Cycles: of a multiply-add until its sum can be used, of a tile besides its sums, and of an
#: element that is packed from another place than its neighbour.
_LATENCY: Final = 4
_TILE: Final = 20
_STRIDED: Final = 1.5

#: Cycles of a vector that is read across the boundary of cache lines, and of a step to another page
#: of a tensor that exceeds the caches of a core.
_UNALIGNED: Final = 1.3
_PAGE: Final = 12
_PAGE_BYTES: Final = 4096
_CACHE_BYTES: Final = 1 << 20


@dataclass(frozen=True, eq=False)
class Tiling:
    """How a contraction is computed in tiles.

    Attributes
    ----------
    way
    rows
        Rows of a tile along groups.
    vectors
        Vectors in each row.
    packed
        What is packed.
    """

    way: Contraction
    rows: Mapping[Group, int]
    vectors: int
    packed: tuple[Read, ...]


def packings(way: Contraction, constants: Collection[te.Tensor]) -> list[tuple[Read, ...]]:
    """Return what can be packed: what must be, and if that is different, all that is often read."""
    must = tuple(r for r in way.vector_reads if not way.along(r))
    may = tuple(r for r in way.vector_reads if r in must or packs(way, r, constants))
    return [must] if may == must else [may, must]


def fastest(
    ways: Sequence[Contraction],
    heights: Sequence[int],
    widths: Sequence[int],
    registers: int,
    full: int,
    threads: int,
    constants: Collection[te.Tensor],
) -> Tiling:
    """Return the tiling with the least estimated time.

    Parameters
    ----------
    ways
    heights
        Possible rows of a tile along a group.
    widths
        Possible vectors in a row.
    registers
        Vectors of sums that a tile may have.
    full
        Lanes of a vector register.
    threads
    constants
        Tensors that are packed for free.
    """
    every = (t for way in ways for t in _tilings(way, heights, widths, registers, constants))
    return min(every, key=lambda tiling: cycles(tiling, full, threads, constants))


def _tilings(
    way: Contraction,
    heights: Sequence[int],
    widths: Sequence[int],
    registers: int,
    constants: Collection[te.Tensor],
) -> Iterator[Tiling]:
    tiled = way.rows[:2]
    options = [[n for n in heights if n <= g.size] for g in tiled]
    most = -(-way.vector.size // way.lanes)
    for packed in packings(way, constants):
        for counts in product(*options):
            for width in widths:
                if math.prod(counts) * width <= registers and (width <= most or width == 1):
                    yield Tiling(way, dict(zip(tiled, counts, strict=True)), width, packed)


def cycles(
    tiling: Tiling, full: int, threads: int, constants: Collection[te.Tensor] = ()
) -> float:
    """Return about how many cycles each of some threads needs."""
    way, rows, vectors = tiling.way, tiling.rows, tiling.vectors
    columns = vectors * way.lanes
    tiles = math.prod(
        -(-g.size // (columns if g is way.vector else rows.get(g, 1))) for g in way.groups
    )
    height = math.prod(rows.values())
    part = max(0.5, way.lanes / full)
    loads, pages = 0.0, 0.0
    for read in dict.fromkeys(way.operands.values()):
        own = math.prod(n for g, n in rows.items() if way.uses(read, g))
        if not way.uses(read, way.vector):
            loads += 0.5 * own
            continue
        is_packed = read in tiling.packed
        loads += own * vectors * part * (1 if is_packed else _UNALIGNED)
        pages += 0 if is_packed else _page_steps(way, read, columns) * own
    step = max(height * vectors * part, loads, _LATENCY if vectors * height > 1 else 2 * _LATENCY)
    end = height * vectors * _stored(way) + _TILE
    each = math.prod(map(extent, way.reduced)) * (step + pages) + end
    packing = sum(_packing(way, read) for read in tiling.packed if read.tensor not in constants)
    return (-(-tiles // threads)) * each + packing / threads


def _stored(way: Contraction) -> float:
    """Return the cycles of storing one vector of sums."""
    if way.sums is not None:
        return 2 * math.log2(way.lanes)
    last = [g for g in way.groups if g.size > 1][-1:]
    return 1 if last == [way.vector] else way.lanes


def _page_steps(way: Contraction, read: Read, columns: int) -> float:
    """Return the cycles by which steps to other pages delay each step of the sum."""
    size = dtypes.itemsize(read.dtype)
    total = math.prod(map(int, read.tensor.shape)) * size
    steps = [abs(n or 0) * size for n in way.strides(read, way.reduced)]
    is_far = max(steps, default=0) >= _PAGE_BYTES and total > _CACHE_BYTES
    return _PAGE if is_far and columns * size < _PAGE_BYTES else 0


def _packing(way: Contraction, read: Read) -> float:
    return way.panel_size(read) * (2 / way.lanes if way.along(read) else _STRIDED)
