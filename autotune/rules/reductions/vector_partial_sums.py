"""Rewrites a reduction along rows into vectors of partial results, which are then combined.

With U vectors of W lanes, each partial result has every (U * W)-th element. The vectors are
combined into one, that one into vectors of a fourth of its length, and the last four lanes into the
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from autotune import te
from autotune.ir.expr import Expr, Reduce
from autotune.ir.visitor import mentions, reads
from autotune.rules.stage_graph import (
    extent,
    length_of,
    place_of,
    reduced_over,
    reduction_of,
    step_along,
)
from autotune.te.reduction import reduction

#: Values that are combined in one expression.
_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class LaneReduction:
    """A reduction in lanes."""

    #: The original reduction.
    whole: te.Tensor
    #: Partial results; its last axis has the lanes of all vectors.
    parts: te.Tensor
    #: The length of that axis.
    width: Any
    #: All of them folded into one, and that into shorter ones.
    vectors: tuple[te.Tensor, ...]
    #: The elements.
    result: te.Tensor

    @property
    def stages(self) -> tuple[te.Tensor, ...]:
        """All stages in the order of computation."""
        return self.parts, *self.vectors, self.result


def runs_along_rows(tensor: te.Tensor, lanes: int) -> bool:
    """Whether the innermost reduction reads neighbours, and enough of them to fill a vector."""
    reduced = reduction_of(tensor)
    last = reduced.axes[-1]
    own = [r for s in reduced.sources for r in reads(s) if mentions(r, last.var)]
    if lanes < 2 or extent(last) < lanes or not own:
        return False
    places = list(map(place_of, own))
    apart = not any(step_along(place, a) == 1 for place in places for a in tensor.op.axis)
    return apart and all(step_along(place, last) == 1 for place in places)


def lanes_of(
    tensor: te.Tensor, lanes: int, vectors: Any, whole: te.Tensor | None = None
) -> LaneReduction:
    """Return a reduction in some vectors (an integer or a knob) of so many lanes.

    It may be made of the parts of another one, `whole`.
    """
    reduced = reduction_of(tensor)
    *outer, last = reduced.axes
    length, width = length_of(last), vectors * lanes
    step = te.reduce_axis((0, te.ceildiv(length, width)), last.name)
    copies = [te.reduce_axis((a.dom.min, a.dom.extent), a.name) for a in outer]  # type: ignore[union-attr]

    def part(*index: Any) -> Any:
        *place, v = index
        at = step.var * width + v
        values = {a.var: i for a, i in zip(tensor.op.axis, place, strict=True)}
        values |= {a.var: copy.var for a, copy in zip(outer, copies, strict=True)}
        values[last.var] = at
        return reduced_over(reduced, [*copies, step], values, at < length)

    parts = te.compute((*tensor.shape, width), part, name=f"{tensor.name}_lanes")
    every = te.reduce_axis((0, vectors), "u")

    def vector(*index: Any) -> Any:
        *place, v = index
        return reduction(reduced.combiner, [parts[(*place, every.var * lanes + v)]], every, None)[0]

    folded = [te.compute((*tensor.shape, lanes), vector, name=f"{tensor.name}_vector")]

    def shorter(left: int, *place: Any) -> Any:
        *front, v = place
        last = folded[-1]
        return _folded(reduced, [last[(*front, v + left * k)] for k in range(_AT_ONCE)])

    while (left := lanes // _AT_ONCE ** len(folded)) > 1:
        name = f"{tensor.name}_vector{left}"
        folded.append(te.compute((*tensor.shape, left), partial(shorter, left), name=name))
    left = lanes // _AT_ONCE ** (len(folded) - 1)

    def result(*place: Any) -> Any:
        return _folded(reduced, [folded[-1][(*place, v)] for v in range(left)])

    total = te.compute(tensor.shape, result, name=tensor.name)
    return LaneReduction(tensor if whole is None else whole, parts, width, tuple(folded), total)


def _folded(reduced: Reduce, values: Sequence[Expr]) -> Expr:
    """Combine values pairwise: each with the one half a vector further."""
    while len(values) > 1:
        half = (len(values) + 1) // 2
        pairs = zip(values[:half], values[half:], strict=False)
        both = [reduced.combiner.combine([a], [b])[0] for a, b in pairs]
        values = [*both, *values[len(both) : half]]
    return values[0]
