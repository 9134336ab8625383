"""Broadcast addition on CPUs: C[i, j] = A[i, 0] + B[i, j].

It is memory-bound, so it counts no operations, and its speed is reported in bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.template import Knobs, template


@template("broadcast_add", target="llvm", reference=np.add)
def broadcast_add(cfg: Knobs, n: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """C[n, n] = A[n, 1] + B[n, n].

    Knobs
    -----
    lanes
        Elements added by one vector statement.
    unroll
        Vector statements that are unrolled.
    rows
        Rows of one parallel task.
    stream
        Whether the result is written past the caches.
    """
    check_arguments("broadcast_add", dtype, dtypes.NUMBERS, n=n)
    A = te.placeholder((n, 1), dtype, name="A")
    B = te.placeholder((n, n), dtype, name="B")
    vector = max(1, cfg.target.vector_bytes // dtypes.itemsize(dtype))
    lanes = cfg.define_knob("lanes", [vector, 1, 2 * vector, 4 * vector])
    unroll = cfg.define_knob("unroll", [4, 1, 2, 8])
    rows = cfg.define_knob("rows", [16, 1, 4, 64, 256])
    stream = cfg.define_knob("stream", [False, True])
    cfg.add_constraint(lanes * unroll <= max(n, vector), "one statement fits in a row")

    C = te.compute((n, n), lambda x, y: A[x, 0] + B[x, y], name="C")
    s = te.create_schedule(C.op)
    x, y = s[C].op.axis
    xo, _ = s[C].split(x, factor=rows)
    s[C].parallel(xo)
    y, yv = s[C].split(y, factor=lanes)
    _, yu = s[C].split(y, factor=unroll)
    if n % (lanes * unroll) == 0:
        s[C].unroll(yu)
    if n % lanes == 0:
        s[C].vectorize(yv)
    if stream:
        s[C].pragma(yv, "nontemporal_store")
    return s, [A, B, C]
