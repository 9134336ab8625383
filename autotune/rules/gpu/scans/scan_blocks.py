"""Scans on GPUs whose steps are products: a block computes some columns, with all their steps.

::

    for (t)                                      block (i.outer)
      for (j, i)  S[t, j, i] = ...                 for (t)
      for (i)  M[t, i] = max(M[t - 1, i], S)         threads  S[j, i.inner] = ...
    for (i)  Y[i] = f(M[last, i])          ->        barrier
                                                     threads  M[i.inner] = max(M[i.inner], S)
                                                     barrier
                                                   threads  Y[i] = f(M[i.inner])

Only what one step of a block computes exists at a time, in shared memory. Stages that only steps
read, at the present step, are computed in the steps. Products have tiles in registers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import compress
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.rules.gpu.default_tiles import tile_within
from autotune.rules.gpu.matrix_products import (
    LEAST,
    Product,
    Tiled,
    is_same_element,
    product_of,
    runs_of,
    tiled,
)
from autotune.rules.gpu.product_loops import Tiles, schedule_product
from autotune.rules.gpu.thread_loops import BANKS, ENOUGH_BLOCKS, bind, lane_counts
from autotune.rules.knob_definer import KnobDefiner
from autotune.rules.reductions.split_reductions import joined, partial_results
from autotune.rules.scans.cells import Cell, cell_of, is_contraction
from autotune.rules.stage_graph import extent, reads_in
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage
from autotune.target import Target
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation, producers_first

#: Columns of a block.
_ROWS: Final = (64, 32, 16, 8)
#: Least number of columns of a block by default.
_LEAST_ROWS: Final = 16
#: Bytes for the operands of products.
_TILES: Final = 16 << 10
#: Least number of steps of a part of a reduction.
_LEAST_STEPS: Final = 8


def block_scans(outputs: Sequence[te.Tensor], target: Target) -> list[BlockScan]:
    """Return the scans of a graph with products in their steps that blocks can compute."""
    ops = producers_first([t.op for t in outputs])
    scans = [op for op in ops if isinstance(op, ScanOp)]
    cells = [cell_of(scan, ops, outputs, ()) for scan in scans]
    found = [
        BlockScan(cell, target)
        for cell in cells
        if cell.outside is not None and any(map(is_contraction, cell.stages))
    ]
    return [block for block in found if block.sizes]


class BlockScan:
    """The knobs and loops of one scan.

    `cell`: what its steps compute, as it was written.
    """

    def __init__(self, cell: Cell, target: Target) -> None:
        self.cell, self.target = cell, target
        assert cell.outside is not None
        self.outside = cell.outside.op
        lengths = [extent(axis) for axis in cell.outside.columns]
        #: Position of the columns that a block has several of, among the columns.
        self.main = max((n for n, length in enumerate(lengths) if length > 1), default=0)
        length, grain = lengths[self.main], cell.outside.grain
        sizes = [n for n in _ROWS if grain is None or grain % n == 0] or [grain or 1]
        sizes = [n for n in sizes if n < 2 * length] or sizes[-1:]
        #: Possible numbers of columns of a block.
        self.sizes = [n for n in sizes if self._fits(n)]
        self.blocks = math.prod(lengths) // length, length
        self.rows = self.threads = 0
        self.products: dict[te.Tensor, Tiled] = {}
        self.reductions: dict[te.Tensor, te.Tensor] = {}
        self.shared = set(cell.scan.state_placeholder)

    @property
    def stages(self) -> set[Operation]:
        """All stages that are computed in its blocks."""
        return {*self.cell.stages, self.outside}

    def define_knobs(self, cfg: KnobDefiner) -> None:
        """Define the columns and the threads of a block."""
        others, length = self.blocks
        usual = next(
            (n for n in self.sizes if others * -(-length // n) >= ENOUGH_BLOCKS),
            min((n for n in self.sizes if n >= _LEAST_ROWS), default=self.sizes[0]),
        )
        self.rows = operator.index(cfg.define_knob("scan_rows", self.sizes, usual))
        self.threads = operator.index(cfg.define_knob("scan_threads", [128, 64, 256]))

    def _fits(self, rows: int) -> bool:
        """Whether states and results of a step fit in the shared memory of a block."""
        self.rows = rows
        total = _TILES
        for op in self.cell.stages:
            if not op.reduce_axis or self.cell.end_of(op) is None:
                copies = 2 if op.outputs[0] in self.cell.scan.update else 1
                elements = math.prod(self._length(op, axis) for axis in self._own(op))
                total += copies * elements * sum(dtypes.itemsize(t.dtype) for t in op.outputs)
        assert self.target.gpu is not None
        return total <= self.target.gpu.shared_bytes

    # -- stages --------------------------------------------------------------------------------

    def refined(self, tensor: te.Tensor, plain: te.Tensor) -> tuple[te.Tensor, ...]:
        """Return what takes the place of a stage: a product becomes tiles."""
        op = plain.op
        stages = self._stages(tensor, op) if op.reduce_axis else (tensor,)
        self.shared.add(stages[-1])
        return stages

    def _stages(self, tensor: te.Tensor, op: Operation) -> tuple[te.Tensor, ...]:
        assert isinstance(op, ComputeOp)
        own = self._own(op)
        product = product_of(tensor, [axis for axis in op.axis if axis not in own])
        if product is None:
            return self._parts(tensor, op)
        m, n = (
            math.prod(self._length(op, axis) for axis in axes)
            for axes in (product.rows, product.columns)
        )
        if min(m, n) < LEAST:
            return self._parts(tensor, op)
        made = tiled(product, self._tiles(product, m, n), self.shared)
        self.products[made.result] = made
        return made.stages

    def _parts(self, tensor: te.Tensor, op: Operation) -> tuple[te.Tensor, ...]:
        """Return a reduction in registers; in parts if its elements are fewer than threads."""
        elements = math.prod(self._length(op, axis) for axis in self._own(op))
        parts = min(self.threads // elements, extent(tensor.op.reduce_axis[0]) // _LEAST_STEPS)
        if parts < 2:
            return tensor, self._copied(tensor)
        part = partial_results(tensor, 1 << (parts.bit_length() - 1), 1, in_turns=True)
        stored = self._copied(part)
        total = joined(tensor, stored)
        return part, stored, total, self._copied(total)

    def _copied(self, reduction: te.Tensor) -> te.Tensor:
        copy: te.Tensor = te.compute(
            reduction.shape, lambda *i: reduction[i], name=f"{reduction.name}_copy"
        )
        self.reductions[copy] = reduction
        return copy

    def _own(self, op: Operation) -> list[Any]:
        """Return the axes of a stage along which a block has several elements in a step."""
        assert isinstance(op, ComputeOp)
        apart = [axis for n, axis in enumerate(self._columns(op)) if n != self.main]
        if op in self.cell.stages:
            apart.append(op.axis[self.cell.stages[op]])
        return [axis for axis in op.axis if not any(axis is a for a in apart)]

    def _columns(self, op: Operation) -> list[Any]:
        outside = self.cell.outside
        assert outside is not None
        return outside.columns if op is outside.op else self.cell.columns.get(op, [])

    def _length(self, op: Operation, axis: Any) -> int:
        """Return the length of an axis within a block."""
        columns = self._columns(op)
        is_main = bool(columns) and columns[self.main] is axis
        return min(self.rows, extent(axis)) if is_main else extent(axis)

    def _tiles(self, product: Product, m: int, n: int) -> Tiles:
        tile = tile_within(self.threads, m, n)
        types = [read.dtype for read, _ in product.sides] + [product.tensor.dtype]
        widths = lane_counts(self.target, max(types, key=dtypes.itemsize))
        fetched = [read.tensor not in self.shared for read, _ in product.sides]
        runs = [run for _, run in compress(runs_of(product), fetched) if run % 2 == 0]
        fetch = next(w for w in widths[::-1] if w == 1 or not any(run % w for run in runs))
        # Tiles with 8 steps, whose rows are padded by 4, are stored transposed without conflicts.
        depth = 8 if any(product.is_steps_last(read, way) for read, way in product.sides) else 16
        return Tiles(
            tile.warps, tile.lanes, tile.own, tile.virtual, depth, depth, fetch,
            pad=4, ahead="registers", group=1, resident=0, widest=widths[-1],
        )  # fmt: skip

    # -- loops ---------------------------------------------------------------------------------

    def schedule(self, s: Schedule, scan: ScanOp, outside: te.Tensor) -> None:
        """Write the loops of a scan, which takes the place of the one of before."""
        ops = [stage.op for stage in s.stages]
        outputs = [t for stage in s.stages if stage.is_output for t in stage.outputs]
        self.cell = cell = cell_of(scan, ops, outputs, ())
        assert cell.outside is not None
        stage, columns = s[outside], cell.outside.columns
        main = columns[self.main]
        block, row = stage.split(main, factor=self.rows)
        tasks = [axis for axis in columns if axis is not main]
        inner = [axis for axis in outside.op.axis if not any(axis is c for c in columns)]
        stage.reorder(*tasks, block, row, *inner)
        block = stage.fuse(*tasks, block)
        bind(stage, {"blockIdx.x": block})
        loop = s[scan.outputs[0]]
        loop.compute_at(stage, block)
        self._over_threads(s, outside, [row, *inner])
        for first in scan.init:
            self._over_threads(s, first, self._own(first.op))
        ends = {self._end_of(result): result for result in (*self.products, *self.reductions)}
        inside = {t for made in self.products.values() for t in made.stages[:-1]}
        inside = inside.union(self.reductions.values(), ends.values()) - set(ends)
        for op in cell.stages:
            tensor = op.outputs[0]
            if tensor in inside:
                continue
            if op not in scan.cell:
                s[tensor].compute_at(loop, loop.leaf_axes[-1])
            result = ends.get(tensor, tensor)
            if result is not tensor:
                s[result].compute_inline()
            if result in self.products:
                self._product(s, self.products[result], tensor)
                continue
            thread = self._over_threads(s, tensor, self._own(op), result in self.reductions)
            if result in self.reductions:
                s[self.reductions[result]].compute_at(s[tensor], thread)

    def _end_of(self, result: te.Tensor) -> te.Tensor:
        """Return what is stored in place of a reduction: its only reader, or its copy."""
        assert isinstance(result.op, ComputeOp)
        end = self.cell.end_of(result.op)
        is_end = end is not None and is_same_element(result, end.output())
        return end.output() if is_end and end is not None else result

    def _product(self, s: Schedule, made: Tiled, tail: te.Tensor) -> None:
        batch, rows, columns = made.product.loops(s[tail])
        schedule_product(
            s, tail, (rows, columns), made.total, made.operands, made.tiles, batch, in_blocks=False
        )
        if tail not in self.cell.scan.update:
            self._spread(s[tail], made)

    def _spread(self, stage: Stage, made: Tiled) -> None:
        """Pad short rows of a product behind those of a thread, whose neighbours store at once.

        Otherwise the rows of all threads would begin in the same banks.
        """
        own, banks = made.tiles.own[0], BANKS // dtypes.itemsize(made.result.dtype)
        *_, row, column = made.product.tensor.op.axis
        length = self._length(stage.op, stage.op.axis[-1])
        is_plain = made.product.rows[-1] is row and made.product.columns[-1] is column
        if is_plain and length < banks and own * length % banks == 0:
            stage.transform_layout(lambda *i: (*i[:-2], i[-2] // own, i[-2] % own, i[-1]))
            stage.storage_align(stage.op.axis[-2], banks, length)

    def _over_threads(
        self, s: Schedule, tensor: te.Tensor, axes: Sequence[Any], has_sums: bool = False
    ) -> Any:
        """Let all threads compute the elements of a stage; return the loop over threads."""
        stage, reduced = s[tensor], tensor.op.reduce_axis
        others = [a for a in stage.leaf_axes if not any(a is b for b in (*axes, *reduced))]
        stage.reorder(*others, *axes)
        lanes = 1 if reduced or has_sums else self._lanes(tensor)
        fused, lane = stage.split(stage.fuse(*axes), factor=lanes)
        elements = math.prod(self._length(tensor.op, axis) for axis in self._own(tensor.op))
        step, thread = stage.split(fused, factor=min(self.threads, elements // lanes))
        stage.reorder(step, thread, *reduced, lane)
        stage.vectorize(lane)
        bind(stage, {"threadIdx.x": thread})
        return thread

    def _lanes(self, tensor: te.Tensor) -> int:
        """Return the elements of a vector, of which each thread has one at least.

        Those that it is computed from move together, too.
        """
        last, op = tensor.op.axis[-1], tensor.op
        widest = max((tensor.dtype, *(r.dtype for r in reads_in(op))), key=dtypes.itemsize)
        length = math.gcd(self._length(op, last), extent(last))
        elements = math.prod(self._length(op, axis) for axis in self._own(op))
        counts = lane_counts(self.target, widest)
        usable = (n for n in counts if length % n == 0 and n * self.threads <= elements)
        return max(usable, default=1)
