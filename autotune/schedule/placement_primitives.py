"""Primitives for the place of a stage's computation and the storage of its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from autotune.errors import IRError, ScheduleError
from autotune.ir import dtypes
from autotune.ir.axes import IterVar
from autotune.ir.expr import Const, Expr, KnobVar, SizeVar
from autotune.ir.ops import binary, convert
from autotune.ir.visitor import free_vars
from autotune.schedule.index_map import index_map as digits_of
from autotune.schedule.stage_core import (
    SCOPES,
    Alignment,
    Attach,
    AttachPoint,
    Requirement,
    StageCore,
)
from autotune.te.scan import ScanOp

if TYPE_CHECKING:
    from autotune.schedule.stage import Stage


class PlacementPrimitives(StageCore):
    """Primitives on the place and the storage of a stage."""

    # -- where it is computed ----------------------------------------------------------------

    def compute_at(self, parent: Stage, axis: IterVar) -> None:
        """Compute what one iteration of `axis` of stage `parent` needs, inside that loop.

        ::

            produce A: for (i, 0, n) A[i] = f(i)     ->   for (i, 0, n)
            produce B: for (i, 0, n) B[i] = g(A[i])         A[0] = f(i)
                                                            B[i] = g(A[0])
        """
        if not isinstance(parent, StageCore):
            self.fail("compute_at", f"expected a stage first, got {parent!r}; give one, as in s[B]")
        if not any(stage is parent for stage in self._schedule.stages):
            self.fail(
                "compute_at",
                f"stage {parent.name!r} belongs to another schedule; give a stage of this one",
            )
        self.refuse_given("compute_at")
        self._refuse_carried("compute_at")
        outer = parent
        while outer is not self and outer.attach_point is not None:
            outer = outer.attach_point.stage
        if outer is self:
            through = "" if parent is self else f", as {parent.name!r} is computed inside it"
            self.fail(
                "compute_at",
                f"it would be computed inside itself{through}; give a stage that reads it and is "
                "not inside it",
            )
        parent._leaf(f"compute_at of {self.name!r}", axis)
        self._stay_in_cell(parent, axis)
        if parent is self.cell:
            self.attach, self._attach_point = Attach.CELL, None
        else:
            self.attach, self._attach_point = Attach.AT, AttachPoint(parent, axis)
        self.record_step("compute_at", parent, axis)

    def _refuse_carried(self, primitive: str) -> None:
        """Raise an error for moving the init or update of a scan."""
        if self.attach is Attach.INIT or self.time is not None:
            assert self.scan is not None
            what = "starts" if self.attach is Attach.INIT else "is a step of"
            self.fail(
                primitive,
                f"it {what} scan {self.scan.name!r} and is computed in the scan's array; schedule "
                "its loops, or what it reads",
            )

    def _stay_in_cell(self, parent: Stage, axis: IterVar) -> None:
        """Raise an error for a place outside the steps of the stage's scan."""
        scan = self.cell
        if scan is None or parent.cell is scan or (parent is scan and axis is scan.leaf_axes[-1]):
            return
        where = f"stage {parent.name!r}"
        if parent is scan:
            where = f"axis {axis.name!r}, an iteration of which is several steps"
        self.fail(
            "compute_at",
            f"it is part of the cell of scan {scan.name!r}, and {where} is outside the loop "
            f"over the steps; compute it in a loop of a stage that is in the cell too",
        )

    def compute_root(self) -> None:
        """Compute the whole stage before its readers, as every stage is computed at first.

        ::

            for (i, 0, n)        ->   produce A: for (i, 0, n) A[i] = f(i)
              A[0] = f(i)             produce B: for (i, 0, n) B[i] = g(A[i])
              B[i] = g(A[0])
        """
        if not isinstance(self.op, ScanOp):
            self.refuse_uncomputed("compute_root")
        if self.attach is not Attach.INIT:
            self.attach = Attach.ROOT if self.cell is None else Attach.CELL
        self._attach_point = None
        self.record_step("compute_root")

    def compute_inline(self) -> None:
        """Substitute the expression wherever the result is read; the stage vanishes.

        ::

            produce A: for (i, 0, n) A[i] = f(i)     ->   for (i, 0, n)
            produce B: for (i, 0, n) B[i] = g(A[i])         B[i] = g(f(i))
        """
        self.refuse_uncomputed("compute_inline")
        self.refuse_given("compute_inline")
        self._refuse_carried("compute_inline")
        if self.op.reduce_axis:
            self.fail(
                "compute_inline",
                "it reduces, which takes loops of its own; use compute_at",
                self.op.reduce_axis[0],
            )
        self.refuse_attached("compute_inline")
        stored = self.alignments or self.layout is not None or self.double_buffered
        if stored or self.store_predicate is not None:
            self.fail(
                "compute_inline",
                "its storage was decided on already, and inline it has none; leave one of the two",
            )
        self.attach, self._attach_point = Attach.INLINE, None
        self.record_step("compute_inline")

    # -- how it is stored --------------------------------------------------------------------

    def _refuse_stored(self, primitive: str) -> None:
        self.refuse_uncomputed(primitive)
        self._refuse_scoped(primitive)

    def _refuse_scoped(self, primitive: str) -> None:
        self.refuse_given(primitive)
        self._refuse_carried(primitive)
        self.refuse_inlined(primitive)

    def set_scope(self, scope: str) -> None:
        """Choose where the result is stored: "global", "shared" or "local" memory."""
        if scope not in SCOPES:
            known = ", ".join(SCOPES)
            self.fail("set_scope", f"there is no scope {scope!r}; give one of {known}")
        self._refuse_scoped("set_scope")
        self.scope = scope
        self.record_step("set_scope", scope)

    def transform_layout(self, index_map: Callable[..., Any]) -> None:
        """Store the result by other indices: dimensions in another order, or in tiles.

        Loops are not changed. Indices count from the beginning of the stored region.

        ::

            A[i*8 + j]    ->    A[j*6 + i]        transform_layout(lambda i, j: (j, i))

        Parameters
        ----------
        index_map : callable
            Gets the dimensions' axes, returns the indices: each axis, or all parts of it, once, as
            in ``lambda i, j: (i // 8, j, i % 8)``.
        """
        primitive = "transform_layout"
        self._refuse_stored(primitive)
        if self.layout is not None:
            self.fail(primitive, "it has a layout already; give one map that does both")
        if self.alignments:
            axis = next(iter(self.alignments))
            self.fail(primitive, f"it is aligned already; {primitive} it first", axis)
        axes = self.op.axis
        if not callable(index_map):
            self.fail(
                primitive,
                f"expected a function of its {len(axes)} indices, got {index_map!r}; give one, as "
                "in lambda i, j: (j, i)",
            )
        try:
            inspect.signature(index_map).bind(*axes)
        except TypeError as error:
            names = ", ".join(axis.name for axis in axes)
            self.fail(primitive, f"the map does not fit: {error}; it gets the indices {names}")
        given = index_map(*(axis.var for axis in axes))
        indices = list(given) if isinstance(given, (list, tuple)) else [given]
        try:
            layout = digits_of(axes, indices)
        except ScheduleError as error:
            self.fail(primitive, str(error))
        for axis, divisor, modulus in layout:
            for size in (divisor,) if modulus is None else (divisor, modulus):
                self._size(primitive, "divisor", size, axis)
        self.layout = layout
        self.record_step(primitive, *indices)

    def storage_align(self, axis: IterVar, factor: Any, offset: Any = 0) -> None:
        """Pad the rows of the result, so that the stride of `axis` is `offset` modulo `factor`.

        ::

            A[i*6 + j]    ->    A[i*9 + j]        storage_align(i, 8, 1)

        If a layout stores the axis in parts, such as ``i // 2`` and ``i % 2``, this is the stride
        of the first one.
        """
        self._refuse_stored("storage_align")
        self._dimension("storage_align", axis)
        if axis in self.alignments:
            self.fail("storage_align", "it is aligned already; align each dimension once", axis)
        size = self._size("storage_align", "factor", factor, axis)
        rest = self._size("storage_align", "offset", offset, axis, least=0)
        room = binary("-", size, rest)
        if isinstance(room, Const) and room.value < 1:
            problem = f"the offset {rest} is not less than the factor {size}; give a smaller one"
            self.fail("storage_align", problem, axis)
        if not isinstance(room, Const):
            where = f"storage_align on stage {self.name!r}, axis {axis.name!r}"
            self.demands.append(
                Requirement(room, 1, f"{where}: the offset must be below the factor")
            )
        self.alignments[axis] = Alignment(size, rest)
        self.record_step("storage_align", axis, size, rest)

    def _dimension(self, primitive: str, axis: object) -> None:
        """Raise an error for anything but an axis of the operation itself."""
        names = ", ".join(a.name for a in self.op.axis)
        choose = f"give one of {names}" if names else f"{self.name!r} has none"
        if not isinstance(axis, IterVar):
            self.fail(primitive, f"expected an axis, got {axis!r}; {choose}")
        if not any(a is axis for a in self.op.axis):
            self.fail(primitive, f"it is not a dimension of the stage's result; {choose}", axis)

    def double_buffer(self, through: str | None = None) -> None:
        """Keep two copies, and compute the next iteration's copy before the present one is used.

        The stage must be computed at a serial or unrolled loop.

        ::

            for (i, 0, n)          ->    A[0] = f(0)
              A[0] = f(i)                for (i, 0, n)
              B[i] = g(A[0])               if (i + 1 < n)
                                             A[(i + 1) % 2] = f(i + 1)
                                           B[i] = g(A[i % 2])

        Parameters
        ----------
        through : str, optional
            "registers": on a GPU, elements for the next iteration are loaded into registers and
            stored after the present ones are used; "copies": they are copied to shared memory
            asynchronously.
        """
        self._refuse_stored("double_buffer")
        if through not in (None, "registers", "copies"):
            problem = f"there is no way through {through!r}; give 'registers' or 'copies'"
            self.fail("double_buffer", problem)
        self.double_buffered, self.buffered_through = True, through
        self.record_step("double_buffer", *(() if through is None else (through,)))

    def set_store_predicate(self, condition: Any) -> None:
        """Store elements of the result only where a condition holds.

        Use it if several threads would store the same value. Elements that no thread stores are
        undefined.

        ::

            B[i] = f(i)    ->    if (threadIdx.x == 0)
                                   B[i] = f(i)

        Parameters
        ----------
        condition : Expr
            A condition over bound thread axes, the stage's dimensions, and sizes.
        """
        self.refuse_inlined("set_store_predicate")
        self.refuse_uncomputed("set_store_predicate")
        self.store_predicate = self._condition(condition)
        self.record_step("set_store_predicate", self.store_predicate)

    def _condition(self, condition: Any) -> Expr:
        primitive = "set_store_predicate"
        try:
            expr = convert(condition)
        except IRError:
            self.fail(primitive, f"{condition!r} is not a condition; give one, as in tx.equal(0)")
        if expr.dtype != dtypes.BOOL:
            self.fail(
                primitive, f"`{expr}` is {expr.dtype}, no condition; compare it with something"
            )
        dimensions = {axis.var for axis in self.op.axis}
        for var in free_vars(expr):
            known = isinstance(var, (KnobVar, SizeVar)) or var in dimensions
            if not known and self._schedule.thread_tag_of(var) is None:
                names = ", ".join(axis.name for axis in self.op.axis)
                self.fail(
                    primitive,
                    f"`{expr}` depends on {var.name!r}, which is neither a dimension of it "
                    f"({names}) nor a thread axis that a loop is bound to; bind it first",
                )
        self._plain(primitive, expr)
        return expr
