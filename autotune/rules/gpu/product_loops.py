"""A product of matrices on GPUs: its knobs, and the loops that they make.

Blocks compute tiles; the operands' tiles are fetched into shared memory by all threads of a block
together, from there by each thread into registers; sums stay in registers until the end. What the
operands are computed from is left to the caller: matrices as they are, or windows of images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune import te
from autotune.rules.gpu.default_tiles import BlockTile, default_tile
from autotune.rules.gpu.thread_loops import WARP, bind
from autotune.rules.knob_definer import KnobDefiner
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage

REGISTERS = 64 * 1024  # Registers of a multiprocessor, on every architecture from sm_70 on.

# Registers of a thread that hold no sums: operands, addresses, loop variables; a rough rule.
OTHER_REGISTERS = 24

MAX_SIDE_BY_SIDE = 1024  # Threads of blocks side by side on a multiprocessor.


@dataclass(frozen=True, slots=True)
class Tiles(BlockTile):
    """How a product is cut up into tiles of blocks, by the knobs that `gpu_schedule` describes."""

    depth: Any
    unroll: Any
    fetch: Any
    pad: Any
    ahead: str
    group: Any
    resident: Any
    #: Elements in the widest access there is.
    widest: int

    def padded(self, m: int, n: int, k: int) -> tuple[Any, Any, Any]:
        """Return rows, columns and steps with tiles that stick out counted whole."""
        return (
            te.ceildiv(m, self.rows) * self.rows,
            te.ceildiv(n, self.columns) * self.columns,
            te.ceildiv(k, self.depth) * self.depth,
        )


def define_tiles(
    cfg: KnobDefiner, sizes: tuple[int, int, int, int], widths: Sequence[int], runs: Sequence[int]
) -> Tiles:
    """Define the knobs of a product; their defaults suit its sizes.

    `cfg`: where to define them.
    `sizes`: number of products, and rows, columns and steps of each.
    `widths`: elements that one access may move, from 1 on.
    `runs`: elements of each operand that follow one another in memory, where it is fetched in
    vectors: these divide them.
    """
    knob, usual = cfg.define_knob, default_tile(sizes)
    warps_m = knob("warps_m", [2, 1, 4, 8], usual.warps[0])
    warps_n = knob("warps_n", [4, 1, 2, 8], usual.warps[1])
    lanes_m = knob("lanes_m", [8, 1, 2, 4, 16, 32], usual.lanes[0])
    own_m = knob("own_m", [4, 1, 2, 8], usual.own[0])
    own_n = knob("own_n", [4, 1, 2, 8], usual.own[1])
    virtual_m = knob("virtual_m", [2, 1, 4], usual.virtual[0])
    virtual_n = knob("virtual_n", [2, 1, 4], usual.virtual[1])
    # With these a warp that stores a tile transposed, in vectors of 4 steps, meets no bank twice.
    steps, padding = (8, 4) if usual.own[0] == 4 or sizes[3] <= 8 else (16, 2)
    depth = knob("depth", [16, 4, 8, 32], steps)
    unroll = knob("unroll", [16, 1, 2, 4, 8, 32], steps)
    fetches = list(widths)[::-1]
    fetched = next(n for n in fetches if n == 1 or (runs and not any(run % n for run in runs)))
    groups, rows = [8, 1, 2, 4, 16], -(-sizes[1] // usual.rows)
    tiles = Tiles(
        (warps_m, warps_n), (lanes_m, WARP // lanes_m), (own_m, own_n), (virtual_m, virtual_n),
        depth, unroll,
        fetch=knob("fetch", fetches, fetched),
        pad=knob("pad", [4, 0, 1, 2], padding),
        ahead=knob("ahead", ["registers", "copies", "shared", "no"]),
        group=knob("group", groups, max(n for n in groups if n <= 8 and rows % n == 0)),
        resident=knob("resident", [2, 0, 1, 3]),
        widest=widths[-1],
    )  # fmt: skip
    sums, side_by_side = own_m * own_n * virtual_m * virtual_n, te.max(tiles.resident, 1)
    side_by_side = side_by_side * tiles.threads
    cfg.add_constraint(
        (sums + OTHER_REGISTERS) * side_by_side <= REGISTERS,
        "the sums of blocks side by side fit in the registers of a multiprocessor",
    )
    cfg.add_constraint(
        side_by_side <= MAX_SIDE_BY_SIDE,
        f"blocks side by side have at most {MAX_SIDE_BY_SIDE} threads",
    )
    cfg.add_constraint(unroll <= depth, "no more steps are written out than lie in shared memory")
    for run in runs or [1]:
        cfg.add_constraint(run % tiles.fetch == 0, "rows are whole numbers of vectors")
    cfg.add_constraint(
        te.ceildiv(sizes[1], tiles.rows) % tiles.group == 0, "rows of tiles are whole groups"
    )
    return tiles


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand's tile."""

    #: Computed, with zeros beyond its edges; its last two axes are its rows or columns, and the
    #: steps of the reduction.
    tensor: te.Tensor
    #: 0 if it has the rows of the result, 1 if the columns.
    way: int
    #: Whether steps are the last axis, as neighbours in memory are steps: then it lies transposed
    #: in shared memory.
    steps_last: bool
    #: Whether several elements are fetched together.
    in_vectors: bool = True
    #: Whether neighbours of a step are computed together, as their addresses have much in common.
    in_windows: bool = False
    #: Whether they lie in shared memory already.
    is_shared: bool = False


