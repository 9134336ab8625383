"""Tunes repeatedly for a long time, and checks that no resource use grows.

    python benchmarks/soak.py --minutes 15 [--every 10] [--trials 64] [--out soak.jsonl] [--save]
    python benchmarks/soak.py --judge soak.jsonl

One process tunes one workload after the other, with candidates among them that crash, hang, fork
and fill the memory. Another process observes it at intervals and writes its observations as JSON
lines: resident memory of the tuner and of the largest other process, open files, threads,
processes, temporary files, shared memory, size of the cache.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import psutil
from common import Row, parser, report, row

MARK = "AUTOTUNE_SOAK"
FAULTS = Path(__file__).parents[1] / "tests/integration/faulty_templates/storm.py"
WARM_UP = 0.25
"""Share of the time after which everything has been loaded, and growth counts."""

MEGABYTE = 2**20

Sample = dict[str, float]

#: Words of `autotune run` that take turns.
WORKLOADS = (
    ("matmul", "--set", "m=256", "--set", "n=256", "--set", "k=256"),
    ("softmax", "--set", "m=512", "--set", "n=512"),
    ("matmul", "--set", "m=96", "--set", "n=64", "--set", "k=80", "--tuner", "local"),
    ("broadcast_add", "--set", "n=512"),
    (
        *(f"{FAULTS}:storm", "--set", "good=20", "--set", "steps=3", "--timeout", "2"),
        *("--set", "faults=segfault,leave,sleep,daemonise,spawn,grow,kernel_abort,wrong_once"),
    ),
)


# -- tuning ------------------------------------------------------------------------------------


def tune_for_ever(folder: Path, trials: int) -> None:
    """Tune one workload after the other, each with a new log, and count runs in a file."""
    from autotune.cli.main import main

    for number, words in enumerate(itertools.cycle(WORKLOADS)):
        log = folder / "log.jsonl"
        run = ["run", *words, "--trials", str(trials), "--seed", str(number), "--log", str(log)]
        with (
            contextlib.redirect_stdout(io.StringIO()) as output,
            contextlib.redirect_stderr(output),
        ):
            code = main(run)
        if code == 128 + signal.SIGTERM:  # it has been long enough
            return
        if code != 0:
            raise SystemExit(f"{' '.join(run)}: exit code {code}\n{output.getvalue()}")
        log.unlink()
        (folder / "runs").write_text(str(number + 1))


# -- looking -----------------------------------------------------------------------------------


def look(tuner: psutil.Process, token: str, folder: Path) -> Sample:
    """Return what there is at the moment."""
    others = [process for process in marked(token) if process.pid != tuner.pid]
    zombies = [child for child in tuner.children() if child.status() == psutil.STATUS_ZOMBIE]
    runs = folder / "runs"
    return {
        "runs": float(runs.read_text() or 0) if runs.exists() else 0.0,
        "tuner_mb": tuner.memory_info().rss / MEGABYTE,
        "largest_other_mb": max((resident(p) for p in others), default=0.0) / MEGABYTE,
        "files": tuner.num_fds(),
        "threads": tuner.num_threads(),
        "processes": len(others),
        "zombies": len(zombies),
        "temporary": len(list((folder / "tmp").iterdir())),
        "shared_memory": len(shared_memory(tuner.pid, *(p.pid for p in others))),
        "cache_mb": sum(f.stat().st_size for f in files_under(folder / "cache")) / MEGABYTE,
    }


def marked(token: str) -> Iterator[psutil.Process]:
    """Yield all living processes with this mark in their environment."""
    entry = f"{MARK}={token}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if entry in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                yield psutil.Process(int(name))


def resident(process: psutil.Process) -> int:
    """Return the bytes that a process has in memory, 0 if it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0


