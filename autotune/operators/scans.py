"""Recurrences on CPUs: prefix sums and linear recurrences, down columns or along rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.operators.blocked_recurrence import Blocks, Recurrence
from autotune.operators.operator_arguments import check_arguments
from autotune.operators.row_prefix_sums import GROUP, RowSums, row_sums
from autotune.template import Knobs, template

TYPES = ("float32", "float64", "int32", "int64")

BEYOND_CACHES = 1 << 24
"""Size of a result in bytes from which on stores past the caches are probably faster."""

SHARED = 1 << 20
"""Size of a result in bytes from which on threads are worthwhile."""

LONG_ROW = 1 << 18
"""Size of a row in bytes that does not stay in a cache until its next use."""

TASKS = 4
"""Least number of tasks of a default configuration."""

WIDTHS = [64, 1, 2, 4, 8, 16, 32, 128]
"""Vectors of columns of a task."""

NARROWEST = 8
"""Least number of vectors in a task's part of a row by default: shorter parts are too slow."""


def cumsum_reference(x: npt.NDArray[Any], *, axis: int) -> npt.NDArray[Any]:
    """Return the sums of an (m, n) array down to each row (axis 0) or along rows (axis 1)."""
    result: npt.NDArray[Any] = np.cumsum(x, axis=axis, dtype=x.dtype)
    return result


