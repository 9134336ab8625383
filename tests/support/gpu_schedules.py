"""Random GPU schedules: tiles of blocks, threads and virtual threads, shared and local caches.

Tiles need not divide; caches are fetched by all threads together, or by each for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from autotune import te
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage
from autotune.te.tensor import Tensor

Draw = Callable[[Any], Any]
Axis = Any


@dataclass
class Scheduled:
    """A schedule and its tensors: inputs, then outputs."""

    schedule: Schedule
    tensors: list[Tensor]

    def describe(self) -> str:
        """Text of the steps."""
        shapes = ", ".join(f"{t.name}{list(t.shape)}" for t in self.tensors)
        return "\n".join([shapes, *map(str, self.schedule.steps)])


class _Plan:
    """Draws the parts of schedules.

    Attributes
    ----------
    threads : dict of str to int
        Factors of the thread axes of the kernel that is being scheduled.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.threads: dict[str, int] = {}

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self, percent: int = 50) -> bool:
        return self.number(0, 99) < percent

    def size(self) -> int:
        return int(self.draw(st.sampled_from((1, 2, 3, 4, 5, 6, 7, 8, 9, 12))))

    def dtype(self) -> str:
        return str(self.draw(st.sampled_from(("float32", "float32", "float16", "int32", "int8"))))

    def factor(self) -> int:
        return int(self.draw(st.sampled_from((1, 2, 2, 3, 4, 4, 5))))

    # -- parts of a schedule ---------------------------------------------------------------------

    def tile(self, stage: Stage, axes: Sequence[Axis], inner: bool = True) -> tuple[Axis, Axis]:
        """Bind axes to blocks, virtual threads and threads; the last loops of both kinds."""
        levels: list[list[Axis]] = [[], [], [], []]
        self.threads = {}
        for axis, letter in zip(reversed(axes), "xyz", strict=False):
            rest = axis
            if inner:
                rest, own = stage.split(rest, factor=self.factor())
                levels[3].insert(0, own)
            count = self.factor()
            rest, thread = stage.split(rest, factor=count)
            levels[2].insert(0, thread)
            self.threads[f"threadIdx.{letter}"] = count
            if self.chance(30):
                rest, virtual = stage.split(rest, factor=self.number(2, 3))
                stage.bind(virtual, te.thread_axis("vthread"))
                levels[1].insert(0, virtual)
            stage.bind(rest, te.thread_axis(f"blockIdx.{letter}"))
            stage.bind(thread, te.thread_axis(f"threadIdx.{letter}"))
            levels[0].insert(0, rest)
        stage.reorder(*(axis for level in levels for axis in level))
        if inner and self.chance(30):
            stage.unroll(levels[3][-1])
        elif inner and self.chance(40):
            stage.vectorize(levels[3][-1])
        return levels[0][-1], levels[2][-1]

    def fetch(self, stage: Stage) -> None:
        """Let the threads of the kernel compute a stage together."""
        rest = stage.fuse(*stage.op.axis) if len(stage.op.axis) > 1 else stage.op.axis[0]
        if self.chance(40):
            rest, lanes = stage.split(rest, factor=self.draw(st.sampled_from((2, 4))))
            stage.vectorize(lanes)
        for tag, count in self.threads.items():
            rest, inner = stage.split(rest, factor=count)
            stage.bind(inner, te.thread_axis(tag))

    def reduction(self, s: Schedule, out: Tensor, operands: Sequence[Tensor]) -> None:
        """Schedule a reduction: accumulators in registers, operands through shared memory."""
        # Caches are made before loops are split.
        shared = [s.cache_read(x, "shared", [out]) for x in operands if self.chance(80)]
        local = [s.cache_read(x, "local", [out]) for x in shared if self.chance(40)]
        total = s.cache_write(out, "local")
        _, thread = self.tile(s[out], s[out].op.axis)
        s[total].compute_at(s[out], thread)
        k = s[total].op.reduce_axis[0]
        outer, inner = s[total].split(k, factor=self.factor())
        s[total].reorder(outer, inner, *s[total].op.axis)
        for cache in shared:
            s[cache].compute_at(s[total], outer)
            self.fetch(s[cache])
            if self.chance(25) and len(s[cache].op.axis) == 2:
                s[cache].transform_layout(lambda i, j: (j, i))
            if self.chance(25):
                s[cache].storage_align(s[cache].op.axis[0], self.number(2, 5), 1)
            if self.chance(25):
                s[cache].double_buffer(self.draw(st.sampled_from((None, "registers", "copies"))))
        for cache in local:
            s[cache].compute_at(s[total], inner)

    def stage_in_shared(self, s: Schedule, source: Tensor, out: Tensor) -> None:
        """Compute a stage block by block in shared memory, together."""
        block, _ = self.tile(s[out], s[out].op.axis)
        s[source].set_scope("shared")
        s[source].compute_at(s[out], block)
        self.fetch(s[source])


