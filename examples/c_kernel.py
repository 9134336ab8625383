"""A kernel in C whose knobs are macros and options of the compiler.

``python examples/c_kernel.py [N [TRIALS]]`` tunes the length of the blocks of a stencil, its unroll
factor, and how the compiler optimises, and compares the best with NumPy.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import autotune
from autotune import te
from autotune.template import Knobs, template

TEXT = """
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(GCC unroll n)

void smooth(const float *restrict x, float *restrict y) {
  for (int row = 0; row < N; row += BLOCK)
    for (int column = 0; column < N; ++column)
      UNROLLED(UNROLL)
      for (int i = row; i < row + BLOCK; ++i)
        y[i * N + column] = 0.25f * x[i * (N + 2) + column] + 0.5f * x[i * (N + 2) + column + 1]
                            + 0.25f * x[i * (N + 2) + column + 2];
}
"""


def by_numpy(x: np.ndarray) -> np.ndarray:
    """Return what the kernel computes."""
    return 0.25 * x[:, :-2] + 0.5 * x[:, 1:-1] + 0.25 * x[:, 2:]


@template("smooth", reference=by_numpy, flops=lambda n: 5.0 * n * n)
def smooth(cfg: Knobs, n: int) -> autotune.CKernel:
    """Weighted means of three neighbours in each row of x[n, n + 2].

    Knobs
    -----
    block
        Rows that are computed column by column.
    unroll
        Rows that are written out.
    level, fast
        Options of the compiler.
    """
    block = cfg.define_knob("block", [1, 2, 4, 8, 16])
    unroll = cfg.define_knob("unroll", [1, 2, 4, 8])
    level = cfg.define_knob("level", ["-O2", "-O3"])
    fast = cfg.define_knob("fast", [False, True])
    cfg.add_constraint(n % block == 0, "blocks are whole")
    cfg.add_constraint(unroll <= block, "no more rows are written out than there are")
    return autotune.CKernel(
        "smooth",
        TEXT,
        inputs=[te.placeholder((n, n + 2), name="X")],
        outputs=[te.placeholder((n, n), name="Y")],
        defines={"N": n, "BLOCK": block, "UNROLL": unroll},
        flags=[level, "-march=native", *(["-ffast-math"] if fast else [])],
    )


def main(n: int = 384, trials: int = 24) -> None:
    """Tune, build the best, and compare it with NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        tuned = autotune.tune(smooth, {"n": n}, trials=trials, log=Path(folder, "log.jsonl"))
        print(tuned)
        built = tuned.build()
    x = np.random.default_rng(0).random((n, n + 2), dtype=np.float32)
    y = np.empty((n, n), np.float32)
    built(x, y)
    np.testing.assert_allclose(y, by_numpy(x), rtol=1e-5)
    print("the answers agree")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
