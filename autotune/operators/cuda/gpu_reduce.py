"""Reductions of rows on GPUs: each thread reduces a part of a row, then the parts are combined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.operators.reduce import reduce as by_rules
from autotune.operators.reduce import reference
from autotune.rules.gpu.thread_loops import bind, lane_counts
from autotune.template import Knobs, template

_REDUCERS: dict[str, Callable[..., Any]] = {"sum": te.sum, "max": te.max, "min": te.min}
"""The reducer of `te`, by name."""


@template("reduce", target="cuda", reference=reference)
def reduce(
    cfg: Knobs, m: int, n: int, how: str = "sum", axis: int = 1, dtype: str = "float32"
) -> Any:
    """B = sum, mean, max or min of A[m, n] along an axis; half floats are summed in float32.

    Arguments are as of `autotune.operators.reduce`; means and columns are scheduled by rules.

    Knobs
    -----
    threads
        Threads of a row: they load adjacent elements and combine their results at the end.
    rows
        Rows of a block.
    lanes
        Elements that a thread loads together.
    """
    if axis != 1 or how not in _REDUCERS:
        return by_rules.function(m, n, how, axis, dtype)
    check_arguments("reduce", dtype, dtypes.NUMBERS, m=m, n=n)
    # The first value of a knob is its default.
    threads = cfg.define_knob("threads", [256, 8, 16, 32, 64, 128, 512, 1024])
    rows = cfg.define_knob("rows", [1, 2, 4, 8, 16])
    lanes = cfg.define_knob("lanes", lane_counts(cfg.target, dtype)[::-1])
    cfg.add_constraint(n % lanes == 0, "a row is a whole number of vectors")

    A = te.placeholder((m, n), dtype, name="A")
    k = te.reduce_axis((0, n), name="k")
    rounded = how == "sum" and dtypes.accumulator(dtype) != dtype
    total = te.compute(
        (m,), lambda i: _REDUCERS[how](A[i, k], axis=k), name="T" if rounded else "B"
    )
    B = total
    if rounded:
        B = te.compute((m,), lambda i: total[i].astype(dtype), name="B")
    s = te.create_schedule(B.op)
    loaded = s.cache_read(A, "local", [total]) if lanes > 1 else None
    bx, ty = s[B].split(B.op.axis[0], factor=rows)
    bind(s[B], {"blockIdx.x": bx, "threadIdx.y": ty})
    if rounded:
        s[total].set_scope("shared")
        s[total].compute_at(s[B], bx)
        bind(s[total], {"threadIdx.y": total.op.axis[0]})
    step, vector = s[total].split(k, factor=lanes)
    step, tx = s[total].split(step, factor=threads)
    s[total].reorder(tx, step, vector)
    bind(s[total], {"threadIdx.x": tx})
    if loaded is not None:
        s[loaded].compute_at(s[total], step)
        s[loaded].vectorize(loaded.op.axis[1])
    return s, [A, B]
