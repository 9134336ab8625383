"""Measures how many measurements the tuners need on recorded spaces, beside reference tuners.

    python benchmarks/search.py --data DIR [--jobs 2] [--repeats 10] [--save]

DIR holds recorded spaces (Kernel Tuner caches, T4 results, our logs). Kernel Tuner's strategies
run beside ours where the package is installed. `--transfer` tunes on
each card with what the other cards measured of the same kernel. `--thinking` times a proposal.
"""

from __future__ import annotations

import itertools
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import kernel_tuner_strategies
import numpy as np
from common import Row, parser, report, row

from autotune.errors import UsageError
from autotune.report.replay_scores import CHECKPOINTS, Score, mean_score, score, score_table
from autotune.tuner.base import Observation
from autotune.tuner.factory import make_tuner
from autotune.tuner.replay.compare_tuners import (
    ReplayJob,
    distinct,
    find_recording,
    load_recordings,
    load_records,
    run_jobs,
)
from records import RecordError
from search_spaces import ChoiceKnob, Constraint, Space

OURS = ("model", "local", "genetic", "random", "optuna:tpe")
AIMS = {25: 0.90, 50: 0.95, 100: 0.98, 200: 0.995}
BUDGET = 200

Scores = dict[str, Score]


def find_workloads(folder: str) -> list[tuple[str, str]]:
    """Return (file, workload) of every recorded space in a folder in which something works.

    Ends the program if there is none.
    """
    if not Path(folder).is_dir():
        sys.exit(f"--data {folder}: there is no such folder")
    recorded = []
    for path in sorted(Path(folder).iterdir()):
        try:
            recorded += [(str(path), r) for r in load_recordings(str(path)) if r.optimum_s]
        except (RecordError, UsageError) as error:
            print(f"left out: {error}", file=sys.stderr)
    if not recorded:
        sys.exit(f"--data {folder}: it holds no recorded space in which something works")
    return distinct(recorded)[0]


def transfer_scores(
    workloads: Sequence[tuple[str, str]],
    repeats: int,
    seed: int,
    processes: int,
    without: Scores | None,
) -> dict[str, Scores]:
    """Return the model tuner's scores with and without transfer, where another card is there.

    Those without may be known.
    """
    sources = other_cards(workloads)
    some = [(path, name) for path, name in workloads if sources[path]]
    if not some:
        print("--transfer: no two cards measured the same kernel", file=sys.stderr)
        return {}
    return {
        "model, same spaces": {name: without[name] for _, name in some}
        if without
        else run("model", some, repeats, seed, processes),
        "model --transfer": run("model", some, repeats, seed, processes, sources),
    }


def run(
    tuner: str,
    workloads: Sequence[tuple[str, str]],
    repeats: int,
    seed: int,
    processes: int,
    sources: dict[str, tuple[str, ...]] | None = None,
) -> Scores:
    """Return the scores of a tuner, by space; with `sources`, of transfer from them."""
    jobs = [
        ReplayJob(path, name, tuner, BUDGET, repeats, seed, transfer=(sources or {}).get(path, ()))
        for path, name in workloads
    ]
    found = {}
    for job, traces in zip(jobs, run_jobs(jobs, processes), strict=True):
        optimum = find_recording(job.path, job.name).optimum_s
        assert optimum is not None
        found[job.name] = score(traces, optimum, BUDGET)
    return found


def reference(
    strategy: str, workloads: Sequence[tuple[str, str]], repeats: int, seed: int, processes: int
) -> Scores:
    """Return the scores of one of Kernel Tuner's strategies, by space."""
    found = {}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for path, name in workloads:
            optimum = find_recording(path, name).optimum_s
            assert optimum is not None
            once = partial(kernel_tuner_strategies.simulate, path, name, strategy, budget=BUDGET)
            found[name] = score(list(pool.map(once, range(seed, seed + repeats))), optimum, BUDGET)
    return found


