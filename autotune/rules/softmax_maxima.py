"""The rule for maxima of rows whose NaNs reach the results by another way, too.

::

    M[i] = max(X[i, k])                      M[i] = X[i, k] if X[i, k] > M[i] else M[i]
    E[i, j] = exp(X[i, j] - M[i])      ->    E, S and Y as before
    S[i] = sum(E[i, r])
    Y[i, j] = E[i, j] / S[i]

A NaN in a row of X makes an element of E NaN, by that S[i], and by that all results of the row,
whatever M[i] is. So the maximum may pass over NaNs: that is one instruction on x86, where one that
carries them along takes three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from autotune import te
from autotune.ir.axes import Combiner, IterVar
from autotune.ir.dtypes import is_float
from autotune.ir.expr import BinaryOp, Call, Cast, Expr, Read, Reduce, is_const
from autotune.ir.intrinsics import INTRINSICS
from autotune.ir.visitor import reads
from autotune.rules.rewrite_graph import rewrite
from autotune.rules.softmax_exponents import is_maximum, is_never_empty, matched_axes, runs_over
from autotune.rules.stage_graph import reduction_of
from autotune.target import Target
from autotune.te.tensor import ComputeOp, PlaceholderOp, producers_first

#: Bytes of vectors of processors whose maximum is its second operand if one of them is NaN: of x86
#: with AVX2 or AVX-512. Vectors of 16 bytes may be those of ARM, whose maximum carries NaNs along.
_X86_BYTES: Final = (32, 64)


def with_plain_maxima(target: Target, outputs: Sequence[te.Tensor]) -> Sequence[te.Tensor]:
    """Return the same computation, in which maxima pass over NaNs that reach all results anyway.

    Computations with scans stay as they are.
    """
    ops = producers_first([t.op for t in outputs])
    stages = [op for op in ops if isinstance(op, ComputeOp)]
    has_scans = not all(isinstance(op, (ComputeOp, PlaceholderOp)) for op in ops)
    if target.vector_bytes not in _X86_BYTES or has_scans:
        return outputs
    found = {op.output() for op in stages if _may_pass_over_nans(op, stages, outputs)}

    def refine(tensor: te.Tensor, before: te.Tensor) -> tuple[te.Tensor, ...]:
        op = tensor.op
        if before not in found:
            return (tensor,)
        assert isinstance(op, ComputeOp)
        body = _passing_over_nans(reduction_of(tensor))
        return (ComputeOp(op.name, op.axis, (body,), tag=op.tag).output(),)

    return rewrite(outputs, refine).outputs if found else outputs


def _passing_over_nans(maximum: Reduce) -> Reduce:
    """Return a maximum, from the same first value, that stays as it is if the next term is NaN."""
    known = maximum.combiner
    (x,), (y,) = known.lhs, known.rhs
    combiner = Combiner(known.name, [x], [y], [te.select(y > x, y, x)], known.identity)
    return Reduce(combiner, maximum.sources, maximum.axes, maximum.condition)


def _may_pass_over_nans(
    op: ComputeOp, stages: Sequence[ComputeOp], outputs: Sequence[te.Tensor]
) -> bool:
    """Whether a stage is a maximum whose value makes no difference to rows that have a NaN."""
    body, *others = op.body
    if others or not isinstance(body, Reduce) or not is_float(body.dtype) or not is_maximum(body):
        return False
    top = op.output()
    users = [stage for stage in stages if top in stage.input_tensors]
    if top in outputs or len(users) != 1:
        return False
    row = _row_of_terms(top, users[0])
    return row is not None and _reach_outputs(users[0].output(), row, stages, outputs)


def _row_of_terms(top: te.Tensor, user: ComputeOp) -> tuple[int, ...] | None:
    """Return the dimensions of a stage that number the rows of a maximum, by the latter's axes.

    None if the stage has not an element for each term of the maximum, which is NaN if the term is.
    """
    body, *others = user.body
    places = {read.children for read in reads(body) if read.tensor is top}
    if others or len(places) != 1 or isinstance(body, Reduce):
        return None
    (place,) = places
    axes: dict[Expr, IterVar] = {axis.var: axis for axis in user.axis}
    maximum, at = reduction_of(top), dict(zip((a.var for a in top.op.axis), place, strict=True))

    def is_term(value: Expr) -> bool:
        found = matched_axes(value, maximum, at)
        if found is None or len(found) < len(maximum.axes):
            return False
        # Each axis of the stage is one of the rows, or runs over all terms.
        if sorted(map(id, (*place, *found.values()))) != sorted(map(id, axes)):
            return False
        return all(runs_over(axes[found[axis.var]].dom, axis) for axis in maximum.axes)

    return _positions(place, user) if _is_nan_with(body, is_term) else None


def _positions(place: Sequence[Expr], stage: ComputeOp) -> tuple[int, ...] | None:
    """Return which axes of a stage indices are; None if one is something else."""
    known: dict[Expr, int] = {axis.var: position for position, axis in enumerate(stage.axis)}
    return tuple(known[at] for at in place) if all(at in known for at in place) else None


@dataclass(frozen=True, slots=True)
class _Affected:
    """A stage on which a maximum has an effect."""

    #: Dimensions that number the rows.
    row: tuple[int, ...]
    #: Whether all its elements of a row are NaN if one of the terms of the row is.
    is_nan: bool


def _reach_outputs(
    terms: te.Tensor,
    row: tuple[int, ...],
    stages: Sequence[ComputeOp],
    outputs: Sequence[te.Tensor],
) -> bool:
    """Whether a NaN in a row of `terms` makes all results NaN on which the row has an effect."""
    affected = {terms: _Affected(row, is_nan=False)}
    for op in stages:
        body, *others = op.body
        found = [read for read in reads(body) if read.tensor in affected]
        places = {tuple(r.children[at] for at in affected[r.tensor].row) for r in found}
        if affected.keys().isdisjoint(op.input_tensors):
            continue
        own = None if others or len(places) != 1 else _positions(places.pop(), op)
        if own is None:
            return False
        source, axes = _summed(body)
        is_nan = _is_nan_with(source, partial(_reads_nan, affected, terms, axes))
        affected[op.output()] = _Affected(own, is_nan)
    return all(affected[t].is_nan for t in outputs if t in affected)


def _reads_nan(
    affected: Mapping[te.Tensor, _Affected],
    terms: te.Tensor,
    axes: Sequence[IterVar],
    value: Expr,
) -> bool:
    """Whether a value, or its sum over axes, is NaN if a term of the row is."""
    if not isinstance(value, Read) or value.tensor not in affected:
        return False
    known = affected[value.tensor]
    if known.is_nan or value.tensor is not terms:
        return known.is_nan
    over: dict[Expr, IterVar] = {axis.var: axis for axis in axes}
    others = [d for d in range(len(value.children)) if d not in known.row]
    summed = [over[value.children[d]] for d in others if value.children[d] in over]
    return len({*summed}) == len(others) and all(
        runs_over(terms.op.axis[d].dom, axis) for d, axis in zip(others, summed, strict=True)
    )


def _summed(body: Expr) -> tuple[Expr, tuple[IterVar, ...]]:
    """Return what a stage sums and over which axes, if all; any other value and no axes.

    A sum of no elements is 0, whatever they would be.
    """
    match body:
        case Reduce(sources=(source,), combiner=combiner) if is_const(body.condition, 1):
            (result,), operands = combiner.result, {*combiner.lhs, *combiner.rhs}
            is_sum = isinstance(result, BinaryOp) and result.op == "+"
            if is_sum and {*result.children} == operands and all(map(is_never_empty, body.axes)):
                return source, body.axes
    return body, ()


def _is_nan_with(value: Expr, is_nan: Callable[[Expr], bool]) -> bool:
    """Whether a value is NaN if those of its parts are for which `is_nan` holds."""
    if is_nan(value):
        return True
    match value:
        case BinaryOp(op="+" | "-" | "*" | "/" | "min" | "max") if is_float(value.dtype):
            return any(_is_nan_with(operand, is_nan) for operand in value.children)
        case Cast(a=source) if is_float(value.dtype) and is_float(source.dtype):
            return _is_nan_with(source, is_nan)
        case Call(children=(operand,)) if is_float(value.dtype) and value.name in INTRINSICS:
            return _is_nan_with(operand, is_nan)
    return False
