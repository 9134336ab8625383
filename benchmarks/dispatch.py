"""Measures what shapes lose by one library of few kernels: tunes 40 products, then dispatches.

Three parts, each resumed from what is there already:

1. 40 shapes of products are tuned for a few trials each, then 20 others (`--log`).
2. `autotune.dispatch` makes the smallest set of kernels that keeps the 40 shapes within 10 %.
3. Each of the 60 shapes is timed in processes of its own: the function that `autotune.load`
   returns beside the best kernel of the shape alone, in blocks that take turns. The 20 shapes were
   not known to the dispatch. Three passes over all shapes; the median counts, as memory lies
   elsewhere in each process, and another program disturbs one pass.

    python benchmarks/dispatch.py --save            # about 40 minutes on two cores
    python benchmarks/dispatch.py --neighbours 1    # other shapes near these, made from a seed
    python benchmarks/dispatch.py --small           # a few shapes and trials, to try it
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import here
import numpy as np
from common import RESULTS, Row, parser, report, row

import autotune
from autotune.builder import build_task
from autotune.measure.timing.interleaved_timing import reallocated, time_interleaved
from autotune.operators.template_lookup import find_template
from autotune.shape_dispatch.dispatched_function import Dispatch
from autotune.shape_dispatch.selection import worst_and_mean
from autotune.task.task import Task
from autotune.tuner.run.limits import Limits
from autotune.tuner.run.tuning_job import TuningRequest, tune_requests
from records import RecordStore
from records.formats import load_own

Shape = tuple[int, int, int]

# m, n, k: square, tall, flat, of one row, of a few rows, odd and prime sizes, layers of networks.
TUNED: list[Shape] = [
    (64, 64, 64), (96, 96, 96), (128, 128, 128), (192, 192, 192), (256, 256, 256),
    (384, 384, 384), (512, 512, 512), (768, 768, 768), (1000, 1000, 1000), (1024, 1024, 1024),
    (1, 256, 1024), (1, 768, 768), (1, 1000, 2048), (1, 3072, 768), (1, 4096, 1024),
    (1, 4096, 4096), (4, 1024, 1024), (7, 1000, 2048), (8, 512, 2048), (8, 4096, 1024),
    (16, 768, 3072), (16, 2048, 512), (32, 1024, 256), (33, 100, 300), (49, 512, 1024),
    (64, 768, 768), (100, 1000, 500), (127, 131, 137), (128, 768, 768), (128, 3072, 768),
    (128, 768, 3072), (197, 64, 197), (251, 509, 127), (256, 64, 1024), (512, 64, 512),
    (784, 128, 256), (1024, 32, 512), (2048, 128, 64), (3136, 64, 64), (500, 2000, 100),
]  # fmt: skip

UNSEEN: list[Shape] = [
    (80, 80, 80), (160, 160, 160), (320, 320, 320), (640, 640, 640), (900, 900, 900),
    (1, 512, 512), (1, 1500, 1024), (1, 2048, 2048), (5, 1024, 2048), (12, 768, 768),
    (24, 1024, 512), (50, 200, 400), (77, 768, 512), (101, 103, 107), (197, 768, 768),
    (200, 1000, 300), (384, 64, 384), (600, 96, 700), (1500, 64, 128), (1024, 256, 64),
]  # fmt: skip

KEPT = RESULTS / "dispatch"

SMALL = [0, 2, 11, 19, 23], [0, 5, 11]
TRIALS, SMALL_TRIALS = 24, 3

WITHIN, AIM_UNSEEN, AIM_KERNELS = 0.1, 0.2, 6
ROUND_S, PASSES = 0.3, 3


def neighbours(shapes: list[Shape], rng: np.random.Generator) -> list[Shape]:
    """Return shapes near others: sizes but 1 change by up to 1.4 times, and stay as divisible.

    A size that is a multiple of 16 or of a smaller power of two remains one.
    """

    def near(size: int) -> int:
        if size == 1:
            return 1
        unit = min(size & -size, 16)
        return max(1, round(size * 1.4 ** rng.uniform(-1, 1) / unit)) * unit

    return [(near(m), near(n), near(k)) for m, n, k in shapes]


def task_of(shape: Shape) -> Task:
    """Return the task of one product."""
    return Task(find_template("matmul", "llvm"), dict(zip("mnk", shape, strict=True)), "llvm")


def tune(shapes: list[Shape], log: Path, trials: int) -> float:
    """Tune the shapes of which the log knows too few trials; return the seconds it takes."""
    begin = time.monotonic()
    store = RecordStore(str(log))
    for number, shape in enumerate(shapes, 1):
        task = task_of(shape)
        known = [r for r in load_own(store, must_exist=False) if r.args == dict(task.args)]
        if sum(r.is_trial for r in known) >= trials:
            continue
        tune_requests([TuningRequest(task, store, Limits(trials))])
        print(f"tuned {number} of {len(shapes)}: {shape}", flush=True)
    return time.monotonic() - begin


def ratio(shape: Shape, log: Path, library: Path, seed: int) -> float:
    """Return how many times as long a shape takes by the library as by its own best kernel."""
    task = task_of(shape)
    own = [r for r in load_own(RecordStore(str(log))) if r.args == dict(task.args)]
    best, loaded = build_task(task, own), autotune.load(library)
    rng = np.random.default_rng(seed)
    arrays = [rng.random(p.fixed, np.float32) for p in task.arguments]
    arrays, _between = reallocated(arrays, rng)
    best(*arrays)
    right = arrays[-1].copy()
    loaded(*arrays)
    np.testing.assert_allclose(arrays[-1], right, rtol=1e-3)
    calls = {0: best.bind(*arrays), 1: loaded.bind(*arrays)}
    times = time_interleaved(calls, ROUND_S, rng)
    return times[1] / times[0]


def ratios(shapes: list[Shape], log: Path, library: Path) -> dict[Shape, float]:
    """Return the median ratio of each shape in some passes, each time in a new process."""
    found: dict[Shape, list[float]] = {shape: [] for shape in shapes}
    for seed in range(PASSES):
        for shape in shapes:
            words = [sys.executable, __file__, "--one", *map(str, (*shape, seed))]
            words += ["--log", str(log), "--library", str(library)]
            done = subprocess.run(
                words, env=here.environment(), capture_output=True, text=True, check=True
            )
            found[shape].append(float(done.stdout.splitlines()[-1]))
    return {shape: statistics.median(values) for shape, values in found.items()}


def rows_of(made: Dispatch, tuned: dict[Shape, float], unseen: dict[Shape, float]) -> list[Row]:
    """Return the figures."""
    rows = [row("kernels", len(made.kernels), "kernels", AIM_KERNELS, lower_is_better=True)]
    for name, found, aim in (("tuned", tuned, 1 + WITHIN), ("unseen", unseen, 1 + AIM_UNSEEN)):
        values = list(found.values())
        worst, mean = worst_and_mean([value - 1 for value in values])
        rows.append(row(f"{name}.worst", 1 + worst, "ratio", aim, lower_is_better=True))
        rows.append(row(f"{name}.mean", 1 + mean, "ratio"))
        kept = sum(value <= aim for value in values)
        rows.append(row(f"{name}.within", kept, "shapes", len(values)))
        rows += [
            row(f"{name}.{'x'.join(map(str, shape))}", value, "ratio")
            for shape, value in found.items()
        ]
    return rows


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--small", action="store_true", help="a few shapes and trials")
    options.add_argument("--neighbours", type=int, metavar="SEED", help="shapes near the others")
    options.add_argument("--log", help="of measurements (default: in results/dispatch)")
    options.add_argument("--library", help="what is written (default: in results/dispatch)")
    options.add_argument("--kernels", type=int, default=AIM_KERNELS, help="most kernels")
    options.add_argument("--one", nargs=4, type=int, help="measure one shape with a seed")
    given = options.parse_args()
    if given.neighbours is not None and given.neighbours < 0:
        options.error("--neighbours takes a seed of at least 0")
    name = "products" if given.neighbours is None else f"neighbours{given.neighbours}"
    log = Path(given.log or KEPT / f"{name}.jsonl")
    library = Path(given.library or KEPT / f"{name}.so")
    KEPT.mkdir(parents=True, exist_ok=True)
    if given.one:
        m, n, k, seed = given.one
        print(ratio((m, n, k), log, library, seed))
        return
    tuned, unseen, trials = TUNED, UNSEEN, TRIALS
    if given.neighbours is not None:
        rng = np.random.default_rng(given.neighbours)
        tuned, unseen = neighbours(tuned, rng), neighbours(unseen, rng)
    if given.small:
        tuned, unseen = ([every[n] for n in chosen] for every, chosen in
                         zip((TUNED, UNSEEN), SMALL, strict=True))  # fmt: skip
        trials = SMALL_TRIALS
    seconds = {"tune": tune(tuned, log, trials)}
    begin = time.monotonic()
    keys = [dict(task_of(shape).args) for shape in tuned]
    records = [r for r in load_own(RecordStore(str(log))) if r.args in keys]
    made = autotune.dispatch("matmul", records, within=WITHIN, kernels=given.kernels)
    made.save(library)
    seconds["dispatch"] = time.monotonic() - begin
    for shape in made.shapes:
        print(f"{dict(shape.sizes)}: kernel {shape.kernel}, loss {shape.loss:.3f}, "
              f"{shape.left_out:.3f} if unseen", flush=True)  # fmt: skip
    seconds["tune_unseen"] = tune(unseen, log, trials)
    begin = time.monotonic()
    rows = rows_of(made, ratios(tuned, log, library), ratios(unseen, log, library))
    seconds["compare"] = time.monotonic() - begin
    rows += [row(f"seconds.{name}", value, "s") for name, value in seconds.items()]
    title = "dispatch" if given.neighbours is None else "dispatch_neighbours"
    report(title, rows, given.json, given.save)


if __name__ == "__main__":
    main()
