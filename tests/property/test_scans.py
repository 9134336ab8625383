"""Random scans under random schedules compute what loops in NumPy do; so do their threads.

AUTOTUNE_EXAMPLES=3000 runs more examples, with other seeds each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import assume, given, note
from hypothesis import strategies as st
from support.random_scans import RandomScan, random_scans
from support.te_schedules import STEPS, Scheduled, Scheduler
from support.verify import verify
from test_schedules_differential import MEMORY_ONLY, examples

from autotune import te
from autotune.errors import LoweringError
from autotune.ir.axes import AxisKind, IterVar
from autotune.ir.evaluate.interpreter import interpret
from autotune.lowering.finalise import analyse, finalise, finalising
from autotune.lowering.gpu.finalise_kernels import finalise_kernels, finalising_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.schedule.stage import Attach, Stage


class _ScanScheduler(Scheduler):
    def __init__(self, draw: Callable[[Any], Any], case: RandomScan) -> None:
        super().__init__(draw, [case.scans[0].op], threads=False)
        self.kinds += ("steps", "steps", "hint", "hint")
        self.case = case
        self.scan = self.schedule[case.scans[0]]

    def is_carried(self, stage: Stage) -> bool:
        """Whether a stage is computed in the scan's array."""
        return stage.attach is Attach.INIT or stage.time is not None

    def path(self, stage: Stage) -> list[tuple[Stage, IterVar]]:
        own = [(stage, axis) for axis in stage.leaf_axes]
        if stage.attach is Attach.CELL:
            return [*self.path(self.scan), *own]
        return own if stage.attach is Attach.INIT else super().path(stage)

    def places(self, stage: Stage) -> list[tuple[Stage, IterVar]]:
        found = super().places(stage)
        if stage.cell is None:
            return found
        return [
            (parent, axis)
            for parent, axis in found
            if parent is not self.scan or axis is self.scan.leaf_axes[-1]
        ]

    def movable(self, stage: Stage) -> bool:
        return not stage.bindings and not self.is_carried(stage)

    def do_bind(self, stage: Stage) -> None:
        """Threads are given columns all together, by `columns_to_threads`."""

    def do_compute_at(self, stage: Stage) -> None:
        if stage.attach is Attach.CELL and not self.is_carried(stage):
            stage.attach = Attach.ROOT  # no place is chosen yet
            super().do_compute_at(stage)
            if stage.attach is Attach.ROOT:
                stage.attach = Attach.CELL
        elif not self.is_carried(stage):
            super().do_compute_at(stage)

    def do_inline(self, stage: Stage) -> None:
        if stage.attach is Attach.CELL and not self.is_carried(stage):
            stage.attach = Attach.ROOT
            super().do_inline(stage)
            if stage.attach is Attach.ROOT:
                stage.attach = Attach.CELL
        elif not self.is_carried(stage):
            super().do_inline(stage)

    def do_double_buffer(self, stage: Stage) -> None:
        """Do so for copies of inputs: what depends on a state is not known a step ahead."""
        if stage.cell is None:
            super().do_double_buffer(stage)

    def do_steps(self, _: Stage) -> None:
        """Split the loop over the steps, or write steps out."""
        stage = self.scan
        axes = self.free(stage)
        if axes and self.pick((True, True, False)):
            axis = self.pick(axes)
            if self.pick((True, False)):
                stage.split(axis, factor=self.factor())
            else:
                stage.split(axis, nparts=self.factor())
        elif axes:
            stage.unroll(self.pick(axes))

    def do_hint(self, _: Stage) -> None:
        """Keep the last steps in rings, store past the caches, fetch inputs ahead."""
        axes = self.free(self.scan)
        kind = self.pick(("state_in_ring", "state_in_ring", "nontemporal_store", "prefetch_steps"))
        written = (*self.case.inits, *self.case.updates)
        reduces = kind == "state_in_ring" and any(part.op.reduce_axis for part in written)
        if axes and not reduces and not self.scan.has_pragma(kind):
            value = (self.factor(),) if kind == "prefetch_steps" else ()
            self.scan.pragma(self.pick(axes), kind, *value)


@st.composite
def scheduled(draw: Callable[[Any], Any], case: RandomScan) -> Scheduled:
    """Strategy of random legal schedules of a scan."""
    scheduler = _ScanScheduler(draw, case)
    for _ in range(draw(st.integers(*STEPS))):
        scheduler.step()
    return scheduler.result


