"""The rule for contractions on CPUs: tiles in registers, blocks of tiles in tasks, packed panels.

Panels are packed before all tasks, or each by the task that alone reads it.

::

    for (i)                            parallel (blocks of tiles)
      for (j)                            for (tiles of the block)
        for (k)                            for (k)
          C[i, j] += A[i, k]*B[k, j]  ->     unrolled (r, v)
                                               sum[r, v] += A[i + r, k] * panel[j + v, k]
                                           unrolled (r, v)
                                             C[i + r, j + v] = sum[r, v]
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.axes import IterVar
from autotune.ir.expr import Read
from autotune.rules.contractions.contraction import (
    AxisGroup,
    TiledContraction,
    contractions,
    parts_of_tasks,
)
from autotune.rules.contractions.packed_panels import Choices, Panels, panels_of
from autotune.rules.contractions.panel_loops import convert, pack
from autotune.rules.contractions.tile_blocks import LIGHT_SUMS, write_blocks
from autotune.rules.contractions.tile_costs import Tiling, can_stream, fastest, spare_registers
from autotune.rules.contractions.tile_facts import (
    Registers,
    packed_by_tasks,
    packings,
    tile_heights,
)
from autotune.rules.knob_definer import Effort, KnobDefiner
from autotune.rules.stage_graph import Reading, extent, is_open, length_of, readers_of, readings
from autotune.rules.streamed_stores import outlasts_caches
from autotune.rules.threads import bytes_of, lanes_in
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage
from autotune.system.available_cpus import thread_count

#: Largest number of choices of the vectorised axis.
_VECTORS: Final = 3

#: Vectors in a row of a tile. A tile of one row may be the widest: neighbours come from memory
#: faster than rows that are far apart.
_WIDTHS: Final = (4, 1, 2, 3, 5, 6, 7, 8, 12, 16)

#: Equal parts into which a row of sums in the cache is divided. A part has an even number of
#: vectors, or is the whole row: the compiler unrolls two vectors, which share elements of rows.
_PARTS: Final = (2, 1, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128)

#: Columns of a row of sums in the cache whose number only calls know: few rows are longer.
_OPEN_COLUMNS: Final = 4096

#: Steps of a sum that are written out, and about how many are by default.
_STEPS: Final = (4, 1, 2, 8, 3, 5, 7)
_STEP: Final = 4

#: Most steps by default that read rows of any length. Rows of 1,024 floats share one set of the
#: nearest cache; a set has eight lines, or some more.
_STEPS_OF_A_SET: Final = 5

#: Steps outside of windows that are always written out.
_PAIR: Final = 2

#: Tiles of a block along an axis.
_BLOCKS: Final = (1, 4, 2, 8, 16, 32)
#: Tiles of a block by default, if there remain so many blocks for each thread.
_BLOCK: Final = 4
_TASKS: Final = 8

#: Vectors that could be read while a row of an operand begins.
_ROW_VECTORS: Final = 24

#: For results beyond the caches: rows of a tile whose operations are light or not, and bytes of its
#: sums.
_SUMS: Final = 2, 4
_SUM_BYTES: Final = 1 << 13

#: What a task may compute for itself, or sum in the cache.
_NEAR_BYTES: Final = 1 << 14


def tiles(
    cfg: KnobDefiner, tensor: te.Tensor, effort: Effort, constants: Collection[te.Tensor] = ()
) -> Panels | None:
    """Define the knobs of a contraction's tiles; None if no axis can be vectorised."""
    full = lanes_in(cfg.target, tensor.dtype)
    ways = dict(list(contractions(tensor, full, constants).items())[:_VECTORS])
    if not ways:
        return None
    count = 32 if cfg.target.vector_bytes >= 64 else 16
    threads = thread_count(cfg.target.threads)
    registers = Registers(count, full, _WIDTHS, threads)
    best = fastest(list(ways.values()), registers, constants)
    outlasts = outlasts_caches(cfg.target, tensor, [tensor], LIGHT_SUMS)
    if outlasts:
        best = _past_caches(cfg, best)
    way = best.way
    if effort is Effort.ALL:
        name = next(name for name, one in ways.items() if one is way)
        way = ways[cfg.define_knob("vector", list(ways), default=name)]
    else:
        ways = {"": way}
    packed = _packed(cfg, way, best, effort, constants)
    columns, most = best.vectors * way.lanes, max(_BLOCKS) * math.prod(best.rows.values())
    in_tasks = frozenset(
        r for r in packed
        if r.tensor not in constants and packed_by_tasks(way, r, threads, columns, most)
    )  # fmt: skip
    choices = _choices(list(ways.values()), best, registers, bool(in_tasks))
    streams = False
    if can_stream(way, packed):
        streams = way is best.way and best.streams
        if effort is Effort.ALL:
            streams = cfg.define_knob("stream", [True, False], default=streams)
    if streams:
        likely = _likely_stream(best, choices.long, outlasts, registers)
        vectors = cfg.define_knob("stream_vectors", choices.long, likely)
    else:
        vectors = cfg.define_knob("tile_vectors", choices.vectors, default=best.vectors)
    widest = _longest_row(way) if streams else -(-way.vector.size // way.lanes)
    cfg.add_constraint(vectors <= widest, "a tile is no wider than the result")
    if way.shared:
        message = "tiles are within a group"
        cfg.add_constraint(way.shared % (vectors * way.lanes) == 0, message)
    rows: dict[AxisGroup, Any] = {}
    total: Any = 1 if streams else vectors
    for number, group in enumerate(way.rows[:2]):
        likely = list(best.rows.values())[number] if number < len(best.rows) else 1
        if not effort:
            rows[group] = likely
            continue
        rows[group] = cfg.define_knob(_ROWS[number], choices.rows[number], default=likely)
        cfg.add_constraint(rows[group] <= group.size, "a tile is no taller than the result")
        total = total * rows[group]
    cfg.add_constraint(total <= registers.sums, "the sums of a tile fit in the registers")
    apart = math.prod(g.size for g in way.batches if not is_open(g.length))
    tasks = threads // math.gcd(threads, apart)  # those that share a row
    return panels_of(way, rows, vectors * way.lanes, packed, choices, streams, in_tasks, tasks)


def _past_caches(cfg: KnobDefiner, best: Tiling) -> Tiling:
    """Return a tiling for a result that does not fit into the caches.

    Rows of sums in the nearest cache are long enough to be stored in whole cache lines, wherever
    the rows of the result begin.
    """
    packed, way = packings(best.way, ())[-1], best.way
    ends = [group for group in way.groups if group.size > 1][-1:] == [way.vector]
    if not ends or not can_stream(way, packed):
        return best
    is_light = outlasts_caches(cfg.target, way.whole, [way.whole])
    rows = {group: min(_SUMS[not is_light], group.size) for group in way.rows[:1]}
    return replace(best, rows=rows, packed=packed, streams=True)


def _likely_stream(
    best: Tiling, widths: Sequence[int], outlasts: bool, registers: Registers
) -> int:
    """Return how many vectors of sums in the cache a row has by default."""
    way, rows, threads = best.way, math.prod(best.rows.values()), registers.threads
    most, is_any = _longest_row(way), is_open(way.vector.length)
    batches = math.prod(g.size for g in way.batches)

    def cost(count: int) -> int:
        tasks = batches * -(-way.vector.size // (count * way.lanes))
        return -(-tasks // threads) * (count + _ROW_VECTORS)

    each = rows * way.lanes * dtypes.itemsize(way.tensor.dtype)
    limit = _SUM_BYTES if outlasts else most * each if registers.embeds else _NEAR_BYTES
    if is_any:
        limit = min(limit, _open_vectors(way) * each)
    fit = [count for count in widths if count <= most] or list(widths)
    near = [count for count in fit if count * each <= limit]
    return max(near) if near and (outlasts or is_any) else min(near or fit, key=cost)


def _open_vectors(way: TiledContraction) -> int:
    """Return how many vectors a row of sums in the cache has where only calls know its length."""
    return -(-_OPEN_COLUMNS // way.lanes)


def _longest_row(way: TiledContraction) -> int:
    """Return how many vectors a row of sums in the cache has at most."""
    own = -(-way.vector.size // way.lanes)
    return max(own, _open_vectors(way)) if is_open(way.vector.length) else own


def _choices(
    ways: list[TiledContraction], best: Tiling, registers: Registers, packs_in_tasks: bool
) -> Choices:
    """Return the values of knobs, for all ways to compute a contraction."""
    most = max(-(-way.vector.size // way.lanes) for way in ways)
    longest = [most, *(_open_vectors(way) for way in ways if is_open(way.vector.length))]
    sizes = [[way.rows[n].size for way in ways if len(way.rows) > n] or [1] for n in (0, 1)]
    height = max(math.prod(g.size for g in way.rows) for way in ways)
    tall = math.prod(best.rows.values())
    lengths = [n for way in ways for n in [m for m in map(extent, way.reduced) if m > 1][-1:]]
    wide, high = _likely_block(best, registers.threads, packs_in_tasks)
    return Choices(
        vectors=tuple(n for n in _WIDTHS if n <= min(most, registers.sums)),
        long=tuple(dict.fromkeys(
            min(n, 2 * -(-n // (2 * parts))) for n in longest for parts in _PARTS
        )),
        rows=tuple(tuple(dict.fromkeys(chain(*map(tile_heights, own)))) for own in sizes),
        steps=tuple(n for n in _STEPS if n <= max(lengths, default=1)),
        block_columns=tuple(n for n in _BLOCKS if n < 2 * most),
        block_rows=tuple(n for n in _BLOCKS if n < 2 * height),
        likely_columns=wide,
        likely_rows=high,
        likely_room=spare_registers(registers.count, tall, best.vectors),
        ragged=frozenset(group for group, rows in best.rows.items() if group.size % rows),
    )


def _likely_block(best: Tiling, threads: int, packs_in_tasks: bool) -> tuple[int, int]:
    """Return how many tiles of columns and of rows a block has by default."""
    way, columns = best.way, best.vectors * best.way.lanes
    tall = math.prod(-(-g.size // best.rows.get(g, 1)) for g in way.rows)
    wide = -(-way.vector.size // columns)
    count = math.prod(g.size for g in way.batches)
    parts = [r for r in parts_of_tasks(way) if r not in best.packed]
    if packs_in_tasks and not parts:  # a block of all rows
        return 1, min((n for n in _BLOCKS if n >= tall), default=max(_BLOCKS))
    if not parts:
        has_many = tall >= _BLOCK and tall * wide * count >= _BLOCK * _TASKS * threads
        return 1, _BLOCK if has_many else 1
    # What a task computes for itself stays in the nearest cache; little of it is computed twice.
    each = max(_bytes_of_rows(way, read) for read in parts) * math.prod(best.rows.values())
    heights = [
        n for n in _BLOCKS
        if n < 2 * tall and n * each <= _NEAR_BYTES and count * -(-tall // n) >= _TASKS * threads
    ]  # fmt: skip
    return max(n for n in _BLOCKS if n <= wide), max(heights, default=1)


def _bytes_of_rows(way: TiledContraction, read: Read) -> int:
    """Return about how much a row of the result reads of a tensor."""
    return bytes_of(read.tensor) // math.prod(g.size for g in way.groups if g is not way.vector)


_ROWS: Final = ("tile_rows", "tile_outer_rows")


def _packed(
    cfg: KnobDefiner,
    way: TiledContraction,
    best: Tiling,
    effort: Effort,
    constants: Collection[te.Tensor],
) -> frozenset[Read]:
    """Return what is packed."""
    options = packings(way, constants)
    likely = best.packed if best.way is way else options[0]
    if len(options) == 1 or effort is not Effort.ALL:
        return likely
    return (
        options[0] if cfg.define_knob("pack", [True, False], likely == options[0]) else options[1]
    )


def schedule_tiles(
    cfg: KnobDefiner,
    s: Schedule,
    panels: Panels,
    end: te.Tensor,
    effort: Effort,
    taken: Collection[te.Tensor],
) -> list[te.Tensor]:
    """Compute tiles in registers, blocks of tiles in tasks, and panels before or in them.

    `end`: the stage computed at the tiles: the result, or its only element-wise consumer.
    `effort`: how many knobs it has.
    `taken`: stages that other rules place.

    Returns the stages that are computed by tasks.
    """
    way, rank = panels.way, len(panels.way.groups)
    stages = readings(s)
    inside = [t for t in _computed_in_tasks(s, panels, stages) if t not in taken]
    task, last = write_blocks(cfg, s, s[end], panels, effort)
    for tensor in inside:
        s[tensor].compute_at(s[end], task)
        *_, lane = s[tensor].op.axis
        s[tensor].vectorize(s[tensor].split(lane, lanes_in(cfg.target, tensor.dtype))[1])
    for tensor in (panels.tile, *panels.folds):
        stage = s[tensor]
        stage.compute_at(s[end], last)
        *own, lane = stage.op.axis
        vector, lane = stage.split(lane, extent(lane) if tensor in panels.folds else way.lanes)
        for axis in own[rank:]:
            stage.unroll(axis)
        if not panels.streams:
            stage.unroll(vector)
        stage.vectorize(lane)
        if tensor is panels.tile:
            _sum(cfg, stage, panels, [own[:rank], own[rank:], [vector], [lane]], effort)
    for panel, read in zip(panels.packed, panels.reads, strict=True):
        pack(s[panel], way, read, read in panels.in_tasks)
        if read in panels.in_tasks:
            s[panel].compute_at(s[end], task)
    for tensor in panels.converted:
        convert(s[tensor], lanes_in(cfg.target, tensor.dtype))
    return inside


def _computed_in_tasks(s: Schedule, panels: Panels, stages: Sequence[Reading]) -> list[te.Tensor]:
    """Return the stages that only tiles read, and of which each task reads its own part."""
    packed = frozenset(panels.reads)  # a tuple would compare expressions by `==`
    own = dict.fromkeys(r.tensor for r in parts_of_tasks(panels.way) if r not in packed)
    return [
        t for t in own
        if [r.tensor for r in readers_of(t, stages)] == [panels.tile]
        and not s[t].is_output and s[t].scan is None
    ]  # fmt: skip


def _sum(
    cfg: KnobDefiner,
    stage: Stage,
    panels: Panels,
    own: Sequence[list[IterVar]],
    effort: Effort,
) -> None:
    """Order the loops of the sums of a tile: tiles, the sum, rows, vectors."""
    way, (tiles, rows, vectors, lanes) = panels.way, own
    reduced = list(stage.op.reduce_axis)
    outer: list[IterVar] = [a for a in reduced if extent(a) == 1]
    inner: list[IterVar] = []
    long = [a for a in reduced if extent(a) > 1]
    wide = way.vector_reads
    if long and way.has_shared_windows:
        # Steps that read the same elements as other rows are innermost: these stay in registers.
        # Long axes that are in no window have a loop: else the compiler would load all weights
        # before the loop over tiles, into more vectors than there are registers.
        along = way.rows[0], way.vector
        inner = [
            a for a in long
            if extent(a) <= _PAIR or any(way.slides(r, g, [a]) for g in along for r in wide)
        ]  # fmt: skip
        outer += [a for a in long if a not in inner]
        inner.sort(key=lambda a: any(way.slides(r, way.rows[0], [a]) for r in wide))
    elif long:
        steps = panels.choices.steps
        is_apart = panels.streams or is_open(length_of(long[-1]))  # the last steps are
        fit = [n for n in steps if is_apart or extent(long[-1]) % n == 0]
        unroll: Any = (_streamed_steps if panels.streams else _likely_steps)(panels, long[-1], fit)
        if effort:
            unroll = cfg.define_knob("unroll", steps, default=unroll)
            if not is_apart:
                message = "the steps that are written out divide the sum"
                cfg.add_constraint(extent(long[-1]) % unroll == 0, message)
        step, written = stage.split(long[-1], factor=unroll)
        outer += [*long[:-1], step]
        inner = [written]
    for axis in inner:
        stage.unroll(axis)
    if panels.streams:
        stage.reorder(*tiles, *outer, *vectors, *inner, *rows, *lanes)
    else:
        stage.reorder(*tiles, *outer, *inner, *rows, *vectors, *lanes)


def _streamed_steps(panels: Panels, axis: IterVar, fit: Sequence[int]) -> int:
    """Return how many steps along an axis, each of which reads a row, are written out by default.

    Where only calls know how far apart rows lie, these may share a set of the nearest cache; rows
    of single bytes seldom do.
    """
    way, packed = panels.way, frozenset(panels.reads)
    wide = [r for r in way.vector_reads if r not in packed and dtypes.itemsize(r.dtype) > 1]
    is_known = all(None not in way.strides(read, [axis]) for read in wide)
    return max(n for n in fit if is_known or n <= _STEPS_OF_A_SET)


def _likely_steps(panels: Panels, axis: IterVar, fit: Sequence[int]) -> int:
    """Return how many steps along an axis are written out by default.

    What rows share stays in registers then: each further step needs another element, if rows are
    neighbours. Without room for them they would take the registers of sums. Rows that do not divide
    the result share nothing, because those of the last tile repeat the last one, and need no room.
    """
    way, choices = panels.way, panels.choices
    own = [(r, g) for r in way.operands.values() for g in way.rows if way.slides(r, g, [axis])]
    if not own:
        return min(fit, key=lambda n: (abs(n - _STEP), -n))
    near = all(way.window(r, g)[0] == 1 for r, g in own)
    ragged = all(g in choices.ragged for _, g in own)
    room = math.inf if ragged else choices.likely_room
    return max((n for n in fit if near and n - 1 <= room), default=fit[0])
