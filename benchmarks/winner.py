"""Tests the stated results of runs: calls winners afterwards, and searches for a planted winner.

`python benchmarks/winner.py follow JOBS.toml` tunes the workloads of a job file; then new processes
call default and winner in alternating blocks, and their ratio is held against the stated range.
`python benchmarks/winner.py planted` tunes a template with one configuration that is 10 % faster
than all others, again and again, and counts how often it is chosen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import here
import numpy as np
from common import Row, parser, report, row

import autotune
from autotune.builder import BuiltFunction
from autotune.errors import AutotuneError
from autotune.report.ratio import Ratio
from autotune.reuse import choose
from autotune.task.task import Task

BLOCK_S = 0.15
"""A block lasts so long; its first third is not counted."""

SLEEP_S = 0.05
"""Between blocks the threads of the other kernel go to sleep."""

BLOCKS = 9

PROCESSES = 3
"""Where a process has its arrays changes the ratio of two kernels by several percent."""

PERIOD_S = 0.3
"""Period of the other process, which is busy for a third of it and sleeps for the rest."""

AIM_RANGE = 0.05


# -- afterwards -------------------------------------------------------------------------------


def calls_s(call: Callable[[], object]) -> float:
    """Return the median seconds of a call in one block, the first third left out."""
    times: list[tuple[float, float]] = []
    time.sleep(SLEEP_S)
    begin = time.perf_counter()
    while (now := time.perf_counter()) - begin < BLOCK_S or len(times) < 3:
        call()
        times.append((now - begin, time.perf_counter() - now))
    counted = [seconds for at, seconds in times if at >= BLOCK_S / 3]
    return statistics.median(counted or [times[-1][1]])


def afterwards(template: str, args: dict[str, Any], log: str) -> dict[str, Any]:
    """Call the default and what `build` gives in alternating blocks, on the same arrays.

    Blocks stand in the order a b b a, so that drift affects both alike.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tuned = autotune.build(template, args, records=log)
        task = Task.from_reference(template, args, "llvm")
        default = BuiltFunction(task.final(task.default_index), task.target)
    rng = np.random.default_rng(0)
    arrays = [
        np.empty(argument.shape, argument.dtype)
        if argument.is_output
        else rng.uniform(-1, 1, argument.shape).astype(argument.dtype)
        for argument in task.arguments
    ]
    calls = [lambda: default(*arrays), lambda: tuned(*arrays)]
    pairs = []
    for number in range(BLOCKS):
        seconds = [calls_s(call) for call in (calls[::-1] if number % 2 else calls)]
        pairs.append(seconds[::-1] if number % 2 else seconds)
    assert tuned.record is not None
    ratio = Ratio.of_final(tuned.record)
    assert tuned.config is not None
    return {
        "config": tuned.config.index,
        "is_default": tuned.config.index == task.default_index,
        "compared": not tuned.record.is_trial,
        "stated": None if ratio is None else [ratio.value, ratio.low, ratio.high],
        "ratio": statistics.median(slow / quick for slow, quick in pairs),
        "recorded_s": tuned.record.cost_s,
        "called_s": statistics.median(quick for _, quick in pairs),
    }


