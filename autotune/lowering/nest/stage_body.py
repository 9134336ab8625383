"""The body of a stage at one point of its loops: stores, guards and the store predicate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

from autotune.errors import LoweringError
from autotune.ir.axes import AxisKind, IterVar
from autotune.ir.expr import Buffer, Const, Expr, Load, Reduce
from autotune.ir.ops import const, if_then_else
from autotune.ir.stmt import If, Seq, Stmt, Store, ThreadReduce, allocated, seq
from autotune.ir.tuple_stores import store_together
from autotune.ir.visitor import free_vars, substitute
from autotune.lowering.nest.axis_guards import guarded, stage_guards
from autotune.lowering.nest.axis_loops import Threads
from autotune.lowering.nest.buffer_layout import StorageLayout
from autotune.lowering.nest.stage_placement import loop_path
from autotune.schedule.stage import Stage
from autotune.te.tensor import ComputeOp


class StageBody:
    """The statements inside the loops of a stage.

    `layout`: the storage of tensors.
    `threads`: variables of the thread axes of the stage's loops and of enclosing loops.
    `one_by_one`: store the results of a reduction in order even if one is computed from an element
    that another overwrites, as AutoTVM v0.8 counts them.
    """

    def __init__(
        self, stage: Stage, layout: StorageLayout, threads: Threads, one_by_one: bool
    ) -> None:
        assert isinstance(stage.op, ComputeOp)
        self.stage = stage
        self.layout = layout
        self.threads = threads
        self.one_by_one = one_by_one
        self.bounds = layout.bounds
        self.values = self.bounds.root_values(stage)
        self.exprs = self.bounds.bodies[stage]
        self.point = [self.values[axis.var] for axis in stage.op.axis]
        self.places = [layout.element(tensor, self.point) for tensor in stage.outputs]

    def stores(self) -> Stmt:
        """Return the stores of a stage that does not reduce."""
        stores: list[Stmt] = []
        for tensor, place, expr in zip(self.stage.outputs, self.places, self.exprs, strict=True):
            value = self._loaded(expr)
            stores.append(Store(*place, value))
            if tensor in self.layout.rings:
                stores.append(Store(*self.layout.kept(tensor, self.point), value))
        return guarded(self._guards(), self._where_stored(seq(*stores)))

    def start(self) -> Stmt:
        """Return the stores that set the accumulators to the identity of the reduction."""
        identity = self._reduction.combiner.identity
        stores = (Store(*place, x) for place, x in zip(self.places, identity, strict=True))
        return guarded(self._guards(skip_reduce=True), self._where_stored(seq(*stores)))

    def update(self) -> Stmt:
        """Return the stores that add one point of the reduction to the accumulators."""
        operands = self._operands()
        current = [Load(*place) for place in self.places]
        combined = self._reduction.combiner.combine(current, operands)
        store = _where(self._condition(), self._together(self.places, combined))
        return guarded(self._guards(), self._where_stored(store))

    def across_threads(self, serial: Sequence[IterVar], looped: Callable[[Stmt], Stmt]) -> Stmt:
        """Return a reduction over threads: each reduces its own part, then all combine the parts.

        `serial`: axes of the reduction that each thread reduces serially.
        `looped`: returns the loops over these axes around a statement.
        """
        combiner, zero = self._reduction.combiner, const(0)
        operands = self._operands()
        condition = self._condition()
        guards = self._guards()
        results = self._temporaries("reduce_temp")
        every = list(results)
        part: Stmt = Seq(())
        if serial:
            parts = self._temporaries("normal_reduce_temp")
            every += parts
            places = [(buffer, zero) for buffer in parts]
            own: list[Expr] = [Load(*place) for place in places]
            update = _where(condition, self._together(places, combiner.combine(own, operands)))
            loops = looped(guarded(guards, update))
            start = map(Store, parts, repeat(zero), combiner.identity)
            part, operands = seq(*start, loops), own
        else:
            for guard in (condition, *guards):
                either = zip(operands, combiner.identity, strict=True)
                operands = [if_then_else(guard, x, identity) for x, identity in either]
        bound = [axis for axis in reduced(self.stage) if axis in self.stage.bindings]
        across = tuple(self.threads[self.stage.bindings[axis]] for axis in bound)
        whole = ThreadReduce(combiner, tuple(operands), tuple(results), across)
        pairs = zip(self.places, results, strict=True)
        outcome = (Store(*place, Load(result, zero)) for place, result in pairs)
        stored = guarded(self._guards(skip_reduce=True), self._where_stored(seq(*outcome)))
        return allocated(every[::-1], seq(part, whole, stored))

    # -- parts -------------------------------------------------------------------------------------

    @property
    def _reduction(self) -> Reduce:
        found = self.exprs[0]
        assert isinstance(found, Reduce)
        return found

    def _loaded(self, expr: Expr) -> Expr:
        """Return an expression at this point of the loops, reading buffers."""
        return self.layout.loads(substitute(expr, self.values))

    def _operands(self) -> list[Expr]:
        return [self._loaded(source) for source in self._reduction.sources]

    def _condition(self) -> Expr:
        return self._loaded(self._reduction.condition)

    def _guards(self, skip_reduce: bool = False) -> list[Expr]:
        return stage_guards(self.stage, self.bounds, self.values, skip_reduce)

    def _together(self, places: Sequence[tuple[Buffer, Expr]], values: Sequence[Expr]) -> Stmt:
        """Return the stores of the results of a reduction, which may depend on one another."""
        stores = [Store(*place, value) for place, value in zip(places, values, strict=True)]
        return seq(*stores) if self.one_by_one else store_together(stores, self.layout.unused)

    def _temporaries(self, name: str) -> list[Buffer]:
        return [
            Buffer(self.layout.unused(f"{name}{i}"), value.dtype, (const(1),), "local")
            for i, value in enumerate(self._reduction.combiner.identity)
        ]

    def _where_stored(self, stores: Stmt) -> Stmt:
        """Return the stores of the stage under its store predicate."""
        condition = self.stage.store_predicate
        if condition is None:
            return stores
        known = dict(self.values)
        for owner, axis in loop_path(self.stage):
            thread = owner.bindings.get(axis)
            if thread is not None:
                known[thread.var] = self.threads.get(thread, axis.var)
        same_tag = {thread.thread_tag: var for thread, var in self.threads.items()}
        for var in free_vars(condition):
            tag = self.layout.schedule.thread_tag_of(var)
            if tag in same_tag:
                known.setdefault(var, same_tag[tag])
            elif tag is not None and var not in known:
                raise LoweringError(
                    f"stage {self.stage.name!r} is stored where `{condition}`, but no loop around "
                    f"it is bound to {tag}; compute it at a loop inside that one"
                )
        return If(substitute(condition, known), stores)


def reduced(stage: Stage) -> list[IterVar]:
    """Return the loops over axes that a stage reduces over."""
    return [leaf for leaf in stage.leaf_axes if leaf.kind is AxisKind.REDUCE]


def _where(condition: Expr, body: Stmt) -> Stmt:
    """Return a statement under the condition of a reduction."""
    always = isinstance(condition, Const) and bool(condition.value)
    return body if always else If(condition, body)