def schedule_product(
    s: Schedule,
    result: te.Tensor,
    axes: tuple[Any, Any],
    total: te.Tensor,
    operands: Sequence[Operand],
    tiles: Tiles,
    batch: Sequence[Any] = (),
    in_vectors: bool = True,
    in_blocks: bool = True,
) -> None:
    """Schedule a product.

    `result`: what is stored, computed from the sums.
    `axes`: loops of the result over rows and columns.
    `total`: the sums; they are reduced over one axis, their last two axes are rows and columns.
    `operands`: what it reads.
    `batch`: loops of the result for each of which there is a product.
    `in_vectors`: whether the columns that a thread computes are stored together.
    `in_blocks`: whether each tile has a block, else the threads of one block compute all tiles.
    """
    registers = [
        o.tensor if o.is_shared else s.cache_read(o.tensor, "local", [total]) for o in operands
    ]
    stage = s[result]
    (by, wy, vy, ty, i), (bx, wx, vx, tx, j) = (
        _tiled(stage, axis, sizes)
        for axis, *sizes in zip(
            axes, tiles.warps, tiles.virtual, tiles.lanes, tiles.own, strict=True
        )
    )
    inside = (vy, vx, wy, wx, ty, tx, i, j)
    if in_blocks:
        by, down = stage.split(by, factor=tiles.group)
        stage.reorder(*batch, by, bx, down, *inside)
        block = stage.fuse(*batch, by, bx, down)
        bind(stage, {"blockIdx.x": block})
        stage.pragma(block, "blocks_per_multiprocessor", tiles.resident)
    else:
        stage.reorder(*batch, by, bx, *inside)
    thread = stage.fuse(wy, wx, ty, tx)
    bind(stage, {"threadIdx.x": thread})
    for virtual in (vy, vx):
        stage.bind(virtual, te.thread_axis("vthread"))
    s[total].compute_at(stage, thread)
    outer, inner = s[total].split(total.op.reduce_axis[0], factor=tiles.depth)
    inner, step = s[total].split(inner, factor=tiles.unroll)
    s[total].reorder(outer, inner, step, *total.op.axis)
    s[total].unroll(step)
    _caches(s, total, outer, step, operands, registers, tiles)
    if in_vectors:
        _vectors(stage, j, tiles.own[1], tiles.widest)


def _caches(
    s: Schedule,
    total: te.Tensor,
    outer: Any,
    step: Any,
    operands: Sequence[Operand],
    registers: Sequence[te.Tensor],
    tiles: Tiles,
) -> None:
    """Let blocks fetch the operands' tiles, and threads what they need of them."""
    fetched = [operand for operand in operands if not operand.is_shared]
    for operand in fetched:
        stage, own = s[operand.tensor], operand.tensor.op.axis
        if operand.steps_last:
            stage.transform_layout(lambda *index: (*index[:-2], index[-1], index[-2]))
            size = (tiles.rows, tiles.columns)[operand.way]
            stage.storage_align(own[-1], size, tiles.pad)
    for operand in fetched:
        stage = s[operand.tensor]
        stage.set_scope("shared")
        stage.compute_at(s[total], outer)
        lanes: Any = tiles.fetch if operand.in_vectors else 1
        if operand.in_windows:
            size = (tiles.rows, tiles.columns)[operand.way] * tiles.depth
            lanes = te.max(1, te.min(tiles.widest, size // tiles.threads))
        _fetched(stage, tiles.threads, lanes)
        if tiles.ahead != "no":
            stage.double_buffer(None if tiles.ahead == "shared" else tiles.ahead)
    for operand, cache in zip(operands, registers, strict=True):
        s[cache].compute_at(s[total], step)
        axis = cache.op.axis[-2 if operand.steps_last else -1]
        _vectors(s[cache], axis, tiles.own[operand.way], tiles.widest)


def _tiled(stage: Stage, axis: Any, sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Split an axis of the result into blocks, and these again and again, given outermost first."""
    inner: list[Any] = []
    for size in reversed(sizes):
        axis, part = stage.split(axis, factor=size)
        inner.insert(0, part)
    return axis, *inner


def _fetched(stage: Stage, threads: Any, lanes: Any) -> None:
    """Let all threads of a block fill a tile together, some elements of its last axis at a time."""
    rest, vector = stage.split(stage.fuse(*stage.op.axis[-2:]), factor=lanes)
    stage.vectorize(vector)
    rest, thread = stage.split(rest, factor=threads)
    bind(stage, {"threadIdx.x": thread})


def _vectors(stage: Stage, axis: Any, own: Any, widest: int) -> None:
    """Move a thread's elements, which lie side by side, in the widest pieces there are."""
    _, vector = stage.split(axis, factor=te.min(own, widest))
    stage.vectorize(vector)
