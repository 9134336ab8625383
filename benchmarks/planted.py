"""A template with one configuration that is 10 % faster than all others.

Each element is halved and its input added, many times: the result is twice the input for any
sufficient number of steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.template import Knobs, template

STEPS = 4000
VALUES = 48


@template("planted", target="llvm", reference=lambda a: np.float32(2) * a)
def planted(cfg: Knobs, n: int, place: int) -> tuple[Any, Any]:
    """B[n] = 2 * A[n]; the value of the knob at `place` does a tenth less work."""
    times = [STEPS + 2 * number for number in range(VALUES)]
    times[place] = STEPS * 9 // 10
    steps = cfg.define_knob("steps", times)
    reducer = te.comm_reducer(
        lambda x, y: x * te.const(0.5, "float32") + y,
        lambda kind: te.const(0, kind),
        "halve_and_add",
    )
    A = te.placeholder((n,), "float32", name="A")
    step = te.reduce_axis((0, steps), name="step")
    B = te.compute((n,), lambda i: reducer(A[i], axis=step), name="B")
    s = te.create_schedule(B.op)
    registers = s.cache_write(B, "local")
    outer, inner = s[B].split(s[B].op.axis[0], factor=64)
    s[B].parallel(outer)
    s[registers].compute_at(s[B], outer)
    s[registers].reorder(s[registers].op.reduce_axis[0], s[registers].op.axis[0])
    _, lane = s[registers].split(s[registers].op.axis[0], factor=16)
    s[registers].unroll(_)
    s[registers].vectorize(lane)
    s[B].vectorize(inner)
    return s, [A, B]
