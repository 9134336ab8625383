"""Real workloads: our kernels, tuned and by default, beside NumPy and ONNX Runtime.

    python benchmarks/corpus.py --job benchmarks/corpus/cpu.toml [--only 0 2 5] [--trials N]

Each workload of the job file is tuned by `autotune run`; then a process of its own checks that our
kernels and the libraries compute the same, and times them (`corpus_timing.py` says how). With
`--target cuda` the libraries are PyTorch, which calls cuBLAS and cuDNN, and `torch.compile`.

- `corpus.NAME.over_library`: seconds of the fastest library over ours, with the same threads and
  type. A library without a counterpart of the operator is left out.
- `corpus.NAME.of_ceiling`: the ceiling (roofline) over our seconds. It is measured as by `autotune
  run`, but beside the contenders: the machine may have been faster before.
- `corpus.NAME.default_over_tuned`: our seconds over those of the default configuration.
- `corpus.NAME.tuning_s`: wall time of `autotune run`, which finds nothing compiled earlier.
- `corpus.NAME.first_build_s`: the part of it before the first candidate is built.
- `corpus.NAME.structures`: ways through the template that were traced.

The same call goes on after an interruption: results and logs are kept in a folder. A workload is
done again if it has failed, if it or the trials have changed, or if the code of autotune has.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import here
from common import RESULTS, parser, report
from corpus_report import draw, line, rows_of, summary, table
from corpus_timing import Request

from autotune.cli.options.job_files import load_job
from autotune.cli.options.run_options import IN_JOB, read
from autotune.errors import AutotuneError, UsageError
from autotune.report.plots import check_picture
from autotune.runtime import environment
from autotune.system.available_cpus import thread_count
from autotune.target import Target

HERE = Path(__file__).resolve().parent
ROUNDS = 5

TRIALS = 64
TIMING_TIMEOUT_S = 600.0
TUNING_TIMEOUT_S = 600.0
TRIAL_TIMEOUT_S = 10.0
"""Seconds that a trial may take in the mean, beside those above for the whole tuning."""

OWN_CODE = ("autotune", "features", "search_spaces", "records", "benchmarks/corpus_*.py")
"""What results depend on."""

LAST_LINE = 300
"""Letters that are kept of why a command failed."""


@dataclass(frozen=True)
class Workload:
    """A workload of a job file.

    Attributes
    ----------
    number : int
        Its place, from 0.
    name : str
    options : mapping
        All that the file says of it, defaults included.
    request : Request
        How it is timed; its log is yet to be named.
    """

    number: int
    name: str
    options: Mapping[str, Any]
    request: Request


def main(words: Sequence[str] | None = None) -> int:
    """Tune, time and report; return the exit code.

    1 if no workload could be tuned and timed, 2 for a mistake, 130 if interrupted.
    """
    options = _options()
    args = options.parse_args(words)
    if args.save and args.only is not None:
        options.error("--save is for all workloads: leave --only out")
    if args.rounds < 1:
        options.error(f"--rounds must be at least 1, got {args.rounds}")
    try:
        _check_outputs(args)
        chosen = list(workloads(args))
        targets = {Target.of(workload.request.target) for workload in chosen}
    except AutotuneError as error:
        print(f"corpus.py: {error}", file=sys.stderr)
        return 2
    if not gpu_is_there(targets):
        return 2
    results: list[dict[str, Any]] = []
    try:
        folder = Folder(args)
        for count, workload in enumerate(chosen, 1):
            print(f"[{count}/{len(chosen)}] {workload.name}: ", end="", file=sys.stderr, flush=True)
            results.append(folder.result(workload))
            print(line(results[-1]), file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"corpus.py: {error}", file=sys.stderr)
        return 2
    _report(args, results, chosen[0].request.target)
    return 0 if any("error" not in result for result in results) else 1


def _options() -> argparse.ArgumentParser:
    found = parser(__doc__ or "")
    found.formatter_class = argparse.RawDescriptionHelpFormatter
    found.add_argument("--job", type=Path, required=True, help="a job file (TOML, YAML)")
    found.add_argument("--only", type=int, nargs="+", metavar="N", help="workloads, from 0")
    found.add_argument("--trials", type=int, help="measurements of each [those of the file]")
    found.add_argument("--target", help="what for [that of the file; llvm]")
    found.add_argument("--rounds", type=int, default=ROUNDS, help=f"of the timing [{ROUNDS}]")
    found.add_argument(
        "--folder", type=Path, help="of logs and results [benchmarks/results/corpus/JOB]"
    )
    found.add_argument(
        "--keep", action="store_true", help="keep results of other code of autotune, too"
    )
    found.add_argument("--plot", type=Path, help="write the picture (.svg, .png) to this file")
    return found


def _check_outputs(args: argparse.Namespace) -> None:
    """Raise UsageError unless the files that are written at the end can be."""
    if args.plot is not None:
        check_picture(args.plot)
    if args.json not in (None, "-") and not Path(args.json).parent.is_dir():
        raise UsageError(f"--json {args.json}: there is no folder {Path(args.json).parent}")


def _report(args: argparse.Namespace, results: list[dict[str, Any]], target: str) -> None:
    totals = summary(results)
    if args.json != "-":
        print(table(results))
    more = {"job": args.job.name, "trials": args.trials, "workloads": results}
    rows = [*rows_of(results), *totals]
    name = "_".join(["corpus", *_other_names(args.job.stem, target)])
    report(name, rows, args.json, args.save, target, more, totals)
    pictures = [args.plot, RESULTS / f"{name}.svg" if args.save else None]
    for path in filter(None, pictures):
        device = environment.device(Target.of(target))["name"]
        try:
            draw(results, f"{args.job.name} on {device}", path)
        except ImportError:
            print(f"{path}: a picture needs Matplotlib (extra report)", file=sys.stderr)


def _other_names(job: str, target: str) -> list[str]:
    """Return what tells saved results from those of cpu.toml on a CPU."""
    kind = "cpu" if Target.of(target).on_cpu else Target.of(target).kind
    return list(dict.fromkeys(name for name in (job, kind) if name != "cpu"))


def gpu_is_there(targets: set[Target]) -> bool:
    """Whether there are the GPUs that targets need; says in a line if there are none."""
    from gpu import known_device

    needed = [target for target in targets if not target.on_cpu]
    return not needed or known_device(on_cpu=False) is not None


# -- the job file ------------------------------------------------------------------------------


def workloads(args: argparse.Namespace) -> Iterator[Workload]:
    """Yield the chosen workloads of a job file.

    Raises
    ------
    UsageError
        If the file is not what it should be, or lacks a workload.
    """
    top, tables = load_job(str(args.job))
    if "time" in top:
        raise UsageError(f"{args.job}: time is for a whole run: give trials to each workload")
    names = [str(own.get("name", f"{own.get('template')} {n}")) for n, own in enumerate(tables)]
    files = list(map(_file_name, names))
    for name, file in zip(names, files, strict=True):
        if not file:
            raise UsageError(f"{args.job}: the name {name!r} has no letters to name a file after")
        if files.count(file) > 1:
            raise UsageError(f"{args.job}: the name {name!r} or one much like it is given twice")
    chosen = range(len(tables)) if args.only is None else args.only
    for number in chosen:
        if not 0 <= number < len(tables):
            raise UsageError(f"--only {number}: {args.job} has the workloads 0 to {len(names) - 1}")
        own = {**tables[number], "name": names[number]}
        given = {"trials": args.trials, "target": args.target}
        own |= {name: value for name, value in given.items() if value is not None}
        read_ = read(own, IN_JOB, f"{args.job}, workload {names[number]!r}: ")
        request = Request(
            read_["template"], read_.get("target", "llvm"), "", read_.get("set", {}),
            read_.get("shape", {}), read_.get("constant", ()), args.rounds,
        )  # fmt: skip
        yield Workload(number, names[number], own, request)


def _file_name(name: str) -> str:
    """Return a workload's name as that of its files, without suffix."""
    return re.sub(r"\W+", "-", name).strip("-")


