"""Transposes on GPUs: tiles in shared memory, so that rows are read and rows are written.

::

    for (i, j)                      for (r, c)  tile[r, c ^ f(r)] = A[j0 + r, i0 + c]
      B[i, j] = A[j, i]       ->    barrier
                                    for (i, j)  B[i0 + i, j0 + j] = tile[j, i ^ f(j)]

Rows of a tile are as long as all banks of shared memory are wide. Its vectors change places, by an
exclusive or with their row, so that neither rows nor columns meet in a bank; nothing is padded, and
vectors stay whole. Where rows of odd length leave single elements, rows are padded by a bank
instead: the addresses of a thread's elements then differ by constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.expr import Expr, Read
from autotune.ir.visitor import ReadRewriter, free_vars
from autotune.rules.gpu.fusion_plan import long_axes
from autotune.rules.gpu.thread_loops import BANKS, ENOUGH_BLOCKS, bind
from autotune.rules.stage_graph import extent, reads_in, written_out
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import ComputeOp

#: Banks of shared memory.
_BANKS: Final = 32
#: Threads of a block.
_THREADS: Final = 256
#: Least length of a transposed axis, in vectors.
_LEAST: Final = 2


@dataclass(frozen=True, slots=True)
class Transposed:
    """An element-wise stage that reads tensors along an axis that it does not write along."""

    #: The position of this axis.
    down: int
    #: Elements of a vector, which divide rows of both.
    lanes: int
    #: Elements of a tile's row.
    side: int
    #: What it reads along the axis.
    sources: frozenset[te.Tensor]

    def usual_tiles(self, tail: te.Tensor) -> int:
        """Return the tiles of a block, up to four, with which all multiprocessors have a block."""
        lengths = list(map(extent, tail.op.axis))
        down, along = lengths[self.down], lengths[-1]
        others = math.prod(lengths) // (down * along) * -(-along // self.side)
        blocks = {n: others * -(-down // (self.side * n)) for n in (4, 2, 1)}
        return next((n for n in blocks if blocks[n] >= ENOUGH_BLOCKS), 1)


def transposed_reads(tail: te.Tensor, vector_bytes: int) -> Transposed | None:
    """Return what a stage reads transposed; None if it reads nothing so, or too little."""
    axes = list(tail.op.axis)
    if tail.op.reduce_axis or len(tail.op.outputs) > 1 or len(long_axes(tail)) < 2:
        return None
    along: dict[Any, int] = {axis.var: n for n, axis in enumerate(axes)}
    found: dict[int, set[te.Tensor]] = {}
    for read in reads_in(tail.op):
        last = axes[-1].var
        if _position(read.children[:-1], last) is None or read.children[-1] is last:
            continue
        is_plain = all(i in along or not free_vars(i) for i in read.children)
        if is_plain and read.children[-1] in along:
            found.setdefault(along[read.children[-1]], set()).add(read.tensor)
    if not found:
        return None
    down, sources = max(found.items(), key=lambda item: len(item[1]))
    size = max(dtypes.itemsize(t.dtype) for t in (tail, *sources))
    lengths = extent(axes[down]), extent(axes[-1])
    lanes = max(n for n in (16, 8, 4, 2, 1) if n * size <= vector_bytes
                and not any(length % n for length in lengths))  # fmt: skip
    if min(lengths) < _LEAST * lanes:
        return None
    return Transposed(down, lanes, BANKS // size, frozenset(sources))


class SwizzledTiles:
    """Rewrites and schedules a stage that reads tensors transposed.

    `tail`: the stage.
    `tiles`: tiles of a block, one below the other: an integer or a knob.
    `inlined`: stages of the new graph that are computed where they are read; stages are added.
    `old`: the stages of before of stages of the new graph.
    """

    def __init__(
        self,
        found: Transposed,
        tail: te.Tensor,
        tiles: Any,
        inlined: set[te.Tensor],
        old: Mapping[te.Tensor, te.Tensor],
    ) -> None:
        self.found = found
        self.tail = tail
        self.tiles = tiles
        self.inlined = inlined
        self.old = old
        self.chunks = found.side // found.lanes
        #: Vectors that lie in one bank.
        self.of_bank = max(1, found.side // (found.lanes * _BANKS))
        self.made: dict[Read, te.Tensor] = {}

    def refined(self, tensor: te.Tensor, plain: te.Tensor) -> tuple[te.Tensor, ...]:
        """Return what takes the place of a stage of the kernel: the tail reads tiles."""
        tail = written_out(tensor, self.inlined)
        if plain is not self.tail:
            self.inlined.add(tail)
            return (tail,)
        assert isinstance(tail.op, ComputeOp)
        (body,) = tail.op.body
        axes = tail.op.axis
        i, j = axes[self.found.down].var, axes[-1].var
        side, lanes = self.found.side, self.found.lanes

        def read(source: te.Tensor, indices: tuple[Expr, ...]) -> Expr:
            plain = Read(source, indices)
            place = _position(indices[:-1], j)
            is_source = self.old.get(source, source) in self.found.sources
            if not is_source or place is None or indices[-1] is not i:
                return plain
            if plain not in self.made:
                self.made[plain] = self._tile(plain, place)
            front = [x for x in indices[:-1] if x is not j]
            column = self._swizzled(i % side // lanes, j % side)
            return self.made[plain][(*front, j // side, j % side, i // side, column, i % lanes)]

        value = ReadRewriter(read).expr(body)
        return (ComputeOp(tail.op.name, axes, (value,)).output(),)

    def _swizzled(self, chunk: Any, row: Any) -> Any:
        """Return the place of a vector in a row of a tile."""
        if self.found.lanes == 1:
            return chunk  # rows are padded instead
        number = row // self.found.lanes * self.of_bank
        return te.bitwise_xor(chunk, number % self.chunks)

    def _tile(self, read: Read, place: int) -> te.Tensor:
        """Return a stage with all tiles of a tensor; each block computes its own tile."""
        source, lanes, side = read.tensor, self.found.lanes, self.found.side
        sizes = [int(n) for n in source.shape]
        down, along = sizes[place], sizes[-1]

        def element(*index: Any) -> Any:
            *front, first, row, second, chunk, lane = index
            column = (second * self.chunks + self._swizzled(chunk, row)) * lanes
            at = [*front, column + lane]
            at.insert(place, first * side + row)
            inside = te.all(first * side + row < down, column < along)
            return te.if_then_else(inside, source[tuple(at)], te.const(0, source.dtype))

        others = [n for d, n in enumerate(sizes[:-1]) if d != place]
        shape = (
            *others, -(-down // side), side, te.ceildiv(along, side * self.tiles) * self.tiles,
            self.chunks, lanes,
        )  # fmt: skip
        made: te.Tensor = te.compute(shape, element, name=f"{source.name}.tile")
        return made

    def schedule(self, s: Schedule, tail: te.Tensor) -> None:
        """Compute tiles in blocks: their threads load rows of vectors, and store such rows."""
        stage, axes = s[tail], list(tail.op.axis)
        i, j = axes[self.found.down], axes[-1]
        down, inside = stage.split(i, factor=self.found.side * self.tiles)
        step, thread_y = stage.split(inside, factor=_THREADS // self.chunks)
        along, inside = stage.split(j, factor=self.found.side)
        thread_x, lane = stage.split(inside, factor=self.found.lanes)
        others = [a for a in axes if a is not i and a is not j]
        stage.reorder(*others, down, along, thread_y, thread_x, step, lane)
        block = stage.fuse(*others, down, along)
        bind(stage, {"blockIdx.x": block, "threadIdx.y": thread_y, "threadIdx.x": thread_x})
        stage.unroll(step)
        stage.vectorize(lane)
        for tile in map(s.__getitem__, self.made.values()):
            tile.set_scope("shared")
            tile.compute_at(stage, block)
            self._fetch(tile, tile.op.axis[-5:])

    def _fetch(self, tile: Any, axes: Sequence[Any]) -> None:
        first, row, second, chunk, lane = axes
        if self.found.lanes == 1:
            tile.storage_align(row, self.found.side, self.of_bank)
        step, thread = tile.split(tile.fuse(row, second), factor=_THREADS // self.chunks)
        tile.reorder(first, step, thread, chunk, lane)
        bind(tile, {"threadIdx.y": thread, "threadIdx.x": chunk})
        tile.unroll(step)
        tile.vectorize(lane)


def _position(indices: Sequence[Expr], var: Expr) -> int | None:
    """Return the place of a variable among indices; None if it is at none or at several."""
    places = [n for n, index in enumerate(indices) if index is var]
    return places[0] if len(places) == 1 else None
