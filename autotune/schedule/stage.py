"""A stage: how one operation is carried out, and the primitives that change it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

from autotune.errors import IRError, ScheduleError
from autotune.ir import dtypes
from autotune.ir.expr import Const, Expr, Knob, SizeVar, Var
from autotune.ir.itervar import AxisKind, IterVar
from autotune.ir.ops import convert
from autotune.ir.printer import expr_text
from autotune.ir.stmt import LoopKind
from autotune.ir.visitor import free_vars
from autotune.schedule.relations import Fuse, Relation, Split
from autotune.schedule.steps import Step
from autotune.te.tensor import ComputeOp, Operation, Tensor

#: Kinds of memory a stage's result can live in.
SCOPES = ("global", "shared", "local")
#: Hints that `Stage.pragma` takes.
PRAGMAS = ("nontemporal_store",)


class Attach(StrEnum):
    """Where a stage is computed."""

    ROOT = "root"
    INLINE = "inline"
    AT = "at"


class AttachPoint(NamedTuple):
    """An axis of another stage."""

    stage: Stage
    axis: IterVar


class Stage:
    """How one operation is computed.

    Attributes
    ----------
    op : Operation
        The operation, with the body that caching and inlining left it.
    label : str
        Its name in steps: the operation's, with a number where another stage has that one.
    leaf_axes : list of IterVar
        Its loops, outermost first.
    all_axes : list of IterVar
        Root axes and every axis derived from them, in order of creation.
    relations : list of Split or Fuse
        How the leaves derive from the root axes.
    loop_kinds : dict
        Kinds of loops that are not serial.
    bindings : dict
        Thread axes that loops are bound to.
    pragmas : set of str
        Hints for the code generator.
    scope : str
        Storage of its result: "global", "shared", "local".
    """

    def __init__(self, op: Operation, label: str, steps: list[Step], is_output: bool) -> None:
        self.op = op
        self.label = label
        self.is_output = is_output
        self.scope = "global"
        self.attach = Attach.ROOT
        self.attach_point: AttachPoint | None = None
        self.relations: list[Relation] = []
        self.loop_kinds: dict[IterVar, LoopKind] = {}
        self.bindings: dict[IterVar, IterVar] = {}
        self.pragmas: set[str] = set()
        self._steps = steps
        self.reset_axes()

    def reset_axes(self) -> None:
        """Start again from the operation's own axes."""
        axes = [*self.op.axis, *self.op.reduce_axis] if isinstance(self.op, ComputeOp) else []
        self.leaf_axes = list(axes)
        self.all_axes = list(axes)

    @property
    def name(self) -> str:
        """Name of the operation."""
        return self.op.name

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors the operation defines."""
        return self.op.outputs

    def __repr__(self) -> str:
        return f"<stage {self.name}>"

    # -- checks and notes ------------------------------------------------------------------

    def fail(self, primitive: str, problem: str) -> NoReturn:
        """Raise a `ScheduleError` that names stage and primitive."""
        raise ScheduleError(f"{primitive} on stage {self.name!r}: {problem}")

    def _leaf(self, primitive: str, axis: object) -> int:
        """Return the position of a loop of this stage."""
        if not isinstance(axis, IterVar):
            self.fail(primitive, f"expected an axis, got {axis!r}")
        position = next((i for i, leaf in enumerate(self.leaf_axes) if leaf is axis), None)
        return self._not_a_leaf(primitive, axis) if position is None else position

    def _not_a_leaf(self, primitive: str, axis: IterVar) -> NoReturn:
        loops = ", ".join(leaf.name for leaf in self.leaf_axes)
        known = any(a is axis for a in self.all_axes)
        why = "was already split or fused" if known else "is not an axis of this stage"
        self.fail(primitive, f"axis {axis.name!r} {why}; its loops are: {loops}")

    def _size(self, primitive: str, what: str, value: object) -> Expr:
        try:
            size = convert(value)
        except IRError:
            self.fail(primitive, f"{what} must be an integer, got {value!r}")
        if not dtypes.is_integer(size.dtype):
            self.fail(primitive, f"{what} must be an integer, got {value!r}")
        for var in free_vars(size):
            if isinstance(var, SizeVar):
                self.fail(primitive, f"{what} must be known before the program runs, got `{size}`")
            if not isinstance(var, Knob):
                self.fail(primitive, f"{what} must not depend on a loop, got `{size}`")
        if isinstance(size, Const) and size.value < 1:
            self.fail(primitive, f"{what} must be at least 1, got {size.value}")
        return size

    def note(self, primitive: str, *args: object) -> None:
        """Append what was done to the schedule's list of steps.

        An axis belongs to the stage given before it, or to this one.
        """
        texts = []
        owner = self
        for arg in args:
            if isinstance(arg, Stage):
                owner = arg
                texts.append(arg.label)
            elif isinstance(arg, IterVar):
                texts.append(f"{arg.name}#{owner.all_axes.index(arg)}")
            else:
                texts.append(expr_text(arg) if isinstance(arg, Expr) else str(arg))
        self._steps.append(Step(primitive, self.label, tuple(texts)))

    # -- loop structure ----------------------------------------------------------------------

    def split(
        self, axis: IterVar, factor: Any = None, nparts: Any = None
    ) -> tuple[IterVar, IterVar]:
        """Split a loop in two, the inner one of length `factor` or the outer one of `nparts`.

        ::

            for (i, 0, n)          ->   for (i.outer, 0, floordiv(n + factor - 1, factor))
              f(i)                        for (i.inner, 0, factor)
                                            if (i.outer*factor + i.inner < n)
                                              f(i.outer*factor + i.inner)

        Returns
        -------
        outer, inner : IterVar
        """
        position = self._leaf("split", axis)
        if (factor is None) == (nparts is None):
            given = "got neither" if factor is None else "got both"
            self.fail("split", f"axis {axis.name!r} needs either factor= or nparts=, {given}")
        self._refuse_annotated("split", axis)
        inner_size = None if factor is None else self._size("split", "factor", factor)
        parts = None if nparts is None else self._size("split", "nparts", nparts)
        outer = IterVar(Var(f"{axis.name}.outer"), None, axis.kind)
        inner = IterVar(Var(f"{axis.name}.inner"), None, axis.kind)
        self.leaf_axes[position : position + 1] = [outer, inner]
        self.all_axes += [outer, inner]
        self.relations.append(Split(axis, outer, inner, inner_size, parts))
        if inner_size is not None:
            self.note("split", axis, "factor", inner_size)
        else:
            self.note("split", axis, "nparts", parts)
        return outer, inner

    def fuse(self, *axes: IterVar) -> IterVar:
        """Fuse neighbouring loops, given outermost first, into one.

        ::

            for (i, 0, n)        ->   for (i.j.fused, 0, n*m)
              for (j, 0, m)             f(floordiv(i.j.fused, m), floormod(i.j.fused, m))
                f(i, j)
        """
        if not axes:
            self.fail("fuse", "at least one axis is needed")
        fused = axes[0]
        self._leaf("fuse", fused)
        for axis in axes[1:]:
            fused = self._fuse_two(fused, axis)
        return fused

    def _fuse_two(self, outer: IterVar, inner: IterVar) -> IterVar:
        first, second = self._leaf("fuse", outer), self._leaf("fuse", inner)
        for axis in (outer, inner):
            self._refuse_annotated("fuse", axis)
        if second != first + 1:
            self.fail(
                "fuse",
                f"axis {inner.name!r} does not follow {outer.name!r} directly; reorder them first",
            )
        if outer.kind is not inner.kind:
            self.fail(
                "fuse",
                f"cannot fuse the {outer.kind} axis {outer.name!r} with the {inner.kind} axis "
                f"{inner.name!r}",
            )
        fused = IterVar(Var(f"{outer.name}.{inner.name}.fused"), None, outer.kind)
        self.leaf_axes[first : second + 1] = [fused]
        self.all_axes.append(fused)
        self.relations.append(Fuse(outer, inner, fused))
        self.note("fuse", outer, inner)
        return fused

    def reorder(self, *axes: IterVar) -> None:
        """Put the given loops in the given order, in the places they hold together.

        ::

            for (i, 0, n)        ->   for (j, 0, m)
              for (j, 0, m)             for (i, 0, n)
                f(i, j)                   f(i, j)
        """
        positions = [self._leaf("reorder", axis) for axis in axes]
        if len(set(positions)) != len(positions):
            self.fail("reorder", "an axis is given twice")
        for place, axis in zip(sorted(positions), axes, strict=True):
            self.leaf_axes[place] = axis
        self.note("reorder", *axes)

    def tile(
        self, x: IterVar, y: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two loops and order them into tiles: x.outer, y.outer, x.inner, y.inner."""
        xo, xi = self.split(x, factor=x_factor)
        yo, yi = self.split(y, factor=y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    # -- how loops run -------------------------------------------------------------------

    def _refuse_annotated(self, primitive: str, axis: IterVar) -> None:
        if axis in self.bindings:
            tag = self.bindings[axis].thread_tag
            self.fail(primitive, f"axis {axis.name!r} is bound to {tag}; {primitive} it before")
        if axis in self.loop_kinds:
            kind = self.loop_kinds[axis]
            self.fail(primitive, f"axis {axis.name!r} is {kind} already; {primitive} it before")

    def _set_kind(self, primitive: str, axis: IterVar, kind: LoopKind) -> None:
        self._leaf(primitive, axis)
        self._refuse_annotated(primitive, axis)
        if axis.kind is AxisKind.REDUCE and kind is not LoopKind.UNROLLED:
            self.fail(
                primitive,
                f"{axis.name!r} is a reduction axis, whose iterations depend on one another; "
                "reorder and use a spatial axis",
            )
        self.loop_kinds[axis] = kind
        self.note(primitive, axis)

    def vectorize(self, axis: IterVar) -> None:
        """Carry out the iterations of a loop as lanes of vectors."""
        self._set_kind("vectorize", axis, LoopKind.VECTORIZED)

    def unroll(self, axis: IterVar) -> None:
        """Write the iterations of a loop out one after another."""
        self._set_kind("unroll", axis, LoopKind.UNROLLED)

    def parallel(self, axis: IterVar) -> None:
        """Share the iterations of a loop among the threads of the CPU."""
        self._set_kind("parallel", axis, LoopKind.PARALLEL)

    def bind(self, axis: IterVar, thread: IterVar) -> None:
        """Give each iteration of a loop to one GPU block, thread or virtual thread."""
        self._leaf("bind", axis)
        if not (isinstance(thread, IterVar) and thread.kind is AxisKind.THREAD):
            self.fail("bind", f"expected an axis made by te.thread_axis, got {thread!r}")
        if axis.kind is AxisKind.REDUCE:
            self.fail(
                "bind",
                f"{axis.name!r} is a reduction axis, whose iterations depend on one another; "
                "bind a spatial axis",
            )
        self._refuse_annotated("bind", axis)
        for other, bound in self.bindings.items():
            if bound.thread_tag == thread.thread_tag != "vthread":
                self.fail(
                    "bind",
                    f"axis {other.name!r} is bound to {thread.thread_tag} already; fuse the two "
                    "axes or choose another thread axis",
                )
        self.bindings[axis] = thread
        self.note("bind", axis, thread.thread_tag)

    def pragma(self, axis: IterVar, kind: str) -> None:
        """Give the code generator a hint about the stage that `axis` is a loop of.

        "nontemporal_store": the stage's result is written past the caches, which pays where it
        is larger than they are and written in whole vectors.
        """
        self._leaf("pragma", axis)
        if kind not in PRAGMAS:
            self.fail("pragma", f"unknown kind {kind!r}; expected one of {', '.join(PRAGMAS)}")
        self.pragmas.add(kind)
        self.note("pragma", axis, kind)

    # -- where it is computed ------------------------------------------------------------

    def set_scope(self, scope: str) -> None:
        """Choose where the result is stored: "global", "shared" or "local" memory."""
        if scope not in SCOPES:
            self.fail("set_scope", f"unknown scope {scope!r}; expected one of {', '.join(SCOPES)}")
        self._refuse_moving("set_scope")
        self.scope = scope
        self.note("set_scope", scope)

    def compute_at(self, parent: Stage, axis: IterVar) -> None:
        """Compute what one iteration of `axis` of stage `parent` needs, inside that loop.

        ::

            produce A: for (i, 0, n) A[i] = f(i)     ->   for (i, 0, n)
            produce B: for (i, 0, n) B[i] = g(A[i])         A[0] = f(i)
                                                            B[i] = g(A[0])
        """
        if not isinstance(parent, Stage):
            self.fail("compute_at", f"expected a stage first, as in s[B], got {parent!r}")
        if parent is self:
            self.fail("compute_at", "a stage cannot be computed inside itself")
        self._refuse_moving("compute_at")
        parent._leaf("compute_at", axis)
        self.attach, self.attach_point = Attach.AT, AttachPoint(parent, axis)
        self.note("compute_at", parent, axis)

    def compute_inline(self) -> None:
        """Substitute the expression wherever the result is read; the stage vanishes."""
        self._refuse_moving("compute_inline")
        if isinstance(self.op, ComputeOp) and self.op.reduce_axis:
            self.fail("compute_inline", "a reduction cannot be inlined; use compute_at")
        self.attach, self.attach_point = Attach.INLINE, None
        self.note("compute_inline")

    def _refuse_moving(self, primitive: str) -> None:
        if not isinstance(self.op, ComputeOp):
            self.fail(primitive, "a placeholder is given by the caller and not computed")
        if self.is_output:
            self.fail(primitive, "an output of the schedule must stay at the root")
