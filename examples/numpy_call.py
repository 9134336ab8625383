"""Calls of NumPy whose knobs say how much of an array each of them takes.

``python examples/numpy_call.py [ROWS [COLUMNS [TRIALS]]]`` tunes how many rows of a softmax are
computed at a time, so that what is computed in between stays in a cache.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import autotune
from autotune import te
from autotune.template import Knobs, template


def by_rows(x: np.ndarray, y: np.ndarray, rows: int, in_place: bool) -> None:
    """Write the softmax of each row, some rows at a time."""
    for begin in range(0, len(x), rows):
        part, out = x[begin : begin + rows], y[begin : begin + rows]
        if in_place:
            np.subtract(part, part.max(axis=1, keepdims=True), out=out)
            np.exp(out, out=out)
            out /= out.sum(axis=1, keepdims=True)
        else:
            exponentials = np.exp(part - part.max(axis=1, keepdims=True))
            out[...] = exponentials / exponentials.sum(axis=1, keepdims=True)


def by_numpy(x: np.ndarray) -> np.ndarray:
    """Return what is computed, for all rows at once."""
    exponentials = np.exp(x - x.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@template("numpy_softmax", reference=by_numpy)
def softmax(cfg: Knobs, m: int, n: int) -> autotune.CallableKernel:
    """Softmax of each row of x[m, n]."""
    rows = cfg.define_knob("rows", [m, *(rows for rows in (1, 4, 16, 64, 256) if rows < m)])
    in_place = cfg.define_knob("in_place", [False, True])
    x, y = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="Y")
    keywords = {"rows": rows, "in_place": in_place}
    return autotune.CallableKernel(by_rows, [x], [y], keywords, reduction_length=n)


def main(m: int = 1024, n: int = 1024, trials: int = 12) -> None:
    """Tune, build the best, and compare it with NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        tuned = autotune.tune(softmax, {"m": m, "n": n}, trials=trials, log=log)
        print(tuned)
        built = tuned.build()
    x = np.random.default_rng(0).standard_normal((m, n), dtype=np.float32)
    y = np.empty_like(x)
    built(x, y)
    np.testing.assert_allclose(y, by_numpy(x), rtol=1e-4)
    print("the answers agree")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
