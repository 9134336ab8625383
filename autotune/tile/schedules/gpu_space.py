"""The search space of any Tile function on GPUs: tiled products, shared rows, and single elements.

`gpu_plan` decides which statements each kernel computes, and `gpu_knobs` its knobs; this file makes
its loops. Matrix products get the loops of the `matmul` template.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.expr import Reduce
from autotune.ir.visitor import free_vars, reads, substitute
from autotune.rules.stage_graph import extent, reduction_of
from autotune.schedule.recipes.gpu_loops import bind, lane_counts
from autotune.schedule.recipes.gpu_product import schedule_product
from autotune.schedule.recipes.gpu_rows import schedule_rows
from autotune.schedule.schedule import Schedule
from autotune.tile.binding.bound_program import Program
from autotune.tile.schedules.gpu_knobs import GpuKnobs
from autotune.tile.schedules.gpu_plan import (
    FusedKernel,
    FusionPlan,
    body_of,
    is_reduction,
    long_axes,
    plan,
)
from autotune.tile.schedules.gpu_products import (
    Product,
    Tiled,
    digits,
    joined,
    product_of,
    reads_of,
    steps_of,
    tiled,
)
from autotune.tile.to_te.program_to_te import CONTRACTION, Tensors, to_te

if TYPE_CHECKING:
    from autotune.trace.template_knobs import Knobs

#: Largest size of a row in shared memory in bytes.
_KEPT_BYTES: Final = 32 * 1024


def gpu_schedule(cfg: Knobs, program: Program) -> tuple[Schedule, Tensors]:
    """Define the knobs of a program's kernels and return the schedule that they make.

    In each kind, the kernel with the most work has knobs NAME_..., with the name of its tensor; all
    other kernels of the kind share knobs others_KIND_...

    Knobs
    -----
    warps_m, warps_n, lanes_m, own_m, own_n, virtual_m, virtual_n, depth, unroll, fetch, pad, ...
        For products: as in the `matmul` template.
    ahead
        The same knob for all products.
    threads, rows, each, lanes
        Of reductions: threads of a row, rows of a block, rows that a thread works on one after the
        other, elements of a row that it stores together. Without a reduction: threads of a block,
        elements of a thread, and elements that it computes together.
    keep
        Whether rows that are read several times are kept in shared memory.
    """
    made = plan(to_te(program))
    knobs = GpuKnobs(cfg, made)
    products: dict[str, Tiled] = {}
    flat = made.flat()
    flattened: dict[str, te.Tensor] = {}

    def refine(tensor: te.Tensor) -> tuple[te.Tensor, ...]:
        (host,) = made.hosts[tensor.name]
        kernel, product = made.kernels[host], product_of(tensor)
        if product is not None:
            widths = lane_counts(cfg.target, _widest(kernel, product))
            products[host] = tiled(product, knobs.tiles(kernel, product, widths))
            return products[host].stages
        if tensor.name not in flat or not tensor.op.axis:
            return (tensor,)
        flattened[tensor.name], result = _flattened(tensor)
        return flattened[tensor.name], result

    tensors = to_te(program, refine)
    s: Schedule = te.create_schedule([t.op for t in tensors.outputs])
    stages = {t.name: t for t in tensors.stages}
    for tensor in tensors.stages:
        is_result = tensor.name in made.hosts and not is_reduction(tensor)
        if is_result and tensor.name not in made.kernels:
            s[tensor].compute_inline()
    loops = _Loops(s, knobs, made, stages, flattened)
    for name, kernel in made.kernels.items():
        if name in products:
            loops.product(products[name], stages[name])
        else:
            loops.kernel(kernel, stages[name])
    return s, tensors


def _widest(kernel: FusedKernel, product: Product) -> str:
    """Return the type of the largest elements that a product moves."""
    types = [r.dtype for r, _ in product.sides] + [kernel.tail.dtype]
    return max(types, key=dtypes.itemsize)


def _flattened(tensor: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Return a reduction with one axis over all its elements, and the result in its own shape."""
    axes, body = list(tensor.op.axis), reduction_of(tensor)

    def element(number: Any) -> Any:
        values = digits(axes, number)
        sources = tuple(substitute(source, values) for source in body.sources)
        condition = substitute(body.condition, values)
        return Reduce(body.combiner, sources, body.axes, condition, 0)

    size = math.prod(map(extent, axes))
    flat: te.Tensor = te.compute((size,), element, name=f"{tensor.name}_flat")

    def result(*index: Any) -> Any:
        return flat[joined(axes, dict(zip(axes, index, strict=True)))]

    return flat, te.compute(tensor.shape, result, name=tensor.name, tag=CONTRACTION)