def _matmul(plan: _Plan) -> Scheduled:
    m, n, k = (plan.size() for _ in range(3))
    dtype = plan.dtype()
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)
    plan.reduction(s, C, [A, B])
    return Scheduled(s, [A, B, C])


def _transpose(plan: _Plan) -> Scheduled:
    m, n = plan.size(), plan.size()
    A = te.placeholder((m, n), plan.dtype(), name="A")
    O = te.compute((n, m), lambda i, j: A[j, i] + 1, name="O")  # noqa: E741
    s = te.create_schedule(O.op)
    cache = s.cache_read(A, "shared", [O])
    block, _ = plan.tile(s[O], s[O].op.axis, inner=plan.chance())
    s[cache].compute_at(s[O], block)
    plan.fetch(s[cache])
    if plan.chance():
        s[cache].storage_align(s[cache].op.axis[0], 4, 1)
    return Scheduled(s, [A, O])


def _stencil(plan: _Plan) -> Scheduled:
    """A stage of which neighbours are read, with halo, in shared memory."""
    m, n = plan.size() + 2, plan.size() + 2
    A = te.placeholder((m, n), name="A")
    T = te.compute((m, n), lambda i, j: A[i, j] * 2.0, name="T")
    O = te.compute(  # noqa: E741
        (m - 2, n - 2), lambda i, j: T[i, j] + T[i + 1, j + 2] + T[i + 2, j + 1], name="O"
    )
    s = te.create_schedule(O.op)
    plan.stage_in_shared(s, T, O)
    return Scheduled(s, [A, O])


def _rows(plan: _Plan) -> Scheduled:
    """Sums of rows, then what is left of each: one kernel or two."""
    m, n = plan.size(), plan.size()
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    R = te.compute((m,), lambda i: te.sum(A[i, k], axis=k), name="R")
    O = te.compute((m, n), lambda i, j: A[i, j] - R[i], name="O")  # noqa: E741
    s = te.create_schedule(O.op)
    if plan.chance():
        plan.stage_in_shared(s, R, O)
    else:
        plan.reduction(s, R, [A])
        plan.tile(s[O], s[O].op.axis)
    return Scheduled(s, [A, O])


def _across_threads(plan: _Plan) -> Scheduled:
    """Sums of rows, each by several threads together, as one reduction or by partial sums."""
    m, n = plan.number(1, 5), plan.number(1, 70)
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    reducer = plan.draw(st.sampled_from((te.sum, te.max)))
    apart = plan.number(1, 3)  # of every so many elements one is left out
    kept = max(apart - 1, 1)
    R = te.compute((m,), lambda i: reducer(A[i, k], axis=k, where=(k + i) % apart < kept), name="R")
    s = te.create_schedule(R.op)
    outer, inner = s[R].split(k, factor=plan.draw(st.sampled_from((1, 2, 3, 4, 8, 32, 33, 64))))
    own = outer if plan.chance(25) else inner
    if plan.chance():
        parts = s.rfactor(R, own)
        own = s[R].op.reduce_axis[0]
        s[parts].compute_at(s[R], own)
    elif plan.chance():
        own, rows = s[R].split(own, factor=plan.factor())
        s[R].bind(rows, te.thread_axis("threadIdx.z"))
    s[R].bind(own, te.thread_axis("threadIdx.x"))
    block, row = s[R].split(s[R].op.axis[0], factor=plan.factor())
    s[R].bind(block, te.thread_axis("blockIdx.x"))
    if plan.chance(70):
        s[R].bind(row, te.thread_axis("threadIdx.y"))
    return Scheduled(s, [A, R])


def _padded(plan: _Plan) -> Scheduled:
    """A convolution whose border is added where it is read, through shared memory."""
    n, width = plan.size(), plan.number(1, 3)
    A, W = te.placeholder((n,), name="A"), te.placeholder((3, width), name="W")
    left = width // 2
    P = te.compute(
        (n + width - 1,),
        lambda i: te.if_then_else(te.all(i >= left, i < n + left), A[i - left], 0.0),
        name="P",
    )
    r = te.reduce_axis((0, width), name="r")
    C = te.compute((3, n), lambda f, i: te.sum(P[i + r] * W[f, r], axis=r), name="C")
    s = te.create_schedule(C.op)
    s[P].compute_inline()
    plan.reduction(s, C, [P, W])
    return Scheduled(s, [A, W, C])


@st.composite
def gpu_schedules(draw: Draw) -> Scheduled:
    """Strategy of random programs under GPU schedules."""
    kinds = (_matmul, _matmul, _transpose, _stencil, _rows, _across_threads, _padded)
    kind = draw(st.sampled_from(kinds))
    return kind(_Plan(draw))
