"""Measures the cost of compiling a candidate by stage; with --against, over another checkout.

Stages: `lower` (a schedule to loops over knobs, once per structure), `analyse` (substitute and
simplify), `finalise`, `emit` (LLVM assembly as text), `compile` (optimise, generate code, load).
Each round measures every checkout in a new process on the same configurations. The fastest round of
each configuration counts, and the median over configurations is reported. Everything runs on one
thread, so CPU time is measured, which other programs disturb less.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, parser, report, row

CASES: dict[str, tuple[str, dict[str, int]]] = {
    "matmul_512": ("matmul", {"m": 512, "n": 512, "k": 512}),
    "matmul_500": ("matmul", {"m": 500, "n": 500, "k": 500}),
    "conv2d": ("conv2d_nchw", {"n": 1, "c": 64, "h": 56, "w": 56, "o": 64, "kh": 3, "kw": 3}),
    "conv2d_padded": (
        "conv2d_nchw",
        {"n": 1, "c": 64, "h": 56, "w": 56, "o": 64, "kh": 3, "kw": 3, "pad": 1},
    ),
    "softmax": ("softmax", {"m": 4096, "n": 1024}),
    "softmax_1000": ("softmax", {"m": 4096, "n": 1000}),
}
TIMES = ("lower", "analyse", "finalise", "emit", "compile")

Configs = dict[str, list[dict[str, Any]]]
Figures = dict[str, dict[str, list[float]]]
"""By case and stage: milliseconds of each configuration; under "lines", lines of assembly."""


def choose(count: int) -> Configs:
    """Draw configurations of each case, as named knob values."""
    from autotune.task.task import Task

    chosen: Configs = {}
    for name, (template, args) in CASES.items():
        space = Task.from_reference(template, args, "llvm").space
        indices = space.sample(min(count, len(space)), np.random.default_rng(0))
        chosen[name] = [dict(space.config(int(index)).values) for index in indices]
    return chosen


def measure(configs: Configs) -> Figures:
    """Time every stage of every configuration once, with whichever autotune is imported."""
    from autotune.codegen.llvm import emit
    from autotune.lowering.finalise import analyse, finalise
    from autotune.lowering.nest.lower_schedule import lower_schedule
    from autotune.runtime.cpu.llvm_compiler import compile_function
    from autotune.runtime.object_cache import ObjectCache
    from autotune.task.task import Task

    figures: Figures = {}
    for name, (template, args) in CASES.items():
        task = Task.from_reference(template, args, "llvm")
        figures[name] = found = {stage: [] for stage in (*TIMES, "lines")}
        for number, values in enumerate((configs[name][0], *configs[name])):
            index = task.space.index_of(values)
            structure, knobs = task.structure(index), task.knob_values(index)
            clock = [time.process_time()]
            lower_schedule(structure.schedule, structure.tensors)
            clock.append(time.process_time())
            analysed = analyse(structure.function, knobs)
            clock.append(time.process_time())
            final = finalise(analysed)
            clock.append(time.process_time())
            source = emit(final)
            clock.append(time.process_time())
            compile_function(final, "llvm", cache=ObjectCache(None))
            clock.append(time.process_time())
            spent = [1e3 * (b - a) for a, b in pairwise(clock)]
            spent[-1] -= spent[-2]  # compiling has emitted the text again
            if number:  # the first one warms up
                for stage, milliseconds in zip(TIMES, spent, strict=True):
                    found[stage].append(milliseconds)
                found["lines"].append(len(source.text.splitlines()))
    return figures


def measured_in(checkout: Path, configs: Path) -> Figures:
    """Measure in a process that imports autotune from a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, __file__, "--measure", str(configs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"measuring {checkout} failed: {done.stderr.strip()}")
    figures: Figures = json.loads(done.stdout)
    return figures


def medians(rounds: list[Figures]) -> dict[str, dict[str, float]]:
    """Return by case and stage the median over configurations of the fastest round of each.

    "candidate" is the whole cost of a candidate with a known structure.
    """
    result: dict[str, dict[str, float]] = {}
    for name in CASES:
        fastest = {
            stage: np.min([figures[name][stage] for figures in rounds], axis=0)
            for stage in (*TIMES, "lines")
        }
        fastest["candidate"] = sum(fastest[stage] for stage in TIMES[1:])
        result[name] = {stage: statistics.median(of) for stage, of in fastest.items()}
    return result


def rows(own: dict[str, dict[str, float]], other: dict[str, dict[str, float]] | None) -> list[Row]:
    """Return the figures, and their ratios to those of another checkout."""
    found = []
    for name in CASES:
        for stage, value in own[name].items():
            aim = 60.0 if (name, stage) == ("matmul_512", "candidate") else None
            unit = "lines" if stage == "lines" else "ms"
            found.append(row(f"{name}.{stage}", value, unit, aim, lower_is_better=True))
    for name in CASES if other else ():
        for stage, value in own[name].items():
            aim = 1.0 if stage == "candidate" else None
            ratio = value / other[name][stage]
            found.append(row(f"{name}.{stage}.over_other", ratio, "ratio", aim, True))
    return found


def main() -> None:
    """Run the benchmark and report."""
    options = parser(__doc__ or "")
    options.add_argument("--configs", type=int, default=20, help="configurations per case")
    options.add_argument("--rounds", type=int, default=3, help="times that each is measured")
    options.add_argument("--against", type=Path, help="folder of a checkout to compare with")
    options.add_argument("--measure", type=Path, help="measure these configurations, print JSON")
    args = options.parse_args()
    if args.measure:
        print(json.dumps(measure(json.loads(args.measure.read_text()))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        configs = Path(temporary) / "configs.json"
        configs.write_text(json.dumps(choose(args.configs)))
        checkouts = [Path(__file__).parents[1], *([args.against] if args.against else [])]
        measured: list[list[Figures]] = [[] for _ in checkouts]
        for _ in range(args.rounds):
            for checkout, figures in zip(checkouts, measured, strict=True):
                figures.append(measured_in(checkout.resolve(), configs))
    own, *others = map(medians, measured)
    report("compiler", rows(own, others[0] if others else None), args.json, args.save)


if __name__ == "__main__":
    main()
