"""Kernels whose knob `fault` chooses what goes wrong: in a text by a comment, for the fake GPU."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np

import autotune
from autotune import rtc, te
from autotune.template import Knobs, template

TEXT = """
extern "C" __global__ void __launch_bounds__(THREADS)
increment(const float* from, float* to) {{
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < N) to[i] = from[i] + 1;
  {statement}
}}
// fault: {fault}
"""

STATEMENTS = {
    "wrong": "if (i == 37) to[i] = 0;",
    "stray": "if (i == 0) to[N + 2] = 5;",
    "meddling": "if (i == 3) const_cast<float*>(from)[i] = 5;",
}
"""What really goes wrong in memory; the rest only a GPU finds, or its stand-in."""


@template("increment", target="cuda", reference=lambda x: x + 1)
def increment(cfg: Knobs, n: int = 64, faults: str = "none") -> rtc.RawKernel:
    """B[n] = A + 1, with threads, and what goes wrong, as knobs."""
    fault = cfg.define_knob("fault", faults.split(","))
    threads = cfg.define_knob("threads", [32, 64, 96])
    if fault == "late" and os.path.basename(sys.argv[0]) == "fork_server.py":
        time.sleep(0.3)  # in the builder
    text = TEXT.format(
        statement=STATEMENTS.get(fault, ""),
        fault="" if fault in ("none", "late", *STATEMENTS) else fault.replace("_", " "),
    )
    return rtc.RawKernel(
        "increment",
        text,
        inputs=[te.placeholder((n,), name="A")],
        outputs=[te.placeholder((n,), name="B")],
        grid=te.ceildiv(n, threads),
        block=threads,
        defines={"N": n, "THREADS": threads},
    )


def incremented(a: Any, b: Any, parts: int, fault: str) -> None:
    """Write a + 1 to b, part by part, with what CuPy's arrays can."""
    for part in range(parts):
        np.add(a[part::parts], 2 if fault == "wrong" else 1, out=b[part::parts])
    if fault == "raise":
        raise ValueError(f"no plan for a {type(a).__module__.partition('.')[0]} array")


@template("incremented", target="cuda", reference=lambda x: x + 1)
def called(cfg: Knobs, n: int = 64, faults: str = "none") -> autotune.CallableKernel:
    """B[n] = A + 1, by a Python callable."""
    keywords = {
        "fault": cfg.define_knob("fault", faults.split(",")),
        "parts": cfg.define_knob("parts", [1, 2]),
    }
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return autotune.CallableKernel(incremented, [a], [b], keywords)