def workloads(path: Path, only: list[int]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, template and arguments of the workloads that can be tuned here today."""
    for number, entry in enumerate(tomllib.loads(path.read_text())["workload"]):
        args = dict(entry["set"])
        if only and number not in only:
            continue
        if args.get("groups") == 1:
            del args["groups"]
        try:
            _ = Task.from_reference(entry["template"], args, "llvm").default_index
        except AutotuneError as error:
            print(f"{entry['name']}: left out: {error}", file=sys.stderr)
            continue
        yield entry.get("name", f"{entry['template']} {number}"), entry["template"], args


def tune(
    template: str, args: dict[str, Any], log: Path, seed: int, trials: int, target: str = "llvm"
) -> float:
    """Tune as a user would; return the seconds it took."""
    command = [sys.executable, "-m", "autotune", "run", template, "--quiet", "--target", target]
    command += ["--trials", str(trials), "--seed", str(seed), "--log", str(log)]
    for name, value in args.items():
        command += ["--set", f"{name}={str(value).lower()}"]
    begin = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=here.environment()
    )
    if done.returncode:
        raise SystemExit(f"autotune run {template} failed: {done.stderr.strip()}")
    print(f"  {done.stdout.strip()}", file=sys.stderr)
    return time.perf_counter() - begin


def in_new_processes(template: str, args: dict[str, Any], log: Path) -> dict[str, Any]:
    """Return what `afterwards` finds in processes of their own: ratio and time are medians."""
    words = json.dumps([template, args, str(log)])
    found: list[dict[str, Any]] = []
    for _ in range(PROCESSES):
        done = subprocess.run(
            [sys.executable, __file__, "afterwards", words],
            capture_output=True,
            text=True,
            check=True,
            env=here.environment(),
        )
        found.append(json.loads(done.stdout))
    return found[0] | {
        name: statistics.median(each[name] for each in found) for name in ("ratio", "called_s")
    }


def follow(options: argparse.Namespace) -> list[Row]:
    """Tune each workload a few times, and call default and winner afterwards."""
    rows, slower, wide, apart, runs = [], 0, 0, 0, 0
    for name, template, args in workloads(options.jobs, options.only):
        for seed in range(1, options.runs + 1):
            with tempfile.TemporaryDirectory() as folder:
                log = Path(folder) / "log.jsonl"
                print(f"{name}, run {seed}", file=sys.stderr)
                tune(template, args, log, seed, options.trials)
                found = in_new_processes(template, args, log)
            runs += 1
            what = f"{name}.{seed}"
            called = found["called_s"] / found["recorded_s"]
            value, low, high = found["stated"] or (1.0, 1.0, 1.0)
            width = high / low - 1.0
            rows += [
                row(f"{what}.stated", value, "ratio"),
                row(f"{what}.range", width, "ratio", AIM_RANGE, lower_is_better=True),
                row(f"{what}.afterwards", found["ratio"], "ratio", 1.0 - max(width, 0.01)),
                row(f"{what}.called_over_recorded", called, "ratio"),
            ]
            # A default that was chosen is compared with itself here: that tells the noise.
            slower += not found["is_default"] and found["ratio"] < 1.0 - max(width, 0.01)
            wide += width > AIM_RANGE
            apart += abs(called - 1.0) > AIM_RANGE
            print(f"  {found}", file=sys.stderr)
    return [
        *rows,
        row("runs", runs, "runs"),
        row("runs.slower_than_the_default", slower, "runs", 0, lower_is_better=True),
        row("runs.range_too_wide", wide, "runs", 0, lower_is_better=True),
        row("runs.recorded_time_not_met", apart, "runs", 0, lower_is_better=True),
    ]


# -- a planted winner ---------------------------------------------------------------------------


def busy() -> None:
    """Keep a core busy for a third of the time, for ever."""
    while True:
        begin = time.perf_counter()
        while time.perf_counter() - begin < PERIOD_S / 3:
            pass
        time.sleep(PERIOD_S * 2 / 3)


@contextlib.contextmanager
def neighbour(there: bool) -> Iterator[None]:
    """Have another process keep a core busy a third of the time, if there is to be one."""
    if not there:
        yield
        return
    process = subprocess.Popen([sys.executable, __file__, "busy"], env=here.environment())
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def logs_in(folder: Path | None) -> Iterator[Path]:
    """Give the folder of the logs, one that is removed afterwards if none is named."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def planted(options: argparse.Namespace) -> list[Row]:
    """Count how often the planted configuration is chosen."""
    template = f"{Path(__file__).parent / 'planted.py'}:planted"
    rng, found, seconds = random.Random(options.seed), 0, []
    with neighbour(options.beside), logs_in(options.logs) as folder:
        for number in range(options.runs):
            args = {"n": options.n, "place": rng.randrange(1, 48)}
            log = folder / f"{number}.jsonl"
            spent = tune(template, args, log, number + 1, options.trials, options.target)
            seconds.append(spent)
            task = Task.from_reference(template, args, options.target)
            choice = choose(task, autotune_records(log))
            assert choice is not None
            record, config = choice.record, choice.config
            found += config.index == args["place"]
            stated = Ratio.of_final(record)
            said = "no range" if stated is None else stated.range_text
            rounds = len(record.costs_s or ()) if not record.is_trial else 0
            what = f"planted {args['place']}, chosen {config.index}"
            print(f"  {what}, {said}, {rounds} rounds", file=sys.stderr)
    name = "planted.beside_a_neighbour" if options.beside else "planted.alone"
    return [
        row(f"{name}.chosen", found / options.runs, "share", 0.95),
        row(f"{name}.runs", options.runs, "runs"),
        row(f"{name}.seconds", statistics.median(seconds), "s"),
    ]


def autotune_records(log: Path) -> list[Any]:
    """Return what a log holds."""
    from records import RecordStore

    return RecordStore(log).load()


def main() -> None:
    """Run one of the two, and report."""
    if sys.argv[1:2] == ["busy"]:
        busy()
    if sys.argv[1:2] == ["afterwards"]:
        print(json.dumps(afterwards(*json.loads(sys.argv[2]))))
        return
    options = parser(__doc__ or "")
    parts = options.add_subparsers(dest="part", required=True)
    one = parts.add_parser("follow", help="workloads of a job file")
    one.add_argument("jobs", type=Path, help="a job file (TOML)")
    one.add_argument("--only", type=int, nargs="*", default=[], help="numbers of workloads, from 0")
    one.add_argument("--runs", type=int, default=3, help="runs of each")
    one.add_argument("--trials", type=int, default=64)
    two = parts.add_parser("planted", help="one configuration that is 10 %% faster")
    two.add_argument("--beside", action="store_true", help="beside a process that is busy")
    two.add_argument("--runs", type=int, default=20)
    two.add_argument("--trials", type=int, default=64)
    two.add_argument("--n", type=int, default=4096, help="elements")
    two.add_argument("--target", default="llvm", help='such as "llvm -threads=1"')
    two.add_argument("--logs", type=Path, help="folder in which the logs are kept")
    two.add_argument("--seed", type=int, default=0, help="of where it is planted")
    args = options.parse_args()
    rows = follow(args) if args.part == "follow" else planted(args)
    suffix = "_beside" if args.part == "planted" and args.beside else ""
    report(f"winner_{args.part}{suffix}", rows, args.json, args.save)


if __name__ == "__main__":
    main()
