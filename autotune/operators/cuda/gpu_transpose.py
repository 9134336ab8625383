"""Transposition on GPUs: tiles in shared memory, so that rows are read and rows are written."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.rules.gpu.thread_loops import bind, lane_counts
from autotune.template import Knobs, template


@template("transpose", target="cuda", reference=np.transpose)
def transpose(cfg: Knobs, m: int, n: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """B[n, m] = A[m, n], rows and columns exchanged.

    Knobs
    -----
    tile
        Rows and columns of a tile, which one block transposes.
    threads
        Rows of a tile that are copied at once.
    lanes
        Elements that a thread loads, and later stores, together.
    pad
        Padding in elements between the rows of a tile in shared memory, so that the elements of a
        column are in different banks.
    stream
        Whether the result is stored past the caches.
    """
    check_arguments("transpose", dtype, dtypes.NUMBERS, m=m, n=n)
    # The first value of a knob is its default.
    tile = cfg.define_knob("tile", [64, 8, 16, 32, 128])
    threads = cfg.define_knob("threads", [16, 1, 2, 4, 8, 32])
    lanes = cfg.define_knob("lanes", lane_counts(cfg.target, dtype)[::-1])
    pad = cfg.define_knob("pad", [1, 0, 2, 4])
    stream = cfg.define_knob("stream", [False, True])
    cfg.add_constraint(threads <= tile, "no more rows of threads than a tile has rows")
    cfg.add_constraint(
        (m % lanes == 0) & (n % lanes == 0), "rows of both are whole numbers of vectors"
    )

    A = te.placeholder((m, n), dtype, name="A")
    B = te.compute((n, m), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    copy = s.cache_read(A, "shared", [B])
    by, i = s[B].split(B.op.axis[0], factor=tile)
    bx, j = s[B].split(B.op.axis[1], factor=tile)
    s[B].reorder(by, bx, i, j)
    bind(s[B], {"blockIdx.y": by, "blockIdx.x": bx})
    s[copy].compute_at(s[B], bx)
    s[copy].storage_align(copy.op.axis[0], tile, pad)
    stage: Any
    for stage, (rows, columns) in ((s[B], (i, j)), (s[copy], copy.op.axis)):
        step, ty = stage.split(rows, factor=threads)
        tx, vector = stage.split(columns, factor=lanes)
        stage.reorder(ty, tx, step, vector)
        stage.unroll(step)
        stage.vectorize(vector)
        bind(stage, {"threadIdx.y": ty, "threadIdx.x": tx})
    if stream:
        s[B].pragma(bx, "nontemporal_store")
    return s, [A, B]
