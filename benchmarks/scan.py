"""Tuned scans on the CPU against loops in NumPy and the bandwidth of copying.

Each is tuned by `autotune run` into a temporary log, built from that log, checked, and timed in
turn with its baseline; every ratio comes from one run.

Where there is a GPU, the scans of `gpu.py` are tuned and judged there as well (part "gpu").
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import gpu
import numpy as np
from common import Row, paired, parser, report, row
from cpu import tune, uniform

from autotune.runtime.cpu.benchmark_kernels import copies
from autotune.target import Target


def column_rows(folder: Path, trials: int) -> list[Row]:
    """Compare sums down columns with a loop over rows in NumPy, and with copying."""
    n = 4096
    built, _ = tune(folder, "cumsum", {"m": n, "n": n}, trials)
    x, y, z = uniform(n, n), np.empty((n, n), "f4"), np.empty((n, n), "f4")

    def loop() -> None:
        z[0] = x[0]
        for t in range(1, n):
            np.add(z[t - 1], x[t], out=z[t])

    ours, theirs = paired(lambda: built(x, y), loop)
    np.testing.assert_allclose(y, z, rtol=1e-3, atol=1e-3)
    _, numpy_s = paired(lambda: built(x, y), lambda: np.cumsum(x, axis=0, out=z), rounds=3)
    ways = copies(Target.of("llvm"), 2.0 * x.nbytes)
    pairs = [paired(lambda: built(x, y), copy) for copy, _ in ways]
    share = min(copy / mine for mine, copy in pairs)
    return [
        row(f"cumsum.columns.{n}.share_of_copy", share, "ratio", 0.9),
        row(f"cumsum.columns.{n}.over_numpy_loop", theirs / ours, "ratio", 1.0),
        row(f"cumsum.columns.{n}.over_np_cumsum", numpy_s / ours, "ratio"),
    ]


def along_rows(folder: Path, trials: int) -> list[Row]:
    """Compare sums along rows, many and a single one, with NumPy's."""
    rows = []
    for m, n in ((4096, 4096), (1, 1 << 24)):
        built, _ = tune(folder, "cumsum", {"m": m, "n": n, "axis": 1}, trials)
        x, y, z = uniform(m, n), np.empty((m, n), "f4"), np.empty((m, n), "f4")
        ours, theirs = paired(
            lambda f=built, x=x, y=y: f(x, y), lambda x=x, z=z: np.cumsum(x, axis=1, out=z)
        )
        np.testing.assert_allclose(y, z, rtol=1e-3, atol=1)
        rows.append(row(f"cumsum.rows.{m}x{n}.over_np_cumsum", theirs / ours, "ratio", 1.0))
    return rows


def recurrence_rows(folder: Path, trials: int) -> list[Row]:
    """Compare a linear recurrence with a loop over time in NumPy: many columns, and few of them."""
    rows = []
    for m, n in ((4096, 1024), (1 << 18, 8)):
        built, _ = tune(folder, "linear_recurrence", {"m": m, "n": n}, trials)
        a, x = uniform(m, n) / 2, uniform(m, n)
        h, z = np.empty((m, n), "f4"), np.empty((m, n), "f4")

        def loop(a: np.ndarray = a, x: np.ndarray = x, z: np.ndarray = z) -> None:
            z[0] = x[0]
            for t in range(1, len(x)):
                np.multiply(a[t], z[t - 1], out=z[t])
                np.add(z[t], x[t], out=z[t])

        ours, theirs = paired(lambda f=built, p=(a, x, h): f(*p), loop)
        np.testing.assert_allclose(h, z, rtol=1e-3, atol=1e-5)
        rows.append(row(f"linear_recurrence.{m}x{n}.over_numpy", theirs / ours, "ratio", 1.0))
    return rows


def on_gpu(minutes: float) -> list[Row]:
    """Print the table of the scans on a GPU, or in one line that there is none; no rows."""
    words = ["--only", "cumsum,linear_recurrence", "--minutes", str(minutes)]
    with contextlib.redirect_stdout(sys.stderr):
        gpu.main(words)
    return []


def main() -> None:
    """Run the benchmarks and report."""
    options = parser(__doc__ or "")
    options.add_argument("--trials", type=int, default=128, help="measurements per kernel")
    options.add_argument("--only", default="", help="regular expression on the names of the parts")
    options.add_argument("--gpu-minutes", type=float, default=8.0, help="for the part on a GPU")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts: dict[str, Callable[[], list[Row]]] = {
            "cumsum": lambda: column_rows(folder, args.trials),
            "rows": lambda: along_rows(folder, args.trials),
            "linear_recurrence": lambda: recurrence_rows(folder, args.trials),
            "gpu": lambda: on_gpu(args.gpu_minutes),
        }
        rows = [r for name, part in parts.items() if re.search(args.only, name) for r in part()]
    report("scan", rows, args.json, args.save)


if __name__ == "__main__":
    main()
