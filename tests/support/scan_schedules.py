"""Random legal schedules of random scans: init, cell and steps, with every primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from autotune import te
from autotune.ir.axes import AxisKind, IterVar
from autotune.schedule.stage import Attach, Stage
from support.random_scans import RandomScan
from support.te_schedules import STEPS, Scheduled, Scheduler


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
