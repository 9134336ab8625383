"""Tuned GPU kernels as shares of the copy bandwidth and of cuBLAS: a table, all of it in one run.

    python benchmarks/gpu.py [--minutes 20] [--only NAME,...] [--folder FOLDER] [--save]

For each row of the table (`gpu_rows.py` says what each computes, and its formula), `autotune run`
searches for its part of the time. Then, on an otherwise idle device, the fastest configuration is
timed in turns with its baseline: nine rounds of at least 10 ms each, of which the medians count.

- Rows bound by memory: (bytes moved / seconds) over the bytes per second of the best of five ways
  to copy as many bytes. Aim: 0.95; of scans down columns 0.9.
- Sums along a row: seconds of `cupy.cumsum` over ours. Aim: 1.
- Products of matrices: seconds of cuBLAS in float32, without TF32, over ours. Aim: 0.95.

"trials" and "seconds" of a row are those of tuning until its best time, to one percent, was found.

For each device there are a log and a JSON of results in the folder. Another call continues with the
rows of --only or with those that have missed their aim; --save copies the results to
benchmarks/results/gpu.json. --tiny tests the script with tiny sizes, --on-cpu without a GPU.
`sanitize.py` runs the tuned kernels under compute-sanitizer.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import here
from gpu_results import Results
from gpu_rows import LEAST_BYTES, LIBRARY, Kernel, chosen, kernels, tiny_kernels

SAVED = here.ROOT / "benchmarks" / "results" / "gpu.json"
FOLDER = SAVED.with_suffix("")

START_S = 20.0
"""Seconds kept for starting, and for the copy bandwidth."""

JUDGE_S = 6.0
"""Seconds kept for judging a row."""

LEAST_TUNING_S = 8.0
"""Less time than that is not worth the start of a search."""

LATE_S = 60.0
"""Seconds after the end of its time at which a search is killed."""

TINY_COPY = 1 << 20
"""Bytes of a copy where sizes are tiny."""

GOAL = "0.98 of copy"
"""Goal that ends the search for a memory-bound row."""


def main(words: Sequence[str] | None = None) -> int:
    """Tune, judge and report; return the exit code: 2 without a GPU."""
    begin = time.monotonic()
    args = _options().parse_args(words)
    settle()
    facts = known_device(args.on_cpu)
    if facts is None:
        return 2
    tiny = args.tiny or args.on_cpu
    rows = tiny_kernels(not args.on_cpu) if tiny else kernels(facts["device"]["l2_bytes"])
    wanted = chosen(rows, args.only)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or (Path(temporary) if tiny else FOLDER)
        results = Results(folder, facts)
        end = begin + 60.0 * args.minutes - START_S - JUDGE_S * len(wanted)
        _tune([row for row in wanted if args.only or not results.met(row)], results, args, end)
        least = TINY_COPY if tiny else max(LEAST_BYTES, 4 * facts["device"]["l2_bytes"])
        _judge(wanted, results, args.on_cpu, least)
        print(results.table(rows))
        if args.save:
            shutil.copy(results.path, SAVED)
    return 0


def _options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--minutes", type=float, default=20.0, help="all of it ends by then")
    found.add_argument("--only", default="", metavar="NAME,...", help="rows, or kinds of them")
    found.add_argument("--folder", type=Path, help=f"of log and results [{FOLDER}]")
    kind = found.add_mutually_exclusive_group()
    kind.add_argument("--save", action="store_true", help="copy the results to results/gpu.json")
    kind.add_argument("--tiny", action="store_true", help="tiny sizes, to see whether it works")
    kind.add_argument("--on-cpu", action="store_true", help="tiny sizes, without a GPU")
    found.add_argument("--trials", type=int, help="measurements of a row, at most")
    found.add_argument("--tuner", help="as of `autotune run` [model; local without XGBoost]")
    return found


def settle() -> None:
    """Go by settings of our own; and by folders of our own, where what finds others is missing."""
    os.environ["CUPY_TF32"] = "0"
    os.environ["AUTOTUNE_CONFIG_DIR"] = os.devnull
    if importlib.util.find_spec("platformdirs") is None:
        os.environ.setdefault("AUTOTUNE_CACHE_DIR", f"{tempfile.gettempdir()}/autotune")


def known_device(on_cpu: bool) -> dict[str, Any] | None:
    """Return what is known of the device; None, having said why in a line, if there is none."""
    from autotune.errors import AutotuneError
    from autotune.runtime.cuda.device.device_properties import gpu_facts
    from autotune.runtime.cuda.nvml import driver_release
    from autotune.runtime.environment import device, versions
    from autotune.target import Target

    if on_cpu:
        return {"device": device(Target.of("llvm")), "versions": versions()}
    try:
        facts = gpu_facts(Target.of("cuda"))
    except AutotuneError as error:
        print(f"no GPU to measure on: {error}", file=sys.stderr)
        return None
    return {**facts, "versions": {**facts["versions"], "driver": driver_release()}}


# -- tuning --------------------------------------------------------------------------------------


def _tune(rows: Sequence[Kernel], results: Results, args: argparse.Namespace, end: float) -> None:
    """Search for each row in turn; what one leaves of the time goes to those that follow."""
    for number, row in enumerate(rows):
        left_s = end - time.monotonic()
        share_s = left_s * row.weight / sum(other.weight for other in rows[number:])
        if share_s < LEAST_TUNING_S:
            print(f"{row.name}: no time is left to tune it", file=sys.stderr)
            continue
        _search(row, results, args, share_s)
        results.save()


def _search(row: Kernel, results: Results, args: argparse.Namespace, seconds: float) -> None:
    """Run `autotune run` for some seconds, and follow what it finds."""
    from gpu_timing import target_of

    trees = importlib.util.find_spec("xgboost") is not None
    tuner = args.tuner or ("model" if trees else "local")
    command = [sys.executable, "-m", "autotune", "run", row.template, *row.settings]
    command += ["--target", target_of(results.facts, args.on_cpu), "--log", str(results.log)]
    command += ["--time", f"{seconds:.0f}s", "--seed", "1", "--json-lines"]
    command += ["--tuner", tuner]
    if args.trials is not None:
        command += ["--trials", str(args.trials)]
    if row.against != LIBRARY and not args.on_cpu:
        command += ["--until", GOAL]
    course, begin = results.search(row), time.monotonic()
    course["tuner"], before_s = tuner, course["seconds"]
    search = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=here.environment())
    killer = threading.Timer(seconds + LATE_S, search.terminate)
    killer.start()
    try:
        assert search.stdout is not None
        for line in search.stdout:
            course["seconds"] = before_s + time.monotonic() - begin
            _follow(course, json.loads(line))
        code = search.wait()
    finally:
        killer.cancel()
        search.kill()
    best = f"{1e6 * course['bests'][-1][2]:.1f} us" if course["bests"] else "nothing valid"
    told = "" if code == 0 else f" (it ended with exit code {code})"
    spent = f"{course['trials']} trials, {course['seconds']:.0f} s"
    print(f"{row.name}: {best} after {spent}{told}", file=sys.stderr)


def _follow(course: dict[str, Any], event: dict[str, Any]) -> None:
    """Take in an event of a search."""
    if event["event"] != "measured":
        return
    course["trials"], course["failed"] = event["trial"], sum(event["failures"].values())
    cost_s, bests = event["cost_s"], course["bests"]
    if cost_s is not None and (not bests or cost_s < bests[-1][2]):
        bests.append([course["seconds"], event["trial"], cost_s])


# -- judging -------------------------------------------------------------------------------------


def _judge(rows: Sequence[Kernel], results: Results, on_cpu: bool, least: int) -> None:
    """Measure the copy bandwidth, and time what was tuned in turn with what it is held against."""
    import gpu_timing as timing

    facts = results.facts
    bench: timing.Bench = timing.OnCpu(facts) if on_cpu else timing.OnGpu(facts)
    sizes = (least, 4 * least)
    results.put_copy({f"{size >> 20}": timing.fastest_copy(bench, size)[2] for size in sizes})
    for row in rows:
        try:
            results.put(row, timing.judged(bench, row, results.log))
        except timing.NotTunedError as error:
            print(error, file=sys.stderr)
        except Exception as error:  # such as a missing cuBLAS: the other rows count all the same
            why = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"{row.name} cannot be judged: {why}", file=sys.stderr)
        results.save()


if __name__ == "__main__":
    sys.exit(main())
