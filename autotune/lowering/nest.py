"""Loop nests: every stage's loops, guards and stores, over flat buffers.

Guards are all emitted here, and axes of length 1 keep their loops; `finalise` decides later,
when the knobs have values, which of them are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune.errors import LoweringError
from autotune.ir.expr import Buffer, Const, Expr, Load, Read, Reduce, SizeVar, Var
from autotune.ir.itervar import AxisKind, IterVar
from autotune.ir.ops import binary, const, likely
from autotune.ir.stmt import Allocate, For, Function, If, LoopKind, Produce, Seq, Stmt, Store, seq
from autotune.ir.visitor import Rewriter, free_vars, substitute, walk_expr
from autotune.lowering.bounds import Bounds, at_least_one, loop_path
from autotune.lowering.double_buffer import double_buffer
from autotune.schedule.relations import Fuse, Split, is_over_knobs
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Attach, Stage
from autotune.te.tensor import ComputeOp, PlaceholderOp, Tensor


def lower_schedule(schedule: Schedule, tensors: Sequence[Tensor], name: str = "main") -> Function:
    """Return the loops of a schedule, knobs still symbolic.

    Parameters
    ----------
    schedule : Schedule
        What to lower.
    tensors : sequence of Tensor
        Parameters of the function: inputs, then outputs.
    name : str
        Name of the function.
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
    return _Lowering(schedule, tensors, name).function()


