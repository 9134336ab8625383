"""Keeps rows in registers on GPUs: the threads of a row load it once and compute costly parts once.

::

    block (i)                                  block (i.outer), thread y (i.inner), thread x
      for (j)  M[i] = max(M[i], X[i, j])         for (s)  own[s] = X[i, s * threads + x]
      for (j)  S[i] += exp(X[i, j] - M[i])  ->   M = max of own, over all threads x
      for (j)  Y[i, j] = exp(...) / S[i]         for (s)  E[s] = exp(own[s] - M)
                                                 S = sum of E, over all threads x
                                                 for (s)  Y[i, s * threads + x] = E[s] / S

A thread's elements are vectors; the next one is as many vectors further as the row has threads.
Threads exchange only what they reduce: those of a warp by shuffles, without a barrier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autotune import te
from autotune.ir.expr import Expr, Read, Reduce
from autotune.ir.visitor import ReadRewriter, reads, substitute
from autotune.rules.gpu.fusion_plan import FusedKernel, FusionPlan, is_reduction, long_axes
from autotune.rules.gpu.matrix_products import digits, joined
from autotune.rules.gpu.thread_loops import before_row, bind
from autotune.rules.inline import has_calls
from autotune.rules.stage_graph import extent, reads_in, reduced_over, reduction_of, written_out
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import ComputeOp

#: Largest number of elements that a thread keeps, and of threads of a row.
MOST_KEPT: Final = 64
_MOST_THREADS: Final = 1024


@dataclass(frozen=True, slots=True)
class KeptRows:
    """What the threads of a kernel keep of its rows."""

    kernel: FusedKernel
    #: Elements of a row.
    columns: int
    #: The tensors: inputs that are read several times, and costly stages.
    held: frozenset[te.Tensor]
    #: Stages that are computed where they are read.
    inlined: frozenset[te.Tensor]


def kept_rows(kernel: FusedKernel, made: FusionPlan) -> KeptRows | None:
    """Return what threads can keep of rows; None if rows are too long."""
    tail, rows = kernel.tail, kernel.rows
    if kernel.is_flat or not kernel.reductions:
        return None
    lengths = list(map(extent, long_axes(tail)))
    own = {t for t, hosts in made.hosts.items() if hosts == frozenset([tail])}
    if any(_lengths(t, rows) != lengths for t in kernel.reductions):
        return None
    inline = [t for t, hosts in made.hosts.items() if t in made.inline and tail in hosts]
    held = {t for t in inline if t in own and has_calls(t.op) and _lengths(t, rows) == lengths}
    while True:
        inlined = frozenset(inline) - held
        users = [written_out(t, inlined) for t in (*kernel.reductions, *held, tail)]
        often = {t for t in held if _times(t, users, rows) > 1}
        if often == held:
            break
        held = often
    sources = dict.fromkeys(r.tensor for user in users for r in reads_in(user.op))
    given = {t for t in sources if t not in own and _times(t, users, rows) > 1}
    columns = math.prod(lengths[rows:])
    if columns * len(held | given) > MOST_KEPT * _MOST_THREADS:
        return None
    return KeptRows(kernel, columns, frozenset(held | given), inlined)


def _place_of(tensor: te.Tensor, rows: int) -> list[Any]:
    """Return the axes over rows and along a row; of a reduction, along the row that it reduces."""
    axes = long_axes(tensor)
    return axes[:rows] + ([a for a in tensor.op.reduce_axis if extent(a) > 1] or axes[rows:])


def _lengths(tensor: te.Tensor, rows: int) -> list[int]:
    return list(map(extent, _place_of(tensor, rows)))


def _times(tensor: te.Tensor, users: Sequence[te.Tensor], rows: int) -> int:
    """Return how many stages read the elements of their own place of a tensor; 0 for others."""
    own = [[r for r in reads_in(user.op) if r.tensor is tensor] for user in users]
    if not all(
        _is_place(r, _place_of(user, rows)) for user, found in zip(users, own, strict=True)
        for r in found
    ):  # fmt: skip
        return 0
    return sum(map(bool, own))


def _is_place(read: Read, place: Sequence[Any]) -> bool:
    """Whether the element is read to which axes belong."""
    indices = [i for i, n in zip(read.children, read.tensor.shape, strict=True) if n != 1]
    return len(indices) == len(place) and all(
        i is axis.var for i, axis in zip(indices, place, strict=True)
    )


@dataclass(slots=True)
class RegisterRows:
    """Rewrites and schedules the stages of a kernel."""

    kept: KeptRows
    #: Threads of a row, rows of a block, elements of a vector: knobs or numbers.
    threads: Any
    rows: Any
    lanes: Any
    #: Whether all rows are whole numbers of vectors. Otherwise the first vector of a row may begin
    #: in the row before, so that it begins where a vector of the array does.
    is_aligned: bool
    #: Stages of the new graph that are computed where they are read.
    inlined: set[te.Tensor]
    #: The stages of before of stages of the new graph.
    old: dict[te.Tensor, te.Tensor]
    #: What threads keep, by tensor of the new graph.
    own: dict[te.Tensor, te.Tensor] = field(default_factory=dict)
    #: Stages reduced by threads together, with their axes over vectors, threads and lanes.
    reductions: list[tuple[te.Tensor, Sequence[Any]]] = field(default_factory=list)

    def refined(self, tensor: te.Tensor, plain: te.Tensor) -> tuple[te.Tensor, ...]:
        """Return what takes the place of a stage of the kernel."""
        tensor = written_out(tensor, self.inlined)
        assert isinstance(tensor.op, ComputeOp)
        (body,) = tensor.op.body
        if plain in self.kept.inlined:
            self.inlined.add(tensor)
            return (tensor,)
        if is_reduction(tensor):
            return (self._reduced(tensor),)
        if plain in self.kept.held:
            own = self._of_threads(tensor, body)
            self.own[tensor] = own
            return own, tensor
        front = [a.var for a in long_axes(tensor)[: self.kept.kernel.rows]]
        axes = tensor.op.axis[_rows_end(tensor, self.kept.kernel.rows) :]
        number = joined(axes, {a: a.var for a in axes}) + self._before(front)
        lanes = number // self.lanes
        place = (lanes // self.threads, lanes % self.threads, number % self.lanes)
        value = self._moved(tensor, body, place)
        return (ComputeOp(tensor.op.name, tensor.op.axis, (value,)).output(),)

    def _moved(self, user: te.Tensor, body: Expr, place: Sequence[Any]) -> Expr:
        """Return an expression of a stage that reads what threads keep at a place."""
        rows = self.kept.kernel.rows
        axes = _place_of(user, rows)

        def read(source: te.Tensor, indices: tuple[Expr, ...]) -> Expr:
            plain = Read(source, indices)
            if self.old.get(source, source) not in self.kept.held or not _is_place(plain, axes):
                return plain
            if source not in self.own:
                self.own[source] = self._of_threads(source, None)
            return Read(self.own[source], (*(axis.var for axis in axes[:rows]), *place))

        return ReadRewriter(read).expr(body)

    def _spans(self) -> tuple[Any, Any, Any]:
        columns = self.kept.columns + (0 if self.is_aligned else self.lanes - 1)
        return te.ceildiv(columns, self.threads * self.lanes), self.threads, self.lanes

    def _before(self, front: Sequence[Any]) -> Any:
        """Return how many elements before a row are in its first vector."""
        if self.is_aligned:
            return 0
        tail, at = self.kept.kernel.tail, iter(front)
        rows = long_axes(tail)[: self.kept.kernel.rows]
        return before_row(
            tail, [next(at) if axis in rows else 0 for axis in tail.op.axis], self.lanes
        )

    def _number(self, front: Sequence[Any], place: Sequence[Any]) -> Any:
        """Return the number of an element in its row."""
        step, thread, lane = place
        return (step * self.threads + thread) * self.lanes + lane - self._before(front)

    def _is_inside(self, front: Sequence[Any], place: Sequence[Any]) -> Any:
        """Whether there is an element."""
        if self.is_aligned:
            return place[0] * self.threads + place[1] < self.kept.columns // self.lanes
        number = self._number(front, place)
        return te.all(number >= 0, number < self.kept.columns)

    def _of_threads(self, tensor: te.Tensor, body: Expr | None) -> te.Tensor:
        """Return the elements of a tensor that threads keep: loaded, or computed by a body."""
        kernel = self.kept.kernel
        lengths = list(map(extent, long_axes(kernel.tail)))

        def element(*index: Any) -> Any:
            front, place = index[: kernel.rows], index[kernel.rows :]
            if body is None:
                along = long_axes(kernel.tail)[kernel.rows :]
                values = digits(along, self._number(front, place))
                at = iter([*front, *(values[a.var] for a in along)])
                along_row = [0 if n == 1 else next(at) for n in tensor.shape]
                inside, zero = self._is_inside(front, place), te.const(0, tensor.dtype)
                return te.if_then_else(inside, tensor[tuple(along_row)], zero)
            moved = self._moved(tensor, body, place)
            value = substitute(moved, self._values(tensor, front, place))
            own = set(self.own.values())
            if all(read.tensor in own for read in reads(moved)):
                return value
            # Behind the end of a row there are no elements of other tensors.
            return te.if_then_else(self._is_inside(front, place), value, te.const(0, value.dtype))

        shape = (*lengths[: kernel.rows], *self._spans())
        made: te.Tensor = te.compute(shape, element, name=f"{tensor.name}.own")
        return made

    def _values(self, tensor: te.Tensor, front: Sequence[Any], place: Sequence[Any]) -> Any:
        """Return the values of a stage's axes at a place of a row."""
        rows = self.kept.kernel.rows
        axes = _place_of(tensor, rows)
        values: dict[Any, Any] = {
            a.var: te.const(0, a.var.dtype) for a in (*tensor.op.axis, *tensor.op.reduce_axis)
        }
        values |= dict(zip((a.var for a in axes[:rows]), front, strict=True))
        return values | digits(axes[rows:], self._number(front, place))

    def _reduced(self, tensor: te.Tensor) -> te.Tensor:
        """Return a reduction over the places of all threads."""
        body, names = reduction_of(tensor), ("step", "thread", "lane")
        every = [
            te.reduce_axis((0, n), f"{tensor.name}_{name}")
            for n, name in zip(self._spans(), names, strict=True)
        ]
        place = [axis.var for axis in every]

        def element(*index: Any) -> Any:
            front = [i for i, axis in zip(index, tensor.op.axis, strict=True) if extent(axis) > 1]
            moved = self._moved(tensor, body, place)
            assert isinstance(moved, Reduce)
            values, inside = self._values(tensor, front, place), self._is_inside(front, place)
            return reduced_over(moved, every, values, inside)

        made: te.Tensor = te.compute(tensor.shape, element, name=tensor.name)
        self.reductions.append((made, every))
        return made

    def schedule(self, s: Schedule, tail: te.Tensor) -> None:
        """Compute all stages in the threads of a row."""
        stage, axes, rows = s[tail], list(tail.op.axis), self.kept.kernel.rows
        last = _rows_end(tail, rows)
        block, row = stage.split(stage.fuse(*axes[:last]), factor=self.rows)
        before = self._before([axis.var for axis in long_axes(tail)[:rows]])
        step, lane = stage.split(stage.fuse(*axes[last:]), factor=self.lanes, offset=before)
        step, thread = stage.split(step, factor=self.threads)
        stage.reorder(block, row, thread, step, lane)
        bind(stage, {"blockIdx.x": block, "threadIdx.y": row, "threadIdx.x": thread})
        stage.unroll(step)
        stage.vectorize(lane)
        for own in map(s.__getitem__, self.own.values()):
            own.compute_at(stage, thread)
            *_, step, _, lane = own.op.axis
            own.unroll(step)
            own.vectorize(lane)
        for tensor, (step, across, lane) in self.reductions:
            own = s[tensor]
            own.compute_at(stage, thread)
            own.reorder(across, step, lane)
            own.unroll(step)
            own.unroll(lane)
            bind(own, {"threadIdx.x": across})


def _rows_end(tail: te.Tensor, rows: int) -> int:
    """Return the number of a stage's axes up to the last one that indexes rows."""
    return list(tail.op.axis).index(long_axes(tail)[rows - 1]) + 1
