"""Loop nests: every stage's loops, guards and stores, over flat buffers.

Guards are all emitted here, and axes of length 1 keep their loops; `finalise` decides later,
when the knobs have values, which of them are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from autotune.errors import LoweringError
from autotune.ir.expr import Buffer, Const, Expr, Load, Reduce, SizeVar, Var
from autotune.ir.itervar import AxisKind, Combiner, IterVar
from autotune.ir.ops import binary, const, if_then_else
from autotune.ir.stmt import (
    Allocate,
    For,
    Function,
    If,
    LoopKind,
    Produce,
    Seq,
    Stmt,
    Store,
    ThreadReduce,
    seq,
)
from autotune.ir.visitor import Rewriter, free_vars, reads, recursive, substitute
from autotune.lowering.axis_guards import below, guarded, stage_guards
from autotune.lowering.bounds import Bounds, is_sized
from autotune.lowering.double_buffer import double_buffer
from autotune.lowering.layout import Layout
from autotune.lowering.placement import loop_path
from autotune.lowering.scans import hoist_allocations
from autotune.lowering.stores import store_together
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Attach, Stage
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, PlaceholderOp, Tensor

#: The thread axes that loops around are bound to, outermost first, and their variables.
Threads = dict[IterVar, Var]


@recursive
def lower_schedule(
    schedule: Schedule,
    tensors: Sequence[Tensor],
    name: str = "main",
    *,
    for_autotvm08: bool = False,
    strided: bool = False,
) -> Function:
    """Return the loops of a schedule, knobs still symbolic.

    Parameters
    ----------
    schedule : Schedule
        What to lower.
    tensors : sequence of Tensor
        Parameters of the function: inputs, then outputs.
    name : str
        Name of the function.
    for_autotvm08 : bool
        Return the loops that AutoTVM v0.8 reads features from, which compute nothing: reductions
        do not set their accumulators first, buffers are named as their tensors, which may be
        alike, and nothing is computed ahead.
    strided : bool
        Let arrays with sizes that only a call knows lie as the call says, by strides that it
        gives: a listing shows them, and arrays that are not contiguous need them. Otherwise they
        are row-major.
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
        self.layout = Layout(schedule, self.bounds, tensors, not for_autotvm08, strided)
        self.buffers = self.layout.buffers
        self.unrolling: dict[Var, Mapping[str, Expr]] = {}
        self.requirements: list[tuple[Expr, str]] = []
        self.threads: dict[Var, Expr] = {}
        self.virtual: dict[IterVar, Var] = {}
        self.extents: dict[Var, Expr] = {}

    def function(self) -> Function:
        body = self._pipeline([s for s in self.stages if s.attach is Attach.ROOT], None, {})
        if self.threads:
            body = _Threads(self.threads).stmt(body)
        if not self.for_autotvm08:
            body = self._double_buffered(body)
        params = tuple(self.buffers[t] for t in self.tensors)
        outputs = frozenset(
            self.buffers[t] for t in self.tensors if not isinstance(t.op, PlaceholderOp)
        )
        sizes = _sizes(params)
        self.bounds.refuse_sizes_but(set(sizes))
        attrs = {
            "requirements": tuple(self.requirements),
            "nontemporal": tuple(
                self.buffers[tensor].name
                for stage in self.stages
                if stage.has_pragma("nontemporal_store")
                for tensor in stage.outputs
            ),
            "unrolling": self.unrolling,
            "at_least": tuple(
                (op.update[0].extents[0], op.first)
                for op in (stage.op for stage in self.stages)
                if isinstance(op, ScanOp) and is_sized(op.update[0].extents[0])
            ),
            "states": {
                buffer.name: buffer not in self.layout.mixed
                for stage in self.stages
                if isinstance(stage.op, ScanOp)
                for buffer in (*map(self.buffers.__getitem__, stage.outputs), *self._rings(stage))
            },
            "blocks_per_multiprocessor": {
                self.buffers[tensor].name: pragmas["blocks_per_multiprocessor"]
                for stage in self.stages
                for pragmas in stage.pragmas.values()
                if "blocks_per_multiprocessor" in pragmas
                for tensor in stage.outputs
            },
            "ahead": self._ahead(),
            **{
                f"through_{way}": tuple(
                    self.buffers[tensor].name
                    for stage in self.stages
                    if stage.buffered_through == way
                    for tensor in stage.outputs
                )
                for way in ("registers", "copies")
            },
        }
        return Function(self.name, params, outputs, body, sizes, attrs)

    def _ahead(self) -> dict[str, Expr]:
        """Return how many elements behind those that scans read of inputs others are fetched."""
        found: dict[str, Expr] = {}
        for stage in self.stages:
            steps = None if stage.cell is None else stage.cell.pragma_value("prefetch_steps")
            if steps is None:
                continue
            assert stage.cell is not None
            here = {a.var for a in stage.op.axis if self.bounds.is_step(stage.cell, a)}
            later = {var: binary("+", var, steps) for var in here}
            for read in (read for expr in self.bounds.bodies[stage] for read in reads(expr)):
                if isinstance(read.tensor.op, PlaceholderOp) and read.tensor in self.parameters:
                    distance = self.layout.distance(read.tensor, read.children, later)
                    if distance is not None:
                        found[self.buffers[read.tensor].name] = distance
        return found

    def _doubled(self) -> dict[Buffer, str]:
        """Return the buffers of stages that are double-buffered, and the names of these."""
        return {
            self.buffers[tensor]: stage.name
            for stage in self.stages
            if stage.double_buffered
            for tensor in stage.outputs
        }

    def _double_buffered(self, body: Stmt) -> Stmt:
        buffers = self._doubled()
        return double_buffer(body, buffers) if buffers else body

    # -- stages ----------------------------------------------------------------------------

    def _pipeline(
        self, stages: Sequence[Stage], rest: Stmt | None, open_threads: Threads
    ) -> Stmt:
        """Return the stages in order, then `rest`, each temporary allocated around its use."""
        body = rest
        for stage in reversed(stages):
            produced = self._produce(stage, open_threads)
            body = produced if body is None else seq(produced, body)
            for tensor in stage.outputs:
                if tensor not in self.parameters and tensor not in self.layout.whole:
                    body = Allocate(self.buffers[tensor], body)
        return Seq(()) if body is None else body

    def _produce(self, stage: Stage, open_threads: Threads) -> Stmt:
        if isinstance(stage.op, ScanOp):
            scan = Produce(stage.name, self._scan(stage, open_threads))
            return hoist_allocations(scan, set(self._doubled()), self._rings(stage))
        nest = self._nest(stage, open_threads)
        return nest if stage.time is not None else Produce(stage.name, nest)

    def _rings(self, scan: Stage) -> list[Buffer]:
        """Return the rings that a scan keeps its last steps in."""
        if not isinstance(scan.op, ScanOp) or not scan.has_pragma("state_in_ring"):
            return []
        for tensor in (*scan.op.init, *scan.op.update):
            stage = self.schedule[tensor]
            if stage.op.reduce_axis:
                raise LoweringError(
                    f"stage {stage.name!r}: it reduces, and the steps of scan {scan.name!r} are "
                    "kept in a ring, which is written once; give the reduction a stage of its "
                    "own with cache_write"
                )
        return [self.layout.rings[state] for state in scan.op.state_placeholder]

    def _scan(self, stage: Stage, open_threads: Threads) -> Stmt:
        """Return the first steps of a scan, then the loop over the others."""
        inits = [s for s in self.stages if s.scan is stage and s.attach is Attach.INIT]
        cell = [s for s in self.stages if s.scan is stage and s.attach is Attach.CELL]
        step = self._pipeline(cell, None, open_threads)
        step = guarded(stage_guards(stage, self.bounds, {}), step)
        steps = self._loops(stage, stage.leaf_axes, step, dict(open_threads), set())
        return seq(*(self._nest(init, open_threads) for init in inits), steps)

    def _nest(self, stage: Stage, open_threads: Threads) -> Stmt:
        op = stage.op
        assert isinstance(op, ComputeOp)
        values = self.bounds.root_values(stage)
        body = self.bounds.bodies[stage]
        threads = dict(open_threads)
        opened = self._open_threads(stage, threads)
        spatial = [self.layout.element(t, [values[a.var] for a in op.axis]) for t in stage.outputs]
        leaves = stage.leaf_axes
        if not op.reduce_axis:
            stores: list[Stmt] = []
            for tensor, place, expr in zip(stage.outputs, spatial, body, strict=True):
                value = self.layout.loads(substitute(expr, values))
                stores.append(Store(*place, value))
                if tensor in self.layout.rings:
                    kept = self.layout.kept(tensor, [values[a.var] for a in op.axis])
                    stores.append(Store(*kept, value))
            stored = self._where_stored(stage, values, threads, seq(*stores))
            inner = guarded(stage_guards(stage, self.bounds, values), stored)
            return self._loops(stage, leaves, inner, threads, opened)
        if any(leaf in stage.bindings for leaf in _reduced(stage)):
            return self._across_threads(stage, values, spatial, threads, opened)
        first = next(i for i, leaf in enumerate(leaves) if leaf.kind is AxisKind.REDUCE)
        update = self._update(stage, values, spatial, threads)
        inner = self._loops(stage, leaves[first:], update, threads, opened)
        if not self.for_autotvm08:
            inner = seq(self._init(stage, values, spatial, leaves[first:], threads, opened), inner)
        return self._loops(stage, leaves[:first], inner, threads, opened)

    def _init(
        self,
        stage: Stage,
        values: dict[Var, Expr],
        spatial: Sequence[tuple[Buffer, Expr]],
        leaves: Sequence[IterVar],
        threads: Threads,
        opened: set[IterVar],
    ) -> Stmt:
        """Return the loops that set the accumulators to the identity of the reduction."""
        reduction = self.bounds.bodies[stage][0]
        assert isinstance(reduction, Reduce)
        stores: Stmt = seq(
            *(
                Store(buffer, index, identity)
                for (buffer, index), identity in zip(
                    spatial, reduction.combiner.identity, strict=True
                )
            )
        )
        guards = stage_guards(stage, self.bounds, values, skip_reduce=True)
        inner = guarded(guards, self._where_stored(stage, values, threads, stores))
        kept = [leaf for leaf in leaves if leaf.kind is not AxisKind.REDUCE]
        nest = self._loops(stage, kept, inner, threads, opened, attached=False)
        fresh = {leaf.var: Var(f"{leaf.name}.init") for leaf in kept if leaf not in stage.bindings}
        for leaf in kept:
            if leaf.var in self.unrolling and leaf.var in fresh:
                self.unrolling[fresh[leaf.var]] = self.unrolling[leaf.var]
        return _Rename(fresh).stmt(nest) if fresh else nest

    def _update(
        self,
        stage: Stage,
        values: dict[Var, Expr],
        spatial: Sequence[tuple[Buffer, Expr]],
        threads: Threads,
    ) -> Stmt:
        reduction = self.bounds.bodies[stage][0]
        assert isinstance(reduction, Reduce)
        sources = [self.layout.loads(substitute(s, values)) for s in reduction.sources]
        current = [Load(buffer, index) for buffer, index in spatial]
        combined = reduction.combiner.combine(current, sources)
        store = self._stores(spatial, combined)
        condition = self.layout.loads(substitute(reduction.condition, values))
        store = self._where_stored(stage, values, threads, _where(condition, store))
        return guarded(stage_guards(stage, self.bounds, values), store)

    def _stores(self, places: Sequence[tuple[Buffer, Expr]], values: Sequence[Expr]) -> Stmt:
        """Return the stores of the results of a reduction, which may depend on one another."""
        stores = [Store(*place, value) for place, value in zip(places, values, strict=True)]
        if self.for_autotvm08:
            return seq(*stores)
        return store_together(stores, self.layout.unused)

    def _across_threads(
        self,
        stage: Stage,
        values: dict[Var, Expr],
        spatial: Sequence[tuple[Buffer, Expr]],
        threads: Threads,
        opened: set[IterVar],
    ) -> Stmt:
        """Return a reduction some of whose loops are bound to threads: all combine their parts."""
        reduction = self.bounds.bodies[stage][0]
        assert isinstance(reduction, Reduce)
        combiner, zero = reduction.combiner, const(0)
        operands = [self.layout.loads(substitute(s, values)) for s in reduction.sources]
        condition = self.layout.loads(substitute(reduction.condition, values))
        guards = stage_guards(stage, self.bounds, values)
        serial = [x for x in _reduced(stage) if x not in stage.bindings]
        around = [x for x in stage.leaf_axes if x not in serial]
        results = self._temporaries("reduce_temp", combiner)
        every = list(results)
        body: Stmt = Seq(())
        if serial:
            parts = self._temporaries("normal_reduce_temp", combiner)
            every += parts
            places = [(part, zero) for part in parts]
            own: list[Expr] = [Load(*place) for place in places]
            update = _where(condition, self._stores(places, combiner.combine(own, operands)))
            loops = self._loops(stage, serial, guarded(guards, update), threads, opened)
            start = map(Store, parts, repeat(zero), combiner.identity)
            body, operands = seq(*start, loops), own
        else:
            for guard in (condition, *guards):
                pairs = zip(operands, combiner.identity, strict=True)
                operands = [if_then_else(guard, x, identity) for x, identity in pairs]
        across = tuple(threads[stage.bindings[x]] for x in _reduced(stage) if x in stage.bindings)
        body = seq(body, ThreadReduce(combiner, tuple(operands), tuple(results), across))
        outcome = (Store(*place, Load(r, zero)) for place, r in zip(spatial, results, strict=True))
        stored = self._where_stored(stage, values, threads, seq(*outcome))
        body = seq(body, guarded(stage_guards(stage, self.bounds, values, True), stored))
        for buffer in every:
            body = Allocate(buffer, body)
        return self._loops(stage, around, body, threads, opened)

    def _temporaries(self, name: str, combiner: Combiner) -> list[Buffer]:
        return [
            Buffer(self.layout.unused(f"{name}{i}"), value.dtype, (const(1),), "local")
            for i, value in enumerate(combiner.identity)
        ]

    def _where_stored(
        self, stage: Stage, values: dict[Var, Expr], threads: Threads, stores: Stmt
    ) -> Stmt:
        """Return the stores of a stage under its store predicate."""
        condition = stage.store_predicate
        if condition is None:
            return stores
        known: dict[Var, Expr] = dict(values)
        for owner, axis in loop_path(stage):
            thread = owner.bindings.get(axis)
            if thread is not None:
                known[thread.var] = threads.get(thread, axis.var)
        same_tag = {thread.thread_tag: var for thread, var in threads.items()}
        for var in free_vars(condition):
            tag = self.schedule.thread_tag_of(var)
            if tag in same_tag:
                known.setdefault(var, same_tag[tag])
            elif tag is not None and var not in known:
                raise LoweringError(
                    f"stage {stage.name!r} is stored where `{condition}`, but no loop around it is "
                    f"bound to {tag}; compute it at a loop inside that one"
                )
        return If(substitute(condition, known), stores)

    # -- loops -----------------------------------------------------------------------------

    def _loops(
        self,
        stage: Stage,
        leaves: Sequence[IterVar],
        body: Stmt,
        threads: Threads,
        opened: set[IterVar],
        attached: bool = True,
    ) -> Stmt:
        """Wrap `body` in the loops `leaves`, computing the stages attached to them inside."""
        for leaf in reversed(leaves):
            if attached:
                inside = [
                    s
                    for s in self.stages
                    if s.attach_point is not None
                    and s.attach is Attach.AT
                    and s.attach_point.stage is stage
                    and s.attach_point.axis is leaf
                ]
                if inside:
                    further_in = stage.leaf_axes[stage.leaf_axes.index(leaf) + 1 :]
                    later = {stage.bindings[x] for x in further_in if x in opened}
                    around = {x: var for x, var in threads.items() if x not in later}
                    body = self._pipeline(inside, body, around)
            body = self._loop(stage, leaf, body, threads, opened)
        return body

    def _loop(
        self,
        stage: Stage,
        leaf: IterVar,
        body: Stmt,
        threads: Threads,
        opened: set[IterVar],
    ) -> Stmt:
        extent = self.bounds.ranges[leaf].extent
        thread = stage.bindings.get(leaf)
        if thread is None:
            if leaf in stage.pragmas:
                self.unrolling[leaf.var] = stage.pragmas[leaf]
            kind = stage.loop_kinds.get(leaf, LoopKind.SERIAL)
            return For(leaf.var, extent, kind, body)
        if thread.thread_tag == "vthread":
            # One axis may be bound again and again: a reduction also starts its accumulators.
            virtual = self.virtual.setdefault(thread, Var(thread.name))
            self.threads[leaf.var] = virtual
            if leaf in stage.pragmas:
                self.unrolling[virtual] = stage.pragmas[leaf]
            return For(virtual, extent, LoopKind.VTHREAD, body, thread.thread_tag)
        var = threads[thread]
        self.threads[leaf.var] = var
        if leaf in stage.pragmas:
            self.unrolling[var] = stage.pragmas[leaf]
        if leaf not in opened:
            return guarded([below(var, extent)], body)
        if thread.dom is not None:
            self.requirements.append(
                (
                    binary("==", extent, thread.dom.extent),
                    f"stage {stage.name!r}: axis {leaf.name!r} bound to {thread.thread_tag} must "
                    "have its extent; leave the thread axis' range out, or split the loop to it",
                )
            )
        return For(var, extent, LoopKind.THREAD, body, thread.thread_tag)

    def _open_threads(self, stage: Stage, threads: Threads) -> set[IterVar]:
        """Give each bound loop its thread variable; return those that this stage opens."""
        opened = set()
        for leaf in stage.leaf_axes:
            thread = stage.bindings.get(leaf)
            if thread is None or thread.thread_tag == "vthread":
                continue
            extent = self.bounds.ranges[leaf].extent
            if thread not in threads:
                threads[thread] = Var(thread.thread_tag)
                self.extents[threads[thread]] = extent
                opened.add(leaf)
            else:
                self.requirements.append(
                    (
                        binary("<=", extent, self.extents[threads[thread]]),
                        f"stage {stage.name!r}: axis {leaf.name!r} is longer than the loop around "
                        f"that is bound to the same {thread.thread_tag}; split it to that length",
                    )
                )
        return opened