class _Lowering:
    def __init__(self, schedule: Schedule, tensors: Sequence[Tensor], name: str) -> None:
        self.schedule = schedule
        self.tensors = list(tensors)
        self.parameters = set(tensors)
        self.name = name
        self.bounds = Bounds(schedule)
        self.stages = list(self.bounds.bodies)
        self.buffers: dict[Tensor, Buffer] = {}
        self.strides: dict[Tensor, list[Expr]] = {}
        self.unrolling: dict[Var, Mapping[str, Expr]] = {}
        self.requirements: list[tuple[Expr, str]] = []
        self.threads: dict[Var, Expr] = {}
        self._names: set[str] = set()
        self._flatten = _Flatten(self)

    def function(self) -> Function:
        self._declare_parameters()
        for stage in self.stages:
            for tensor in stage.outputs:
                if tensor not in self.buffers:
                    self._declare(tensor, self._region_shape(stage), stage)
        body = self._pipeline([s for s in self.stages if s.attach is Attach.ROOT], None, {})
        if self.threads:
            body = _Threads(self.threads).stmt(body)
        body = self._double_buffered(body)
        params = tuple(self.buffers[t] for t in self.tensors)
        outputs = frozenset(
            self.buffers[t] for t in self.tensors if not isinstance(t.op, PlaceholderOp)
        )
        sizes = _sizes(params)
        attrs = {
            "requirements": tuple(self.requirements),
            "nontemporal": tuple(
                self.buffers[tensor].name
                for stage in self.stages
                if stage.has_pragma("nontemporal_store")
                for tensor in stage.outputs
            ),
            "unrolling": self.unrolling,
        }
        return Function(self.name, params, outputs, body, sizes, attrs)

    def _double_buffered(self, body: Stmt) -> Stmt:
        buffers = {
            self.buffers[tensor]: stage.name
            for stage in self.stages
            if stage.double_buffered
            for tensor in stage.outputs
        }
        return double_buffer(body, buffers) if buffers else body

    # -- buffers ---------------------------------------------------------------------------

    def _declare_parameters(self) -> None:
        for tensor in self.tensors:
            if tensor in self.buffers:
                raise LoweringError(f"tensor {tensor.name!r} is listed twice; list it once")
            if not isinstance(tensor.op, PlaceholderOp):
                self.schedule[tensor]  # refuses what the schedule does not compute
            self._declare(tensor, tensor.extents, None)
        for stage in self.stages:
            if stage.is_output and not any(t in self.buffers for t in stage.outputs):
                raise LoweringError(
                    f"output {stage.name!r} is missing from the list of tensors; add it"
                )
            for tensor in stage.outputs:
                if tensor in self.buffers and not stage.is_output:
                    raise LoweringError(
                        f"tensor {tensor.name!r} is an intermediate result; give its operation "
                        "to create_schedule too if it shall be returned"
                    )
        for stage in self.schedule.stages:
            tensor = stage.outputs[0]
            if isinstance(stage.op, PlaceholderOp) and tensor not in self.buffers:
                raise LoweringError(
                    f"placeholder {tensor.name!r} is missing from the list of tensors; add it"
                )

    def _region_shape(self, stage: Stage) -> tuple[Expr, ...]:
        assert isinstance(stage.op, ComputeOp)
        return tuple(self.bounds.ranges[axis].extent for axis in stage.op.axis)

    def _declare(self, tensor: Tensor, shape: tuple[Expr, ...], stage: Stage | None) -> None:
        """Make the buffer of a tensor and note the strides of its dimensions, row-major.

        A padded temporary, of which some stride is aligned, is one long row.
        """
        strides: list[Expr] = []
        stride: Expr = const(1)
        alignments = {} if stage is None else stage.alignments
        for position in reversed(range(tensor.ndim)):
            alignment = alignments.get(tensor.op.axis[position]) if alignments else None
            if alignment is not None:
                stride = alignment.of(stride)
            strides.insert(0, stride)
            stride = binary("*", stride, shape[position])
        self.strides[tensor] = strides
        scope = "global" if stage is None else stage.scope
        name = self._unused(tensor.name)
        stored = (stride,) if alignments else shape
        self.buffers[tensor] = Buffer(name, tensor.dtype, stored, scope)

    def _unused(self, name: str) -> str:
        """Return `name`, numbered if another buffer has it."""
        unused, count = name, 0
        while unused in self._names:
            count += 1
            unused = f"{name}_{count}"
        self._names.add(unused)
        return unused

    def element(self, tensor: Tensor, indices: Sequence[Expr]) -> tuple[Buffer, Expr]:
        """Return the buffer and the flat row-major index of an element."""
        buffer = self.buffers.get(tensor)
        if buffer is None:
            raise LoweringError(
                f"tensor {tensor.name!r} is read but neither computed nor a parameter"
            )
        op = self.schedule[tensor].op
        flat: Expr = const(0)
        for position in reversed(range(tensor.ndim)):
            index = indices[position]
            if isinstance(op, ComputeOp):
                index = binary("-", index, self.bounds.ranges[op.axis[position]].min)
            flat = binary("+", binary("*", index, self.strides[tensor][position]), flat)
        return buffer, flat

    # -- stages ----------------------------------------------------------------------------

    def _pipeline(
        self, stages: Sequence[Stage], rest: Stmt | None, open_threads: dict[str, Var]
    ) -> Stmt:
        """Return the stages in order, then `rest`, each temporary allocated around its use."""
        body = rest
        for stage in reversed(stages):
            produced: Stmt = Produce(stage.name, self._nest(stage, open_threads))
            body = produced if body is None else seq(produced, body)
            for tensor in stage.outputs:
                if tensor not in self.parameters:
                    body = Allocate(self.buffers[tensor], body)
        return Seq(()) if body is None else body

    def _nest(self, stage: Stage, open_threads: dict[str, Var]) -> Stmt:
        op = stage.op
        assert isinstance(op, ComputeOp)
        values = self.bounds.root_values(stage)
        body = self.bounds.bodies[stage]
        threads = dict(open_threads)
        opened = self._open_threads(stage, threads)
        spatial = [self.element(t, [values[a.var] for a in op.axis]) for t in stage.outputs]
        leaves = stage.leaf_axes
        if not op.reduce_axis:
            stores = [
                Store(buffer, index, self._flatten.expr(substitute(expr, values)))
                for (buffer, index), expr in zip(spatial, body, strict=True)
            ]
            stored = self._where_stored(stage, values, threads, seq(*stores))
            inner = _guarded(self._guards(stage, values), stored)
            return self._loops(stage, leaves, inner, threads, opened)
        first = next(i for i, leaf in enumerate(leaves) if leaf.kind is AxisKind.REDUCE)
        init = self._init(stage, values, spatial, leaves[first:], threads, opened)
        update = self._update(stage, values, spatial, threads)
        main = self._loops(stage, leaves[first:], update, threads, opened)
        return self._loops(stage, leaves[:first], seq(init, main), threads, opened)

    def _init(
        self,
        stage: Stage,
        values: dict[Var, Expr],
        spatial: Sequence[tuple[Buffer, Expr]],
        leaves: Sequence[IterVar],
        threads: dict[str, Var],
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
        guards = self._guards(stage, values, skip_reduce=True)
        inner = _guarded(guards, self._where_stored(stage, values, threads, stores))
        kept = [leaf for leaf in leaves if leaf.kind is not AxisKind.REDUCE]
        nest = self._loops(stage, kept, inner, threads, opened, attached=False)
        fresh = {
            leaf.var: Var(f"{leaf.name}.init") for leaf in kept if leaf not in stage.bindings
        }
        for leaf in kept:
            if leaf.var in self.unrolling and leaf.var in fresh:
                self.unrolling[fresh[leaf.var]] = self.unrolling[leaf.var]
        return _Rename(fresh).stmt(nest) if fresh else nest

    def _update(
        self,
        stage: Stage,
        values: dict[Var, Expr],
        spatial: Sequence[tuple[Buffer, Expr]],
        threads: dict[str, Var],
    ) -> Stmt:
        reduction = self.bounds.bodies[stage][0]
        assert isinstance(reduction, Reduce)
        sources = [self._flatten.expr(substitute(s, values)) for s in reduction.sources]
        current = [Load(buffer, index) for buffer, index in spatial]
        combined = reduction.combiner.combine(current, sources)
        store = self._store_together(
            [
                Store(buffer, index, value)
                for (buffer, index), value in zip(spatial, combined, strict=True)
            ]
        )
        condition = self._flatten.expr(substitute(reduction.condition, values))
        if not (isinstance(condition, Const) and condition.value):
            store = If(condition, store)
        store = self._where_stored(stage, values, threads, store)
        return _guarded(self._guards(stage, values), store)

    def _where_stored(
        self, stage: Stage, values: dict[Var, Expr], threads: dict[str, Var], stores: Stmt
    ) -> Stmt:
        """Return the stores of a stage under its store predicate."""
        condition = stage.store_predicate
        if condition is None:
            return stores
        known: dict[Var, Expr] = dict(values)
        for owner, axis in loop_path(stage):
            thread = owner.bindings.get(axis)
            if thread is not None:
                known[thread.var] = threads.get(thread.thread_tag, axis.var)
        for var in free_vars(condition):
            tag = self.schedule.thread_tag_of(var)
            if tag in threads:
                known[var] = threads[tag]
            elif tag is not None and var not in known:
                raise LoweringError(
                    f"stage {stage.name!r} is stored where `{condition}`, but no loop around it is "
                    f"bound to {tag}; compute it at a loop inside that one"
                )
        return If(substitute(condition, known), stores)

    def _store_together(self, stores: Sequence[Store]) -> Stmt:
        """Return stores of which each sees the values from before all of them.

        A store comes after those that read what it overwrites; where they read one another's,
        the new values are set aside first.
        """
        pending, ordered = list(stores), []
        while len(pending) > 1:
            free = next(
                (
                    one
                    for one in pending
                    if not any(_loads(other, one.buffer) for other in pending if other is not one)
                ),
                None,
            )
            if free is None:
                break
            pending.remove(free)
            ordered.append(free)
        if len(pending) <= 1:
            return seq(*ordered, *pending)
        aside = [
            Buffer(self._unused(f"{one.buffer.name}.new"), one.buffer.dtype, (const(1),), "local")
            for one in pending
        ]
        zero = const(0)
        body = seq(
            *ordered,
            *(Store(new, zero, one.value) for new, one in zip(aside, pending, strict=True)),
            *(
                Store(one.buffer, one.index, Load(new, zero))
                for new, one in zip(aside, pending, strict=True)
            ),
        )
        for new in aside:
            body = Allocate(new, body)
        return body

    # -- loops -----------------------------------------------------------------------------

    def _loops(
        self,
        stage: Stage,
        leaves: Sequence[IterVar],
        body: Stmt,
        threads: dict[str, Var],
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
                    later = {stage.bindings[x].thread_tag for x in further_in if x in opened}
                    around = {tag: var for tag, var in threads.items() if tag not in later}
                    body = self._pipeline(inside, body, around)
            body = self._loop(stage, leaf, body, threads, opened)
        return body

    def _loop(
        self,
        stage: Stage,
        leaf: IterVar,
        body: Stmt,
        threads: dict[str, Var],
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
            # A reduction opens the loop twice: to start its accumulators, and to add to them.
            virtual = self.threads.setdefault(leaf.var, Var(thread.name))
            assert isinstance(virtual, Var)
            if leaf in stage.pragmas:
                self.unrolling[virtual] = stage.pragmas[leaf]
            return For(virtual, extent, LoopKind.VTHREAD, body, thread.thread_tag)
        var = threads[thread.thread_tag]
        self.threads[leaf.var] = var
        if leaf in stage.pragmas:
            self.unrolling[var] = stage.pragmas[leaf]
        if leaf not in opened:
            return _guarded([_below(var, extent)], body)
        if thread.dom is not None:
            self.requirements.append(
                (
                    binary("==", extent, thread.dom.extent),
                    f"stage {stage.name!r}: axis {leaf.name!r} bound to {thread.thread_tag} must "
                    "have its extent; leave the thread axis' range out, or split the loop to it",
                )
            )
        return For(var, extent, LoopKind.THREAD, body, thread.thread_tag)

    def _open_threads(self, stage: Stage, threads: dict[str, Var]) -> set[IterVar]:
        """Give each bound loop its thread variable; return those that this stage opens."""
        opened = set()
        for leaf in stage.leaf_axes:
            thread = stage.bindings.get(leaf)
            if thread is None or thread.thread_tag == "vthread":
                continue
            if thread.thread_tag not in threads:
                threads[thread.thread_tag] = Var(thread.thread_tag)
                opened.add(leaf)
        return opened

    # -- guards ----------------------------------------------------------------------------

    def _guards(
        self, stage: Stage, values: dict[Var, Expr], skip_reduce: bool = False
    ) -> list[Expr]:
        """Return the conditions under which an iteration is one that the stage needs."""
        op = stage.op
        assert isinstance(op, ComputeOp)
        guards = []
        for axis, value, exact in self._split_values(stage):
            if skip_reduce and axis.kind is AxisKind.REDUCE:
                continue
            guards.append(binary("or", exact, _below(value, self.bounds.ranges[axis].extent)))
        for axis in op.axis:
            span, dom = self.bounds.ranges[axis], axis.dom
            assert dom is not None
            whole = binary("and", _same(span.min, dom.min), _same(span.extent, dom.extent))
            value = values[axis.var]
            guards.append(binary("or", whole, binary("<=", const(0), value)))
            guards.append(binary("or", whole, _below(value, dom.extent)))
        return [g for g in guards if not isinstance(g, Const) or not g.value]

    def _split_values(self, stage: Stage) -> list[tuple[IterVar, Expr, Expr]]:
        """Return the values of axes counted from 0, and when their loops surely do not overshoot.

        The latter are conditions over knobs, so that a guard is there for just those values for
        which it would be if they were plain numbers.
        """
        ranges = self.bounds.ranges
        values: dict[IterVar, Expr] = {leaf: leaf.var for leaf in stage.leaf_axes}
        exact: dict[IterVar, Expr] = dict.fromkeys(stage.leaf_axes, const(True))
        for relation in reversed(stage.relations):
            if isinstance(relation, Split):
                outer = binary("*", values[relation.outer], self.bounds.stride(relation))
                values[relation.parent] = binary("+", outer, values[relation.inner])
                parts = binary("and", exact[relation.outer], exact[relation.inner])
                divides = relation.exact(ranges[relation.parent].extent)
                exact[relation.parent] = binary("and", parts, divides)
            else:
                assert isinstance(relation, Fuse)
                fused, inner = values[relation.fused], at_least_one(ranges[relation.inner].extent)
                values[relation.outer] = binary("//", fused, inner)
                values[relation.inner] = binary("%", fused, inner)
                # A guard on the fused axis keeps both of these within their extents.
                exact[relation.outer] = exact[relation.inner] = const(True)
        return [(axis, values[axis], exact[axis]) for axis in stage.all_axes]


def _loads(store: Store, buffer: Buffer) -> bool:
    """Whether the value of a store is computed from a buffer."""
    return any(isinstance(e, Load) and e.buffer is buffer for e in walk_expr(store.value))


def _same(size: Expr, other: Expr) -> Expr:
    """Return the condition over knobs under which two sizes are equal; False if unknown."""
    if size is other:
        return const(True)
    if not (is_over_knobs(size) and is_over_knobs(other)):
        return const(False)
    return binary("==", size, other)


def _below(value: Expr, extent: Expr) -> Expr:
    return binary("<", value, extent)


def _guarded(guards: Sequence[Expr], body: Stmt) -> Stmt:
    for guard in reversed(guards):
        body = If(likely(guard), body)
    return body


def _sizes(params: Sequence[Buffer]) -> tuple[SizeVar, ...]:
    found: dict[SizeVar, None] = {}
    for buffer in params:
        for extent in buffer.shape:
            for var in free_vars(extent):
                if isinstance(var, SizeVar):
                    found.setdefault(var)
    return tuple(found)


class _Flatten(Rewriter):
    """Replaces reads of tensors by loads of flat buffers."""

    def __init__(self, lowering: _Lowering) -> None:
        super().__init__()
        self.lowering = lowering

    def visit_Read(self, node: Read) -> Expr:
        indices = [self.expr(index) for index in node.children]
        return Load(*self.lowering.element(node.tensor, indices))


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
