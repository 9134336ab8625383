"""Primitives that say how the iterations of a loop run: vectors, threads, unrolling, hints."""

from __future__ import annotations

from typing import Any

from autotune.ir.axes import AxisKind, IterVar, same_index
from autotune.ir.expr import Const, Expr
from autotune.ir.ops import const
from autotune.ir.stmt import LoopKind
from autotune.schedule.stage_core import StageCore

#: Hints that `pragma` takes.
PRAGMAS = (
    "auto_unroll_max_step", "unroll_explicit", "nontemporal_store", "blocks_per_multiprocessor",
    "state_in_ring", "prefetch_steps", "num_threads", "prefetch",
)  # fmt: skip

_WITHOUT_VALUE = ("nontemporal_store", "state_in_ring")
_ONE_KIND = "choose one of bind, parallel, unroll and vectorize for it"

_OF_SCANS = ("state_in_ring", "prefetch_steps")


class AnnotationPrimitives(StageCore):
    """Primitives on how the loops of a stage run."""

    def _set_kind(self, primitive: str, axis: IterVar, kind: LoopKind) -> None:
        self._leaf(primitive, axis)
        self._refuse_annotated(primitive, axis, _ONE_KIND)
        if axis.kind is AxisKind.REDUCE and kind is not LoopKind.UNROLLED:
            self.fail(
                primitive,
                f"it is a reduction axis, whose iterations depend on one another; {primitive} a "
                "spatial axis, or make it one with rfactor",
                axis,
            )
        if axis.kind is AxisKind.SCAN and kind is not LoopKind.UNROLLED:
            self._refuse_steps(primitive, axis)
        self.loop_kinds[axis] = kind
        self.record_step(primitive, axis)

    def _refuse_steps(self, primitive: str, axis: IterVar) -> None:
        self.fail(
            primitive,
            f"it counts steps, each of which needs those before; {primitive} an axis of the "
            "scan's update and init",
            axis,
        )

    def vectorize(self, axis: IterVar) -> None:
        """Execute the iterations of a loop as lanes of vectors.

        ::

            for (i, 0, 8)        ->   C[ramp(0, 1, 8)] = f(A[ramp(0, 1, 8)])
              C[i] = f(A[i])
        """
        self._set_kind("vectorize", axis, LoopKind.VECTORIZED)

    def unroll(self, axis: IterVar) -> None:
        """Unroll a loop.

        ::

            for (i, 0, 2)        ->   f(0)
              f(i)                    f(1)
        """
        self._set_kind("unroll", axis, LoopKind.UNROLLED)

    def parallel(self, axis: IterVar) -> None:
        """Share the iterations of a loop among the threads of the CPU.

        ::

            for (i, 0, n)        ->   parallel (i, 0, n)
              f(i)                      f(i)

        Of loops directly inside each other all may be parallel. Threads then share the iterations
        of all of them as if they were one loop, whose length may be known at the call only.
        """
        self._set_kind("parallel", axis, LoopKind.PARALLEL)

    def bind(self, axis: IterVar, thread: IterVar) -> None:
        """Give each iteration of a loop to one GPU block, thread or virtual thread.

        ::

            for (i, 0, n)        ->   // attr [iter_var(threadIdx.x)] thread_extent = n
              f(i)                    f(threadIdx.x)
        """
        self._leaf("bind", axis)
        if not (isinstance(thread, IterVar) and thread.kind is AxisKind.THREAD):
            problem = f"{thread!r} is not a thread axis; give one made by te.thread_axis"
            self.fail("bind", problem, axis)
        if axis.kind is AxisKind.REDUCE and not thread.thread_tag.startswith("threadIdx"):
            self.fail(
                "bind",
                f"it is a reduction axis, which only the threads of a block share; bind it to a "
                f"threadIdx, not to {thread.thread_tag}, or make it a spatial axis with rfactor",
                axis,
            )
        if axis.kind is AxisKind.SCAN:
            self._refuse_steps("bind", axis)
        self._refuse_annotated("bind", axis, _ONE_KIND)
        self._refuse_second_axis(axis, thread)
        self.bindings[axis] = thread
        extent = None if thread.dom is None else thread.dom.extent
        name = None if thread.name == thread.thread_tag else thread.name
        given = (extent, name) if name is not None else (extent,) if extent is not None else ()
        self.record_step("bind", axis, thread.thread_tag, *given)

    def _refuse_second_axis(self, axis: IterVar, thread: IterVar) -> None:
        """Refuse to bind two axes to one index; each `te.thread_axis("vthread")` is a new index."""
        for other, bound in self.bindings.items():
            if same_index(bound, thread):
                tag = thread.thread_tag
                which = "the same vthread" if tag == "vthread" else tag
                self.fail(
                    "bind",
                    f"axis {other.name!r} is bound to {which} already, which has one index for "
                    "both; fuse the two axes, or choose another thread axis",
                    axis,
                )

    def pragma(self, axis: IterVar, kind: str, value: Any = None) -> None:
        """Give the compiler a hint for the loops from `axis` inwards.

        "auto_unroll_max_step": loops from `axis` inwards whose inner loops are all unrolled are
        unrolled if that gives at most `value` stores.

        "unroll_explicit": if False, loops that this pragma or `unroll` unrolls remain loops with a
        hint to the backend.

        "blocks_per_multiprocessor": at least `value` blocks of the stage's GPU kernel should run at
        once, which limits their registers; 0 leaves it to the compiler.

        "nontemporal_store" (no value): the stage's result is stored past the caches, which helps if
        it is larger than the caches and written in whole vectors.

        "state_in_ring" (no value, on a `scan_axis`): the steps that later steps read are also kept
        in a ring buffer, so that the result itself is only written.

        "prefetch_steps" (on a `scan_axis`): with each vector of an input, the vector that is read
        `value` steps later is prefetched into the L2 cache of a CPU; 0 disables it.

        "prefetch" (on an axis of the computation): with each vector of an input that the stage
        reads, the vector that is read `value` iterations later is prefetched into the nearest cache
        of a CPU; 0 disables it.

        "num_threads" (on a parallel loop): at most `value` threads share its iterations, also if
        they share those of other loops with it; `value` may depend on sizes known at the call; 0
        and 1 leave the loop serial.
        """
        self._leaf("pragma", axis)
        if kind not in PRAGMAS:
            known = ", ".join(PRAGMAS)
            self.fail("pragma", f"there is no pragma {kind!r}; give one of {known}", axis)
        if kind in self.pragmas.get(axis, {}):
            self.fail("pragma", f"it has the pragma {kind!r} already; give it once", axis)
        size = self._pragma_value(axis, kind, value)
        self.pragmas.setdefault(axis, {})[kind] = const(1) if size is None else size
        self.record_step("pragma", axis, kind, *(() if size is None else (size,)))

    def _pragma_value(self, axis: IterVar, kind: str, value: Any) -> Expr | None:
        if kind in _OF_SCANS and axis.kind is not AxisKind.SCAN:
            self.fail("pragma", f"{kind!r} is for the steps of a scan; give its scan_axis", axis)
        if kind in _WITHOUT_VALUE:
            if value is not None:
                self.fail("pragma", f"{kind!r} takes no value, got {value!r}; leave it out", axis)
            return None
        if kind == "prefetch" and not any(axis is own for own in self.op.axis):
            self.fail("pragma", f"{kind!r} is for an axis of the computation, before a split", axis)
        if kind in (
            "auto_unroll_max_step", "blocks_per_multiprocessor", "prefetch_steps", "prefetch",
        ):  # fmt: skip
            return self._size("pragma", f"value of {kind!r}", value, axis, least=0)
        if kind == "num_threads":
            if self.loop_kinds.get(axis) is not LoopKind.PARALLEL:
                self.fail("pragma", f"{kind!r} is for a loop that is parallel already", axis)
            what = "value of 'num_threads'"
            return self._size("pragma", what, value, axis, least=0, may_be_open=True)
        flag = const(int(value)) if isinstance(value, bool) else value
        size = None if flag is None else self._size("pragma", f"value of {kind!r}", flag, axis, 0)
        if size is None or (isinstance(size, Const) and size.value > 1):
            self.fail("pragma", f"the value of {kind!r} is {value!r}; give True or False", axis)
        return size
