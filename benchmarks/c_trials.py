"""Measures how many kernels in C a run compiles, checks and times in a second.

    python benchmarks/c_trials.py [--size 384] [--trials 64] [--save]

Tunes the kernel of `examples/c_kernel.py`, which takes some 20 us, with an empty cache of compiled
code. Seconds are from the first measured candidate to the last; starting and the final comparison
are not among them. Other rows share out the wall time of a trial: candidates are built two or more
at a time, and none is built while another runs.
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
from overhead import Span, length, within

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
    built: list[Span] = []
    run: list[Span] = []

    def on_event(event: object) -> None:
        if isinstance(event, Measured):
            ended.append(time.time())
            records.append(event.record)
            built.extend(filter(None, [event.result.build_span]))
            run.extend(filter(None, [event.result.run_span]))

    log = folder / "log.jsonl"
    autotune.tune(smooth, {"n": size}, trials=trials, log=log, seed=0, callbacks=[on_event])
    costs = [record.cost_s for record in records if record.cost_s is not None]

    def typical(name: str) -> float:
        return statistics.median(v for r in records if (v := getattr(r, name)) is not None)

    begin, end, count = ended[0], ended[-1], len(ended) - 1

    def share(spans: list[Span]) -> float:
        return 1e3 * length(within(spans, begin, end)) / count

    return [
        row("trials per second", count / (end - begin), "1/s", AIM),
        row("wall time of a trial", 1e3 * (end - begin) / count, "ms"),
        row("  while some are built", share(built), "ms"),
        row("  while one runs", share(run), "ms"),
        row("  neither", 1e3 * (end - begin) / count - share([*built, *run]), "ms"),
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
