"""How fast logs of 10^4 to 10^6 records are appended to, loaded, looked up, summed up and merged.

The logs are written by a generator of records as `autotune run` makes them: of many workloads,
with schedules, failures and final comparisons, some 2 KB each. One of the workloads is that of a
real task, with configurations of its space; a look-up is that of a build for this task.

    python benchmarks/records.py [--largest 100000] [--json [FILE]] [--save]

All records of a log are loaded as objects up to 10^5 of them; 10^6 would take some 20 GB.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import here
from common import Row, parser, report, row

from autotune.reuse import choose
from autotune.reuse.grades import present_device
from autotune.target import Target
from autotune.task.task import Task
from records import Record, RecordStore
from records.log_set import open_logs
from records.tables.read_columns import MOST_HELPERS

SIZES = (10_000, 100_000, 1_000_000)
LOADED = 100_000  # The most that are loaded as objects.
PER_WORKLOAD = 500
ARGUMENTS = {"m": 512, "n": 512, "k": 512}

# Aims at 10^6 records.
LATER_S, FRAME_S, FRAME_GB = 0.05, 15.0, 4.0

IN_PROCESS = """
import json, re, resource, sys, time
import pandas, records
begin = time.perf_counter()
made = records.to_frame(sys.argv[1])
seconds = time.perf_counter() - begin
own = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
helper = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([seconds, own * 1024 / 1e9, helper * 1024 / 1e9, len(made)]))
"""

# A process begins with the largest memory of the one that starts it, so that a small one does.
OF_COMMAND = """
import json, resource, sys, time
from subprocess import DEVNULL, run
begin = time.perf_counter()
run([sys.executable, "-m", "autotune", *sys.argv[1:]], check=True, stdout=DEVNULL)
seconds = time.perf_counter() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
print(json.dumps([seconds, used]))
"""


def task() -> Task:
    """Return the task that look-ups are for."""
    return Task.from_reference("matmul", ARGUMENTS, Target.of("llvm"))


def own_records(wanted: Task, count: int) -> list[Record]:
    """Return records of configurations of a task, as measured on this machine."""
    found = []
    for index in range(0, len(wanted.space), max(1, len(wanted.space) // (4 * count))):
        if wanted.refusal(index):
            continue
        record = Record(
            workload=wanted.workload.to_json(),
            target=wanted.target.recorded,
            config=wanted.space.config(index).to_json(),
            costs_s=[2e-3 + 1e-5 * len(found)] * 5,
            device=present_device(wanted),
            seed=0,
            fingerprints=dict(wanted.fingerprints_of(index)),
            steps=wanted.steps_of(index),
        )
        found.append(record)
        if len(found) == count:
            break
    return found


def lines(count: int, like: Record, seed: int = 0) -> Iterator[bytes]:
    """Yield lines of records of other workloads of the same template, in the order of runs."""
    random_ = random.Random(seed)
    data = like.to_json()
    names = list(data["workload"]["args"])
    middle = {name: data[name] for name in ("policy", "device", "versions")}
    middle["policy"] = {"warmup": 1, "repeats": 5, "min_repeat_ms": 8.0, "budget_ms": 250.0}
    middle["versions"] = {"python": "3.11.7", "numpy": "2.4.6", "llvmlite": "0.50.0"}
    shared = json.dumps(middle, separators=(",", ":"))[1:-1]
    steps = json.dumps(data["steps"], separators=(",", ":"))
    values = json.dumps(data["config"]["values"], separators=(",", ":"))
    for number in range(count):
        place = number % PER_WORKLOAD
        if place == 0:
            args = dict(data["workload"]["args"])
            args |= {name: random_.randrange(1, 4096) for name in names if name in ARGUMENTS}
            workload = json.dumps({"template": like.template, "args": args}, separators=(",", ":"))
            head = f'{{"schema":1,"workload":{workload},"target":"{like.target}",'
            seed = random_.getrandbits(30)
        cost = random_.lognormvariate(-6, 1)
        costs = ",".join(repr(cost * random_.uniform(1, 1.1)) for _ in range(5))
        outcome = f'"costs_s":[{costs}]'
        if random_.random() < 0.1:
            error = '{"code":"RUN_TIMEOUT","stage":"run","message":"longer than 10 s"}'
            outcome = f'"error":{error}'
        index, factor = random_.randrange(10**7), random_.choice((1, 2, 4, 8, 16, 32))
        final = ""
        if place >= PER_WORKLOAD - 5:
            outcome = f'"costs_s":[{costs}]'
            rest = '"over_default":1.2,"range":[1.1,1.3],"rounds":[1,2,3,4,5]'
            final = f',"final":{{"comparison":"c{number - place}","rank":{place % 5},{rest}}}'
        yield (
            f'{head}"config":{{"index":{index},"values":{values}}},{outcome},{shared},'
            f'"seed":{seed},"timestamp":{1.79e9 + number},'
            f'"fingerprints":{{"space":"9316bd3d95591a99","template":"{factor:016x}",'
            f'"code":"{random_.getrandbits(64):016x}"}},"build_s":{random_.random()!r},'
            f'"run_s":{random_.random()!r},"max_error":0.00042724609375,"noise":0.05,'
            f'"steps":{steps.replace("16]", f"{factor}]")}{final}}}\n'
        ).encode()


def write(path: Path, count: int, own: list[Record]) -> None:
    """Write a log of so many records, those of the task in the middle."""
    with path.open("wb") as log:
        for number, line in enumerate(lines(count - len(own), own[0])):
            if number == count // 2:
                log.write("".join(f"{record.to_json_line()}\n" for record in own).encode())
            log.write(line)


def seconds(function: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def appends(folder: Path, own: list[Record]) -> list[Row]:
    """Measure appending, a record at a time, with and without forcing it to disk."""

    def per_second(name: str, count: int) -> float:
        store = RecordStore(folder / name)
        return count / seconds(lambda: [store.append([own[0]]) for _ in range(count)])

    synced = per_second("synced.jsonl", 300)
    with mock.patch("os.fsync"):
        unsynced = per_second("unsynced.jsonl", 3000)
    return [
        row("appends, each forced to disk", synced, "1/s"),
        row("appends, not forced to disk", unsynced, "1/s"),
    ]


def looked_up(path: Path, wanted: Task, best: Record, size: int) -> list[Row]:
    """Measure the look-up of a build: the first one makes the index of a large log."""

    def look_up() -> None:
        found = choose(wanted, open_logs(path))
        if found is None or found.record.config != best.config:
            raise SystemExit(f"{path}: the look-up found {found}")

    first = seconds(look_up)
    later = statistics.median(seconds(look_up) for _ in range(7))
    aim = LATER_S if size == SIZES[-1] else None
    return [
        row(f"first look-up, {size} records", first, "s"),
        row(f"look-up later, {size} records", later, "s", aim, lower_is_better=True),
    ]


def command_s(log: Path) -> float:
    """Return how long the command `autotune best` takes, start-up included."""
    words = ["best", "matmul", "--set", *(f"{k}={v}" for k, v in ARGUMENTS.items())]
    call = [sys.executable, "-m", "autotune", *words, "--log", str(log)]
    return seconds(
        lambda: subprocess.run(call, check=True, stdout=subprocess.DEVNULL, env=here.environment())
    )


def frame(path: Path, size: int) -> tuple[float, float]:
    """Return the seconds and the gigabytes that a frame takes, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", IN_PROCESS, str(path)],
        check=True,
        capture_output=True,
        env=here.environment(),
    )
    taken, own, largest_helper, rows = json.loads(done.stdout)
    if rows != size:
        raise SystemExit(f"{path}: {rows} rows of {size} records")
    return taken, own + largest_helper * min(MOST_HELPERS, os.cpu_count() or 1)


