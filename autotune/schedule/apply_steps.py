"""Replays recorded steps on a schedule of the same computation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from autotune.errors import AutotuneError, ScheduleError
from autotune.ir.axes import IterVar
from autotune.ir.expr import Expr, SizeVar
from autotune.ir.visitor import free_vars
from autotune.schedule.stage_core import StageCore
from autotune.schedule.steps import Step, Term, expr_of
from autotune.te.compute import thread_axis
from autotune.te.tensor import Tensor

if TYPE_CHECKING:
    from autotune.schedule.schedule import Schedule
    from autotune.schedule.stage import Stage


def replay(schedule: Schedule, steps: Iterable[Step | list[Any]]) -> None:
    """Apply steps, as `Schedule.steps` or `Schedule.to_json` give them, to a schedule.

    Raises ScheduleError if a step does not fit: its number, counted from 1, and why.
    """
    for number, data in enumerate(steps, 1):
        label = f"step {number}"
        try:
            step = Step.from_json(data)
            label = f"step {number}, `{step}`"
            _Replay(schedule, step).apply()
        except AutotuneError as error:
            raise ScheduleError(f"{label}: {error}") from error


class _Replay:
    """One step and the schedule that it is applied to."""

    def __init__(self, schedule: Schedule, step: Step) -> None:
        self.schedule = schedule
        self.step = step

    def apply(self) -> None:
        done = len(self.schedule.steps)
        primitive = _PRIMITIVES.get(self.step.primitive, _Replay.unknown)
        try:
            inspect.signature(primitive).bind(self, *self.step.args)
        except TypeError as error:
            problem = f"its arguments do not fit: {error}; compare them with what to_json gives"
            raise ScheduleError(problem) from error
        primitive(self, *self.step.args)
        came = self.schedule.steps[done:]
        if came != [self.step]:
            text = ", ".join(map(str, came))
            raise ScheduleError(f"it gives `{text}` here; the steps are of another computation")

    def unknown(self, *_: Term) -> None:
        known = ", ".join(_PRIMITIVES)
        raise ScheduleError(f"there is no primitive {self.step.primitive!r}; there are: {known}")

    # -- values of arguments ------------------------------------------------------------

    def stage(self, label: Term) -> Stage:
        for stage in self.schedule.stages:
            if stage.label == label:
                return stage
        known = ", ".join(stage.label for stage in self.schedule.stages)
        raise ScheduleError(f"there is no stage {label!r}; there are: {known}")

    @property
    def own(self) -> Stage:
        """The stage that the step is about."""
        return self.stage(self.step.stage)

    def axis(self, stage: StageCore, label: Term) -> IterVar:
        for axis in stage.all_axes:
            if stage.axis_label(axis) == label:
                return axis
        known = ", ".join(map(stage.axis_label, stage.all_axes)) or "none"
        raise ScheduleError(f"stage {stage.label!r} has no axis {label!r}; it has: {known}")

    def tensor(self, label: Term, index: Term = 0) -> Tensor:
        outputs = self.stage(label).outputs
        if not isinstance(index, int) or not 0 <= index < len(outputs):
            raise ScheduleError(
                f"stage {label!r} has no output {index!r}; it has {len(outputs)}, counted from 0"
            )
        return outputs[index]

    def value(self, term: Term) -> Expr:
        """Return a size or a condition, whose names are of axes or of thread axes."""
        return expr_of(term, self._variable, self._sizes())

    def _variable(self, name: str) -> Expr:
        for stage in self.schedule.stages:
            for thread in stage.bindings.values():
                if thread.thread_tag == name:
                    return thread.var
        return self.axis(self.own, name).var

    def _sizes(self) -> dict[str, SizeVar]:
        tensors = (tensor for stage in self.schedule.stages for tensor in stage.outputs)
        extents = (extent for tensor in tensors for extent in tensor.extents)
        sizes: dict[str, SizeVar] = {}
        for var in (var for extent in extents for var in free_vars(extent)):
            if isinstance(var, SizeVar) and sizes.setdefault(var.name, var) is not var:
                raise ScheduleError(f"two sizes are called {var.name!r}; rename one")
        return sizes

    # -- primitives --------------------------------------------------------------------------

    def split(self, axis: Term, kind: Term, size: Term, offset: Term = None) -> None:
        if kind not in ("factor", "nparts"):
            raise ScheduleError(f"split takes 'factor' or 'nparts', not {kind!r}")
        begin = None if offset is None else self.value(offset)
        self.own.split(self.axis(self.own, axis), **{kind: self.value(size)}, offset=begin)

    def on_axes(self, *axes: Term) -> None:
        stage = self.own
        getattr(stage, self.step.primitive)(*(self.axis(stage, axis) for axis in axes))

    def on_stage(self) -> None:
        getattr(self.own, self.step.primitive)()

    def bind(self, axis: Term, tag: Term, extent: Term = None, name: Term = None) -> None:
        dom = None if extent is None else (0, self.value(extent))
        if name is not None and not isinstance(name, str):
            raise ScheduleError(f"the name of a thread axis is a text, not {name!r}")
        self.own.bind(self.axis(self.own, axis), thread_axis(dom, tag, name))

    def pragma(self, axis: Term, kind: Term, value: Term = None) -> None:
        given = None if value is None else self.value(value)
        self.own.pragma(self.axis(self.own, axis), kind, given)

    def compute_at(self, parent: Term, axis: Term) -> None:
        at = self.stage(parent)
        self.own.compute_at(at, self.axis(at, axis))

    def double_buffer(self, through: Term = None) -> None:
        self.own.double_buffer(through)

    def set_scope(self, scope: Term) -> None:
        self.own.set_scope(scope)

    def storage_align(self, axis: Term, factor: Term, offset: Term) -> None:
        self.own.storage_align(self.axis(self.own, axis), self.value(factor), self.value(offset))

    def transform_layout(self, *indices: Term) -> None:
        self.own.transform_layout(lambda *_: [self.value(index) for index in indices])

    def set_store_predicate(self, condition: Term) -> None:
        self.own.set_store_predicate(self.value(condition))

    def cache_read(self, producer: Term, index: Term, scope: Term, *readers: Term) -> None:
        stages = [self.stage(reader) for reader in readers]
        self.schedule.cache_read(self.tensor(producer, index), scope, [s.op for s in stages])

    def cache_write(self, stage: Term, scope: Term) -> None:
        self.schedule.cache_write(self.tensor(stage), scope)

    def rfactor(self, stage: Term, axis: Term, factor_axis: Term) -> None:
        self.schedule.rfactor(self.tensor(stage), self.axis(self.stage(stage), axis), factor_axis)


_PRIMITIVES: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("fuse", "reorder", "vectorize", "unroll", "parallel"), _Replay.on_axes),
    **dict.fromkeys(("compute_root", "compute_inline"), _Replay.on_stage),
    **{
        name: getattr(_Replay, name)
        for name in (
            "split", "bind", "pragma", "compute_at", "double_buffer", "set_scope",
            "transform_layout", "storage_align", "set_store_predicate", "cache_read",
            "cache_write", "rfactor",
        )
    },
}  # fmt: skip
