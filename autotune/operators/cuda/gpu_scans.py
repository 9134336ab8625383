"""Recurrences on GPUs: prefix sums, down columns or along rows, and linear recurrences."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.operators import cumsum as sums
from autotune.operators import linear_recurrence as recurrences
from autotune.operators.cuda.gpu_raw_scans import along_rows, down_columns
from autotune.rules.gpu.thread_loops import WARP, bind, lane_counts
from autotune.rules.scans.recurrences import Blocks, recurrence_of
from autotune.template import Knobs, template

MANY_COLUMNS = 1 << 16
"""Number of columns from which on each has its own thread by default."""


@template("cumsum", target="cuda", reference=sums.reference)
def cumsum(cfg: Knobs, m: int, n: int, axis: int = 0, dtype: str = "float32") -> Any:
    """Y[i, j] = sum of X[0..i, j] (axis 0) or of X[i, 0..j] (axis 1); both are [m, n].

    Integers wrap around.

    Knobs
    -----
    how
        Down columns (axis 0): "steps": each thread computes its columns; one launch. "blocks": the
        rows are divided, too, in three launches: sums of blocks of rows, prefix sums of these, and
        prefix sums inside each block. "look-back": blocks have tiles of rows and columns and
        publish the sums of their tiles, so that memory is read once. Along rows: "alone": each row
        has its own threads. "phases": rows are divided into tiles, in three launches. "look-back":
        as for columns. Kernels for rows are text only.
    threads
        Adjacent threads in a block: of adjacent columns, or of one row.
    lanes
        Elements that a thread loads together (not in "blocks").
    unroll
        Unrolled steps ("steps", and the second launch of "blocks").
    length
        Rows that a thread keeps in registers ("blocks" and "look-back" of columns).
    groups
        Groups of `threads` threads that are in a block, one below the other ("look-back" of
        columns).
    vectors
        Vectors of `lanes` elements that a thread keeps in registers (rows only).
    together
        Rows of a block ("alone").
    pause
        Nanoseconds that a block waits before it reads a missing state again ("look-back").
    """
    X, Y = sums.cumsum.function(m, n, axis, dtype)
    if axis == 1:
        return along_rows(cfg, X, te.placeholder((m, n), dtype, name="Y"))
    return _down_columns(cfg, [X], Y)


@template("linear_recurrence", target="cuda", reference=recurrences.reference)
def linear_recurrence(cfg: Knobs, m: int, n: int, dtype: str = "float32") -> Any:
    """H[t, i] = A[t, i] * H[t - 1, i] + X[t, i] from H[-1, i] = 0; all are [m, n].

    Knobs
    -----
    how, threads, lanes, unroll, length, groups, pause
        As of `cumsum`.
    """
    A, X, H = recurrences.linear_recurrence.function(m, n, dtype)
    return _down_columns(cfg, [A, X], H)


def _down_columns(cfg: Knobs, inputs: list[Any], scan: Any) -> Any:
    """Return the schedule of a recurrence (steps, columns) over `inputs`."""
    _, columns = scan.shape
    usual = min(128, max(WARP, 1 << (columns - 1).bit_length()))
    threads = cfg.define_knob("threads", [128, 32, 64, 256, 512], usual)
    few = ["blocks", "look-back", "steps"]
    how = cfg.define_knob("how", few[:: -1 if columns >= MANY_COLUMNS else 1])
    if how != "blocks":
        lanes = cfg.define_knob("lanes", lane_counts(cfg.target, scan.dtype))
        cfg.add_constraint(columns % lanes == 0, "a row is a whole number of vectors")
    if how == "look-back":
        Y = te.placeholder(scan.shape, scan.dtype, name="Y")
        return down_columns(cfg, inputs, Y, lanes, threads)
    unroll = cfg.define_knob("unroll", [8, 1, 4, 16, 64])
    if how == "steps":
        s = te.create_schedule(scan.op)
        for part in (*scan.op.init, *scan.op.update):
            vectors, lane = s[part].split(part.op.axis[1], factor=lanes)
            _over_threads(s[part], vectors, threads)
            s[part].vectorize(lane)
        _unroll(s, scan, unroll)
        return s, [*inputs, scan]
    series = recurrence_of(scan.op)
    assert series is not None
    blocks = series.by_blocks(cfg.define_knob("length", [16, 8, 32, 64]))
    Y = te.compute(scan.shape, blocks.element, name="Y")
    s = te.create_schedule(Y.op)
    _carried(s, blocks, threads)
    _unroll(s, blocks.carry, unroll)
    rows, inner = s[Y].split(Y.op.axis[0], factor=blocks.length)
    outer, thread = s[Y].split(Y.op.axis[1], factor=threads)
    s[Y].reorder(rows, outer, thread, inner)
    bind(s[Y], {"blockIdx.x": s[Y].fuse(rows, outer), "threadIdx.x": thread})
    s[Y].unroll(inner)
    s[blocks.parts].compute_at(s[Y], thread)
    s[blocks.parts].unroll(blocks.parts.op.scan_axis)
    return s, [*inputs, Y]


def _carried(s: Any, blocks: Blocks, threads: Any) -> None:
    """Schedule the first two phases: what blocks add, and the values before them."""
    ends = s[blocks.ends]
    b, i = blocks.ends.op.axis
    outer, thread = ends.split(i, factor=threads)
    ends.reorder(b, outer, thread)
    bind(ends, {"blockIdx.x": ends.fuse(b, outer), "threadIdx.x": thread})
    ends.unroll(*blocks.ends.op.reduce_axis)
    for part in (blocks.none, blocks.more):
        _over_threads(s[part], part.op.axis[1], threads)


def _over_threads(stage: Any, axis: Any, threads: Any) -> None:
    outer, inner = stage.split(axis, factor=threads)
    bind(stage, {"blockIdx.x": outer, "threadIdx.x": inner})


def _unroll(s: Any, scan: Any, factor: Any) -> None:
    s[scan].unroll(s[scan].split(scan.op.scan_axis, factor=factor)[1])