def columns_to_threads(draw: Callable[[Any], Any], case: RandomScan, s: Any) -> bool:
    """Give all stages' columns to threads by one factor; return whether there are blocks too."""
    factor, blocks = draw(st.sampled_from([1, 3, 4, 16])), draw(st.booleans())
    for stage in s.stages:
        if stage.op.axis and stage.attach is not Attach.INLINE:
            axis = next(a for a in reversed(stage.leaf_axes) if a.kind is AxisKind.SPATIAL)
            outer, inner = stage.split(axis, factor=factor)
            stage.bind(inner, te.thread_axis("threadIdx.x"))
            if blocks:
                stage.bind(outer, te.thread_axis("blockIdx.x"))
    return blocks


def assert_computes(case: RandomScan, runs: Sequence[Callable[..., Any]]) -> None:
    """Run the scan in several ways and compare with the loop in NumPy."""
    x = case.input()
    want = case.reference(x)
    for run in runs:
        got = [np.full_like(values, 77) for values in want]
        run(x, *got)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


@examples(12)
@given(data=st.data())
def test_a_random_scan_is_the_loop_in_numpy(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    note("\n".join(case.description))
    plan = data.draw(scheduled(case))
    note(plan.describe())
    tensors, strided = [case.X, *case.scans], data.draw(st.booleans())
    lowered = verify(lower_schedule(plan.schedule, tensors, strided=strided), allow_knobs=True)
    analysed = verify(analyse(lowered, plan.knobs))
    note(f"analysed:\n{analysed}")
    for final in finalising(analysed):
        verify(final)
    note(f"final:\n{final}")
    compiled = compile_function(final, cache=MEMORY_ONLY)
    assert_computes(
        case, [lambda *a: interpret(analysed, a), lambda *a: interpret(final, a), compiled]
    )


@examples(12)
@given(data=st.data())
def test_threads_that_share_a_random_scan_do_not_race(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    note("\n".join(case.description))
    s = te.create_schedule(case.scans[0].op)
    for tensor in case.inner:
        if not tensor.op.reduce_axis and data.draw(st.booleans()):
            s[tensor].compute_inline()
    blocks = columns_to_threads(data.draw, case, s)
    note(str(s))
    lowered = verify(analyse(lower_schedule(s, [case.X, *case.scans])))
    try:
        *_, final = map(verify, finalising_kernels(lowered))
    except LoweringError as refusal:
        # Of other arrays than states, columns are not told apart if their number is not known.
        shared = "blocks share elements of" if case.symbolic and not case.mixes else "blocks share"
        if blocks and (case.mixes or case.symbolic) and str(refusal).startswith(shared):
            return
        raise
    note(f"final:\n{final}")
    on_cpu = compile_function(final, "cuda -on=cpu", cache=MEMORY_ONLY)
    assert_computes(case, [lambda *a: interpret(final, a, races=True), on_cpu])


@examples(12)
@given(data=st.data())
def test_a_random_scan_is_computed_in_the_loop_of_its_reader(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    note("\n".join(case.description))
    # The width of the second state would be a size that no call gives.
    assume(not case.symbolic or len(case.sizes) == 2)
    one, two = case.scans[0], case.scans[-1]
    out = te.compute(
        one.extents,
        lambda t, i: (one[t, i] + two[t, i % two.extents[1]] + i).astype("int64"),
        name="out",
    )
    s = te.create_schedule(out.op)
    outer, inner = s[out].split(out.op.axis[1], factor=data.draw(st.sampled_from([1, 2, 4])))
    s[out].reorder(outer, out.op.axis[0], inner)
    s[case.scans[0]].compute_at(s[out], outer)
    # Local arrays of a size that only a call knows are refused, as everywhere.
    threads = not case.symbolic and data.draw(st.booleans())
    if threads:
        s[out].bind(outer, te.thread_axis("threadIdx.x"))
    else:
        for part in (*case.inits, *case.updates, *case.inner):
            s[part].vectorize(part.op.axis[1])
    note(str(s))
    analysed = verify(analyse(lower_schedule(s, [case.X, out])))
    final = verify((finalise_kernels if threads else finalise)(analysed))
    x = case.input()
    states = case.reference(x)
    first, last = states[0], states[-1]
    columns = np.arange(first.shape[1])
    with np.errstate(over="ignore"):
        want = (first + last[:, columns % last.shape[1]] + columns).astype("int64")
    target = "cuda -on=cpu" if threads else "llvm"
    compiled = compile_function(final, target, cache=MEMORY_ONLY)
    for run in (lambda *a: interpret(final, a, races=True), compiled):
        got = np.full_like(want, 77)
        run(x, got)
        np.testing.assert_array_equal(got, want)
