"""Random legal schedules of tensor programs, split factors given as numbers or as knobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from autotune import te
from autotune.ir.axes import AxisKind, IterVar
from autotune.ir.expr import KnobVar
from autotune.ir.stmt import LoopKind
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Attach, Stage
from autotune.te.tensor import ComputeOp, Operation, Tensor
from support.te_programs import Program

#: Attempts; some find nothing legal to do.
STEPS = (4, 14)


KINDS = (
    "split", "split", "nparts", "fuse", "reorder", "tile", "vectorize", "unroll", "parallel",
    "compute_at", "compute_at", "compute_at", "inline", "cache_read", "cache_write", "set_scope",
    "rfactor", "storage_align", "transform_layout", "double_buffer", "double_buffer",
    "pragma", "compute_root", "store_predicate",
)  # fmt: skip
THREADS = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread")


@dataclass
class Scheduled:
    """A schedule, and values for the knobs in it."""

    schedule: Schedule
    knobs: dict[KnobVar, int] = field(default_factory=dict)

    def describe(self) -> str:
        """Text of the steps."""
        steps = "\n".join(map(str, self.schedule.steps))
        return f"{steps}\n{ {k.name: v for k, v in self.knobs.items()} }"


class Scheduler:
    """Takes random steps that are legal."""

    def __init__(self, draw: Callable[[Any], Any], ops: Iterable[Operation], threads: bool) -> None:
        self.draw = draw
        self.kinds = KINDS + ("bind",) * (4 if threads else 0)
        self.schedule = te.create_schedule(list(ops))
        self.result = Scheduled(self.schedule)
        self.use_knobs = draw(st.booleans())
        self.attached_to: set[IterVar] = set()
        self.in_order: set[IterVar] = set()  # loops with double-buffered stages

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def factor(self) -> Any:
        value = self.pick((1, 2, 2, 3, 4, 4, 5, 7, 8, 16))
        if not self.use_knobs or self.pick((True, False, False)):
            return value
        knob = KnobVar(f"knob{len(self.result.knobs)}", 1, 16)
        self.result.knobs[knob] = value
        return knob

    # -- what is legal -------------------------------------------------------------------------

    def stages(self) -> list[Stage]:
        return [
            s
            for s in self.schedule.stages
            if isinstance(s.op, ComputeOp) and s.attach is not Attach.INLINE
        ]

    def annotated(self, stage: Stage, axis: IterVar) -> bool:
        return any(axis in known for known in (stage.loop_kinds, stage.bindings, self.in_order))

    def free(self, stage: Stage) -> list[IterVar]:
        """Loops that may still be split and fused."""
        return [
            a
            for a in stage.leaf_axes
            if not self.annotated(stage, a) and a not in self.attached_to and a not in stage.pragmas
        ]

    def readers(self, stage: Stage) -> list[Stage]:
        """Computed stages that read a stage, inlined ones seen through."""
        found: list[Stage] = []
        for tensor in stage.outputs:
            for reader in self.schedule.readers(tensor):
                for s in self.readers(reader) if reader.attach is Attach.INLINE else [reader]:
                    if s not in found:
                        found.append(s)
        return found

    def sources(self, stage: Stage) -> list[Stage]:
        """Stages that a stage reads, inlined ones seen through."""
        found: list[Stage] = []
        for tensor in stage.op.input_tensors:
            source = self.schedule[tensor]
            inline = source.attach is Attach.INLINE
            found += self.sources(source) if inline else [source]
        return found

    def path(self, stage: Stage) -> list[tuple[Stage, IterVar]]:
        """Loops around a stage's body, outermost first."""
        own = [(stage, a) for a in stage.leaf_axes]
        if stage.attach is not Attach.AT:
            return own
        assert stage.attach_point is not None
        outer = self.path(stage.attach_point.stage)
        cut = [a for _, a in outer].index(stage.attach_point.axis)
        return outer[: cut + 1] + own

    def places(self, stage: Stage) -> list[tuple[Stage, IterVar]]:
        """Loops that surround every reader of a stage."""
        paths = [self.path(reader) for reader in self.readers(stage)]
        if not paths:
            return []
        return [place for place in paths[0] if all(place in path for path in paths[1:])]

    # -- steps ---------------------------------------------------------------------------------

    def step(self) -> None:
        kind = self.pick(self.kinds)
        stages = self.stages()
        if kind in ("compute_at", "inline"):
            stages = [s for s in stages if not s.is_output]
        if stages:
            getattr(self, f"do_{kind}")(self.pick(stages))

    def do_split(self, stage: Stage) -> None:
        if axes := self.free(stage):
            stage.split(self.pick(axes), factor=self.factor())

    def do_nparts(self, stage: Stage) -> None:
        if axes := self.free(stage):
            stage.split(self.pick(axes), nparts=self.factor())

    def do_fuse(self, stage: Stage) -> None:
        free = self.free(stage)
        pairs = [
            (a, b)
            for a, b in zip(stage.leaf_axes, stage.leaf_axes[1:], strict=False)
            if a in free and b in free and a.kind is b.kind
        ]
        if pairs:
            stage.fuse(*self.pick(pairs))

    def do_reorder(self, stage: Stage) -> None:
        order = self.draw(st.permutations(stage.leaf_axes))
        # Loops with stages in them stay where they are: what was inside could come to lie outside.
        # So do parallel loops that directly follow each other.
        nests = list(stage.loop_kinds.values()).count(LoopKind.PARALLEL) > 1
        if not nests and not self.attached_to.intersection(order):
            stage.reorder(*order)

    def do_tile(self, stage: Stage) -> None:
        free = [a for a in self.free(stage) if a.kind is AxisKind.SPATIAL]
        if len(free) >= 2:
            stage.tile(*free[:2], self.factor(), self.factor())

    def annotate(self, stage: Stage, kind: str, reductions: bool = False) -> None:
        axes = [
            a
            for a in stage.leaf_axes
            if not self.annotated(stage, a) and (reductions or a.kind is AxisKind.SPATIAL)
        ]
        if axes:
            getattr(stage, kind)(self.pick(axes))

    def do_vectorize(self, stage: Stage) -> None:
        axes = [a for a in self.free(stage) if a.kind is AxisKind.SPATIAL]
        if axes and self.pick((True, False)):  # the usual case: the innermost loop
            axes = axes[-1:]
        if axes and LoopKind.VECTORIZED not in stage.loop_kinds.values():
            stage.vectorize(self.pick(axes))

    def do_unroll(self, stage: Stage) -> None:
        self.annotate(stage, "unroll", reductions=True)

    def do_parallel(self, stage: Stage) -> None:
        """Make a loop parallel, and perhaps those that directly follow it."""
        if self.is_parallel(stage) or self.holds_parallel(stage):
            return
        self.annotate(stage, "parallel")
        parallel = [a for a in stage.leaf_axes if stage.loop_kinds.get(a) is LoopKind.PARALLEL]
        for axis in stage.leaf_axes[stage.leaf_axes.index(parallel[0]) :] if parallel else ():
            if axis is not parallel[0]:
                if self.annotated(stage, axis) or axis.kind is not AxisKind.SPATIAL:
                    break
                stage.parallel(axis)
            if self.pick((True, False)):
                stage.pragma(axis, "num_threads", self.pick((0, 1, 2, 5)))
            if self.pick((True, False)):
                break

    def is_parallel(self, stage: Stage) -> bool:
        """Whether one of the loops around a stage's body is parallel."""
        return any(s.loop_kinds.get(a) is LoopKind.PARALLEL for s, a in self.path(stage))

    def holds_parallel(self, stage: Stage) -> bool:
        """Whether a stage that is computed inside this one is parallel."""
        return any(
            self.is_parallel(guest) or self.holds_parallel(guest) for guest in stage.attached
        )

    def do_bind(self, stage: Stage) -> None:
        """Bind loops of stages at the root: threads then share no memory and run in any order."""
        used = {thread.thread_tag for thread in stage.bindings.values()}
        tags = [tag for tag in THREADS if tag not in used or tag == "vthread"]
        axes = [a for a in self.free(stage) if a.kind is AxisKind.SPATIAL]
        if axes and tags and stage.attach is Attach.ROOT:
            stage.bind(self.pick(axes), te.thread_axis(self.pick(tags)))

    def movable(self, stage: Stage) -> bool:
        return not stage.is_output and not stage.bindings

    def do_compute_at(self, stage: Stage) -> None:
        inside = any(
            s.attach is Attach.AT and s.attach_point is not None and s.attach_point.stage is stage
            for s in self.stages()
        )
        # Moved again, it could come to lie outside what was put next to it meanwhile.
        if not self.movable(stage) or inside or stage.attach is not Attach.ROOT:
            return
        places = self.places(stage)
        if self.is_parallel(stage):
            places = [p for p in places if not self.is_parallel(p[0])]
        # What is computed an iteration ahead cannot read what is computed in the same loop.
        ahead = [s.attach_point for s in self.readers(stage) if s.double_buffered]
        places = [p for p in places if p not in ahead]
        if places:
            parent, axis = self.pick(places)
            stage.compute_at(parent, axis)
            self.attached_to.add(axis)

    def do_inline(self, stage: Stage) -> None:
        assert isinstance(stage.op, ComputeOp)
        stored = stage.alignments or stage.layout or stage.store_predicate is not None
        root = stage.attach is Attach.ROOT
        if self.movable(stage) and not stage.op.reduce_axis and root and not stored:
            used = any(a in self.attached_to for a in stage.leaf_axes)
            if not used:
                stage.compute_inline()

    def do_cache_read(self, stage: Stage) -> None:
        tensors: list[Tensor] = stage.op.input_tensors
        if tensors:
            tensor = self.pick(tensors)
            if self.schedule[tensor].attach is Attach.INLINE:
                return
            self.schedule.cache_read(tensor, self.pick(("local", "global")), [stage.op])

    def do_cache_write(self, stage: Stage) -> None:
        assert isinstance(stage.op, ComputeOp)
        untouched = stage.leaf_axes == [*stage.op.axis, *stage.op.reduce_axis]
        if (
            not untouched
            or stage.loop_kinds
            or stage.bindings
            or stage.pragmas
            or stage.double_buffered
            or self.attached_to.intersection(stage.leaf_axes)
        ):
            return
        self.schedule.cache_write(stage.outputs[0], self.pick(("local", "global")))

    def do_rfactor(self, stage: Stage) -> None:
        spatial = [a for a in stage.leaf_axes if a.kind is AxisKind.SPATIAL]
        changed = spatial != list(stage.op.axis) or stage.loop_kinds or stage.bindings
        changed = changed or stage.pragmas or stage.alignments or stage.double_buffered
        changed = changed or stage.store_predicate is not None or stage.layout is not None
        axes = [a for a in self.free(stage) if a.kind is AxisKind.REDUCE]
        if axes and not changed and not self.attached_to.intersection(stage.leaf_axes):
            position = self.pick(range(len(spatial) + 1))
            self.schedule.rfactor(stage.outputs[0], self.pick(axes), position)

    def do_set_scope(self, stage: Stage) -> None:
        if self.movable(stage):
            stage.set_scope(self.pick(("local", "global", "shared")))

    def do_compute_root(self, stage: Stage) -> None:
        inside = any(source.attach is Attach.AT for source in self.sources(stage))
        if not inside and not stage.double_buffered:
            stage.compute_root()

    def do_storage_align(self, stage: Stage) -> None:
        axes = [a for a in stage.op.axis if a not in stage.alignments]
        if axes and self.movable(stage):
            factor = self.factor()
            offset = self.pick(range(factor)) if isinstance(factor, int) else 0
            stage.storage_align(self.pick(axes), factor, offset)

    def do_transform_layout(self, stage: Stage) -> None:
        """Store in another order of dimensions, some of them cut in two."""
        if not self.movable(stage) or stage.layout is not None or stage.alignments:
            return
        parts: list[Any] = []
        for axis in stage.op.axis:
            if self.pick((True, False)):
                tile = self.factor()
                parts += [axis.var // tile, axis.var % tile]
            else:
                parts.append(axis.var)
        order = self.draw(st.permutations(parts))
        stage.transform_layout(lambda *_: order)

    def do_double_buffer(self, stage: Stage) -> None:
        point = stage.attach_point
        if point is None or stage.double_buffered or point.axis in point.stage.bindings:
            return
        kind = point.stage.loop_kinds.get(point.axis, LoopKind.SERIAL)
        ahead = any(source.attach_point == point for source in self.sources(stage))
        if kind in (LoopKind.SERIAL, LoopKind.UNROLLED) and not ahead:
            stage.double_buffer()
            self.in_order.add(point.axis)

    def do_pragma(self, stage: Stage) -> None:
        axes = [a for a in stage.leaf_axes if a not in stage.pragmas]
        if axes:
            axis = self.pick(axes)
            stage.pragma(axis, "auto_unroll_max_step", self.factor())
            if self.pick((True, False)):
                stage.pragma(axis, "unroll_explicit", self.pick((True, False)))
            if any(axis is own for own in stage.op.axis) and self.pick((True, False)):
                stage.pragma(axis, "prefetch", self.factor())

    def do_store_predicate(self, stage: Stage) -> None:
        """Store where it makes no difference: every dimension starts at 0."""
        if stage.op.axis:
            stage.set_store_predicate(self.pick(stage.op.axis) >= 0)


@st.composite
def scheduled(draw: Callable[[Any], Any], program: Program, threads: bool = False) -> Scheduled:
    """Strategy of random legal schedules of a program, with loops bound to threads if wanted."""
    scheduler = Scheduler(draw, [t.op for t in program.outputs], threads)
    for _ in range(draw(st.integers(*STEPS))):
        scheduler.step()
    return scheduler.result
