"""Rewrites a reduction along rows into vectors of partial results, which are then combined.

With U vectors of W lanes, partial result (u, v) has every (U * W)-th element. The vectors are
combined into one, and then its lanes pairwise into the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune import te
from autotune.ir.expr import Const, Expr, Read, Reduce, Var
from autotune.ir.visitor import free_vars, reads, substitute
from autotune.rules.stage_graph import extent, reduction_of
from autotune.te.reduction import reduction


@dataclass(frozen=True, slots=True)
class LaneReduction:
    """A reduction in lanes.

    Attributes
    ----------
    whole
        The original reduction.
    parts
        Partial results; its last axes are the vectors and their lanes.
    vector
        The vectors folded into one.
    result
        The elements.
    """

    whole: te.Tensor
    parts: te.Tensor
    vector: te.Tensor
    result: te.Tensor


def runs_along_rows(tensor: te.Tensor, lanes: int) -> bool:
    """Whether the innermost reduction reads neighbours, and enough of them to fill a vector."""
    reduced = reduction_of(tensor)
    last = reduced.axes[-1]
    length = extent(last)
    own = [r for s in reduced.sources for r in reads(s) if last.var in set(free_vars(r))]
    return lanes > 1 and length >= lanes and bool(own) and all(_along(r, last.var) for r in own)


def _along(read: Read, var: Var) -> bool:
    *front, last = read.children
    inside = last is var or (getattr(last, "op", "") in ("+", "-") and last.children[0] is var)
    return inside and not any(var is w for index in front for w in free_vars(index))


def lanes_of(tensor: te.Tensor, lanes: int, vectors: Any) -> LaneReduction:
    """Return a reduction in some vectors (an integer or a knob) of so many lanes."""
    reduced = reduction_of(tensor)
    *outer, last = reduced.axes
    length = extent(last)
    step = te.reduce_axis((0, te.ceildiv(length, vectors * lanes)), last.name)
    copies = [te.reduce_axis((a.dom.min, a.dom.extent), a.name) for a in outer]  # type: ignore[union-attr]

    def part(*index: Any) -> Any:
        *place, u, v = index
        at = (step.var * vectors + u) * lanes + v
        values = {a.var: i for a, i in zip(tensor.op.axis, place, strict=True)}
        values |= {a.var: copy.var for a, copy in zip(outer, copies, strict=True)}
        values[last.var] = at
        where = substitute(reduced.condition, values)
        inside = at < length
        where = inside if isinstance(where, Const) and where.value else te.all(where, inside)
        sources = [substitute(source, values) for source in reduced.sources]
        return reduction(reduced.combiner, sources, [*copies, step], where)[0]

    parts = te.compute((*tensor.shape, vectors, lanes), part, name=f"{tensor.name}_lanes")
    every = te.reduce_axis((0, vectors), "u")

    def vector(*index: Any) -> Any:
        *place, v = index
        return reduction(reduced.combiner, [parts[(*place, every.var, v)]], every, None)[0]

    folded = te.compute((*tensor.shape, lanes), vector, name=f"{tensor.name}_vector")

    def result(*place: Any) -> Any:
        return _folded(reduced, [folded[(*place, v)] for v in range(lanes)])

    total = te.compute(tensor.shape, result, name=tensor.name)
    return LaneReduction(tensor, parts, folded, total)


def _folded(reduced: Reduce, values: Sequence[Expr]) -> Expr:
    """Combine values pairwise: each with the one half a vector further."""
    (lhs,), (rhs,), (combined,) = (
        reduced.combiner.lhs, reduced.combiner.rhs, reduced.combiner.result
    )  # fmt: skip
    while len(values) > 1:
        half = (len(values) + 1) // 2
        pairs = zip(values[:half], values[half:], strict=False)
        both = [substitute(combined, {lhs: a, rhs: b}) for a, b in pairs]
        values = [*both, *values[len(both) : half]]
    return values[0]
