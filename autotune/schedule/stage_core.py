"""The state of a stage: its loops, its place, its storage, and its checks."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from autotune.errors import IRError, ScheduleError
from autotune.ir import dtypes
from autotune.ir.axes import IterVar
from autotune.ir.expr import BinaryOp, Const, Expr, KnobVar, SizeVar, Var
from autotune.ir.ops import binary, convert
from autotune.ir.stmt import LoopKind
from autotune.ir.visitor import free_vars
from autotune.schedule.axis_relations import Relation
from autotune.schedule.index_map import Digits
from autotune.schedule.steps import Step, Term, term_of
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation, Tensor

if TYPE_CHECKING:
    from autotune.schedule.schedule import Schedule
    from autotune.schedule.stage import Stage

#: Kinds of memory for a stage's result.
SCOPES = ("global", "shared", "local")


class Attach(StrEnum):
    """Where a stage is computed."""

    ROOT = "root"
    INLINE = "inline"
    AT = "at"
    #: In each step of the scan whose cell the stage is part of.
    CELL = "cell"
    #: Before the first step of the scan that it starts.
    INIT = "init"


class AttachPoint(NamedTuple):
    """An axis of another stage."""

    stage: Stage
    axis: IterVar


class Alignment(NamedTuple):
    """The stride of a dimension in memory must be a multiple of `factor` plus `offset`."""

    factor: Expr
    offset: Expr

    def of(self, stride: Expr) -> Expr:
        """Return the smallest such stride that is at least `stride`."""
        missing = self.factor + self.offset - binary("%", stride, self.factor)
        return binary("+", stride, binary("%", missing, self.factor))


class Requirement(NamedTuple):
    """A size over knobs that must be at least `least`, and the message if it is not."""

    size: Expr
    least: int
    message: str


class StageCore:
    """A stage's state, checks and recorded steps; see `Stage` for the attributes."""

    def __init__(self, op: Operation, label: str, schedule: Schedule, is_output: bool) -> None:
        self.op = op
        self.label = label
        self.is_output = is_output
        self.scope: str | None = None
        self.scan: Stage | None = None
        self.attach = Attach.ROOT
        self._attach_point: AttachPoint | None = None
        self.relations: list[Relation] = []
        self.loop_kinds: dict[IterVar, LoopKind] = {}
        self.bindings: dict[IterVar, IterVar] = {}
        self.pragmas: dict[IterVar, dict[str, Expr]] = {}
        self.alignments: dict[IterVar, Alignment] = {}
        self.layout: tuple[Digits, ...] | None = None
        self.double_buffered = False
        self.buffered_through: str | None = None
        self.store_predicate: Expr | None = None
        self.demands: list[Requirement] = []
        self._schedule = schedule
        self.reset_axes()

    def reset_axes(self) -> None:
        """Reset the loops to the operation's own axes."""
        axes: list[IterVar] = []
        if isinstance(self.op, ComputeOp):
            axes = [*self.op.axis, *self.op.reduce_axis]
        elif isinstance(self.op, ScanOp):
            axes = [self.op.scan_axis]
        self.leaf_axes = [axis for axis in axes if axis is not self.time]
        self.all_axes = axes

    @property
    def name(self) -> str:
        """Name of the operation."""
        return self.op.name

    @property
    def attach_point(self) -> AttachPoint | None:
        """The loop that it is computed in; for a stage of a cell the loop over steps."""
        if self.attach is Attach.CELL:
            assert self.scan is not None
            return AttachPoint(self.scan, self.scan.leaf_axes[-1])
        return self._attach_point

    @property
    def cell(self) -> Stage | None:
        """The scan whose cell it is part of, or None."""
        return None if self.attach is Attach.INIT else self.scan

    @property
    def time(self) -> IterVar | None:
        """The axis of an update without a loop, because the scan's axis counts the steps."""
        scan = self.cell
        is_update = (
            scan is not None
            and isinstance(scan.op, ScanOp)
            and any(t in scan.op.update for t in self.outputs)
        )
        return self.op.axis[0] if is_update else None

    @property
    def schedule(self) -> Schedule:
        """The schedule that it is a stage of."""
        return self._schedule

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors the operation defines."""
        return self.op.outputs

    @property
    def attached(self) -> list[Stage]:
        """Stages that are computed at one of its axes."""
        return [
            stage
            for stage in self._schedule.stages
            if stage.attach is Attach.AT
            and stage.attach_point is not None
            and stage.attach_point.stage is self
        ]

    def has_pragma(self, kind: str) -> bool:
        """Whether some loop has a pragma of this kind."""
        return self.pragma_value(kind) is not None

    def pragma_value(self, kind: str) -> Expr | None:
        """Return the value of a pragma of this kind on some loop, 1 if it takes none."""
        return next((given[kind] for given in self.pragmas.values() if kind in given), None)

    def __repr__(self) -> str:
        return f"<stage {self.name}>"

    def attach_with(self, beside: StageCore) -> None:
        """Attach the stage to the loop of another stage."""
        if beside.attach is Attach.AT:
            self.attach, self._attach_point = beside.attach, beside.attach_point
        self.attach_in(beside.cell)

    def attach_in(self, scan: Stage | None) -> None:
        """Make the stage part of the cell of a scan."""
        self.scan = scan
        if scan is not None and self.attach is Attach.ROOT:
            self.attach = Attach.CELL

    # -- refusals --------------------------------------------------------------------------

    def fail(self, primitive: str, problem: str, axis: IterVar | None = None) -> NoReturn:
        """Raise a `ScheduleError` that names primitive, stage and axis."""
        where = "" if axis is None else f", axis {axis.name!r}"
        raise ScheduleError(f"{primitive} on stage {self.name!r}{where}: {problem}")

    def refuse_changed(self, primitive: str) -> None:
        """Refuse a primitive that has to come before the stage's loops are changed."""
        own = [axis for axis in (*self.op.axis, *self.op.reduce_axis) if axis is not self.time]
        same = len(own) == len(self.leaf_axes) and all(
            a is b for a, b in zip(own, self.leaf_axes, strict=True)
        )
        if not same or self.loop_kinds or self.bindings or self.pragmas:
            self.fail(primitive, f"its loops were changed already; {primitive} it first")
        self.refuse_ahead(primitive)
        self.refuse_attached(primitive)

    def refuse_ahead(self, primitive: str) -> None:
        """Refuse a source in the same loop for a stage that is double-buffered."""
        if self.double_buffered:
            self.fail(primitive, f"it is double-buffered already; {primitive} it first")

    def refuse_attached(self, primitive: str, axis: IterVar | None = None) -> None:
        """Refuse to remove an axis (or all axes) to which a stage is attached."""
        for guest in self.attached:
            assert guest.attach_point is not None
            at = guest.attach_point.axis
            if axis is None or at is axis:
                self.fail(
                    primitive, f"stage {guest.name!r} is computed at it; {primitive} it first", at
                )

    def refuse_given(self, primitive: str) -> None:
        """Refuse a stage whose place or storage the schedule cannot choose."""
        if not isinstance(self.op, ScanOp):
            self.refuse_uncomputed(primitive)
        if self.is_output:
            self.fail(
                primitive,
                "an output is the caller's array and is computed at the root; use cache_write for "
                "a stage that computes it elsewhere",
            )

    def refuse_uncomputed(self, primitive: str) -> None:
        """Refuse a stage without an expression of its own."""
        if isinstance(self.op, ScanOp):
            self.fail(
                primitive,
                "a scan is loops over its steps, into an array of its own; schedule its init, its "
                "update and its scan_axis, or use compute_at",
            )
        if not isinstance(self.op, ComputeOp):
            self.fail(
                primitive,
                "a placeholder is given by the caller and not computed; use cache_read for a copy",
            )

    def refuse_inlined(self, primitive: str) -> None:
        """Refuse a stage that has no loops and no storage of its own."""
        if self.attach is Attach.INLINE:
            self.fail(
                primitive,
                "it is computed inline and has neither loops nor storage; use compute_root first",
            )

    def _leaf(self, primitive: str, axis: object) -> int:
        """Return the position of a loop of this stage."""
        self.refuse_inlined(primitive)
        if not isinstance(axis, IterVar):
            what = "axes one by one" if isinstance(axis, (list, tuple)) else "an axis"
            self.fail(primitive, f"expected {what}, got {axis!r}; {self._its_loops()}")
        position = next((i for i, leaf in enumerate(self.leaf_axes) if leaf is axis), None)
        return self._not_a_leaf(primitive, axis) if position is None else position

    def _not_a_leaf(self, primitive: str, axis: IterVar) -> NoReturn:
        owner = next((s for s in self._schedule.stages if any(a is axis for a in s.all_axes)), None)
        if axis is self.time:
            assert self.scan is not None
            name = self.scan.name
            self.fail(
                primitive,
                f"it counts the steps of scan {name!r}, which come one after another in a loop of "
                f"{name!r}; give the scan_axis of that stage, or another axis of this one",
                axis,
            )
        if any(a is axis for a in self.all_axes):
            why = "it was split or fused before"
        elif owner is not None:
            why = f"it belongs to stage {owner.name!r}"
        elif axis.thread_tag:
            why = "it is a thread axis, which loops are bound to"
        else:
            why = "it is not an axis of this schedule as it stands"
        self.fail(primitive, f"{why}; {self._its_loops()}", axis)

    def _its_loops(self) -> str:
        loops = ", ".join(leaf.name for leaf in self.leaf_axes)
        if not loops:
            return f"{self.name!r} has no loops"
        return f"give one of the loops of {self.name!r}: {loops}"

    def _refuse_annotated(self, primitive: str, axis: IterVar, remedy: str) -> None:
        if axis in self.bindings:
            tag = self.bindings[axis].thread_tag
            self.fail(primitive, f"it is bound to {tag} already; {remedy}", axis)
        if axis in self.loop_kinds:
            self.fail(primitive, f"it is {self.loop_kinds[axis]} already; {remedy}", axis)

    def _size(
        self,
        primitive: str,
        what: str,
        value: object,
        axis: IterVar | None = None,
        least: int = 1,
        may_be_open: bool = False,
    ) -> Expr:
        """Return a size that is known before the program runs, and at least `least`.

        `may_be_open`: it may depend on sizes that are known at a call; maxima with numbers then
            show that it is at least `least`.
        """
        wanted = f"give a whole number of at least {least}"
        shown = dtypes.number_text(value) if isinstance(value, int) else repr(value)
        try:
            size = convert(value)
        except IRError:
            held = " that fits in int64" if isinstance(value, int) else ""
            self.fail(primitive, f"the {what} is {shown}; {wanted}{held}", axis)
        if not dtypes.is_index(size.dtype):
            self.fail(primitive, f"the {what} is {shown}; {wanted}", axis)
        for var in free_vars(size):
            if isinstance(var, SizeVar) and may_be_open and _is_at_least(size, least):
                continue
            if not isinstance(var, KnobVar):
                is_size = isinstance(var, SizeVar)
                why = "is known only when the program runs" if is_size else "is a loop's variable"
                remedy = "give a number or a knob"
                if may_be_open and is_size:
                    remedy = f"give a number, a knob, or te.max({least}, ...)"
                self.fail(
                    primitive,
                    f"the {what} `{size}` depends on {var.name!r}, which {why}; {remedy}",
                    axis,
                )
        if isinstance(size, Const) and size.value < least:
            self.fail(primitive, f"the {what} is {size.value}; {wanted}", axis)
        self._plain(primitive, size, axis)
        if not isinstance(size, Const) and not _is_at_least(size, least):
            where = "" if axis is None else f", axis {axis.name!r}"
            rule = f"the {what} must be at least {least}"
            self.demands.append(
                Requirement(size, least, f"{primitive} on stage {self.name!r}{where}: {rule}")
            )
        return size

    def _plain(self, primitive: str, expr: Expr, axis: IterVar | None = None) -> Term:
        """Return an expression as a term of a step; refuse unsupported expressions."""
        try:
            return term_of(expr, self._variable_label)
        except ScheduleError as error:
            self.fail(primitive, str(error), axis)

    # -- recorded steps
    # -----------------------------------------------------------------------------

    def record_step(self, primitive: str, *args: Any) -> None:
        """Append a step to the schedule's list.

        An axis belongs to the stage given before it, or to this one.
        """
        terms: list[Term | None] = []
        owner: StageCore = self
        for arg in args:
            if isinstance(arg, StageCore):
                owner = arg
                terms.append(arg.label)
            elif isinstance(arg, IterVar):
                terms.append(owner.axis_label(arg))
            elif isinstance(arg, Expr):
                terms.append(self._plain(primitive, arg))
            else:
                terms.append(arg)
        self._schedule.steps.append(Step(primitive, self.label, tuple(terms)))

    def axis_label(self, axis: IterVar) -> str:
        """Return the name of an axis in steps."""
        position = next(i for i, own in enumerate(self.all_axes) if own is axis)
        return f"{axis.name}#{position}"

    def _variable_label(self, var: Var) -> str:
        """Return the name in steps of a variable: an axis of this stage, or a bound thread axis."""
        for axis in self.all_axes:
            if axis.var is var:
                return self.axis_label(axis)
        tag = self._schedule.thread_tag_of(var)
        if tag is None:
            raise ScheduleError(f"{var.name!r} is neither an axis of this stage nor a thread axis")
        return tag


def _is_at_least(size: Expr, least: int) -> bool:
    """Whether maxima with numbers, and products of such sizes, show that a size is large enough."""
    if isinstance(size, Const):
        return bool(size.value >= least)
    if not isinstance(size, BinaryOp):
        return False
    if size.op == "max":
        return any(_is_at_least(part, least) for part in size.children)
    return size.op == "*" and least == 1 and all(_is_at_least(part, 1) for part in size.children)