def command(*words: str) -> tuple[float, float]:
    """Return the seconds and the gigabytes that a command of autotune takes."""
    done = subprocess.run(
        [sys.executable, "-c", OF_COMMAND, *words],
        check=True,
        capture_output=True,
        env=here.environment(),
    )
    taken, used = json.loads(done.stdout)
    return taken, used


def commands(path: Path, size: int) -> list[Row]:
    """Measure the commands that read a whole log."""
    rows = []
    made = path.with_name("made.jsonl")
    for name, *options in (("summary", "--json"), ("merge", "-o", made), ("compact", "-o", made)):
        taken, memory = command("records", name, str(path), *map(str, options))
        rows.append(row(f"`records {name}`, {size} records", taken, "s"))
        rows.append(row(f"its memory, {size} records ({name})", memory, "GB"))
        made.unlink(missing_ok=True)
    return rows


def measured(folder: Path, largest: int) -> list[Row]:
    """Return all rows."""
    wanted = task()
    own = own_records(wanted, 64)
    rows = appends(folder, own)
    small = RecordStore(folder / "small.jsonl")
    small.append(own)
    assert choose(wanted, small.load()) is not None  # what is slow once is done
    for size in (size for size in SIZES if size <= largest):
        path = folder / f"{size}.jsonl"
        write(path, size, own)
        if size <= LOADED:
            store = RecordStore(path)
            rows.append(row(f"loading as objects, {size} records", seconds(store.load), "s"))
        rows += looked_up(path, wanted, own[0], size)
        taken, memory = frame(path, size)
        aims = (FRAME_S, FRAME_GB) if size == SIZES[-1] else (None, None)
        rows.append(row(f"frame, {size} records", taken, "s", aims[0], True))
        rows.append(row(f"its memory, {size} records", memory, "GB", aims[1], True))
        rows += commands(path, size)
        if size == largest:
            pairs = [(command_s(path), command_s(small.path)) for _ in range(3)]
            more = 1e3 * statistics.median(a - b for a, b in pairs)
            rows.append(row(f"`autotune best`, {size} records beside 64", more, "ms more"))
        path.unlink()
    return rows


def main() -> None:
    """Measure, and print or save the figures."""
    arguments = parser(__doc__.split("\n")[0])
    arguments.add_argument("--largest", type=int, default=SIZES[-1], help="most records of a log")
    arguments.add_argument("--folder", help="where to write logs; twice the 2.3 GB of 10^6 records")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        rows = measured(Path(folder), given.largest)
    report("records", rows, given.json, given.save, more={"cores": os.cpu_count()})


if __name__ == "__main__":
    main()
