"""Runs the tuned GPU kernels under NVIDIA's compute-sanitizer, each in a new process.

    python benchmarks/sanitize.py [--only NAME,...] [--folder FOLDER] [--tools memcheck,racecheck]

The fastest configuration of each row that `gpu.py` has tuned runs once under each tool: memcheck
(accesses outside of arrays, which lie alone in memory for that, and leaks), racecheck (two threads
at one place of shared memory without a barrier between them) and synccheck (barriers that not all
threads come to). Large products run with their configuration at a smaller size, because kernels are
some hundred times slower under it. Exit codes: 0 no error was found, 1 an error was found, 2 there
is no GPU, no compute-sanitizer, or no tuned kernel.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import here
from gpu import FOLDER, known_device, settle
from gpu_results import Results
from gpu_rows import Kernel, chosen, kernels, tiny_kernels

TOOLS = ("memcheck", "racecheck", "synccheck")
FOUND = 57
"""Exit code of the sanitizer for an error that it has found; ours are others."""

TIMEOUT_S = 300.0


def main(words: Sequence[str] | None = None) -> int:
    """Run every kernel under every tool; return the exit code."""
    args = _options().parse_args(words)
    settle()
    facts = known_device(on_cpu=False)
    if facts is None:
        return 2
    known = tiny_kernels(texts=True) if args.tiny else kernels(facts["device"]["l2_bytes"])
    rows = chosen(known, args.only)
    results = Results(args.folder, facts)
    if args.launch:
        (row,) = rows
        return _launch(row, results)
    sanitizer = args.sanitizer or shutil.which("compute-sanitizer")
    if sanitizer is None:
        print("sanitize.py: there is no compute-sanitizer on the PATH", file=sys.stderr)
        return 2
    tuned = [row for row in rows if results.search(row)["bests"]]
    if not tuned:
        print(f"sanitize.py: {results.log} holds nothing tuned: run gpu.py", file=sys.stderr)
        return 2
    findings = [_look(sanitizer, tool, row, args) for row in tuned for tool in args.tools]
    return int(any(findings))


def _options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--only", default="", metavar="NAME,...", help="rows, or kinds of them")
    found.add_argument("--folder", type=Path, default=FOLDER, help="as of gpu.py [%(default)s]")
    found.add_argument("--tools", type=lambda text: text.split(","), default=TOOLS)
    found.add_argument("--sanitizer", metavar="PROGRAM", help="[compute-sanitizer]")
    found.add_argument("--tiny", action="store_true", help="what gpu.py --tiny has tuned")
    found.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    return found


def _look(sanitizer: str, tool: str, row: Kernel, args: argparse.Namespace) -> bool:
    """Run a kernel under a tool; return whether something was found, or it could not be run."""
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), sys.executable]
    command += [__file__, "--launch", "--only", row.name, "--folder", str(args.folder)]
    command += ["--tiny"] if args.tiny else []
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=here.environment(),
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{row.name:16} {tool:10} took longer than {TIMEOUT_S:.0f} s")
        return True
    last = (done.stdout + done.stderr).strip().splitlines()[-1:]
    told = "nothing found" if done.returncode == 0 else f"exit code {done.returncode}: {last}"
    print(f"{row.name:16} {tool:10} {told}", flush=True)
    return done.returncode != 0


def _launch(row: Kernel, results: Results) -> int:
    """Launch the best configuration of a row once, on arrays that the driver gives one by one."""
    from gpu_timing import OnGpu, arrays, best_of

    from autotune.builder import BuiltFunction
    from autotune.runtime.cuda.cupy_driver import cupy
    from autotune.task.task import Task

    cupy().cuda.set_allocator(None)  # CuPy's own puts arrays side by side into larger ones
    bench = OnGpu(results.facts)
    built = best_of(row, bench.target, results.log)
    if row.sanitized_args != dict(row.args):
        row = replace(row, args=row.sanitized_args)
        task = Task.from_reference(row.template, row.args, bench.target)
        assert built.config is not None
        built = BuiltFunction(task.final_of(built.config.values), task.target)
    bench.call_of(built, arrays(row, bench.target))()
    cupy().cuda.runtime.deviceSynchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main())
