"""Rewrites reductions of windows that begin several elements apart: columns first, then rows.

::

    for (y) for (x)                              for (y) for (j) for (ry)
      for (ry) for (rx)                    ->      T[y, j] = max(T[y, j], P[y*2 + ry, j])
        O[y, x] = max(O[y, x],                   for (y) for (x) for (rx)
                      P[y*2 + ry, x*2 + rx])       O[y, x] = max(O[y, x], T[y, x*2 + rx])

Windows share the columns, and neighbours in T read neighbours: a margin around P is not stored.
"""

from __future__ import annotations

import math
from typing import Any

from autotune import te
from autotune.ir.expr import Const, Read
from autotune.ir.visitor import free_vars, mentions, reads, substitute
from autotune.rules.inline import has_calls
from autotune.rules.stage_graph import extent, reduction_of, written_out
from autotune.te.reduction import reduction
from autotune.te.tensor import ComputeOp


def columns_first(tensor: te.Tensor) -> tuple[te.Tensor, te.Tensor] | None:
    """Return two stages that replace a reduction of windows, or None if it is no such reduction."""
    reduced, last = reduction_of(tensor), tensor.op.axis[-1]
    if len(reduced.sources) != 1 or not isinstance(reduced.condition, Const):
        return None
    (source,) = reduced.sources
    (read,) = set(reads(source))
    *front, along = read.children
    across = [a for a in reduced.axes if mentions(along, a.var)]
    rest = [a for a in reduced.axes if a not in across]
    width, steps = int(read.tensor.shape[-1]), math.prod(map(extent, across))
    if math.prod(map(extent, rest)) == 1 or not across or width >= extent(last) * steps:
        return None
    taken = {last.var, *(a.var for a in across)}
    others = set(free_vars(along)) - taken
    element = Read(read.tensor, (*front, last.var))
    if others or taken & set(free_vars(substitute(source, {read: element}))) - {last.var}:
        return None
    if any(mentions(i, last.var) for i in front):
        return None

    def column(*index: Any) -> Any:
        copies = [te.reduce_axis((0, extent(a)), a.name) for a in rest]
        values = {a.var: i for a, i in zip(tensor.op.axis, index, strict=True)}
        values |= {a.var: copy.var for a, copy in zip(rest, copies, strict=True)}
        own = substitute(substitute(source, {read: element}), values)
        return reduction(reduced.combiner, [own], copies, None)[0]

    shape = (*tensor.shape[:-1], width)
    columns: te.Tensor = te.compute(shape, column, name=f"{tensor.name}_columns")
    op = read.tensor.op
    if isinstance(op, ComputeOp) and not op.reduce_axis and not has_calls(op):
        columns = written_out(columns, {read.tensor})

    def window(*index: Any) -> Any:
        copies = [te.reduce_axis((0, extent(a)), a.name) for a in across]
        values = {a.var: i for a, i in zip(tensor.op.axis, index, strict=True)}
        values |= {a.var: copy.var for a, copy in zip(across, copies, strict=True)}
        own = columns[(*index[:-1], substitute(along, values))]
        return reduction(reduced.combiner, [own], copies, None)[0]

    return columns, te.compute(tensor.shape, window, name=tensor.name)
