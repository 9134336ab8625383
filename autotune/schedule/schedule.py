"""A schedule: the stages of a computation in order, and the primitives that add stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autotune.errors import ScheduleError
from autotune.ir.axes import AxisKind, IterVar, Range
from autotune.ir.expr import Expr, Read, Var
from autotune.ir.ops import cast, const
from autotune.ir.visitor import ReadRewriter, substitute
from autotune.schedule.apply_steps import replay
from autotune.schedule.rfactor import factor
from autotune.schedule.scan_stages import place_cells, states
from autotune.schedule.stage import SCOPES, Attach, Stage
from autotune.schedule.steps import Step
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, producers_first


class Schedule:
    """The stages of a computation; each comes after the stages that it reads.

    Attributes
    ----------
    outputs : tuple of Operation
        The operations to compute.
    stages : list of Stage
        One per operation, producers first.
    steps : list of Step
        The primitives applied so far.
    """

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.outputs = tuple(outputs)
        self.steps: list[Step] = []
        self.stages: list[Stage] = []
        for op in producers_first(self.outputs):
            is_output = any(op is out for out in self.outputs)
            self.stages.append(Stage(op, self._label(op.name), self, is_output))
        self._stage_of: dict[Operation, Stage] = {stage.op: stage for stage in self.stages}
        place_cells(self)

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        """Return the stage of a tensor or an operation."""
        op = key.op if isinstance(key, Tensor) else key
        stage = self._stage_of.get(op) if isinstance(op, Operation) else None
        if stage is None:
            names = ", ".join(stage.name for stage in self.stages)
            what = repr(op.name) if isinstance(op, Operation) else repr(key)
            raise ScheduleError(f"{what} is not a stage of this schedule; it has: {names}")
        return stage

    def readers(self, tensor: Tensor) -> list[Stage]:
        """Return the stages that read a tensor."""
        return [stage for stage in self.stages if any(t is tensor for t in stage.op.input_tensors)]

    def thread_tag_of(self, var: Var) -> str | None:
        """Return the tag of the thread axis of this variable, if some loop is bound to it."""
        bound = (thread for stage in self.stages for thread in stage.bindings.values())
        return next((thread.thread_tag for thread in bound if thread.var is var), None)

    # -- steps -----------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(f"{number}. {step}" for number, step in enumerate(self.steps, 1))

    def to_json(self, knobs: Mapping[str, int] | None = None) -> list[Any]:
        """Return the steps as plain data, which ``create_schedule(ops, steps=...)`` replays.

        Parameters
        ----------
        knobs : mapping of str to int, optional
            Values of the knobs that the steps' sizes depend on.

        Raises
        ------
        ScheduleError
            If a knob has no value.
        """
        return [step.with_knobs(knobs or {}).to_json() for step in self.steps]

    # -- stages ----------------------------------------------------------------------------

    def _label(self, name: str) -> str:
        """Return `name`, with a number if a stage has it already."""
        taken = {stage.label for stage in self.stages}
        numbered = (f"{name}#{number}" for number in range(1, len(taken) + 1))
        return next(label for label in (name, *numbered) if label not in taken)

    def _set_op(self, stage: Stage, op: ComputeOp) -> None:
        stage.op = op
        self._stage_of[op] = stage

    def _add_stage(self, op: ComputeOp, scope: str | None, position: int, beside: Stage) -> Stage:
        """Add a stage in the loop of `beside`, its reader or producer."""
        stage = Stage(op, self._label(op.name), self, is_output=False)
        stage.scope = scope
        stage.attach_with(beside)
        self.stages.insert(position, stage)
        self._stage_of[op] = stage
        return stage

    def cache_read(
        self, tensor: Tensor, scope: str, readers: Sequence[Tensor | Operation]
    ) -> Tensor:
        """Add a stage that copies `tensor` to `scope`, and let `readers` read the copy.

        ::

            B[i] = f(A[i])     ->     A.shared[i] = A[i]
                                      B[i] = f(A.shared[i])
        """
        _check_scope("cache_read", scope)
        if not isinstance(tensor, Tensor):
            raise ScheduleError(
                f"cache_read: expected a tensor first, got {tensor!r}; give one, as in C"
            )
        producer = self[tensor]
        listed: Sequence[Any] = readers if isinstance(readers, (list, tuple)) else [readers]
        reader_stages = [self[reader] for reader in listed]
        names = ", ".join(reader.name for reader in self.readers(tensor)) or "none"
        if not reader_stages:
            producer.fail("cache_read", f"no reader is given; its readers are: {names}")
        for position, stage in enumerate(reader_stages):
            if isinstance(stage.op, ScanOp):
                stage.fail(
                    "cache_read",
                    "a scan reads nothing itself, as its init and update are computed in its own "
                    "array; give the init, the update, or a stage of its cell",
                )
            if not any(t is tensor for t in stage.op.input_tensors):
                stage.fail(
                    "cache_read", f"it does not read {tensor.name!r}; its readers are: {names}"
                )
            if any(stage is other for other in reader_stages[:position]):
                stage.fail("cache_read", "it is given twice as a reader; give each reader once")
        axis = tuple(
            IterVar(Var(f"ax{i}"), Range(const(0), extent), AxisKind.SPATIAL)
            for i, extent in enumerate(tensor.extents)
        )
        body = Read(tensor, tuple(a.var for a in axis))
        op = ComputeOp(f"{tensor.name}.{scope}", axis, (body,))
        copy = self._add_stage(op, scope, self.stages.index(producer) + 1, beside=producer)
        if any(tensor in states(stage.cell) for stage in reader_stages):
            copy.attach_in(reader_stages[0].cell)
        copy.record_step("cache_read", producer, tensor.value_index, scope, *reader_stages)
        cached = op.output()
        redirect = ReadRewriter(lambda read, at: Read(cached if read is tensor else read, at))
        for stage in reader_stages:
            assert isinstance(stage.op, ComputeOp)
            self._set_op(stage, stage.op.with_body(tuple(map(redirect.expr, stage.op.body))))
        return cached

    def cache_write(self, tensor: Tensor | Sequence[Tensor], scope: str) -> Any:
        """Add a stage that computes `tensor` in `scope`; its own stage then only copies.

        An operation that defines several tensors is cached as a whole: any of them may be given,
        or a list of them.

        ::

            C[i] = f(i)     ->     C.local[i.c] = f(i.c)
                                   C[i] = C.local[i]

        Returns
        -------
        Tensor or list of Tensor
            The cached tensor; a list of all where the operation defines several or a list is given.
        """
        _check_scope("cache_write", scope)
        listed = isinstance(tensor, (list, tuple)) and len(tensor) > 0
        given: Any = tensor if listed else [tensor]
        stage, *others = (self[each] for each in given)
        for other in others:
            if other is not stage:
                stage.fail(
                    "cache_write",
                    f"'{other.name}' is another stage; give tensors of one operation at a time",
                )
        op = stage.op
        if isinstance(op, PlaceholderOp):
            stage.fail(
                "cache_write",
                "a placeholder is given by the caller and not computed; use cache_read",
            )
        stage.refuse_uncomputed("cache_write")
        assert isinstance(op, ComputeOp)
        stage.refuse_inlined("cache_write")
        stage.refuse_changed("cache_write")
        axis = tuple(IterVar(Var(f"{a.name}.c"), a.dom, a.kind) for a in op.axis)
        mapping = {old.var: new.var for old, new in zip(op.axis, axis, strict=True)}
        body = tuple(substitute(value, mapping) for value in op.body)
        cache = ComputeOp(f"{op.name}.{scope}", axis, body)
        new = self._add_stage(cache, scope, self.stages.index(stage), beside=stage)
        new.record_step("cache_write", stage, scope)
        indices = tuple(a.var for a in op.axis)
        self._set_op(stage, op.with_body(tuple(Read(t, indices) for t in cache.outputs)))
        stage.reset_axes()
        return list(cache.outputs) if listed or len(cache.outputs) > 1 else cache.output()

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Add a stage with one partial result per iteration of a reduction loop.

        The loop becomes axis number `factor_axis` of the new stage, which reduces over the other
        reduction loops; the stage of `tensor` then combines the partial results.

        ::

            for (k.outer)                        for (k.inner)
              for (k.inner)                 ->     for (k.outer)
                S = S + f(k.outer, k.inner)          S.rf[k.inner] += f(k.outer, k.inner)
                                                 for (k.inner.v)
                                                   S = S + S.rf[k.inner.v]

        Returns
        -------
        Tensor or list of Tensor
            The partial results; a list where several values are reduced together.
        """
        stage = self[tensor]
        partial, combined = factor(stage, axis, factor_axis)
        new = self._add_stage(partial, stage.scope, self.stages.index(stage), beside=stage)
        new.record_step("rfactor", stage, axis, factor_axis)
        self._set_op(stage, combined)
        stage.relations.clear()
        stage.reset_axes()
        return partial.outputs[0] if len(partial.outputs) == 1 else list(partial.outputs)

    def bodies(self) -> dict[Stage, tuple[Expr, ...]]:
        """Return the bodies of the stages that are computed, inlined ones substituted.

        A scan has no body.
        """
        bodies = {
            stage: stage.op.body if isinstance(stage.op, ComputeOp) else ()
            for stage in self.stages
            if isinstance(stage.op, (ComputeOp, ScanOp))
        }
        read = {stage: {id(tensor) for tensor in stage.op.input_tensors} for stage in bodies}
        for stage in self.stages:
            if stage.attach is Attach.INLINE:
                inline = _inlined(stage, bodies.pop(stage))
                inner, outputs = read.pop(stage), {id(tensor) for tensor in stage.outputs}
                for other, tensors in read.items():
                    if not outputs.isdisjoint(tensors):
                        bodies[other] = tuple(map(inline.expr, bodies[other]))
                        tensors |= inner
        return bodies