@dataclass(frozen=True, slots=True)
class _Loops:
    """Schedules kernels."""

    s: Schedule
    knobs: GpuKnobs
    made: FusionPlan
    stages: dict[str, te.Tensor]
    flattened: dict[str, te.Tensor]

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
        if not tail.op.axis:
            self._scalar(kernel, tail)
        elif not kernel.members:
            self._elements(kernel, tail)
        elif kernel.is_flat:
            self._cells(kernel, tail)
        else:
            self._rows(kernel, tail)

    def _scalar(self, kernel: FusedKernel, tail: te.Tensor) -> None:
        """Compute one element, with all threads of one block if it is a reduction."""
        reduced = list(tail.op.reduce_axis)
        if not reduced:
            return
        stage = self.s[tail]
        threads = self.knobs.define(kernel, "threads", [256, 32, 64, 128, 512, 1024])
        along = stage.fuse(*reduced) if len(reduced) > 1 else reduced[0]
        bind(stage, {"threadIdx.x": stage.split(along, factor=threads)[1]})

    def _elements(self, kernel: FusedKernel, tail: te.Tensor) -> None:
        """Compute each element by itself."""
        stage, axes = self.s[tail], list(tail.op.axis)
        lanes = self.knobs.define(kernel, "lanes", self._lanes(tail, extent(axes[-1])))
        threads = self.knobs.define(kernel, "threads", [256, 32, 64, 128, 512, 1024])
        each = self.knobs.define(kernel, "each", [1, 2, 4, 8])
        fused = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        fused, vector = stage.split(fused, factor=lanes)
        block, thread = stage.split(fused, factor=threads)
        block, some = stage.split(block, factor=each)
        stage.reorder(block, some, thread, vector)
        stage.vectorize(vector)
        bind(stage, {"blockIdx.x": block, "threadIdx.x": thread})

    def _lanes(self, tail: te.Tensor, length: int) -> list[int]:
        """Return the possible vector lengths for rows of this length, the largest first."""
        types = [tail.dtype, *(r.dtype for r in reads(body_of(tail)))]
        counts = lane_counts(self.knobs.target, max(types, key=dtypes.itemsize))
        return [lanes for lanes in counts[::-1] if length % lanes == 0]

    def _cells(self, kernel: FusedKernel, tail: te.Tensor) -> None:
        """Reduce elements each by itself, in the order in which they lie."""
        members = [self.flattened[name] for name in kernel.members]
        elements = math.prod(map(extent, tail.op.axis))
        how = self.knobs.cells(kernel, elements, kernel.longest, _goes_along(members[0]))
        axes = list(tail.op.axis)
        fused = self.s[tail].fuse(*axes) if len(axes) > 1 else axes[0]
        reductions = [(m, m.op.axis[0], _steps(m)) for m in members]
        schedule_rows(self.s, tail, ((), fused, None), reductions, (), how)

    def _rows(self, kernel: FusedKernel, tail: te.Tensor) -> None:
        """Compute rows after their reductions."""
        axes = list(tail.op.axis)
        last = axes.index(long_axes(tail)[kernel.rows - 1])
        around, row, along = axes[:last], axes[last], axes[last + 1 :]
        columns = math.prod(map(extent, along))
        how = self.knobs.rows(kernel, columns, self._lanes(tail, columns))
        kept = self._kept(kernel, tail, last)
        members = [self.stages[name] for name in kernel.members]
        fused = self.s[tail].fuse(*along) if len(along) > 1 else along[0]
        reductions = [(m, long_axes(m)[-1], _steps(m)) for m in members]
        schedule_rows(self.s, tail, (around, row, fused), reductions, kept, how)

    def _kept(
        self, kernel: FusedKernel, tail: te.Tensor, last: int
    ) -> list[tuple[te.Tensor, Any, Sequence[Any]]]:
        """Return the rows to keep in shared memory: those that are read several times."""
        own = frozenset([kernel.tail.name])
        within = [t for name, t in self.stages.items() if self.made.hosts.get(name) == own]
        found: dict[te.Tensor, list[te.Tensor]] = {}
        for reader in within:
            for source in dict.fromkeys(r.tensor for r in reads(body_of(reader))):
                if self.made.hosts.get(source.name) != own and _reads_rows(
                    reader, source, tail, last
                ):
                    found.setdefault(source, []).append(reader)
        several = {x: by for x, by in found.items() if sum(map(self._uses, by)) > 1}
        length = math.prod(map(extent, tail.op.axis[last + 1 :]))
        size = length * sum(dtypes.itemsize(x.dtype) for x in several)
        if not several or size > _KEPT_BYTES:
            return []
        if not self.knobs.define_common("keep", [True, False]):
            return []
        caches = [self.s.cache_read(x, "shared", by) for x, by in several.items()]
        return [(c, c.op.axis[last], c.op.axis[last + 1 :]) for c in caches]

    def _uses(self, reader: te.Tensor) -> int:
        """Return the number of times that a stage is computed for an element."""
        if reader.name not in self.made.inline:
            return 1
        return sum(self._uses(t) for t in self.stages.values() if _is_read(reader, t))


def _is_read(source: te.Tensor, reader: te.Tensor) -> bool:
    return any(r.tensor is source for r in reads(body_of(reader)))


def _reads_rows(reader: te.Tensor, source: te.Tensor, tail: te.Tensor, last: int) -> bool:
    """Whether a stage reads, for a row, elements of the same row of a tensor as large."""
    if source.shape != tail.shape or reader.ndim <= last:
        return False
    return all(
        r.children[n] is reader.op.axis[n].var or extent(tail.op.axis[n]) == 1
        for r in reads(body_of(reader))
        if r.tensor is source
        for n in range(last + 1)
    )


def _steps(tensor: te.Tensor) -> tuple[Any, ...]:
    return steps_of(reduction_of(tensor))


def _goes_along(tensor: te.Tensor) -> bool:
    """Whether adjacent steps of a reduction are adjacent in memory, and its elements are not."""
    body = reduction_of(tensor)
    element, step = tensor.op.axis[0].var, steps_of(body)[-1].var
    last = [set(free_vars(r.children[-1])) for r in reads_of(body) if r.children]
    return any(step in own and element not in own for own in last)
