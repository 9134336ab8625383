"""Guards around a stage's stores: they select the iterations that are points of its axes.

Every guard is emitted; unnecessary guards are removed when the knobs have values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.ir.axes import AxisKind, IterVar
from autotune.ir.expr import Const, Expr, Var
from autotune.ir.ops import binary, const, likely
from autotune.ir.stmt import Stmt, under_guards
from autotune.lowering.nest.bound_inference import Bounds
from autotune.schedule.axis_relations import Split, is_over_knobs, pass_up, resolved
from autotune.schedule.stage import Stage


def stage_guards(
    stage: Stage, bounds: Bounds, values: Mapping[Var, Expr], skip_reduce: bool = False
) -> list[Expr]:
    """Return the conditions for an iteration that the stage needs."""
    guards = []
    begun = {r.parent for r in stage.relations if isinstance(r, Split) and r.offset is not None}
    for axis, plain, exact in _split_values(stage, bounds):
        if skip_reduce and axis.kind is AxisKind.REDUCE:
            continue
        value = resolved(stage.relations, plain, values, axis)
        if axis in begun:
            guards.append(binary("<=", const(0), value))
        guards.append(binary("or", exact, binary("<", value, bounds.ranges[axis].extent)))
    for axis in stage.op.axis:
        span, dom = bounds.ranges[axis], axis.dom
        assert dom is not None
        if stage.cell is not None and bounds.is_step(stage.cell, axis):
            continue
        whole = binary("and", _same(span.min, dom.min), _same(span.extent, dom.extent))
        value = values[axis.var]
        guards.append(binary("or", whole, binary("<=", const(0), value)))
        guards.append(binary("or", whole, binary("<", value, dom.extent)))
    return [g for g in guards if not isinstance(g, Const) or not g.value]


def _split_values(stage: Stage, bounds: Bounds) -> list[tuple[IterVar, Expr, Expr]]:
    """Return the values of axes, from 0, and the conditions under which loops do not overshoot.

    These are conditions over knobs, so that a guard exists for the same values as with plain
    numbers.
    """
    leaves = {leaf: leaf.var for leaf in stage.leaf_axes}
    values = pass_up(stage.relations, leaves, bounds.extent, bounds.stride)
    exact: dict[IterVar, Expr] = dict.fromkeys(stage.leaf_axes, const(True))
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            parts = binary("and", exact[relation.outer], exact[relation.inner])
            divides = relation.exact(bounds.extent(relation.parent))
            exact[relation.parent] = binary("and", parts, divides)
        else:
            # A guard on the fused axis limits both of these to their extents.
            exact[relation.outer] = exact[relation.inner] = const(True)
    return [(axis, values[axis], exact[axis]) for axis in stage.all_axes if axis in values]


def _same(size: Expr, other: Expr) -> Expr:
    """Return the condition over knobs under which two sizes are equal; False if unknown."""
    if size is other:
        return const(True)
    if not (is_over_knobs(size) and is_over_knobs(other)):
        return const(False)
    return binary("==", size, other)


def guarded(guards: Sequence[Expr], body: Stmt) -> Stmt:
    """Return `body` under conditions that are nearly always true, the first outermost."""
    return under_guards([*map(likely, guards)], body)
