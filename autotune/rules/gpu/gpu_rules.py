"""The rules for GPUs: tiled products, shared rows, single elements, and scans.

`fusion_plan` decides which stages each kernel computes, and `kernel_knobs` its knobs; this file
makes its loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune import te
from autotune.ir import dtypes
from autotune.ir.visitor import mentions
from autotune.rules.gpu.column_vectors import (
    ColumnVectors,
    flattened,
    in_shape,
    lanes_of_columns,
    windows_of,
)
from autotune.rules.gpu.fusion_plan import FusedKernel, FusionPlan, is_reduction, long_axes, plan
from autotune.rules.gpu.kernel_knobs import GpuKnobs
from autotune.rules.gpu.matrix_products import Product, Tiled, product_of, tiled
from autotune.rules.gpu.product_loops import schedule_product
from autotune.rules.gpu.register_rows import RegisterRows, kept_rows
from autotune.rules.gpu.row_loops import goes_along, schedule_rows
from autotune.rules.gpu.scans.scan_blocks import block_scans
from autotune.rules.gpu.scans.scan_series import GpuSeries
from autotune.rules.gpu.scans.scan_threads import schedule_scan
from autotune.rules.gpu.split_sums import split_sums
from autotune.rules.gpu.swizzled_tiles import SwizzledTiles, transposed_reads
from autotune.rules.gpu.thread_loops import bind, lane_counts, row_lanes, schedule_on_gpu
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.rewrite_graph import rewrite
from autotune.rules.stage_graph import extent, iterations, reads_in, written_out
from autotune.schedule.schedule import Schedule
from autotune.te.scan import ScanOp


def gpu_schedule(cfg: KnobDefiner, outputs: Sequence[te.Tensor]) -> Schedule:
    """Define the knobs of a computation's kernels and return the schedule that they make.

    In each kind, the kernel with the most work has knobs; the others have the defaults.

    Knobs:

    - `warps_m`, `warps_n`: for products: warps of a block along rows and columns.
    - `lanes_m`: threads of a warp along rows, of 32.
    - `own_m`, `own_n`: adjacent rows and columns that a thread computes, for each virtual thread.
    - `virtual_m`, `virtual_n`: virtual threads: number of times that the threads of a warp are
      repeated across its tile.
    - `depth`: reduction steps whose operands are in shared memory at a time.
    - `unroll`: steps of the reduction that are unrolled.
    - `fetch`: elements that a thread loads together.
    - `pad`: padding in elements between the rows of a transposed tile in shared memory, against
      bank conflicts of the stores.
    - `group`: rows of tiles that consecutive blocks cover before they move one column right, for
      reuse in the L2 cache.
    - `resident`: blocks that should run at once on a multiprocessor, which limits their registers;
      0 leaves it to the compiler.
    - `ahead`: whether the next tiles are loaded while the present ones are used: "registers" loads
      them into registers first, "copies" copies them asynchronously, "shared" stores them at once.
    - `threads`, `rows`, `each`, `lanes`: of reductions: threads of a row, rows of a block, rows
      that a thread works on one after the other, elements of a row that it stores together. Down
      columns: threads of a vector of columns, vectors of a block and of a thread, columns of a
      vector. Without a reduction: threads of a block, elements of a thread, and elements that it
      computes together.
    - `tiles`: of transposes: tiles of a block.
    - `parts`: of sums whose results are few: partial results of each, which another kernel adds up.
    - `scan`, `scan_block`, `scan_lanes`, `scan_vectors`: of associative scans: "blocks" or "steps",
      steps of a block, neighbouring columns of a thread, vectors of a thread's row; see
      `scans/scan_series.py`.
    - `scan_threads`, `scan_rows`, `scan_unroll`: of scans: threads of a block, columns of a block,
      unrolled steps or terms of sums.
    """
    return _GpuKernels(cfg, outputs).schedule()


class _GpuKernels:
    """The kernels of a computation: their stages are rewritten, then their loops are written."""

    def __init__(self, cfg: KnobDefiner, outputs: Sequence[te.Tensor]) -> None:
        self.cfg = cfg
        apart = [op for block in block_scans(outputs, cfg.target) for op in block.stages]
        outputs, self.parts = split_sums(cfg, outputs, plan(outputs, apart))
        self.series = GpuSeries(cfg, outputs)
        self.outputs = self.series.outputs
        self.blocks = block_scans(self.outputs, cfg.target)
        for block in self.blocks:
            block.define_knobs(StageKnobs(cfg, self.series.numbers[block.cell.scan]))
        in_scans = self.series.stages.union(*(block.stages for block in self.blocks))
        self.made = plan(self.outputs, in_scans)
        splits = bool(self.parts or self.series.results)
        self.knobs = GpuKnobs(cfg, self.made, self.parts, splits, self.series.ends)
        self.flat = self.made.flat()
        #: Products in tiles, by the last stages of their kernels.
        self.products: dict[te.Tensor, Tiled] = {}
        #: Reductions with one axis over all elements, by the reductions in their own shape.
        self.flattened: dict[te.Tensor, te.Tensor] = {}
        #: The stage that each rewritten one replaces.
        self.old: dict[te.Tensor, te.Tensor] = {}
        self.rewritten = _rewritten(self.made, self.knobs, self.old)
        #: The rewritten scans, by those given.
        self.scans: dict[ScanOp, ScanOp] = {}

    def schedule(self) -> Schedule:
        """Rewrite the stages, and return the schedule of their kernels."""
        graph = rewrite(self.outputs, self._refine, self._refine_scan, self._refine)
        s: Schedule = te.create_schedule(list(dict.fromkeys(t.op for t in graph.outputs)))
        new = {old: stage for stage, old in graph.origin.items()}
        present = {stage.op for stage in s.stages}
        for plain in (t for t in self.made.hosts if new[t].op in present):
            if plain not in self.made.kernels and not is_reduction(new[plain]):
                s[new[plain]].compute_inline()
        loops = _Loops(s, self.knobs, new, self.flattened)
        for tail, kernel in self.made.kernels.items():
            if tail in self.rewritten:
                self.rewritten[tail].schedule(s, new[tail])
            elif tail in self.products:
                loops.product(self.products[tail], new[tail])
            else:
                loops.kernel(kernel, new[tail])
        self._schedule_scans(s, new)
        return s

    def _schedule_scans(self, s: Schedule, new: dict[te.Tensor, te.Tensor]) -> None:
        for block in self.blocks:
            block.schedule(s, self.scans.pop(block.cell.scan), new[block.outside.output()])
        self.series.schedule(s, new)
        for plain, scan in self.scans.items():
            if plain in self.series.numbers and plain not in self.series.stages:
                schedule_scan(StageKnobs(self.cfg, self.series.numbers[plain]), s, scan)

    def _refine(self, tensor: te.Tensor, plain: te.Tensor) -> tuple[te.Tensor, ...]:
        """Return the stages that replace one; `plain`: the stage as it was given."""
        block = next((own for own in self.blocks if plain.op in own.cell.stages), None)
        stages = self._refined(tensor, plain) if block is None else block.refined(tensor, plain)
        self.old[stages[-1]] = plain
        return stages

    def _refined(self, tensor: te.Tensor, plain: te.Tensor) -> tuple[te.Tensor, ...]:
        """As `_refine`, for a stage that is in no scan whose steps are products."""
        kernels = [self.made.kernels[host] for host in self.made.hosts.get(plain, ())]
        own = [self.rewritten[k.tail] for k in kernels if k.tail in self.rewritten]
        if own:
            return own[0].refined(tensor, plain)
        if not is_reduction(plain) or not kernels or kernels[0].is_plain:
            return (tensor,)
        product = product_of(tensor) if kernels[0].product is not None else None
        if product is not None:
            sums = [product.tensor.dtype] if self.parts else []  # which may be stored in parts
            widths = lane_counts(self.cfg.target, _widest(kernels[0], product, sums))
            made_tiles = tiled(product, self.knobs.tiles(kernels[0], product, widths))
            self.products[kernels[0].tail] = made_tiles
            return made_tiles.stages
        if plain not in self.flat or not tensor.op.axis:
            return (tensor,)
        self.flattened[plain] = flattened(tensor)
        return self.flattened[plain], in_shape(tensor, self.flattened[plain])

    def _refine_scan(self, scan: ScanOp, plain: ScanOp) -> Sequence[te.Tensor]:
        self.scans[plain] = scan
        return scan.outputs


def _rewritten(
    made: FusionPlan, knobs: GpuKnobs, old: dict[te.Tensor, te.Tensor]
) -> dict[te.Tensor, RegisterRows | SwizzledTiles | ColumnVectors]:
    """Return what rewrites kernels that keep rows in registers, transpose, or reduce columns."""
    found: dict[te.Tensor, RegisterRows | SwizzledTiles | ColumnVectors] = {}
    inlined: set[te.Tensor] = set()
    for tail, kernel in made.kernels.items():
        if kernel.product is not None:
            continue
        if kernel.is_plain or kernel.is_flat:
            width = knobs.column_lanes(kernel, lanes_of_columns(kernel, made, knobs.target))
            is_pair = kernel.is_plain and bool(tail.op.reduce_axis) and iterations(tail) > 0
            if width > 1 or (is_pair and tail.op.axis):
                is_alone = kernel.is_plain or bool(windows_of(kernel.reductions[0]))
                found[tail] = ColumnVectors(kernel, width, *knobs.columns(kernel, width, is_alone))
            continue
        if kernel.reductions:
            kept = kept_rows(kernel, made)
            if kept is not None:
                lanes = row_lanes(knobs.target, _type_of(tail), kept.columns)
                is_aligned = kept.columns % lanes[0] == 0
                sizes = knobs.kept_rows(kept, lanes)
                found[tail] = RegisterRows(kept, *sizes, is_aligned, inlined, old)
            continue
        inline = {t for t in made.inline if tail in made.hosts[t]}
        turned = transposed_reads(written_out(tail, inline), knobs.target.vector_bytes)
        if turned is not None:
            usual = turned.usual_tiles(tail)
            tiles = knobs.of(kernel).define_knob("tiles", [4, 1, 2, 8], usual)
            found[tail] = SwizzledTiles(turned, tail, tiles, inlined, old)
    return found


def _widest(kernel: FusedKernel, product: Product, others: Sequence[str]) -> str:
    """Return the type of the largest elements that a product moves, or of some others."""
    types = [r.dtype for r, _ in product.sides] + [kernel.tail.dtype, *others]
    return max(types, key=dtypes.itemsize)


@dataclass(frozen=True, slots=True)
class _Loops:
    """Schedules kernels, whose stages are given by the stages of before."""

    s: Schedule
    knobs: GpuKnobs
    new: dict[te.Tensor, te.Tensor]
    flattened: dict[te.Tensor, te.Tensor]

    def product(self, own: Tiled, tail: te.Tensor) -> None:
        """Compute a product in tiles."""
        stage, tiles = self.s[tail], own.tiles
        batch, rows, columns = own.product.loops(stage)
        in_vectors = own.product.run_of_result() % tiles.widest == 0
        schedule_product(
            self.s, tail, (rows, columns), own.total, own.operands, tiles, batch, in_vectors
        )

    def kernel(self, kernel: FusedKernel, tail: te.Tensor) -> None:
        """Compute a kernel that is not a product."""
        if kernel.is_plain:
            schedule_on_gpu(self.s, tail)
        elif not tail.op.axis:
            if is_reduction(tail):
                counts = [256, 32, 64, 128, 512, 1024]
                schedule_on_gpu(self.s, tail, self.knobs.of(kernel).define_knob("threads", counts))
        elif not kernel.reductions:
            self._elements(kernel, tail)
        elif kernel.is_flat:
            self._cells(kernel, tail)
        else:
            self._rows(kernel, tail)

    def _elements(self, kernel: FusedKernel, tail: te.Tensor) -> None:
        """Compute each element by itself."""
        stage, axes = self.s[tail], list(tail.op.axis)
        cfg = self.knobs.of(kernel)
        counts = row_lanes(self.knobs.target, _type_of(tail), math.prod(map(extent, axes)))
        lanes = cfg.define_knob("lanes", counts)
        threads = cfg.define_knob("threads", [256, 32, 64, 128, 512, 1024])
        each = cfg.define_knob("each", [1, 2, 4, 8])
        fused, vector = stage.split(stage.fuse(*axes), factor=lanes)
        block, thread = stage.split(fused, factor=threads)
        block, some = stage.split(block, factor=each)
        stage.reorder(block, some, thread, vector)
        stage.vectorize(vector)
        bind(stage, {"blockIdx.x": block, "threadIdx.x": thread})

    def _cells(self, kernel: FusedKernel, tail: te.Tensor) -> None:
        """Reduce elements each by itself, in the order in which they lie."""
        members = [self.flattened[t] for t in kernel.reductions]
        elements = math.prod(map(extent, tail.op.axis))
        how = self.knobs.cells(kernel, elements, kernel.longest, goes_along(kernel.reductions[0]))
        fused = self.s[tail].fuse(*tail.op.axis)
        reductions = [(m, m.op.axis[0]) for m in members]
        schedule_rows(self.s, tail, ((), fused, None), reductions, how)

    def _rows(self, kernel: FusedKernel, tail: te.Tensor) -> None:
        """Compute rows after their reductions."""
        axes = list(tail.op.axis)
        last = axes.index(long_axes(tail)[kernel.rows - 1])
        around, row, along = axes[:last], axes[last], axes[last + 1 :]
        columns = math.prod(map(extent, along))
        lanes = row_lanes(self.knobs.target, _type_of(tail), columns)
        how = self.knobs.rows(kernel, columns, lanes)
        members = [self.new[t] for t in kernel.reductions]
        fused = self.s[tail].fuse(*along)
        reductions = [(m, long_axes(m)[-1]) for m in members]
        schedule_rows(self.s, tail, (around, row, fused), reductions, how)


def _type_of(tail: te.Tensor) -> str:
    """Return the type of the largest elements that a stage moves along its last axis."""
    last = tail.op.axis[-1].var
    along = (r for r in reads_in(tail.op) if any(mentions(i, last) for i in r.children))
    return max((tail.dtype, *(r.dtype for r in along)), key=dtypes.itemsize)
