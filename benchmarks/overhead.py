"""Measures the share of a tuning run in which nothing is built and nothing runs, and its causes.

    python benchmarks/overhead.py [--size 512] [--trials 256] [--words "--tuner model"] [--save]

Starts `autotune run` on matmul as a process. The measurer reports the intervals of builds and runs;
the rest of the wall time is overhead. Measuring the machine counts as running: kernels for the
ceiling before the first candidate, and the reference kernel for the noise within the run of a
candidate. So do the rounds at the end, which load, check and time kernels in new processes. One row
has the share without the ceiling. Work of the tuner during builds is not overhead. The command runs
from a copy of the packages with their bytecode, as in an installation, because compiling them takes
longer than importing them.

The last rows compare a call of a function under `autotune.autotuned` with a call of the built
function that it finds, and say what `import autotune` takes: `--calls` and `--imports` measure
these alone.
"""

from __future__ import annotations

import compileall
import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import timeit
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from common import Row

Span = tuple[float, float]
"""Beginning and end in Unix seconds."""

AIM = 0.10

PACKAGES = ("autotune", "features", "records", "search_spaces")

#: What the tuning process does itself: a name, and the functions that do it.
PARTS = {
    "tracing the template": ["autotune.task.task:explore"],
    "proposing candidates": ["autotune.tuner.base:Tuner.ask"],
    "taking in results": ["autotune.tuner.base:Tuner.tell"],
    "estimating the gain": ["autotune.tuner.model.model_tuner:ModelTuner.expected_gain"],
    "preparing and learning, longer than builds took": ["autotune.tuner.run.learner:Learner._work"],
    "reading and writing the log": [
        "records.storage.journal:Journal.add",
        "records.storage.journal:Journal.new_records",
    ],
    "claiming candidates": ["records.storage.journal:Journal.claim"],
    "ending the workers": ["autotune.measure.local_measurer:LocalMeasurer.close"],
}


# -- the run, in a process of its own ----------------------------------------------------------


def run_and_tell(path: str, words: Sequence[str]) -> int:
    """Run the command line, and write to `path` when it did what."""
    spans: dict[str, list[Span]] = {name: [] for name in ("build", "run", "ceiling")}
    spans["main"] = [(time.time(), 0.0)]
    from autotune.cli.commands import run
    from autotune.cli.main import main

    start = run.load_numpy_for_one_thread

    def watched() -> None:
        """Watch what the run imports, now that the process it starts first imports beside it."""
        start()
        for name, functions in PARTS.items():
            for function in functions:
                _watch(function, spans.setdefault(name, []))
        _watch_measurer(spans)

    run.load_numpy_for_one_thread = watched
    code = 1
    try:
        code = main(["run", *words])
    finally:
        spans["main"] = [(spans["main"][0][0], time.time())]
        Path(path).write_text(json.dumps(spans))
    return code


def _find(name: str) -> tuple[Any, str]:
    """Return what holds a function, ``module:path.to.it``, and its name there."""
    module, _, path = name.partition(":")
    holder: Any = __import__(module, fromlist=["_"])
    *parents, last = path.split(".")
    return functools.reduce(getattr, parents, holder), last


def _watch(name: str, spans: list[Span]) -> None:
    """Let a function note when it was at work."""
    holder, last = _find(name)
    function = getattr(holder, last)

    @functools.wraps(function)
    def watched(*args: Any, **options: Any) -> Any:
        begin = time.time()
        try:
            return function(*args, **options)
        finally:
            spans.append((begin, time.time()))

    setattr(holder, last, watched)


def _watch_measurer(spans: dict[str, list[Span]]) -> None:
    """Note when each candidate was built and was run, as its result says, and the ceiling was."""
    from autotune.measure.local_measurer import LocalMeasurer
    from autotune.measure.scheduler import Scheduler

    run: Callable[..., Any] = LocalMeasurer.run

    @functools.wraps(run)
    def watched(*args: Any, **options: Any) -> Any:
        result = run(*args, **options)
        spans["build"] += [result.build_span] if result.build_span else []
        spans["run"] += [result.run_span] if result.run_span else []
        return result

    LocalMeasurer.run = watched
    compare: Callable[..., Any] = LocalMeasurer.compare

    @functools.wraps(compare)
    def compared(*args: Any, **options: Any) -> Any:
        begin = time.time()
        found = compare(*args, **options)
        spans["run"].append((begin, time.time()))
        return found

    LocalMeasurer.compare = compared
    ask_alone: Callable[..., Any] = Scheduler.ask_alone

    @functools.wraps(ask_alone)
    def asked(scheduler: Scheduler, request: str, *args: Any, **options: Any) -> Any:
        response = ask_alone(scheduler, request, *args, **options)
        if request == "ceiling":
            spans["ceiling"].append(response.span)
        return response

    Scheduler.ask_alone = asked


def install(folder: Path) -> None:
    """Copy the packages beside this file to a folder, with their bytecode."""
    source = Path(__file__).resolve().parents[1]
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source / package, folder / package, ignore=ignored)
    compileall.compile_dir(folder, quiet=1)


# -- what it comes to --------------------------------------------------------------------------


