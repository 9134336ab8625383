"""Recurrences down the columns of arrays on GPUs: sums so far, and linear recurrences."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.recipes.gpu_loops import bind, lane_counts
from autotune.template import Knobs, template
from autotune.templates._checks import check_arguments
from autotune.templates._recurrence import Blocks, Recurrence
from autotune.templates.scans import TYPES, cumsum_reference, recurrence_reference


def _down_reference(x: Any) -> Any:
    """Return the sums of an (m, n) array down to each row."""
    return cumsum_reference(x, axis=0)


@template("cumsum", target="cuda", reference=_down_reference)
def cumsum(cfg: Knobs, m: int, n: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """Y[i, j] = sum of X[0..i, j]; both are [m, n]. Integers wrap around.

    Knobs
    -----
    how
        "steps": a thread goes down its columns; one launch. "blocks": the rows are shared out too,
        in three launches: sums of blocks of rows, sums of these, and sums inside each.
    threads
        Threads of a block, of neighbouring columns.
    lanes
        Columns of a thread, which it loads together ("steps" only).
    unroll
        Steps written out one after another ("steps" only).
    length
        Rows of a block, which a thread keeps in registers ("blocks" only).
    """
    check_arguments("cumsum", dtype, TYPES, m=m, n=n)
    X = te.placeholder((m, n), dtype, name="X")
    series = Recurrence(m, n, dtype, lambda t, i: X[t, i])
    s, Y = _down_columns(cfg, series)
    return s, [X, Y]


@template("linear_recurrence", target="cuda", reference=recurrence_reference)
def linear_recurrence(
    cfg: Knobs, m: int, n: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """H[t, i] = A[t, i] * H[t - 1, i] + X[t, i] from H[-1, i] = 0; all are [m, n].

    Knobs
    -----
    how, threads, lanes, unroll, length
        As of `cumsum`.
    """
    check_arguments("linear_recurrence", dtype, TYPES[:2], m=m, n=n)
    A = te.placeholder((m, n), dtype, name="A")
    X = te.placeholder((m, n), dtype, name="X")
    series = Recurrence(m, n, dtype, lambda t, i: X[t, i], lambda t, i: A[t, i])
    s, H = _down_columns(cfg, series)
    return s, [A, X, H]


def _down_columns(cfg: Knobs, series: Recurrence) -> tuple[Any, Any]:
    """Return the schedule and the result, (steps, columns)."""
    threads = cfg.define_knob("threads", [128, 32, 64, 256, 512])
    if cfg.define_knob("how", ["steps", "blocks"]) == "steps":
        lanes = cfg.define_knob("lanes", lane_counts(cfg.target, series.dtype))
        unroll = cfg.define_knob("unroll", [4, 1, 2, 8, 16])
        cfg.add_constraint(series.columns % lanes == 0, "a row is a whole number of vectors")
        whole = series.by_steps("Y")
        s = te.create_schedule(whole.scan.op)
        for part in (whole.init, whole.update):
            vectors, lane = s[part].split(part.op.axis[1], factor=lanes)
            _over_threads(s[part], vectors, threads)
            s[part].vectorize(lane)
        s[whole.scan].unroll(s[whole.scan].split(whole.scan.op.scan_axis, factor=unroll)[1])
        return s, whole.scan
    blocks = series.by_blocks(cfg.define_knob("length", [16, 8, 32, 64]))
    Y = te.compute((series.steps, series.columns), blocks.element, name="Y")
    s = te.create_schedule(Y.op)
    _carried(s, blocks, threads)
    rows, inner = s[Y].split(Y.op.axis[0], factor=blocks.length)
    outer, thread = s[Y].split(Y.op.axis[1], factor=threads)
    s[Y].reorder(rows, outer, thread, inner)
    bind(s[Y], {"blockIdx.x": s[Y].fuse(rows, outer), "threadIdx.x": thread})
    s[Y].unroll(inner)
    s[blocks.parts].compute_at(s[Y], thread)
    s[blocks.parts].unroll(blocks.parts.op.scan_axis)
    return s, Y


def _carried(s: Any, blocks: Blocks, threads: Any) -> None:
    """Schedule the first two phases: what blocks add, and the values before them."""
    ends = s[blocks.ends]
    b, i = blocks.ends.op.axis
    outer, thread = ends.split(i, factor=threads)
    ends.reorder(b, outer, thread)
    bind(ends, {"blockIdx.x": ends.fuse(b, outer), "threadIdx.x": thread})
    for part in (blocks.none, blocks.more):
        _over_threads(s[part], part.op.axis[1], threads)


def _over_threads(stage: Any, axis: Any, threads: Any) -> None:
    outer, inner = stage.split(axis, factor=threads)
    bind(stage, {"blockIdx.x": outer, "threadIdx.x": inner})
