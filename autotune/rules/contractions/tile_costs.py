"""Estimates the time of a contraction in tiles, to choose the knobs of its first configuration."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from autotune import te
from autotune.ir.expr import Read
from autotune.rules.contractions.contraction import AxisGroup, TiledContraction
from autotune.rules.contractions.tile_facts import (
    CACHE_BYTES,
    MOST_ROWS,
    Registers,
    StepReads,
    TileFacts,
    facts_of,
    packings,
    tile_heights,
)
from autotune.rules.stage_graph import is_open
from autotune.rules.streamed_stores import LARGE
from autotune.rules.threads import bytes_of

#: Cycles of a multiply-add until its sum can be used, and of a tile besides its sums.
_LATENCY: Final = 4
_TILE: Final = 20

#: Part of a load's cycles that no multiply-add hides, and the same where multiply-adds read
#: elements of rows by themselves; cycles of a vector that is not in a register, for few registers
#: and for many; steps whose single vectors are read ahead.
_ISSUE: Final = 0.5
_ISSUE_EMBEDDED: Final = 0.15
_SPILL: Final = 2, 4
_AHEAD: Final = 4

#: Cycles of a step in a loop of few steps, which is not written out for lack of registers.
_LOOP: Final = 2

#: Cycles of a vector from the second cache, and bytes that the first one keeps; cycles of a vector
#: that is masked, because tiles do not divide the result; steps of sums whose tiles are not told
#: apart.
_FAR: Final = 2
_NEAR_BYTES: Final = 1 << 14
_MASKED: Final = 3
_SHORT: Final = 64

#: Cycles of a vector from beyond the second cache, as measured with AVX-512; lines that the
#: elements of rows are in, if these are neighbours.
_EVICTED: Final = 8
_LINES: Final = 2

#: Vectors that are read from as many rows side by side, and cycles of each more; the same of a
#: large tensor, as fast as memory can.
_APART: Final = 11
_CROWDED: Final = 6
_STREAMS: Final = 4
_STREAM: Final = 2

#: Cycles of a multiply-add whose sum is in the cache, and of copying a vector of sums to the
#: result; most rows of a tile of such sums.
_SUM_IN_CACHE: Final = 2.0
_COPIED: Final = 2.0
_STREAMED_ROWS: Final = 8

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


def fastest(
    ways: Sequence[TiledContraction], registers: Registers, constants: Collection[te.Tensor]
) -> Tiling:
    """Return the tiling with the least estimated time; what is constant is packed for free."""
    found: list[tuple[float, Tiling]] = []
    for way in ways:
        for packed in packings(way, constants):
            facts = facts_of(way, packed, registers, constants)
            cycles, counts, vectors = _fastest(facts, registers)
            rows = dict(zip(way.rows, counts, strict=False))
            few = math.prod(g.size for g in way.rows) <= _FEW_ROWS
            streams = few and (_is_far(facts, vectors) or _only_columns_are_open(way))
            found.append((cycles, Tiling(way, rows, vectors, packed, streams)))
            if not registers.embeds and _streams_well(way, packed):
                tiling = Tiling(way, _streamed_rows(way), vectors, packed, streams=True)
                found.append((_streaming(facts, registers), tiling))
    return min(found, key=lambda pair: pair[0])[1]


@functools.lru_cache(maxsize=256)  # each structure of a space is traced anew
def _fastest(facts: TileFacts, registers: Registers) -> tuple[float, tuple[int, ...], int]:
    options = [tile_heights(size) for size in facts.rows]
    most = -(-facts.columns // facts.lanes)
    every = (
        (_cycles(facts, registers, counts, width), counts, width)
        for counts in product(*options)
        for width in registers.widths
        if math.prod(counts) * width <= registers.sums
        and width <= most
        and facts.shared % (width * facts.lanes) == 0
    )
    return min(every, key=lambda found: (found[0], *(-n for n in found[1])))


def _cycles(facts: TileFacts, registers: Registers, rows: Sequence[int], vectors: int) -> float:
    """Return about how many cycles each of some threads needs."""
    tiles = facts.others * -(-facts.columns // (vectors * facts.lanes))
    for size, own in zip(facts.rows, rows, strict=True):
        tiles *= -(-size // own)
    height = math.prod(rows)
    # Of few rows sums may be in the cache instead, with long rows of what comes from far.
    from_far = registers.embeds and math.prod(facts.rows) > _FEW_ROWS
    loads, elements, shuffles, crowd, columns = 0.0, 0.0, 0.0, 0.0, vectors * facts.lanes
    ragged = columns < facts.columns and facts.columns % columns
    for operand in facts.operands:
        count = math.prod(own[n] for n, own in zip(rows, operand.rows, strict=True))
        if operand.is_wide:
            if operand.in_place and operand.is_large:
                loads += _STREAM * max(0, count - _STREAMS)
            page = operand.page * _page_part(operand, facts, vectors)
            crowd += count if operand.in_place else 0
            kept = operand.pitch == 0 or facts.steps * vectors * facts.lanes * 4 <= _NEAR_BYTES
            each = operand.loads * (1 if kept else _FAR)
            if operand.in_place and ragged:  # in the last tile, or all if sums are short
                tiles_across = -(-facts.columns // columns) if facts.steps > _SHORT else 1
                each *= 1 + (_MASKED - 1) / tiles_across
            wide = vectors * each + page
            taken = facts.steps * vectors * facts.lanes * 4
            if from_far and max(taken, operand.spread) > CACHE_BYTES:
                wide = max(wide, vectors * _EVICTED)
            loads += count * wide
            if operand.shuffles:  # no 0 of infinitely many, which is not a number
                shuffles += count * vectors * operand.shuffles
        else:
            elements += count * operand.loads
            loads += count * operand.loads + operand.page * operand.page_steps
            if from_far and operand.spread > CACHE_BYTES:
                loads += _EVICTED * min(count, _LINES)
    part = max(0.5, facts.lanes / registers.lanes)
    # Beside the sums, the vectors that rows share are in registers, and an element of a row; if it
    # is a single vector, those of the next steps, too. One more is for vectors that are not packed,
    # because some rows share only a part of them.
    shared = 1 if height == 1 else vectors if vectors > 1 else _AHEAD
    needed = height * vectors + shared + 1
    needed += any(operand.in_place for operand in facts.operands)
    spilled = max(0, needed - registers.count)
    # A multiply-add that reads an element by itself takes as much of the units as a whole vector.
    units = loads + elements if height > 1 else 0
    step = max(height * vectors * part + shuffles, loads, units, _LATENCY)
    step += _CROWDED * max(0, crowd - _APART)
    step += (_ISSUE_EMBEDDED if registers.embeds else _ISSUE) * loads
    step += _SPILL[registers.embeds] * spilled
    if facts.window > 1 and not registers.embeds:
        sizes = zip(facts.rows, rows, facts.slides, strict=True)
        divide = all(size % own == 0 for size, own, slides in sizes if slides)
        room = spare_registers(registers.count, height, vectors)
        step += _LOOP if divide and facts.window - 1 > room else 0
    each = facts.steps * step + height * vectors * facts.stored + _TILE
    return -(-tiles // registers.threads) * each + facts.packing


def _streaming(facts: TileFacts, registers: Registers) -> float:
    """Return about how many cycles each of some threads needs if sums stay in the cache."""
    vectors = facts.others * -(-facts.columns // facts.lanes)
    height = math.prod(facts.rows)
    step = _SUM_IN_CACHE * height
    step += sum(operand.long_rows + operand.shuffles for operand in facts.operands)
    each = facts.steps * step + height * (facts.stored + _COPIED)
    return vectors * each / registers.threads + facts.packing


def _streams_well(way: TiledContraction, packed: Collection[Read]) -> bool:
    """Whether the estimate holds: few rows that all read the same vectors, each batch its own."""
    batches = [group for group in way.batches if group.size > 1]
    return (
        can_stream(way, packed)
        and len(way.rows) <= 1
        and all(way.uses(read, g) for read in way.vector_reads for g in batches)
        and math.prod(group.size for group in way.rows) <= MOST_ROWS
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


def _is_far(facts: TileFacts, vectors: int) -> bool:
    """Whether many steps of a sum go to another page of a large tensor."""
    return any(_page_part(o, facts, vectors) >= 1 / 4 for o in facts.operands)


def _only_columns_are_open(way: TiledContraction) -> bool:
    """Whether calls have rows of any length, but all as many: long ones are read as a whole."""
    return is_open(way.vector.length) and not any(is_open(g.length) for g in way.rows)


def _page_part(operand: StepReads, facts: TileFacts, vectors: int) -> float:
    """Return what part of a page a step of a sum goes on in a large tensor, at most 1."""
    width = vectors * facts.lanes * 4
    if not (operand.is_large and operand.is_wide and width < operand.pitch):
        return 0.0
    return operand.page_steps


def can_stream(way: TiledContraction, packed: Collection[Read]) -> bool:
    """Whether sums may stay in the cache: something long is read in place, or much is stored."""
    wide = way.vector.size >= _LONG * way.lanes and way.sums is None
    in_place = any(r not in packed for r in way.vector_reads)
    shares_window = any(way.slides(r, way.vector) for r in way.vector_reads)
    apart = not shares_window and not way.shared
    return wide and (in_place or bytes_of(way.whole) >= LARGE) and apart
