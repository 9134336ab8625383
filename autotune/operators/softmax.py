"""Softmax over rows on CPUs: a row at a time, in three passes that stay in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.template import Knobs, template


def reference(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Softmax of the rows of an (m, n) array, computed in at least float32."""
    wide = x.astype(dtypes.accumulator(x.dtype.name))
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    result: npt.NDArray[Any] = e / e.sum(axis=1, keepdims=True)
    return result


@template("softmax", target="llvm", reference=reference)
def softmax(cfg: Knobs, m: int, n: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """Y[i, j] = exp(X[i, j]) / sum over j of exp(X[i, j]), in a way that cannot overflow.

    Half floats are computed in float32.

    Knobs
    -----
    lanes
        Number of partial maxima and sums of a row.
    rows
        Rows that one parallel task computes.
    """
    check_arguments("softmax", dtype, dtypes.FLOATS, m=m, n=n)
    wide = dtypes.accumulator(dtype)
    vector = max(1, cfg.target.vector_bytes // dtypes.itemsize(wide))
    lanes = cfg.define_knob("lanes", [vector, 2 * vector, 4 * vector, 8 * vector])
    rows = cfg.define_knob("rows", [16, 1, 4, 64])
    X = te.placeholder((m, n), dtype, name="X")
    steps = n // lanes
    rest = n - steps * lanes

    def row_reduce(source: Any, how: Any, name: str) -> tuple[Any, Any, Any]:
        """Reduce rows lane by lane, then over the lanes and the remaining elements."""
        k = te.reduce_axis((0, steps), name=f"{name}.k")
        parts = te.compute(
            (m, lanes), lambda i, v: how(source[i, k * lanes + v], axis=k), name=f"{name}.lanes"
        )
        t = te.reduce_axis((0, lanes), name=f"{name}.v")
        total = te.compute((m,), lambda i: how(parts[i, t], axis=t), name=name)
        if n % lanes == 0:
            return parts, None, total
        r = te.reduce_axis((0, rest), name=f"{name}.r")
        tail = te.compute(
            (m,), lambda i: how(source[i, steps * lanes + r], axis=r), name=f"{name}.rest"
        )
        return parts, tail, total

    max_parts, max_tail, max_main = row_reduce(X, te.max, "mx")

    def row_max(i: Any) -> Any:
        return max_main[i] if max_tail is None else te.max(max_main[i], max_tail[i])

    E = te.compute(
        (m, n), lambda i, j: te.exp(X[i, j].astype(wide) - row_max(i).astype(wide)), name="E"
    )
    sum_parts, sum_tail, sum_main = row_reduce(E, te.sum, "sm")

    def row_scale(i: Any) -> Any:
        total = sum_main[i] if sum_tail is None else sum_main[i] + sum_tail[i]
        return te.const(1, wide) / total

    R = te.compute((m,), row_scale, name="R")
    Y = te.compute((m, n), lambda i, j: (E[i, j] * R[i]).astype(dtype), name="Y")

    s = te.create_schedule(Y.op)
    i, j = s[Y].op.axis
    io, ii = s[Y].split(i, factor=rows)
    s[Y].parallel(io)
    for part in (max_parts, max_tail, max_main, E, sum_parts, sum_tail, sum_main, R):
        if part is not None:
            s[part].compute_at(s[Y], ii)
    for parts in (max_parts, sum_parts):
        row, lane = s[parts].op.axis
        s[parts].reorder(row, *s[parts].op.reduce_axis, lane)
        s[parts].vectorize(lane)
    if n % lanes == 0:
        for stage, axis in ((s[E], s[E].op.axis[1]), (s[Y], j)):
            _, inner = stage.split(axis, factor=lanes)
            stage.vectorize(inner)
    return s, [X, Y]
