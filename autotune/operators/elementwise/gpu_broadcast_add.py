"""Broadcast addition on GPUs: a one-dimensional grid over all elements, in two orders.

The schedules are those of "5.3. Broadcast Add" of Dive into Deep Learning Compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.operators.operator_arguments import LARGEST, check_arguments
from autotune.rules.gpu.thread_loops import bind, lane_counts
from autotune.template import Knobs, template

# Dimensions along which A and B are broadcast, by pattern.
_STRETCHED = {
    "column": ((1,), ()),
    "row": ((0,), ()),
    "outer": ((1,), (0,)),
    "scalar": ((0, 1), ()),
}


@template("broadcast_add", target="cuda", reference=np.add)
def broadcast_add(
    cfg: Knobs, n: int, pattern: str = "column", dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """C[n, n] = A + B[n, n]; A is [n, 1], or as pattern says (outer: A[n, 1] + B[1, n]).

    Parameters
    ----------
    n : int
    pattern : str
        "column": (n, 1) + (n, n); "row": (1, n) + (n, n); "outer": (n, 1) + (1, n);
        "scalar": (1, 1) + (n, n).
    dtype : str

    Knobs
    -----
    schedule
        "alternate": adjacent threads compute adjacent elements, then all threads advance;
        "continuous": each thread computes consecutive elements.
    nt
        Threads of a block.
    nb
        Blocks, if there are more elements than nb * nt; else the number that is needed.
    lanes
        Elements that a thread loads and stores together.
    stream
        Whether the result is stored past the caches.
    """
    check_arguments("broadcast_add", dtype, dtypes.NUMBERS, n=n)
    if n * n > LARGEST:
        raise UsageError(f"broadcast_add: n * n must be at most {LARGEST}, got n = {n}")
    if pattern not in _STRETCHED:
        known = ", ".join(_STRETCHED)
        raise UsageError(f"broadcast_add: pattern must be one of {known}, got {pattern!r}")
    most = cfg.target.max_num_threads
    # The first value of a knob is its default.
    schedule = cfg.define_knob("schedule", ["alternate", "continuous"])
    nt = cfg.define_knob("nt", [256, 32, 64, 128, 512, 1024, 2048])
    nb = cfg.define_knob("nb", [4096, 32, 64, 128, 256, 512, 1024, 2048, 8192, 16384])
    lanes = cfg.define_knob("lanes", lane_counts(cfg.target, dtype)[::-1])
    stream = cfg.define_knob("stream", [False, True])
    cfg.add_constraint(nt <= most, f"nt is at most {most}, the threads a block can have")

    A, B = (
        te.placeholder(tuple(1 if d in stretched else n for d in (0, 1)), dtype, name=name)
        for name, stretched in zip("AB", _STRETCHED[pattern], strict=True)
    )

    def element(operand: Any, x: Any, y: Any) -> Any:
        rows, columns = operand.shape
        return operand[x if rows == n else 0, y if columns == n else 0]

    C = te.compute((n, n), lambda x, y: element(A, x, y) + element(B, x, y), name="C")
    s = te.create_schedule(C.op)
    fused = s[C].fuse(*C.op.axis)
    if lanes > 1:
        fused, inner = s[C].split(fused, factor=lanes)
        s[C].vectorize(inner)
    if n * n <= nb * nt * lanes:  # one vector for each thread
        bx, tx = s[C].split(fused, factor=nt)
    elif schedule == "continuous":
        bx, tx = s[C].split(fused, nparts=nb)
        tx, _ = s[C].split(tx, nparts=nt)
    else:
        xo, xi = s[C].split(fused, factor=nb * nt)
        bx, tx = s[C].split(xi, factor=nt)
        s[C].reorder(bx, tx, xo)
    bind(s[C], {"blockIdx.x": bx, "threadIdx.x": tx})
    if stream:
        s[C].pragma(tx, "nontemporal_store")
    return s, [A, B, C]
