"""Measures how many kernels in C a run compiles, checks and times in a second.

    python benchmarks/c_trials.py [--size 384] [--trials 64] [--save]

Tunes the kernel of `examples/c_kernel.py`, which takes some 20 us, with an empty cache of compiled
code. Seconds are from the first measured candidate to the last; starting and the final comparison
are not among them.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import Row, parser, report, row

AIM = 10.0  # Trials per second.


def measure(size: int, trials: int, folder: Path) -> list[Row]:
    """Tune, and return the rows."""
    os.environ["AUTOTUNE_CACHE_DIR"] = str(folder / "cache")
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from c_kernel import smooth

    import autotune
    from autotune.tuner.run.events import Measured

    ended: list[float] = []
    records: list[Any] = []

    def on_event(event: object) -> None:
        if isinstance(event, Measured):
            ended.append(time.monotonic())
            records.append(event.record)

    log = folder / "log.jsonl"
    autotune.tune(smooth, {"n": size}, trials=trials, log=log, seed=0, callbacks=[on_event])
    costs = [record.cost_s for record in records if record.cost_s is not None]

    def typical(name: str) -> float:
        return statistics.median(v for r in records if (v := getattr(r, name)) is not None)

    return [
        row("trials per second", (len(ended) - 1) / (ended[-1] - ended[0]), "1/s", AIM),
        row("compiling one, two at a time", 1e3 * typical("build_s"), "ms"),
        row("checking and timing one", 1e3 * typical("run_s"), "ms"),
        row("the kernel", 1e6 * statistics.median(costs), "us"),
        row("noise of the machine", 100 * typical("noise"), "%"),
    ]


def main() -> None:
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--size", type=int, default=384, help="rows and columns")
    options.add_argument("--trials", type=int, default=64)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.size, given.trials, Path(folder))
    report("c_trials", found, given.json, given.save)


if __name__ == "__main__":
    main()