def _reduced(stage: Stage) -> list[IterVar]:
    """Return the loops over axes that a stage reduces over."""
    return [leaf for leaf in stage.leaf_axes if leaf.kind is AxisKind.REDUCE]


def _where(condition: Expr, body: Stmt) -> Stmt:
    """Return a statement under the condition of a reduction."""
    always = isinstance(condition, Const) and bool(condition.value)
    return body if always else If(condition, body)


def _sizes(params: Sequence[Buffer]) -> tuple[SizeVar, ...]:
    found: dict[SizeVar, None] = {}
    for buffer in params:
        for extent in buffer.shape:
            for var in free_vars(extent):
                if isinstance(var, SizeVar):
                    found.setdefault(var)
    for buffer in params:
        found.update(dict.fromkeys(buffer.strides or ()))
    return tuple(found)


class _Rename(Rewriter):
    """Gives loops other variables."""

    def __init__(self, mapping: Mapping[Any, Var]) -> None:
        super().__init__()
        self.mapping = mapping
        self._memo.update(mapping)

    def visit_For(self, node: For) -> Stmt:
        var = self.mapping.get(node.var, node.var)
        return For(var, self.expr(node.extent), node.kind, self.stmt(node.body), node.thread_tag)


class _Threads(Rewriter):
    """Replaces loop variables of bound axes by the thread variables."""

    def __init__(self, mapping: Mapping[Any, Expr]) -> None:
        super().__init__()
        self._memo.update(mapping)
