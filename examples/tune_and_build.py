"""Tune a matrix product for a moment, then build it from what was measured and use it.

Run it with `python examples/tune_and_build.py [SIZE [TRIALS]]`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import autotune
from autotune.tuner.run.events import Event, Measured


def show(event: Event) -> None:
    """Print each measurement, and the best so far."""
    if isinstance(event, Measured):
        what = f"{event.result.cost_s:.2e} s" if event.result.cost_s else str(event.result.error)
        best = f"{event.best.cost_s:.2e} s" if event.best else "none"
        print(f"{event.trial}/{event.trials}  config {event.record.index}: {what}  best {best}")


def main(argv: Sequence[str] | None = None) -> None:
    """Tune, build, and compare the answer and the time with NumPy's."""
    words = [int(word) for word in (sys.argv[1:] if argv is None else argv)]
    size = words[0] if words else 256
    trials = words[1] if len(words) > 1 else 16
    arguments = {"m": size, "n": size, "k": size}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "matmul.jsonl"
        tuned = autotune.tune(
            "matmul", arguments, trials=trials, log=log, seed=0, callbacks=[show], progress=False
        )
        print(tuned)
        matmul = tuned.build()

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    c, expected = np.empty((size, size), np.float32), np.empty((size, size), np.float32)
    start = time.perf_counter()
    matmul(a, b, c)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    np.matmul(a, b, out=expected)
    theirs = time.perf_counter() - start
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-3)
    print(f"one call: {ours:.2e} s, NumPy {theirs:.2e} s; the answers agree")


if __name__ == "__main__":
    main()
