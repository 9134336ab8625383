"""Reductions on GPUs whose neighbouring results are neighbours in memory: each thread has a vector.

Threads of a block share the steps of its columns, and add up their sums in two levels::

    for (j)                            block (j0): 8 vectors of 4 columns
      for (k)                            thread (t, v)
        S[j] += X[k, j]         ->         for (s)  sums[4] += X[s * T + t, j0 + 4 * v .. + 3]
                                         thread (g, c)  groups[g, c] = sum of L of sums[.., c]
                                         thread (c)     S[j0 + c] = sum of groups[.., c]

Where steps are few, a thread computes all steps of its vector, in registers. Windows that lie side
by side are loaded as the whole vectors that they make.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.algebra.polynomials import to_poly
from autotune.ir.expr import Expr, Read, Reduce
from autotune.ir.visitor import mentions, reads
from autotune.rules.contractions.panel_loops import split_in_vectors
from autotune.rules.gpu.fusion_plan import FusedKernel, FusionPlan, long_axes
from autotune.rules.gpu.matrix_products import digits, joined, reads_of
from autotune.rules.gpu.thread_loops import ENOUGH_BLOCKS, WARP, bind, lane_counts
from autotune.rules.stage_graph import (
    extent,
    place_of,
    reduced_over,
    reduction_of,
    step_along,
    variables_outside_reads,
    written_out,
)
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.reduction import reduction
from autotune.te.tensor import ComputeOp

#: Largest number of steps of windows that a thread loads.
_MOST_OF_WINDOW: Final = 16


def lanes_of_columns(kernel: FusedKernel, made: FusionPlan, target: Target) -> list[int]:
    """Return with how many lanes a kernel can reduce neighbouring results, the most first.

    What it reads along its last axis is adjacent, or side by side in windows, and begins where
    vectors of memory do. Otherwise, or if it is no reduction of single elements, there is one lane.
    """
    stage = kernel.tail if kernel.is_plain else next(iter(kernel.reductions), kernel.tail)
    if not stage.op.reduce_axis or len(kernel.reductions) > 1:
        return [1]
    if not (kernel.is_plain or kernel.is_flat):
        return [1]
    tensor = written_out(stage, {t for t in made.inline if kernel.tail in made.hosts[t]})
    axes, body = long_axes(tensor), _reduced(tensor)
    if not axes:
        return [1]
    values = [body.condition, *body.sources]
    counts = lanes_beside(target, axes[-1], tensor.dtype, values, body.axes)
    windows, found = windows_of(stage), reads_of(body)
    if windows:  # one thread has all steps of its windows
        size, steps = math.prod(map(extent, axes)), math.prod(map(extent, body.axes))
        is_whole = set(windows) == set(found) and steps <= _MOST_OF_WINDOW and not kernel.is_plain
        most = size // (WARP * ENOUGH_BLOCKS) if is_whole else 1
        counts = [n for n in counts if n <= max(most, 1)]
    return counts


def lanes_beside(
    target: Target, last: Any, dtype: str, values: Sequence[Expr], steps: Sequence[Any] = ()
) -> list[int]:
    """Return with how many lanes neighbours along an axis can be computed, the most first.

    `last`: the axis, along which results are adjacent.
    `dtype`: their type.
    `values`: what is computed for each.
    `steps`: axes that each element reduces over.
    """
    apart = set().union(*map(variables_outside_reads, values))
    found = list(dict.fromkeys(r for value in values for r in reads(value) if r.children))
    if last.var in apart or not any(step_of(r, last) for r in found):
        return [1]
    widest = min(lane_counts(target, name)[-1] for name in (dtype, *(r.dtype for r in found)))
    counts = [n for n in (16, 8, 4, 2) if n <= widest and extent(last) % n == 0]
    return [n for n in counts if all(in_vectors(r, last, steps, n) for r in found)] + [1]


def windows_of(tensor: te.Tensor) -> list[Read]:
    """Return what a reduction reads several elements apart for neighbouring results."""
    axes, body = long_axes(tensor), _reduced(tensor)
    return [r for r in reads_of(body) if axes and (step_of(r, axes[-1]) or 0) > 1]


def bytes_along(tensor: te.Tensor) -> int:
    """Return the bytes of an element of the largest tensor that a reduction reads."""
    found = reads_of(_reduced(tensor))
    largest = max(found, key=lambda read: math.prod(map(int, read.tensor.shape)))
    return dtypes.itemsize(largest.dtype)


def _reduced(tensor: te.Tensor) -> Reduce:
    """Return what a tensor reduces, together with the other results of its stage."""
    assert isinstance(tensor.op, ComputeOp)
    body = tensor.op.body[0]
    assert isinstance(body, Reduce)
    return body


def step_of(read: Read, axis: Any) -> int | None:
    """Return how far apart a read is for neighbours along an axis; None if it varies."""
    own = to_poly(read.children[-1]) if read.children else {}
    is_last_only = not any(mentions(index, axis.var) for index in read.children[:-1])
    return step_along(own, axis) if is_last_only else None


def in_vectors(read: Read, last: Any, steps: Sequence[Any], lanes: int) -> bool:
    """Whether a read of `lanes` neighbouring results is one of whole vectors, or of one element."""
    step = step_of(read, last)
    if step is None or step < 0:
        return False
    if step == 0:
        return True
    inside = {axis.var for axis in steps if step_of(read, axis) == 1} if step > 1 else set()
    width = 1 + sum(extent(axis) - 1 for axis in steps if axis.var in inside)
    inside.add(last.var)
    others = [n for term, n in place_of(read).items() if inside.isdisjoint(term)]
    return width == step and all(scale % lanes == 0 for scale in others)


def flattened(tensor: te.Tensor) -> te.Tensor:
    """Return a reduction with one axis over all its elements."""
    axes, body = list(tensor.op.axis), reduction_of(tensor)
    made: te.Tensor = te.compute(
        (math.prod(map(extent, axes)),),
        lambda number: reduced_over(body, body.axes, digits(axes, number)),
        name=f"{tensor.name}_flat",
    )
    return made


def in_shape(tensor: te.Tensor, flat: te.Tensor) -> te.Tensor:
    """Return the results of a flattened reduction in its own shape."""
    axes = list(tensor.op.axis)

    def result(*index: Any) -> Any:
        return flat[joined(axes, dict(zip(axes, index, strict=True)))]

    made: te.Tensor = te.compute(tensor.shape, result, name=tensor.name)
    return made


@dataclass(slots=True)
class ColumnVectors:
    """Rewrites and schedules a kernel with one reduction, by vectors of neighbouring results."""

    kernel: FusedKernel
    #: Elements of a vector.
    lanes: int
    #: Threads that share the steps of a vector; None if each computes all steps of its own.
    threads: Any
    #: Vectors of a block, and how many of these a thread computes one after the other.
    rows: Any
    each: Any
    #: The reduction with one axis over all elements, and the sums of threads that it reads.
    flat: list[te.Tensor] = field(default_factory=list)
    #: What it reads in windows.
    windows: list[te.Tensor] = field(default_factory=list)

    def refined(self, tensor: te.Tensor, plain: te.Tensor) -> tuple[te.Tensor, ...]:
        """Return what takes the place of a stage of the kernel."""
        if plain not in self.kernel.reductions:
            return (tensor,)
        self.windows = list(dict.fromkeys(r.tensor for r in windows_of(tensor)))
        self.flat = self._shared(tensor) if self.threads is not None else [flattened(tensor)]
        return (*self.flat, in_shape(tensor, self.flat[-1]))

    def _shared(self, tensor: te.Tensor) -> list[te.Tensor]:
        """Return sums of the steps of each thread, of groups of these, and of all groups."""
        axes, body = list(tensor.op.axis), reduction_of(tensor)
        size, count = math.prod(map(extent, axes)), math.prod(map(extent, body.axes))
        groups = self.threads // self.lanes
        s, q, g = (
            te.reduce_axis((0, n), name=name)
            for n, name in (
                (te.ceildiv(count, self.threads), "step"), (self.lanes, "q"), (groups, "g")
            )
        )  # fmt: skip

        def of_thread(thread: Any, number: Any) -> Any:
            step = s.var * self.threads + thread
            values = digits(axes, number) | digits(body.axes, step)
            return reduced_over(body, [s], values, step < count)

        def total(axis: Any, read: Any) -> Any:
            return reduction(body.combiner, [read], axis, None)[0]

        name = tensor.name
        sums = te.compute((self.threads, size), of_thread, name=f"{name}_sums")
        some = te.compute(
            (groups, size),
            lambda group, number: total(q, sums[q.var * groups + group, number]),
            name=f"{name}_groups",
        )
        whole = te.compute(
            (size,), lambda number: total(g, some[g.var, number]), name=f"{name}_flat"
        )
        return [sums, some, whole]

    def schedule(self, s: Schedule, tail: te.Tensor) -> None:
        """Compute the columns of each block in its threads."""
        if not self.flat:  # several results of one reduction
            self.flat = s.cache_write(list(tail.op.outputs), "local")
        stage = s[tail]
        vectors, lane = stage.split(stage.fuse(*stage.op.axis), factor=self.lanes)
        block, row = stage.split(vectors, factor=self.rows)
        if self.threads is not None:
            column = stage.fuse(row, lane)
            bind(stage, {"blockIdx.x": block, "threadIdx.x": column})
            self._share(s, stage, block, column)
            return
        block, some = stage.split(block, factor=self.each)
        stage.reorder(block, some, row, lane)
        stage.vectorize(lane)
        bind(stage, {"blockIdx.x": block, "threadIdx.x": row})
        whole = self.flat[0]
        for source in self.windows:
            loaded = s.cache_read(source, "local", [whole])
            s[loaded].compute_at(stage, row)
            for axis in loaded.op.axis[:-1]:
                s[loaded].unroll(axis)
            split_in_vectors(s[loaded], loaded.op.axis[-1], self.lanes)
        self._in_registers(s, whole, stage, row)
        for axis in whole.op.reduce_axis if self.windows else ():
            s[whole].unroll(axis)

    def _share(self, s: Schedule, stage: Any, block: Any, column: Any) -> None:
        """Compute the sums of threads, of groups, and of columns, in the threads of a block."""
        sums, some, whole = self.flat
        self._in_registers(s, whole, stage, column)
        for tensor in (sums, some):
            own, part = s.cache_write(tensor, "local"), s[tensor]
            part.set_scope("shared")
            part.compute_at(stage, block)
            number, inner = tensor.op.axis
            if tensor is sums:
                inner, lane = part.split(inner, factor=self.lanes)
                part.reorder(number, inner, lane)
                part.vectorize(lane)
            thread = part.fuse(number, inner)
            bind(part, {"threadIdx.x": thread})
            self._in_registers(s, own, part, thread)

    def _in_registers(self, s: Schedule, tensor: te.Tensor, user: Any, loop: Any) -> None:
        """Compute a reduction in a thread's loop; a vector is inside its steps."""
        own = s[tensor]
        own.set_scope("local")
        own.compute_at(user, loop)
        own.reorder(*own.op.reduce_axis, *own.op.axis)
        own.vectorize(own.op.axis[-1])