def create_schedule(
    ops: Operation | Sequence[Operation], steps: Iterable[Step | list[Any]] = ()
) -> Schedule:
    """Return the schedule that computes `ops` by the given steps.

    Parameters
    ----------
    ops : Operation or sequence of Operation
        What to compute.
    steps : iterable of Step or list
        Steps of another schedule of the same computation, or the result of its `to_json`. Without
        steps, each stage is computed as a whole in plain loops.

    Raises
    ------
    ScheduleError
        If a step does not fit, saying which and why.
    """
    listed: list[Any] = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    if not listed:
        raise ScheduleError(
            "create_schedule: no operation is given; give some, as in create_schedule(C.op)"
        )
    for op in listed:
        if not isinstance(op, (ComputeOp, ScanOp)):
            raise ScheduleError(
                f"create_schedule: {op!r} is not an operation to compute; give some, as in "
                "create_schedule(C.op)"
            )
    if isinstance(steps, str) or not isinstance(steps, Iterable):
        raise ScheduleError(
            f"create_schedule: steps are a list, not {steps!r}; give what to_json returned"
        )
    schedule = Schedule(listed)
    replay(schedule, steps)
    return schedule


def _check_scope(primitive: str, scope: str) -> None:
    if scope not in SCOPES:
        raise ScheduleError(
            f"{primitive}: there is no scope {scope!r}; give one of {', '.join(SCOPES)}"
        )


def _inlined(stage: Stage, body: tuple[Expr, ...]) -> ReadRewriter:
    """Return a rewriter that replaces reads of a stage's outputs by its body."""
    assert isinstance(stage.op, ComputeOp)
    axis, bodies = stage.op.axis, dict(zip(stage.outputs, body, strict=True))

    def value(tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        if tensor not in bodies:
            return Read(tensor, indices)
        places = zip(axis, indices, strict=True)
        return substitute(bodies[tensor], {a.var: cast(a.var.dtype, i) for a, i in places})

    return ReadRewriter(value)
