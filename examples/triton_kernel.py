"""A kernel of Triton, launched by a function whose keywords are the knobs.

``python examples/triton_kernel.py [N [TRIALS]]`` tunes the elements that a program of the kernel
takes, in Triton's interpreter, which needs no GPU and is slow, and compares the best with NumPy.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported; worker processes inherit it

import numpy as np
import torch
import triton
import triton.language as tl

import autotune
from autotune import te
from autotune.template import Knobs, template


@triton.jit
def swish(x, y, n, BLOCK: tl.constexpr):
    """y[i] = x[i] * sigmoid(x[i])."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, value / (1 + tl.exp(-value)), mask=i < n)


def launch(x: np.ndarray, y: np.ndarray, block: int, warps: int) -> None:
    """Launch the kernel on arrays, which Triton takes as tensors on the same memory."""
    n = x.size
    grid = (triton.cdiv(n, block),)
    swish[grid](torch.from_numpy(x), torch.from_numpy(y), n, BLOCK=block, num_warps=warps)


def by_numpy(x: np.ndarray) -> np.ndarray:
    """Return what the kernel computes."""
    return x / (1 + np.exp(-x))


@template("triton_swish", reference=by_numpy)
def tuned_swish(cfg: Knobs, n: int) -> autotune.CallableKernel:
    """Y[n] = X[n] * sigmoid(X[n])."""
    block = cfg.define_knob("block", [256, 1024, 4096])
    warps = cfg.define_knob("warps", [4, 8])
    cfg.add_constraint(block >= 128 * (warps // 4), "each thread has an element")
    x, y = te.placeholder((n,), name="X"), te.placeholder((n,), name="Y")
    return autotune.CallableKernel(launch, [x], [y], keywords={"block": block, "warps": warps})


def main(n: int = 10_000, trials: int = 6) -> None:
    """Tune, build the best, and compare it with NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        tuned = autotune.tune(tuned_swish, {"n": n}, trials=trials, log=log, timeout=60)
        print(tuned)
        built = tuned.build()
    x = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    y = np.empty(n, np.float32)
    built(x, y)
    np.testing.assert_allclose(y, by_numpy(x), rtol=1e-5, atol=1e-6)
    print("the answers agree")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