# -- a workload --------------------------------------------------------------------------------


class Folder:
    """Logs and results of workloads.

    Parameters
    ----------
    args : Namespace
        The options of the command line.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._folder: Path = args.folder or RESULTS / "corpus" / args.job.stem
        self._keep = args.keep
        self._folder.mkdir(parents=True, exist_ok=True)

    def result(self, workload: Workload) -> dict[str, Any]:
        """Return the result of a workload: the one that is kept, or else it is tuned and timed.

        A workload that was interrupted while it was tuned is tuned from the beginning, so that its
        tuning time is that of one run.
        """
        path, log = (
            self._folder / f"{_file_name(workload.name)}{suffix}" for suffix in (".json", ".jsonl")
        )
        facts = _facts(workload)
        kept = _kept(path)
        known = {**kept.get("facts", {}), **({"code": facts["code"]} if self._keep else {})}
        if known != facts or "error" in kept or not log.exists():
            kept = {}
        if "seconds" in kept:
            return {**kept, "number": workload.number}
        with tempfile.TemporaryDirectory() as temporary:
            variables = {
                **here.environment(),
                "AUTOTUNE_CONFIG_DIR": os.devnull,
                "AUTOTUNE_CACHE_DIR": temporary,
            }
            if not kept:
                path.unlink(missing_ok=True)
                log.unlink(missing_ok=True)
                kept = {"number": workload.number, "name": workload.name, "facts": facts}
                kept |= tune(workload, log, Path(temporary), variables)
                path.write_text(json.dumps(kept, indent=1) + "\n")
            if "error" not in kept:
                kept |= timing(replace(workload.request, log=str(log)), variables)
                path.write_text(json.dumps(kept, indent=1) + "\n")
        return kept


def _kept(path: Path) -> dict[str, Any]:
    """Return what an earlier run wrote of a workload; nothing if that is incomplete."""
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) and isinstance(kept.get("facts"), dict) else {}


def _facts(workload: Workload) -> dict[str, Any]:
    """Return what a result depends on."""
    facts = {
        "workload": dict(workload.options),
        "rounds": workload.request.rounds,
        "device": environment.device(Target.of(workload.request.target)),
        "code": _code_digest(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(facts))
    return plain


@functools.cache
def _code_digest() -> str:
    """Return a digest of the code that results depend on."""
    digest = hashlib.sha256()
    for pattern in OWN_CODE:
        for path in sorted(here.ROOT.glob(pattern)):
            files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            for file in files:
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def tune(
    workload: Workload, log: Path, folder: Path, variables: Mapping[str, str]
) -> dict[str, Any]:
    """Tune a workload as a user would; return its ceiling and tuning time, or its "error"."""
    job = folder / "job.yaml"  # JSON is YAML, too
    job.write_text(json.dumps({"workload": [dict(workload.options)]}))
    command = [sys.executable, "-m", "autotune", "run", "--job", str(job), "--log", str(log)]
    begin, began = time.perf_counter(), time.time()
    limit_s = TUNING_TIMEOUT_S + TRIAL_TIMEOUT_S * workload.options.get("trials", TRIALS)
    try:
        done = _ended([*command, "--seed", "1", "--json-lines"], variables, limit_s)
    except subprocess.TimeoutExpired:
        return {"error": f"its tuning took longer than {limit_s:.0f} s"}
    seconds = time.perf_counter() - begin
    events = [json.loads(text) for text in done.stdout.splitlines()]
    finished = next((event for event in events if event["event"] == "finished"), None)
    if done.returncode or finished is None:
        why = _why(done).replace(f"{job}, workload 1: ", "")
        return {"tuning_s": seconds, "error": why}
    kept = ("trials", "failures", "ceiling_s", "over_default")
    machine = [event for event in events if event["event"] == "machine"]
    first = {event["event"]: event for event in reversed(events)}
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "tuning_s": seconds,
        "first_build_s": first["started"]["time"] - began,
        "structures": first["job"]["structures"],
        "ceiling_of": machine[-1]["ceiling_of"] if machine else None,
        "share_of_run": finished["best"]["share"],
        "noise": max(
            (event["noise"] for event in events if event["event"] == "noisy"), default=None
        ),
        **{name: finished[name] for name in kept},
    }


def timing(request: Request, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what `corpus_timing.compare` does, in a new process; or an "error"."""
    target = Target.of(request.target)
    threads = str(thread_count(target.threads))
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
    command = [sys.executable, str(HERE / "corpus_timing.py"), json.dumps(asdict(request))]
    try:
        done = _ended(command, {**variables, **dict.fromkeys(names, threads)}, TIMING_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {"error": f"its timing took longer than {TIMING_TIMEOUT_S:.0f} s"}
    if done.returncode:
        return {"error": f"its timing ended with exit code {done.returncode}: {_why(done)}"}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _ended(
    command: Sequence[str], variables: Mapping[str, str], timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; if this process is interrupted, the command ends first."""
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=variables, **pipes) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            process.terminate()
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _why(done: subprocess.CompletedProcess[str]) -> str:
    lines = [text for text in done.stderr.splitlines() if text.strip()]
    return lines[-1][:LAST_LINE] if lines else f"exit code {done.returncode}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