def union(spans: Sequence[Span]) -> list[Span]:
    """Return the union of intervals as ordered disjoint intervals."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def within(spans: Sequence[Span], begin: float, end: float) -> list[Span]:
    """Return the parts of some intervals between two times."""
    return [(max(a, begin), min(b, end)) for a, b in spans if a < end and b > begin]


def gaps(spans: Sequence[Span], begin: float, end: float) -> list[Span]:
    """Return the gaps between intervals from one time to another."""
    edges = [begin, *(t for span in union(within(spans, begin, end)) for t in span), end]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]


def length(spans: Sequence[Span]) -> float:
    """Return the seconds in intervals, counted once."""
    return sum(end - begin for begin, end in union(spans))


def rows(spans: dict[str, list[Span]], begin: float, end: float) -> list[Row]:
    """Return the shares, and the causes of the time between builds and runs."""
    from common import row

    work = spans["build"] + spans["run"] + spans["ceiling"]
    first, last = min(work)[0], max(b for _, b in work)
    idle = gaps(work, begin, end)
    unmeasured = gaps(spans["build"] + spans["run"], begin, end)
    found = [
        row("neither building nor running", length(idle) / (end - begin), "share", AIM, True),
        row(
            "the same, from the first build on",
            length(gaps(work, first, end)) / (end - first),
            "share",
            AIM,
            True,
        ),
        row("if measuring the machine were neither", length(unmeasured) / (end - begin), "share"),
        row("wall time", end - begin, "s"),
        row("building", length(spans["build"]), "s"),
        row("running", length(spans["run"]), "s"),
        row("measuring the machine", length(spans["ceiling"]), "s"),
        row("neither", length(idle), "s"),
        row("before Python has read our code", spans["main"][0][0] - begin, "s"),
        row("before the first build", first - begin, "s"),
        row("after the last run", end - last, "s"),
    ]
    rest = gaps(work, first, last)
    for name in PARTS:
        mine = [part for a, b in idle for part in within(spans[name], a, b)]
        found.append(row(f"  {name}", length(mine), "s"))
        rest = [part for a, b in rest for part in gaps(spans[name], a, b)]
    found.append(row("  something else, between builds and runs", length(rest), "s"))
    return found


# -- calls of decorated functions --------------------------------------------------------------


def call_rows(rounds: int = 400, calls: int = 250) -> list[Row]:
    """Return what a call of a decorated function takes beside one of the built function.

    The fastest of many short blocks of each counts: others use the machine, too.
    """
    import numpy as np
    from common import row

    import autotune

    arrays = [np.ones((16, 16), np.float32) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is tuned
        decorated = autotune.autotuned("matmul", log=Path(folder, "log.jsonl"), when="default")
        decorated(*arrays)
    built = decorated.built(*arrays)
    blocks = {name: timeit.Timer("f(*arrays)", globals={"f": f, "arrays": arrays})
              for name, f in (("built", built), ("decorated", decorated))}  # fmt: skip
    least = dict.fromkeys(blocks, float("inf"))
    for _ in range(rounds):
        for name, block in blocks.items():
            least[name] = min(least[name], block.timeit(calls) / calls * 1e6)
    more = least["decorated"] - least["built"]
    return [
        row("call of a built product of 16 x 16 x 16", least["built"], "us"),
        row("  under autotuned, more than that", more, "us", 2.0, True),
    ]


# -- imports -----------------------------------------------------------------------------------


def import_rows(rounds: int = 15) -> list[Row]:
    """Return what imports take of a processor in new processes; the least of some rounds.

    Modules that Python has loaded by itself are not counted.
    """
    from common import row

    clock = "import sys, time; n = len(sys.modules); t = time.process_time()"
    told = "print(time.process_time() - t, len(sys.modules) - n)"
    found = []
    for name, text in (("import autotune", "import autotune"),
                       ("  and what `build` needs", "import autotune; autotune.build"),
                       ("  and what `tune` needs", "import autotune; autotune.tune")):  # fmt: skip
        words = [sys.executable, "-c", "; ".join([clock, text, told])]
        outs = [subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
                for _ in range(rounds)]  # fmt: skip
        found.append(row(name, 1e3 * min(float(seconds) for seconds, _ in outs), "ms"))
        found.append(row(f"{name}: modules", float(outs[0][1]), "modules"))
    return found


def main() -> None:
    from common import parser, report  # not where a run is watched: they load NumPy

    options = parser(__doc__.split("\n")[0])
    options.add_argument("--size", type=int, default=512, help="of the three loops")
    options.add_argument("--trials", type=int, default=256)
    options.add_argument("--words", default="", help="more words for the command line")
    options.add_argument("--calls", action="store_true", help="only calls of decorated functions")
    options.add_argument("--imports", action="store_true", help="only imports")
    given = options.parse_args()
    if given.calls:
        report("overhead_calls", call_rows(), given.json, given.save)
        return
    if given.imports:
        report("overhead_imports", import_rows(), given.json, given.save)
        return
    with tempfile.TemporaryDirectory() as folder:
        response = Path(folder, "spans.json")
        sizes = [word for axis in "mnk" for word in ("--set", f"{axis}={given.size}")]
        words = ["matmul", *sizes, "--trials", str(given.trials), "--seed", "0"]
        words += ["--log", str(Path(folder, "log.jsonl")), *shlex.split(given.words)]
        copy = Path(folder, "packages")
        install(copy)
        path = os.pathsep.join([str(copy), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        environment["AUTOTUNE_CACHE_DIR"] = str(Path(folder, "cache"))
        begin = time.time()
        subprocess.run(
            [sys.executable, __file__, "--told", str(response), *words],
            check=True,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        end = time.time()
        found = rows(json.loads(response.read_text()), begin, end)
    found += call_rows() + import_rows()
    report("overhead", found, given.json, given.save)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--told"]:
        exit_code = run_and_tell(sys.argv[2], sys.argv[3:])
        sys.stdout.flush()
        os._exit(exit_code)  # as the command leaves
    main()