def shared_memory(*pids: int) -> set[str]:
    """Return the files of shared memory that processes have mapped."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path("/proc", str(pid), "maps").read_text().splitlines()
            found |= {line[line.index("/dev/shm/") :] for line in lines if "/dev/shm/" in line}
    return found


def files_under(folder: Path) -> Iterable[Path]:
    """Yield the files in a folder that others write to."""
    return (path for path in folder.rglob("*") if path.is_file())


def soak(seconds: float, every_s: float, trials: int, out: Path) -> list[Sample]:
    """Tune for some time, look now and then, and write what is seen to `out`."""
    token = uuid.uuid4().hex
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as name, out.open("w") as lines:
        folder = Path(name)
        (folder / "tmp").mkdir()
        environment = {
            **os.environ,
            MARK: token,
            "TMPDIR": str(folder / "tmp"),
            "AUTOTUNE_CACHE_DIR": str(folder / "cache"),
        }
        words = [sys.executable, __file__, "--tune", name, str(trials)]
        begin = time.monotonic()
        with subprocess.Popen(words, env=environment) as process:
            tuner = psutil.Process(process.pid)
            while (now := time.monotonic() - begin) < seconds and process.poll() is None:
                samples.append({"seconds": now, **look(tuner, token, folder)})
                print(json.dumps(samples[-1]), file=lines, flush=True)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(every_s)
            if process.returncode is not None:
                raise SystemExit(f"the tuning process ended with exit code {process.returncode}")
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 5.0
        while (left := list(marked(token))) and time.monotonic() < end:
            time.sleep(0.05)
        samples.append({**samples[-1], "orphans": len(left)})
        samples[-1]["temporary"] = len(list((folder / "tmp").iterdir()))
        print(json.dumps(samples[-1]), file=lines, flush=True)
    return samples


# -- judging -----------------------------------------------------------------------------------


def growth(samples: Sequence[Sample], what: str) -> float:
    """Return by how much something grew after warming up, as a straight line has it."""
    late = [s for s in samples if s["seconds"] >= WARM_UP * samples[-1]["seconds"]]
    times, values = [s["seconds"] for s in late], [s[what] for s in late]
    if len(set(times)) < 2:
        return 0.0
    slope = statistics.linear_regression(times, values).slope
    return slope * (times[-1] - times[0])


def judged(samples: Sequence[Sample]) -> list[Row]:
    """Return the figures, each with the most that it may be."""
    last, seconds = samples[-1], samples[-1]["seconds"]
    late = [s for s in samples if s["seconds"] >= WARM_UP * seconds]
    first = late[0]

    def at_most(name: str, value: float, unit: str, aim: float | None = None) -> Row:
        return row(name, value, unit, aim, lower_is_better=True)

    def peak(what: str) -> float:
        return max(s[what] for s in samples)

    return [
        at_most("time", seconds / 3600.0, "h"),
        at_most("runs", last["runs"], "runs"),
        at_most("tuner: memory after warming up", first["tuner_mb"], "MB"),
        # As much again as an allocator leaves unused here and there, however long it goes on.
        at_most("tuner: growth from then on", growth(samples, "tuner_mb"), "MB", 32.0),
        at_most("workers: largest", peak("largest_other_mb"), "MB"),
        at_most("workers: growth of the largest", growth(samples, "largest_other_mb"), "MB", 64.0),
        at_most("tuner: growth in open files", growth(samples, "files"), "files", 2.0),
        at_most("tuner: growth in threads", growth(samples, "threads"), "threads", 2.0),
        at_most("growth in processes", growth(samples, "processes"), "processes", 2.0),
        at_most("processes at most", peak("processes"), "processes"),
        at_most("zombies at the end", last["zombies"], "processes", 0.0),
        at_most("growth in temporary files", growth(samples, "temporary"), "files", 1.0),
        at_most("temporary files left", last["temporary"], "files", 0.0),
        at_most("growth in shared memory", growth(samples, "shared_memory"), "files", 1.0),
        at_most("processes left after 5 s", last.get("orphans", 0.0), "processes", 0.0),
        at_most("cache", peak("cache_mb"), "MB", 512.0),
    ]


def main() -> None:
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--hours", type=float, default=0.0)
    options.add_argument("--minutes", type=float, default=0.0)
    options.add_argument("--every", type=float, default=10.0, help="seconds between two looks")
    options.add_argument("--trials", type=int, default=64, help="of each run")
    options.add_argument("--out", default="soak.jsonl", help="file for what is seen")
    options.add_argument("--judge", help="only judge what was seen earlier, in this file")
    given = options.parse_args()
    if given.judge:
        samples = [json.loads(line) for line in Path(given.judge).read_text().splitlines()]
    else:
        seconds = 3600.0 * given.hours + 60.0 * given.minutes
        if seconds <= 0.0:
            options.error("say for how long: --hours or --minutes")
        samples = soak(seconds, given.every, given.trials, Path(given.out))
    rows = judged(samples)
    report("soak", rows, given.json, given.save)
    if any(r.met is False for r in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tune"]:
        tune_for_ever(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
