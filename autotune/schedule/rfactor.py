"""rfactor: the partial results of a reduction over one of its loops become a new stage.

The loop becomes a spatial axis of the new stage, so that it can be vectorised or run in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.ir.axes import AxisKind, IterVar, Range
from autotune.ir.expr import Const, Expr, Read, Reduce, Var
from autotune.ir.ops import binary, chain, const, if_then_else
from autotune.ir.visitor import substitute
from autotune.schedule.axis_relations import Split, pass_down, pass_up
from autotune.schedule.stage import Stage
from autotune.te.tensor import ComputeOp


def factor(stage: Stage, axis: IterVar, factor_axis: int) -> tuple[ComputeOp, ComputeOp]:
    """Return partial results of a reduction by the loop `axis`, and their combination."""
    op = _checked(stage, axis)
    position = _position(stage, len(op.axis) + 1, factor_axis)
    partial = _partial(stage, op, axis, position)
    return partial, _combined(op, partial, axis, position)


def _position(stage: Stage, rank: int, factor_axis: int) -> int:
    """Return the place of the new axis among the `rank` axes of the partial results."""
    if isinstance(factor_axis, bool) or not isinstance(factor_axis, int):
        stage.fail("rfactor", f"factor_axis must be an integer, got {factor_axis!r}")
    if not -rank <= factor_axis < rank:
        stage.fail(
            "rfactor",
            f"factor_axis {factor_axis} is not a position among the {rank} axes of the partial "
            f"results; give one from {-rank} to {rank - 1}",
        )
    return factor_axis % rank


def _partial(stage: Stage, op: ComputeOp, axis: IterVar, position: int) -> ComputeOp:
    """Return the reduction over all loops but `axis`, which becomes an axis of the results."""
    loops = _Loops(stage, op)
    reductions = _reductions(op)
    first = reductions[0]
    spatial = [IterVar(Var(a.name, a.var.dtype), a.dom, AxisKind.SPATIAL) for a in op.axis]
    part = IterVar(Var(axis.name), Range(const(0), loops.extents[axis]), AxisKind.SPATIAL)
    inner = {
        leaf: IterVar(Var(leaf.name), Range(const(0), loops.extents[leaf]), AxisKind.REDUCE)
        for leaf in stage.leaf_axes
        if leaf.kind is AxisKind.REDUCE and leaf is not axis
    }
    values, guards = loops.values({axis: part.var, **{old: new.var for old, new in inner.items()}})
    values.update((old.var, new.var) for old, new in zip(op.axis, spatial, strict=True))
    condition = chain("and", guards, substitute(first.condition, values))
    sources = tuple(substitute(source, values) for source in first.sources)
    body: tuple[Expr, ...]
    if inner:
        axes = tuple(inner.values())
        body = tuple(Reduce(first.combiner, sources, axes, condition, r.index) for r in reductions)
    else:
        identity = first.combiner.identity
        body = tuple(
            if_then_else(condition, sources[r.index], identity[r.index]) for r in reductions
        )
    return ComputeOp(f"{op.name}.rf", (*spatial[:position], part, *spatial[position:]), body)


def _combined(op: ComputeOp, partial: ComputeOp, axis: IterVar, position: int) -> ComputeOp:
    """Return the reduction of the partial results along their axis `position`."""
    reductions = _reductions(op)
    combiner = reductions[0].combiner
    outer = tuple(
        IterVar(Var(f"ax{i}", a.var.dtype), a.dom, AxisKind.SPATIAL) for i, a in enumerate(op.axis)
    )
    over = IterVar(Var(f"{axis.name}.v"), partial.axis[position].dom, AxisKind.REDUCE)
    indices: Sequence[Expr] = [a.var for a in outer]
    indices = (*indices[:position], over.var, *indices[position:])
    parts = {r.index: Read(t, indices) for r, t in zip(reductions, partial.outputs, strict=True)}
    every = tuple(parts[i] for i in range(len(parts)))
    body = tuple(Reduce(combiner, every, (over,), const(True), r.index) for r in reductions)
    return ComputeOp(op.name, outer, body, op.outputs)


def _reductions(op: ComputeOp) -> list[Reduce]:
    return [value for value in op.body if isinstance(value, Reduce)]


def _checked(stage: Stage, axis: IterVar) -> ComputeOp:
    """Return the stage's operation if its reduction can be factored by `axis`."""
    op = stage.op
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        stage.fail("rfactor", "it does not reduce; factor a stage whose body is a reduction")
    stage._leaf("rfactor", axis)
    stage.refuse_ahead("rfactor")
    stage.refuse_attached("rfactor")
    if axis.kind is not AxisKind.REDUCE:
        stage.fail(
            "rfactor",
            f"{axis.name!r} is a {axis.kind} axis; give a reduction axis, or a part of one made "
            "by split",
        )
    loops = [leaf for leaf in stage.leaf_axes if leaf.kind is not AxisKind.REDUCE]
    own = [axis for axis in op.axis if axis is not stage.time]
    changed = len(loops) != len(own) or any(a is not b for a, b in zip(loops, own, strict=True))
    annotated = [*stage.loop_kinds, *stage.bindings, *stage.pragmas, *stage.alignments]
    if changed or annotated:
        what = "its spatial loops were changed"
        if annotated:
            what = f"axis {annotated[0].name!r} is annotated"
        stage.fail(
            "rfactor",
            f"{what} already, and rfactor gives the stage new loops; split the reduction, "
            "factor it, and schedule the rest afterwards",
        )
    if stage.layout is not None:
        stage.fail("rfactor", "its layout was transformed already; rfactor it first")
    if stage.store_predicate is not None:
        stage.fail("rfactor", "it has a store predicate already; rfactor it first")
    results = {value.index for value in op.body if isinstance(value, Reduce)}
    first = op.body[0]
    assert isinstance(first, Reduce)
    if len(results) != len(first.sources):
        stage.fail(
            "rfactor",
            f"its reduction has {len(first.sources)} values of which {len(results)} are kept; "
            "return all of them from the compute",
        )
    return op


class _Loops:
    """Extents of a stage's reduction loops, and the values of its axes over them."""

    def __init__(self, stage: Stage, op: ComputeOp) -> None:
        self._relations = [
            r for r in stage.relations
            if (r.parent if isinstance(r, Split) else r.outer).kind is AxisKind.REDUCE
        ]  # fmt: skip
        if any(isinstance(r, Split) and r.offset is not None for r in self._relations):
            stage.fail("rfactor", "a reduction axis is split with an offset")
        self._spans = {axis: axis.dom for axis in op.reduce_axis if axis.dom is not None}
        self.extents = {axis: span.extent for axis, span in self._spans.items()}
        pass_down(self._relations, self.extents, lambda _: False)

    def values(self, leaves: dict[IterVar, Var]) -> tuple[dict[Var, Expr], list[Expr]]:
        """Return the value of each root axis, and the guards where loops may overshoot."""
        values = pass_up(self._relations, leaves, self.extents.__getitem__, self._stride)
        guards: list[Expr] = []
        for relation in reversed(self._relations):
            if isinstance(relation, Split):
                extent = self.extents[relation.parent]
                within = binary("<", values[relation.parent], extent)
                guards.append(binary("or", relation.exact(extent), within))
        found = {x.var: binary("+", values[x], span.min) for x, span in self._spans.items()}
        return found, [g for g in guards if not (isinstance(g, Const) and g.value)]

    def _stride(self, split: Split) -> Expr:
        return self.extents[split.inner] if split.factor is None else split.factor
