"""The tile of a product that suits its sizes, by a rough model of a multiprocessor's time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final

from autotune.rules.gpu.thread_loops import ENOUGH_BLOCKS, MULTIPROCESSORS, WARP

#: Multiplications and additions of a multiprocessor, and bytes that it gets from the L2 cache, in a
#: clock.
_FLOPS: Final = 128
_BYTES: Final = 24
#: Clocks of a wide load of a warp from shared memory, and warps that keep a multiprocessor busy.
_SHARED_LOAD: Final = 2
_BUSY: Final = 8
#: Least clocks of a step, as what is loaded for 16 of them takes 400, and those of a kernel more.
_LATENCY: Final = 25
_KERNEL: Final = 3000
#: Elements of 4 bytes in all banks of shared memory.
_BANKS: Final = 32
#: Relative time of tiles that are as good.
_AS_GOOD: Final = 1.1
#: Threads of a block by default.
_THREADS: Final = (64, 256)


@dataclass(frozen=True, slots=True)
class BlockTile:
    """The tile of a block; every size is a number or a knob."""

    #: Warps of a block along rows and along columns.
    warps: tuple[Any, Any]
    #: Threads of a warp along both.
    lanes: tuple[Any, Any]
    #: Elements side by side that a thread computes, along both, for each virtual thread.
    own: tuple[Any, Any]
    #: Virtual threads: times that a warp's threads, side by side, are laid over its tile.
    virtual: tuple[Any, Any]

    @property
    def threads(self) -> Any:
        """Threads of a block."""
        return self.warps[0] * self.warps[1] * WARP

    @property
    def rows(self) -> Any:
        """Rows of a block's tile."""
        return self._size(0)

    @property
    def columns(self) -> Any:
        """Columns of a block's tile."""
        return self._size(1)

    def _size(self, way: int) -> Any:
        return self.warps[way] * self.virtual[way] * self.lanes[way] * self.own[way]


@cache
def default_tile(sizes: tuple[int, int, int, int]) -> BlockTile:
    """Return the tile that takes the least time for some products of rows, columns and steps.

    Another one is as good if it lets all multiprocessors work and takes little more.
    """
    clocks = {tile: _clocks(tile, sizes) for tile in _tiles()}
    best = min(clocks, key=clocks.__getitem__)
    good = [
        tile for tile in clocks
        if clocks[tile] <= _AS_GOOD * clocks[best] and blocks_of(tile, sizes) >= ENOUGH_BLOCKS
    ]  # fmt: skip
    return min(good, key=clocks.__getitem__, default=best)


def default_parts(sizes: tuple[int, int, int, int], most: int) -> int:
    """Return the fewest parts of the steps, a power of 2, with which products take little time.

    Blocks may then have larger tiles, or wait less, but another kernel adds the parts up.
    """
    count, rows, columns, steps = sizes
    clocks: dict[int, float] = {}
    for parts in (1 << n for n in range(max(1, most).bit_length())):
        own = (count * parts, rows, columns, -(-steps // parts))
        tile, moved = default_tile(own), 2 * 4 * math.prod(own[:3])
        whole = _KERNEL + moved / (_BYTES * MULTIPROCESSORS) if parts > 1 else 0
        clocks[parts] = own[3] * max(_clocks(tile, own), _LATENCY) + whole
    return next(n for n in clocks if clocks[n] <= _AS_GOOD * min(clocks.values()))


@cache
def tile_within(threads: int, rows: int, columns: int) -> BlockTile:
    """Return the tile with which the threads of one block compute a product in the least time.

    Eight threads store a row of all banks of shared memory, if there are as many columns.
    """
    sizes, side = (1, rows, columns, 1), min(_BANKS, columns)
    own = [tile for tile in _tiles() if tile.threads == threads]
    return min(
        [tile for tile in own if tile.lanes[1] * tile.own[1] >= side] or own,
        key=lambda tile: blocks_of(tile, sizes) * _block_clocks(tile),
    )


def blocks_of(tile: BlockTile, sizes: tuple[int, int, int, int]) -> int:
    """Return the number of blocks of a tile each."""
    count, rows, columns, _ = sizes
    return int(count * -(-rows // tile.rows) * -(-columns // tile.columns))


@cache
def _tiles() -> tuple[BlockTile, ...]:
    found = [
        BlockTile((wm, wn), (lanes, WARP // lanes), (own_m, own_n), (virtual_m, virtual_n))
        for own_n, own_m, virtual_n, virtual_m in product((4, 2), (4, 2), (2, 1), (2, 1))
        for wn, wm, lanes in product((4, 2, 1), (2, 1, 4), (8, 4, 2, 16))
    ]
    return tuple(tile for tile in found if _THREADS[0] <= tile.threads <= _THREADS[1])


def _clocks(tile: BlockTile, sizes: tuple[int, int, int, int]) -> float:
    """Return the time for one step of the reduction, of the multiprocessor with the most work."""
    each = -(-blocks_of(tile, sizes) // MULTIPROCESSORS)
    waiting = math.sqrt(max(1.0, _BUSY / (tile.threads / WARP * each)))
    return each * _block_clocks(tile) * waiting


def _block_clocks(tile: BlockTile) -> float:
    """Return the time of a block for one step of the reduction, without waiting."""
    own = [o * v for o, v in zip(tile.own, tile.virtual, strict=True)]
    loads = sum(n / 4 for n in own)
    compute = tile.rows * tile.columns / _FLOPS + _SHARED_LOAD * loads * tile.threads / WARP / 2
    fetch = (tile.rows + tile.columns) * 4 / _BYTES
    return float(max(compute, fetch) + fetch / 4)
