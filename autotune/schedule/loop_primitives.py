"""Primitives that change the loops of a stage: split, fuse, reorder, tile."""

from __future__ import annotations

from typing import Any

from autotune.ir.axes import AxisKind, IterVar
from autotune.ir.expr import Expr, KnobVar, SizeVar, Var
from autotune.ir.ops import convert
from autotune.ir.visitor import free_vars
from autotune.schedule.axis_relations import Fuse, Split
from autotune.schedule.stage_core import StageCore


class LoopPrimitives(StageCore):
    """Primitives on the loops of a stage."""

    def split(
        self, axis: IterVar, factor: Any = None, nparts: Any = None, offset: Any = None
    ) -> tuple[IterVar, IterVar]:
        """Split a loop in two, the inner one of length `factor` or the outer one of `nparts`.

        A factor may depend on sizes from `te.var` if it is a maximum with 1, ``te.max(1, n // 8)``,
        or a product of such maxima and positive numbers.

        ::

            for (i, 0, n)          ->   for (i.outer, 0, floordiv(n + factor - 1, factor))
              f(i)                        for (i.inner, 0, factor)
                                            if (i.outer*factor + i.inner < n)
                                              f(i.outer*factor + i.inner)

        An `offset`, a number over the axes of the operation from 0 to less than `factor`, starts
        the first part so many iterations before 0: its first ones are left out. Rows whose length
        is no multiple of a vector then have whole vectors where vectors of the array begin.

        Returns
        -------
        outer, inner : IterVar
        """
        position = self._leaf("split", axis)
        if (factor is None) == (nparts is None):
            given = "neither" if factor is None else "both"
            self.fail("split", f"{given} factor= and nparts= are given; give one of them", axis)
        self._refuse_taken("split", axis)
        inner_size = (
            None
            if factor is None
            else self._size("split", "factor", factor, axis, may_be_open=True)
        )
        parts = None if nparts is None else self._size("split", "nparts", nparts, axis)
        begin = None if offset is None else self._over_axes("split", offset, axis)
        if begin is not None and inner_size is None:
            self.fail("split", "an offset goes with factor=", axis)
        outer = IterVar(Var(f"{axis.name}.outer"), None, axis.kind)
        inner = IterVar(Var(f"{axis.name}.inner"), None, axis.kind)
        self.leaf_axes[position : position + 1] = [outer, inner]
        self.all_axes += [outer, inner]
        self.relations.append(Split(axis, outer, inner, inner_size, parts, begin))
        if inner_size is not None:
            begins = () if begin is None else (begin,)
            self.record_step("split", axis, "factor", inner_size, *begins)
        else:
            self.record_step("split", axis, "nparts", parts)
        return outer, inner

    def _over_axes(self, primitive: str, value: Any, axis: IterVar) -> Expr:
        """Return a number over knobs, sizes and axes of the operation."""
        number = convert(value)
        known = {own.var for own in (*self.op.axis, *self.op.reduce_axis) if own is not axis}
        for var in free_vars(number):
            if not isinstance(var, (KnobVar, SizeVar)) and var not in known:
                self.fail(primitive, f"the offset depends on {var.name!r}, no other axis", axis)
        return number

    def fuse(self, *axes: IterVar) -> IterVar:
        """Fuse neighbouring loops, given outermost first, into one.

        ::

            for (i, 0, n)        ->   for (i.j.fused, 0, n*m)
              for (j, 0, m)             f(floordiv(i.j.fused, m), floormod(i.j.fused, m))
                f(i, j)
        """
        if not axes:
            self.fail("fuse", f"no axis is given; {self._its_loops()}")
        fused = axes[0]
        self._leaf("fuse", fused)
        for axis in axes[1:]:
            fused = self._fuse_two(fused, axis)
        return fused

    def _fuse_two(self, outer: IterVar, inner: IterVar) -> IterVar:
        first, second = self._leaf("fuse", outer), self._leaf("fuse", inner)
        for axis in (outer, inner):
            self._refuse_taken("fuse", axis)
        if second != first + 1:
            self.fail(
                "fuse",
                f"it does not follow {outer.name!r} directly, as loops to be fused do; reorder "
                "them first",
                inner,
            )
        if outer.kind is not inner.kind:
            self.fail(
                "fuse",
                f"it is a {inner.kind} axis and {outer.name!r} a {outer.kind} one; fuse axes of "
                "one kind",
                inner,
            )
        fused = IterVar(Var(f"{outer.name}.{inner.name}.fused"), None, outer.kind)
        self.leaf_axes[first : second + 1] = [fused]
        self.all_axes.append(fused)
        self.relations.append(Fuse(outer, inner, fused))
        self.record_step("fuse", outer, inner)
        return fused

    def reorder(self, *axes: IterVar) -> None:
        """Put the given loops in the given order; other loops keep their places.

        ::

            for (i, 0, n)        ->   for (j, 0, m)
              for (j, 0, m)             for (i, 0, n)
                f(i, j)                   f(i, j)
        """
        positions = [self._leaf("reorder", axis) for axis in axes]
        for position, axis in enumerate(axes):
            if any(axis is other for other in axes[:position]):
                self.fail("reorder", "it is given twice; give each loop once", axis)
            if axis.kind is AxisKind.SCAN and positions[position] < max(positions[: position + 1]):
                self.fail("reorder", "it counts steps, which are not taken in another order", axis)
        for place, axis in zip(sorted(positions), axes, strict=True):
            self.leaf_axes[place] = axis
        self.record_step("reorder", *axes)

    def tile(
        self, x: IterVar, y: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two loops and order them into tiles: x.outer, y.outer, x.inner, y.inner.

        ::

            for (x, 0, n)        ->   for (x.outer) for (y.outer)
              for (y, 0, m)             for (x.inner) for (y.inner)
                f(x, y)                   f(x.outer*x_factor + x.inner, ...)
        """
        if x is y:
            self.fail("tile", "it is given twice; give two different loops", x)
        xo, xi = self.split(x, factor=x_factor)
        yo, yi = self.split(y, factor=y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def _refuse_taken(self, primitive: str, axis: IterVar) -> None:
        """Raise an error for a loop that has a binding, a kind, a pragma or an attached stage."""
        self._refuse_annotated(primitive, axis, f"{primitive} it before")
        if axis in self.pragmas:
            self.fail(primitive, f"it has a pragma already; {primitive} it before", axis)
        self.refuse_attached(primitive, axis)
