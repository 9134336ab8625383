"""A function of Numba whose knobs are its arguments: a product of matrices by blocks.

``python examples/numba_kernel.py [N [TRIALS]]`` tunes the sizes of the blocks and whether threads
share the rows, and compares the best with NumPy. Compiling is not timed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numba
import numpy as np

import autotune
from autotune import te
from autotune.template import Knobs, template


@numba.njit(fastmath=True)
def add_rows(a, b, c, begin, end, block_k, block_n):
    """Compute some rows of c = a @ b."""
    c[begin:end] = 0
    for first_k in range(0, a.shape[1], block_k):
        for first_n in range(0, b.shape[1], block_n):
            for i in range(begin, end):
                for k in range(first_k, min(first_k + block_k, a.shape[1])):
                    for j in range(first_n, min(first_n + block_n, b.shape[1])):
                        c[i, j] += a[i, k] * b[k, j]


@numba.njit(fastmath=True)
def alone(a, b, c, block_k, block_n):
    """Compute all rows on one thread."""
    add_rows(a, b, c, 0, a.shape[0], block_k, block_n)


@numba.njit(fastmath=True, parallel=True)
def together(a, b, c, block_k, block_n):
    """Share the rows among threads."""
    rows = 16
    for part in numba.prange((a.shape[0] + rows - 1) // rows):
        add_rows(a, b, c, part * rows, min((part + 1) * rows, a.shape[0]), block_k, block_n)


@template("numba_product", reference=np.matmul, flops=lambda n: 2.0 * n**3)
def product(cfg: Knobs, n: int) -> autotune.CallableKernel:
    """C = A @ B, of n x n matrices."""
    parallel = cfg.define_knob("parallel", [False, True])
    blocks = {
        "block_k": cfg.define_knob("block_k", [32, 8, 128]),
        "block_n": cfg.define_knob("block_n", [128, 32, 512]),
    }
    a, b, c = (te.placeholder((n, n), name=name) for name in "ABC")
    function = together if parallel else alone
    return autotune.CallableKernel(function, [a, b], [c], keywords=blocks, reduction_length=n)


def main(n: int = 256, trials: int = 18) -> None:
    """Tune, build the best, and compare it with NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        tuned = autotune.tune(product, {"n": n}, trials=trials, log=log, timeout=60)
        print(tuned)
        built = tuned.build()
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    c = np.empty((n, n), np.float32)
    built(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-3)
    print("the answers agree")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
