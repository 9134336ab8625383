"""Rewrites a graph of tensor expressions stage by stage, producers first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autotune import te
from autotune.ir.axes import IterVar
from autotune.ir.expr import Expr, Read, Reduce, is_const
from autotune.ir.visitor import ReadRewriter
from autotune.rules.stage_graph import extent, place_of, reads_in, reduced_over, step_along
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation, producers_first

#: Returns the stages that replace a stage; the last one has its elements. It is given the stage
#: with its producers replaced, and the stage of before.
Refine = Callable[[te.Tensor, te.Tensor], Sequence[te.Tensor]]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten graph."""

    #: What takes the place of each output.
    outputs: tuple[te.Tensor, ...]
    #: For each new stage the stage of before that it belongs to.
    origin: dict[te.Tensor, te.Tensor]


#: Returns the tensors that replace the results of a scan. It is given the scan with its producers
#: replaced, and the scan of before.
RefineScan = Callable[[ScanOp, ScanOp], Sequence[te.Tensor]]


def rewrite(
    outputs: Sequence[te.Tensor],
    refine: Refine,
    refine_scan: RefineScan = lambda made, _: made.outputs,
    refine_part: Refine = lambda made, _: (made,),
) -> Rewritten:
    """Return a graph in which stages are replaced, parts of scans by `refine_part`."""
    ops = producers_first([t.op for t in outputs])
    kept = {own for op in ops if isinstance(op, ScanOp) for own in parts_of(op)}
    new: dict[te.Tensor, te.Tensor] = {}
    origin: dict[te.Tensor, te.Tensor] = {}
    redirect = ReadRewriter(lambda tensor, at: Read(new.get(tensor, tensor), at))
    for op in ops:
        if isinstance(op, ScanOp):
            results = refine_scan(_with_parts(op, new), op)
            pairs = list(zip(op.outputs, results, strict=True))
        elif not isinstance(op, ComputeOp):
            origin |= {t: t for t in op.outputs}
            continue
        else:
            changed = _redirected(op, redirect)
            pairs = list(zip(op.outputs, changed.outputs, strict=True))
            if len(op.outputs) == 1:
                change = refine_part if op in kept else refine
                stages = change(changed.output(), op.output())
                origin |= {stage: op.output() for stage in stages}
                pairs = [(op.output(), stages[-1])]
        for old, made in pairs:
            origin[made] = old
            if made is not old:
                new[old] = made
    return Rewritten(tuple(new.get(t, t) for t in outputs), origin)


def with_ordered_reductions(outputs: Sequence[te.Tensor]) -> tuple[te.Tensor, ...]:
    """Return the same computation over reduction axes as all rules take them.

    They start at 0, and those along which elements are farther apart in memory are outside::

        sum(A[i, k], k from 3 to n)    ->    sum(A[i, k + 3], k from 0 to n - 3)
        sum(A[i, k, l], over l, k)     ->    sum(A[i, k, l], over k, l)
    """
    return rewrite(outputs, lambda made, _: (_ordered(made),)).outputs


def _ordered(tensor: te.Tensor) -> te.Tensor:
    """Return a stage whose reduction axes have the order of memory.

    Reductions of several values keep theirs: it may decide which of equal elements is found.
    """
    op = tensor.op
    assert isinstance(op, ComputeOp)
    (body,) = op.body
    if not isinstance(body, Reduce) or len(body.axes) == 1 or len(body.sources) > 1:
        return tensor
    places = list(map(place_of, reads_in(op)))
    steps = {axis: [step_along(place, axis) for place in places] for axis in body.axes}
    if any(None in apart for apart in steps.values()):
        return tensor

    def distance(axis: IterVar) -> tuple[list[int], int]:
        return sorted((abs(step or 0) for step in steps[axis]), reverse=True), extent(axis)

    axes = sorted(body.axes, key=distance, reverse=True)
    if axes == list(body.axes):
        return tensor
    ordered: Expr = reduced_over(body, axes, {})
    return ComputeOp(op.name, op.axis, (ordered,), tag=op.tag).output()


def parts_of(scan: ScanOp) -> set[Operation]:
    """Return the operations that a scan is made of: its first steps and its cell."""
    return {*(t.op for t in scan.init), *scan.cell}


def _with_parts(op: ScanOp, new: Mapping[te.Tensor, te.Tensor]) -> ScanOp:
    """Return a scan whose parts are replaced."""
    if not any(t in new for part in parts_of(op) for t in part.outputs):
        return op
    init, update = ([new.get(t, t) for t in parts] for parts in (op.init, op.update))
    return ScanOp(op.name, init, update, op.state_placeholder, op.tag)


def _redirected(op: ComputeOp, redirect: ReadRewriter) -> ComputeOp:
    moved = {a: n for a in op.reduce_axis if (n := _from_zero(a)) is not a}
    body: tuple[Expr, ...] = tuple(_moved(redirect.expr(value), moved) for value in op.body)
    same = all(a is b for a, b in zip(body, op.body, strict=True))
    return op if same else ComputeOp(op.name, op.axis, body, tag=op.tag)


def _from_zero(axis: IterVar) -> IterVar:
    """Return an axis, or if it does not start at 0, one of its length that does."""
    assert axis.dom is not None
    first = axis.dom.min
    if is_const(first, 0):
        return axis
    return te.reduce_axis((0, axis.dom.extent), axis.name)


def _moved(value: Expr, moved: Mapping[IterVar, IterVar]) -> Expr:
    """Return a reduction over other axes."""
    if not moved:
        return value
    assert isinstance(value, Reduce)
    places = {a.var: new.var + a.dom.min for a, new in moved.items() if a.dom is not None}
    moved_value: Expr = reduced_over(value, [moved.get(a, a) for a in value.axes], places)
    return moved_value