def recurrence_reference(a: npt.NDArray[Any], x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """h[t] = a[t] * h[t - 1] + x[t] from h[-1] = 0, element by element, for (m, n) arrays."""
    h = np.array(x)
    for t in range(1, len(h)):
        h[t] += a[t] * h[t - 1]
    return h


@template("cumsum", target="llvm", reference=cumsum_reference)
def cumsum(
    cfg: Knobs, m: int, n: int, axis: int = 0, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """Y[i, j] = sum of X[0..i, j] (axis 0) or of X[i, 0..j] (axis 1); both are [m, n].

    Integers wrap around.

    Knobs
    -----
    how
        "steps": the columns (or rows) are divided among threads; each computes all steps. "tiles":
        the same, but the sums are copied to the result after all steps of some columns (axis 0
        only; along rows it is always so). "blocks": the steps are divided, too, and the sums of
        blocks are computed first. "vectors": one row at a time, its elements in vectors, as in
        "blocks" of rows (axis 1 only).
    width
        Vectors of columns (or rows) of one parallel task; "steps" take rows together.
    lanes
        Columns of a vector, or elements of a row.
    unroll
        Steps that are unrolled.
    length
        Steps of a block ("blocks" only).
    stream
        Whether the result is stored past the caches (axis 0 only); then "steps" keep the last step
        in a ring buffer.
    ahead
        Prefetch distance of the input in steps (only for "steps" with `stream`).
    """
    check_arguments("cumsum", dtype, TYPES, m=m, n=n)
    if axis not in (0, 1):
        raise UsageError(f"cumsum: axis must be 0 or 1, got {axis}")
    X = te.placeholder((m, n), dtype, name="X")
    if axis == 0:
        series = Recurrence(m, n, dtype, lambda t, i: X[t, i])
        s, Y = _down_columns(cfg, series)
    else:
        s, Y = _along_rows(cfg, X)
    return s, [X, Y]


@template("linear_recurrence", target="llvm", reference=recurrence_reference)
def linear_recurrence(cfg: Knobs, m: int, n: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """H[t, i] = A[t, i] * H[t - 1, i] + X[t, i] from H[-1, i] = 0; all are [m, n].

    Knobs
    -----
    how, width, lanes, unroll, length, stream, ahead
        As of `cumsum`.
    """
    check_arguments("linear_recurrence", dtype, TYPES[:2], m=m, n=n)
    A = te.placeholder((m, n), dtype, name="A")
    X = te.placeholder((m, n), dtype, name="X")
    series = Recurrence(m, n, dtype, lambda t, i: X[t, i], lambda t, i: A[t, i])
    s, H = _down_columns(cfg, series)
    return s, [A, X, H]


def _down_columns(cfg: Knobs, series: Recurrence) -> tuple[Any, Any]:
    """Return the schedule and the result, (steps, columns), with columns in vectors."""
    size = dtypes.itemsize(series.dtype)
    vector = max(1, cfg.target.vector_bytes // size)
    result = series.steps * series.columns * size
    narrow = series.columns < 2 * NARROWEST * vector
    large = result >= BEYOND_CACHES and not narrow
    lanes = cfg.define_knob("lanes", _first([vector, 2 * vector, 4 * vector], -1 if large else 0))
    wide = 64
    if result >= SHARED:
        wide = _width(series.columns, vector, 4 * vector if large else vector)
    width = lanes * cfg.define_knob("width", _first(WIDTHS, WIDTHS.index(wide)))
    unroll = cfg.define_knob("unroll", _first([1, 2, 4, 8], -1 if large else 0))
    ways = ["steps", "tiles", "blocks"]
    how = cfg.define_knob("how", _first(ways, -1 if narrow and result >= SHARED else 0))
    stream = cfg.define_knob("stream", [large, not large])
    shape = (series.steps, series.columns)
    if how == "blocks":
        blocks = series.by_blocks(cfg.define_knob("length", [64, 16, 32, 128, 256, 1024]))
        first, later, scan, element = blocks.first, blocks.later, blocks.parts, blocks.element
    else:
        whole = series.by_steps("Y" if how == "steps" else "S")
        first, later, scan, element = whole.init, whole.update, whole.scan, whole.element
    Y = scan if how == "steps" else te.compute(shape, element, name="Y")
    s = te.create_schedule(Y.op)
    for part in (first, later):
        axis = part.op.axis[-1]
        if how == "steps":
            outer, axis = s[part].split(axis, factor=width)
            s[part].parallel(outer)
        s[part].vectorize(s[part].split(axis, factor=lanes)[1])
    steps = _unroll(s, scan, unroll)
    if how == "steps":
        if stream:
            s[scan].pragma(steps, "state_in_ring")
            s[scan].pragma(steps, "nontemporal_store")
            s[scan].pragma(steps, "prefetch_steps", cfg.define_knob("ahead", [16, 0, 4, 8]))
        return s, Y
    columns, inner = s[Y].split(Y.op.axis[1], factor=width)
    steps, vectors = s[Y].split(inner, factor=lanes)
    s[Y].vectorize(vectors)
    if stream:
        s[Y].pragma(vectors, "nontemporal_store")
    if how == "tiles":
        s[Y].reorder(columns, Y.op.axis[0], steps)
        s[Y].parallel(columns)
    else:
        _ends(s, blocks, lanes)
        rows, row = s[Y].split(Y.op.axis[0], factor=blocks.length)
        s[Y].reorder(rows, columns, row, steps)
        s[Y].parallel(rows)
    s[scan].compute_at(s[Y], columns)
    return s, Y


def _along_rows(cfg: Knobs, X: Any) -> tuple[Any, Any]:
    """Return the schedule and the sums along the rows of X."""
    m, n = X.shape
    size = dtypes.itemsize(X.dtype)
    lengths = [length for length in (1024, 256, 4096, 16384) if length < n]
    ways = ["vectors", "steps", "blocks"] if lengths else ["vectors", "steps"]
    shared = n * size >= LONG_ROW or (m < TASKS and m * n * size >= SHARED)
    how = cfg.define_knob("how", _first(ways, -1 if shared and lengths else 0))
    widths = _first([1, 2, 4, 8], sum(m >= TASKS * width for width in (2, 4)))
    if how == "steps":
        return _rows_together(cfg, X, cfg.define_knob("width", widths))
    vector = max(2 * GROUP, cfg.target.vector_bytes // size)
    lanes = cfg.define_knob("lanes", [vector, 2 * vector])
    if how == "vectors":
        sums = row_sums(X, lanes)
        s, Y = te.create_schedule(sums.result.op), sums.result
        rows, task = s[Y].split(Y.op.axis[0], factor=cfg.define_knob("width", widths))
        s[Y].parallel(rows)
        inner = Y.op.axis[1]
    else:
        length = cfg.define_knob("length", lengths)
        sums = row_sums(X, lanes, length)
        s, Y = te.create_schedule(sums.result.op), sums.result
        _row_ends(s, sums)
        columns, inner = s[Y].split(Y.op.axis[1], factor=length)
        task = s[Y].fuse(Y.op.axis[0], columns)
        s[Y].parallel(task)
    s[Y].vectorize(s[Y].split(inner, factor=lanes)[1])
    s[sums.before].compute_at(s[Y], task)
    s[sums.groups].compute_at(s[Y], task)
    s[sums.groups].vectorize(sums.groups.op.axis[3])
    return s, Y


def _rows_together(cfg: Knobs, X: Any, width: Any) -> tuple[Any, Any]:
    """Let each task compute some rows together, one element of each at a time."""
    m, n = X.shape
    unroll = cfg.define_knob("unroll", [4, 1, 2, 8])
    whole = Recurrence(n, m, X.dtype, lambda t, i: X[i, t]).by_steps("S")
    Y = te.compute((m, n), lambda i, j: whole.scan[j, i], name="Y")
    s = te.create_schedule(Y.op)
    rows, _ = s[Y].split(Y.op.axis[0], factor=width)
    s[Y].parallel(rows)
    s[whole.scan].compute_at(s[Y], rows)
    s[whole.update].unroll(whole.update.op.axis[1])
    _unroll(s, whole.scan, unroll)
    return s, Y


def _row_ends(s: Any, sums: RowSums) -> None:
    """Schedule the sums of blocks of rows."""
    block = s[sums.ends].fuse(*sums.ends.op.axis)
    s[sums.ends].parallel(block)
    lane = sums.lane_sums.op.axis[2]
    s[sums.lane_sums].compute_at(s[sums.ends], block)
    s[sums.lane_sums].reorder(*sums.lane_sums.op.reduce_axis, lane)
    s[sums.lane_sums].vectorize(lane)


def _ends(s: Any, blocks: Blocks, lanes: Any) -> None:
    """Schedule the effects of blocks on the value before them, and the values before them."""
    stage = s[blocks.ends]
    b, i = blocks.ends.op.axis
    outer, vectors = stage.split(i, factor=lanes)
    stage.reorder(b, outer, *blocks.ends.op.reduce_axis, vectors)
    stage.vectorize(vectors)
    stage.parallel(b)
    for part in (blocks.none, blocks.more):
        s[part].vectorize(s[part].split(part.op.axis[1], factor=lanes)[1])


def _unroll(s: Any, scan: Any, factor: Any) -> Any:
    """Unroll steps; return the loop over the remaining ones."""
    outer, inner = s[scan].split(scan.op.scan_axis, factor=factor)
    s[scan].unroll(inner)
    return outer


def _width(columns: int, vector: int, lanes: int) -> int:
    """Return the largest width of a task, in units of `lanes` columns, that leaves enough tasks."""
    own = [w for w in (64, 32, 16, 8, 4, 2) if NARROWEST * vector <= w * lanes <= 128 * vector]
    return next((w for w in own if columns // (w * lanes) >= TASKS), own[-1])


def _first(choices: list[Any], position: int) -> list[Any]:
    """Return choices with one of them first, as the default."""
    chosen = choices[position]
    return [chosen, *(other for other in choices if other != chosen)]