def other_cards(workloads: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return, per file, the files with the same kernel measured on other cards."""
    kernels = {path: load_records(path)[0].template for path, _ in workloads}
    return {
        path: tuple(other for other in kernels if other != path and kernels[other] == kernel)
        for path, kernel in kernels.items()
    }


def thinking_rows() -> list[Row]:
    """Time of a proposal of 8, after 100 measurements, from 10^6 and 10^9 configurations."""
    rows = []
    for knobs, aim in ((6, 2.0), (9, 10.0)):
        sizes = [ChoiceKnob(f"k{i}", [2**j for j in range(10)]) for i in range(knobs)]
        rule = Constraint("threads", lambda c: c["k0"] * c["k1"] <= 4096)
        space = Space(sizes, [rule])
        tuner = make_tuner("model", space, 0)
        rng = np.random.default_rng(0)
        for index in space.sample(96, rng).tolist():
            far = np.abs(space.positions([index])[0] - 5).sum()
            tuner.tell([Observation(index, float(1.0 + far + rng.random()))])
        seconds = []
        for _ in range(5):
            begin = time.perf_counter()
            asked = tuner.ask(8)
            seconds.append(time.perf_counter() - begin)
            tuner.tell(
                Observation(i, float(1.0 + np.abs(space.positions([i])[0] - 5).sum()))
                for i in asked
            )
        name = f"proposal of 8 from 10^{knobs}"
        rows.append(row(f"{name}, first", seconds[0], "s", aim, lower_is_better=True))
        later = statistics.median(seconds[1:])
        rows.append(row(f"{name}, later", later, "s", aim, lower_is_better=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows.append(row("memory of the process", peak, "GiB", 2.0, lower_is_better=True))
    return rows


def score_rows(name: str, total: Score, aims: bool) -> list[Row]:
    """Return the figures of one tuner; only the model tuner has aims."""
    rows = [
        row(f"{name}: share after {count}", total.share[count] or 0.0, "share", AIMS[count])
        if aims
        else row(f"{name}: share after {count}", total.share[count] or 0.0, "share")
        for count in CHECKPOINTS
    ]
    rows.append(row(f"{name}: within 5 %", total.within, "share", 0.95 if aims else None))
    near = 20.0 if aims else None
    rows.append(row(f"{name}: to 5 %", total.to_near, "runs", near, lower_is_better=True))
    return rows


def main() -> None:
    found = parser(__doc__ or "")
    found.add_argument("--data", help="folder of recorded spaces")
    found.add_argument("--tuner", nargs="+", default=list(OURS), help="our tuners to run")
    found.add_argument("--repeats", type=int, default=10, help="runs per space")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--jobs", type=int, default=1, help="processes")
    found.add_argument("--no-references", action="store_true", help="without Kernel Tuner")
    found.add_argument("--transfer", action="store_true", help="leave-one-card-out as well")
    found.add_argument("--thinking", action="store_true", help="time proposals as well")
    options = found.parse_args()
    totals: dict[str, Score] = {}
    rows: list[Row] = []
    details: dict[str, Scores] = {}
    if options.data is None:
        print("no --data DIR of recorded spaces: only proposals are timed", file=sys.stderr)
    else:
        workloads = find_workloads(options.data)
        runs = (options.repeats, options.seed, options.jobs)
        for tuner in options.tuner:
            details[tuner] = run(tuner, workloads, *runs)
        if options.transfer:
            details |= transfer_scores(workloads, *runs, details.get("model"))
        if not options.no_references and not kernel_tuner_strategies.installed():
            print("no references: pip install kernel-tuner runs them, too", file=sys.stderr)
        elif not options.no_references:
            for strategy in kernel_tuner_strategies.BASELINES:
                details[f"kernel_tuner:{strategy}"] = reference(strategy, workloads, *runs)
        totals = {name: mean_score(list(scores.values())) for name, scores in details.items()}
        rows += itertools.chain.from_iterable(
            score_rows(name, total, name == "model") for name, total in totals.items()
        )
    if options.thinking or options.data is None:
        rows += thinking_rows()
    if totals and not options.json:
        print(score_table("tuner", totals, 100))
        for name, scores in details.items():
            print()
            print(score_table(name, scores, 100))
        print()
    report("search", rows, options.json, options.save)


if __name__ == "__main__":
    main()
