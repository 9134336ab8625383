"""Loop nests: every stage's loops, guards and stores, over flat buffers.

Guards are all emitted here, and axes of length 1 keep their loops; `finalise` decides later,
when the knobs have values, which of them are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from autotune.errors import LoweringError
from autotune.ir.axes import IterVar
from autotune.ir.expr import Buffer, Expr, SizeVar, Var
from autotune.ir.ops import binary
from autotune.ir.stmt import (
    Allocate,
    For,
    FunctionInfo,
    LoopKind,
    Prefetch,
    PrimFunc,
    Produce,
    Seq,
    Stmt,
    allocated,
    seq,
)
from autotune.ir.visitor import free_vars, reads, recursive, transform
from autotune.lowering.nest.axis_guards import guarded, stage_guards
from autotune.lowering.nest.axis_loops import AxisLoops, OpenThreads, Threads
from autotune.lowering.nest.bound_inference import Bounds, is_sized
from autotune.lowering.nest.buffer_layout import StorageLayout
from autotune.lowering.nest.double_buffering import double_buffer
from autotune.lowering.nest.regions import is_loop_free
from autotune.lowering.nest.stage_body import StageBody, reduced
from autotune.lowering.nest.stage_placement import refuse_rings_of_reductions
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Attach, Stage
from autotune.te.scan import ScanOp
from autotune.te.tensor import PlaceholderOp, Tensor


@recursive
def lower_schedule(
    schedule: Schedule,
    tensors: Sequence[Tensor],
    name: str = "main",
    *,
    for_autotvm08: bool = False,
    strided: bool = False,
) -> PrimFunc:
    """Return the loops of a schedule, knobs still symbolic.

    `tensors`: parameters of the function: inputs, then outputs.
    `name`: name of the function.
    `for_autotvm08`: return the loops for AutoTVM v0.8's features, which cannot be executed:
    reductions do not initialise their accumulators, buffers have the names of their tensors, which
    may be equal, and double buffering is ignored.
    `strided`: make the strides of arrays with sizes from `te.var` arguments, for listings and for
    arrays that are not contiguous. Otherwise arrays are row-major.
    """
    if not isinstance(schedule, Schedule):
        raise LoweringError(
            f"lower: expected a schedule first, got {schedule!r}; make one with te.create_schedule"
        )
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensors):
        raise LoweringError(
            f"lower: expected a list of tensors, got {tensors!r}; give inputs, then outputs, as in "
            "[A, B]"
        )
    return _Lowering(schedule, tensors, name, for_autotvm08, strided).function()


class _Lowering:
    def __init__(
        self,
        schedule: Schedule,
        tensors: Sequence[Tensor],
        name: str,
        for_autotvm08: bool,
        strided: bool,
    ) -> None:
        self.schedule = schedule
        self.for_autotvm08 = for_autotvm08
        self.tensors = list(tensors)
        self.parameters = set(tensors)
        self.name = name
        self.bounds = Bounds(schedule, for_autotvm08)
        self.stages = list(self.bounds.bodies)
        self.layout = StorageLayout(schedule, self.bounds, tensors, not for_autotvm08, strided)
        self.buffers = self.layout.buffers
        self.loops = AxisLoops(self.bounds)

    def function(self) -> PrimFunc:
        body = self._pipeline([s for s in self.stages if s.attach is Attach.ROOT], None, {})
        body = self.loops.with_threads(body)
        if not self.for_autotvm08:
            body = self._double_buffered(body)
        params = tuple(self.buffers[t] for t in self.tensors)
        outputs = frozenset(
            self.buffers[t] for t in self.tensors if not isinstance(t.op, PlaceholderOp)
        )
        sizes = _sizes(params)
        self.bounds.refuse_sizes_but(set(sizes))
        info = function_info(self.loops, self.layout, self.parameters)
        return PrimFunc(self.name, params, outputs, body, sizes, info)

    def _doubled(self) -> dict[Buffer, str]:
        """Return the buffers of double-buffered stages, and the names of the stages."""
        return {
            self.buffers[tensor]: stage.name
            for stage in self.stages
            if stage.double_buffered
            for tensor in stage.outputs
        }

    def _double_buffered(self, body: Stmt) -> Stmt:
        buffers = self._doubled()
        return double_buffer(body, buffers) if buffers else body

    def _pipeline(self, stages: Sequence[Stage], rest: Stmt | None, around: Threads) -> Stmt:
        """Return the stages in order, then `rest`, each temporary allocated around its use."""
        body = rest
        for stage in reversed(stages):
            produced = self._produce(stage, around)
            body = produced if body is None else seq(produced, body)
            for tensor in stage.outputs:
                if tensor not in self.parameters and tensor not in self.layout.whole:
                    body = Allocate(self.buffers[tensor], body)
        return Seq(()) if body is None else body

    def _produce(self, stage: Stage, around: Threads) -> Stmt:
        if isinstance(stage.op, ScanOp):
            scan = Produce(stage.name, self._scan(stage, around))
            refuse_rings_of_reductions(self.schedule, stage)
            return hoist_allocations(scan, set(self._doubled()), self.layout.rings_of(stage))
        nest = self._nest(stage, around)
        return nest if stage.time is not None else Produce(stage.name, nest)

    def _scan(self, stage: Stage, around: Threads) -> Stmt:
        """Return the first steps of a scan, then the loop over the others."""
        inits = [s for s in self.stages if s.scan is stage and s.attach is Attach.INIT]
        *outer, last = stage.leaf_axes
        cell = [s for s in self.stages if s.scan is stage and s.attach is Attach.CELL]
        step = self._pipeline([*self._attached(stage, last), *cell], None, around)
        guards = stage_guards(stage, self.bounds, {})
        needed = self.bounds.last_steps.get(stage)
        if needed is not None:
            end = binary("+", needed.min, needed.extent)
            guards.append(binary("<", self.bounds.step(stage), end))
        threads = OpenThreads(around)
        step = self._loops(stage, [last], guarded(guards, step), threads, attached=False)
        steps = self._loops(stage, outer, step, threads)
        return seq(*(self._nest(init, around) for init in inits), steps)

    def _nest(self, stage: Stage, around: Threads) -> Stmt:
        """Return the loops of a stage."""
        threads = self.loops.open_threads(stage, around)
        body = StageBody(stage, self.layout, threads.variables, self.for_autotvm08)
        leaves = stage.leaf_axes
        over = reduced(stage)
        if not over:
            return self._loops(stage, leaves, body.stores(), threads)
        serial = [leaf for leaf in over if leaf not in stage.bindings]
        if len(serial) < len(over):
            each = [leaf for leaf in leaves if leaf not in serial]
            part = body.across_threads(serial, lambda s: self._loops(stage, serial, s, threads))
            return self._loops(stage, each, part, threads)
        first = leaves.index(over[0])
        inner = self._loops(stage, leaves[first:], body.update(), threads)
        if not self.for_autotvm08:
            kept = [leaf for leaf in leaves[first:] if leaf not in over]
            start = self._loops(stage, kept, body.start(), threads, attached=False)
            inner = seq(self.loops.once_more(stage, kept, start), inner)
        return self._loops(stage, leaves[:first], inner, threads)

    def _loops(
        self,
        stage: Stage,
        leaves: Sequence[IterVar],
        body: Stmt,
        threads: OpenThreads,
        attached: bool = True,
    ) -> Stmt:
        """Wrap `body` in the loops `leaves`, computing the stages attached to them inside."""
        for leaf in reversed(leaves):
            if attached:
                inside = self._attached(stage, leaf)
                if inside:
                    body = self._pipeline(inside, body, threads.at(stage, leaf))
            body = self.loops.loop(stage, leaf, body, threads)
        return body

    def _attached(self, stage: Stage, leaf: IterVar) -> list[Stage]:
        """Return the stages that are computed in a loop of a stage."""
        return [
            s
            for s in self.stages
            if s.attach is Attach.AT
            and s.attach_point is not None
            and s.attach_point.stage is stage
            and s.attach_point.axis is leaf
        ]


def _sizes(params: Sequence[Buffer]) -> tuple[SizeVar, ...]:
    """Return the sizes and then the strides that parameters have, each once."""
    variables = (var for buffer in params for extent in buffer.shape for var in free_vars(extent))
    strides = (stride for buffer in params for stride in buffer.strides or ())
    sizes = (var for var in variables if isinstance(var, SizeVar))
    return tuple(dict.fromkeys((*sizes, *strides)))


_SEPARATE = (LoopKind.PARALLEL, LoopKind.THREAD, LoopKind.VTHREAD)


def hoist_allocations(scan: Produce, kept: Set[Buffer], rings: Sequence[Buffer] = ()) -> Stmt:
    """Return a scan inside the allocations that all its steps may share, and its ring buffers.

    Allocations in parallel loops, of varying size, or in `kept` are not moved. Storage with the
    lifetime of a kernel is allocated inside the scan, which is one kernel.
    """
    found = list(rings)

    def hoisted(node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind in _SEPARATE:
            return node
        if not isinstance(node, Allocate) or node.buffer in kept:
            return None
        if not all(map(is_loop_free, node.buffer.shape)):
            return None
        found.append(node.buffer)
        return transform(node.body, before=hoisted)

    body = transform(scan.body, before=hoisted)
    inside = [buffer for buffer in found if buffer.scope != "global"]
    around = [buffer for buffer in found if buffer.scope == "global"]
    return allocated(around, Produce(scan.name, allocated(inside, body)))


def function_info(loops: AxisLoops, layout: StorageLayout, parameters: Set[Tensor]) -> FunctionInfo:
    """Return the facts and hints of a function from its loops and the layout of its buffers."""
    stages = list(layout.bounds.bodies)

    def names(of: Iterator[Stage]) -> frozenset[str]:
        return frozenset(layout.buffers[tensor].name for stage in of for tensor in stage.outputs)

    return FunctionInfo(
        requirements=tuple(loops.requirements),
        bound_axes=loops.bound_axes,
        loop_pragmas=loops.loop_pragmas,
        num_threads=loops.num_threads,
        least_extents=tuple(
            (op.update[0].extents[0], op.first)
            for op in (stage.op for stage in stages)
            if isinstance(op, ScanOp) and is_sized(op.update[0].extents[0])
        ),
        scan_states={
            buffer.name: buffer not in layout.mixed
            for stage in stages
            if isinstance(stage.op, ScanOp)
            for buffer in (*map(layout.buffers.__getitem__, stage.outputs), *layout.rings_of(stage))
        },
        nontemporal=names(s for s in stages if s.has_pragma("nontemporal_store")),
        prefetches=_prefetches(layout, parameters),
        blocks_per_multiprocessor={
            layout.buffers[tensor].name: pragmas["blocks_per_multiprocessor"]
            for stage in stages
            for pragmas in stage.pragmas.values()
            if "blocks_per_multiprocessor" in pragmas
            for tensor in stage.outputs
        },
        loaded_ahead=names(s for s in stages if s.buffered_through == "registers"),
        copied_ahead=names(s for s in stages if s.buffered_through == "copies"),
    )


def _prefetches(layout: StorageLayout, parameters: Set[Tensor]) -> dict[str, Prefetch]:
    """Return what is prefetched with the inputs of stages that have a pragma for it."""
    found: dict[str, Prefetch] = {}
    for stage, body in layout.bounds.bodies.items():
        later, level = _later(stage, layout.bounds)
        for read in (read for expr in body for read in reads(expr)) if later else ():
            if isinstance(read.tensor.op, PlaceholderOp) and read.tensor in parameters:
                distance = layout.distance(read.tensor, read.children, later)
                if distance is not None:
                    name = layout.buffers[read.tensor].name
                    other = found.get(name)
                    if other is not None and other.level == level == 1:  # of another stage, perhaps
                        distance = binary("max", other.distance, distance)
                    found[name] = Prefetch(distance, level)
    return found


def _later(stage: Stage, bounds: Bounds) -> tuple[dict[Var, Expr], int]:
    """Return values of variables in the iteration that is prefetched for, and the cache level."""
    scan = stage.cell
    steps = None if scan is None else scan.pragma_value("prefetch_steps")
    if scan is not None and steps is not None:
        own = [axis for axis in stage.op.axis if bounds.is_step(scan, axis)]
        return {axis.var: binary("+", axis.var, steps) for axis in own}, 2
    given = {axis: pragmas.get("prefetch") for axis, pragmas in stage.pragmas.items()}
    moved = {axis.var: binary("+", axis.var, by) for axis, by in given.items() if by is not None}
    return moved, 1
