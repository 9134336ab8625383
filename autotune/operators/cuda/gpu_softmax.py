"""Softmax over rows on GPUs: the threads of a row compute its maximum, its sum and the result."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.operators.softmax import reference
from autotune.rules.gpu.thread_loops import bind, lane_counts
from autotune.template import Knobs, template


@template("softmax", target="cuda", reference=reference)
def softmax(cfg: Knobs, m: int, n: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """Y[i, j] = exp(X[i, j]) / sum over j of exp(X[i, j]), in a way that cannot overflow.

    Half floats are computed in float32.

    Knobs
    -----
    threads
        Threads of a row.
    rows
        Rows of a block.
    keep
        Whether rows are kept in shared memory, so that they are loaded once.
    lanes
        Elements that a thread loads and stores together.
    stream
        Whether the result is stored past the caches.
    """
    check_arguments("softmax", dtype, dtypes.FLOATS, m=m, n=n)
    wide = dtypes.accumulator(dtype)
    # The first value of a knob is its default.
    threads = cfg.define_knob("threads", [256, 8, 16, 32, 64, 128, 512, 1024])
    rows = cfg.define_knob("rows", [1, 2, 4, 8, 16])
    keep = cfg.define_knob("keep", [True, False])
    lanes = cfg.define_knob("lanes", lane_counts(cfg.target, dtype)[::-1])
    stream = cfg.define_knob("stream", [False, True])
    cfg.add_constraint(n % lanes == 0, "a row is a whole number of vectors")

    X = te.placeholder((m, n), dtype, name="X")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    largest = te.compute((m,), lambda i: te.max(X[i, k].astype(wide), axis=k), name="M")

    def exp(i: Any, j: Any) -> Any:
        return te.exp(X[i, j].astype(wide) - largest[i])

    total = te.compute((m,), lambda i: te.sum(exp(i, r), axis=r), name="S")
    # One division for a row: the elements are multiplied.
    share = te.compute((m,), lambda i: te.const(1, wide) / total[i], name="R")
    Y = te.compute((m, n), lambda i, j: (exp(i, j) * share[i]).astype(dtype), name="Y")

    s = te.create_schedule(Y.op)
    kept = s.cache_read(X, "shared", [largest, total, Y]) if keep else None
    source = X if kept is None else kept
    i, j = Y.op.axis
    block, ty = s[Y].split(i, factor=rows)
    bind(s[Y], {"blockIdx.x": block, "threadIdx.y": ty})
    for reduction, axis in ((largest, k), (total, r)):
        loaded = s.cache_read(source, "local", [reduction]) if lanes > 1 else None
        s[reduction].set_scope("shared")
        s[reduction].compute_at(s[Y], block)
        step, vector = s[reduction].split(axis, factor=lanes)
        step, tx = s[reduction].split(step, factor=threads)
        s[reduction].reorder(tx, step, vector)
        bind(s[reduction], {"threadIdx.y": reduction.op.axis[0], "threadIdx.x": tx})
        if loaded is not None:
            s[loaded].compute_at(s[reduction], step)
            s[loaded].vectorize(loaded.op.axis[1])
    s[share].set_scope("shared")
    s[share].compute_at(s[Y], block)
    bind(s[share], {"threadIdx.y": share.op.axis[0]})
    if kept is not None:
        s[kept].compute_at(s[Y], block)
        bind(s[kept], {"threadIdx.y": kept.op.axis[0]})
    for stage, axis in [(s[Y], j)] + ([(s[kept], kept.op.axis[1])] if kept is not None else []):
        step, vector = stage.split(axis, factor=lanes)
        _, tx = stage.split(step, factor=threads)
        stage.vectorize(vector)
        bind(stage, {"threadIdx.x": tx})
    if stream:
        s[Y].pragma(block, "nontemporal_store")
    return s, [X, Y]
