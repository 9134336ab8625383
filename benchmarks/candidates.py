"""Measures features of candidates, their scores, and proposals, for features.py.

Features: of random candidates of the structures in structures.py, from their indices to a float32
matrix: all columns that vary (with and without those that repeat another one), and only those that
a model's trees split on. Ranking: these and the model's scores. Models are fitted to synthetic
times of 128 candidates.

Proposals: 64 candidates from the space of matmul_cuda by the model tuner after these times, each in
a new process. n=100 has 1,080,000 configurations, n=96 has 9,483,264, and n=1260 has 2.5 * 10^9.
The constraints of the first two are left out. A population of each is ranked. The first proposal
learns, ranks and chooses; the next one does so after its outcomes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `autotune run` does

import numpy as np
import structures
from common import Row, parser, report, row

from autotune.cost_model.xgboost_model import XGBCostModel
from autotune.feature import TaskFeatures
from autotune.task.task import Task
from autotune.tuner.base import Observation
from autotune.tuner.model.model_tuner import ModelTuner
from autotune.tuner.model.ranking import MAX_THREADS, columns_read, score
from search_spaces import Space

TARGET = "cuda -arch=sm_90"
STRUCTURES = ("matmul_cuda", "conv2d_cuda", "broadcast_add_cuda")
SPACES = {"1e6": 100, "1e7": 96, "larger": 1260}
"""Sizes of matmul_cuda by the approximate number of configurations."""

TOLD, ASKED = 128, 64
CANDIDATES = 1 << 19
AT_A_TIME = 1 << 17
"""Rows of a matrix, as for exporting or training."""

ROUNDS = 5
GIGABYTE = 2.0**30


class MadeUpTimes:
    """Times that depend on all features a little: on the sum of their scaled logarithms.

    Parameters
    ----------
    features : TaskFeatures
    sample : int64 (n,)
        Candidates that the scales are taken from.
    """

    def __init__(self, features: TaskFeatures, sample: Any) -> None:
        self._features = features
        logs = self._logs(sample)
        self._mean, self._std = logs.mean(axis=0), logs.std(axis=0) + 1e-9
        self._weights = np.random.default_rng(0).standard_normal(logs.shape[1])
        self._weights /= np.sqrt(len(self._weights))

    def _logs(self, indices: Any) -> Any:
        return np.log1p(np.abs(self._features.matrix(np.asarray(indices)).astype(np.float64)))

    def __call__(self, indices: Any) -> Any:
        """Return seconds, float64 (n,)."""
        return 1e-3 * np.exp((self._logs(indices) - self._mean) / self._std @ self._weights)

    def observations(self, indices: Any) -> list[Observation]:
        """Return what is told of candidates."""
        times = self(indices)
        return [Observation(int(i), float(t)) for i, t in zip(indices, times, strict=True)]


def task_of(name: str, **args: int) -> Task:
    """Return a task of one of the structures."""
    return Task(getattr(structures, name), args, TARGET)


# -- features and scores -----------------------------------------------------------------------


def rate(function: Callable[[], object], n: int) -> float:
    """Return the candidates per second of the fastest of a few calls."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return n / min(times)


def matrices(features: TaskFeatures, indices: Any, names: Sequence[str]) -> Callable[[], None]:
    """Return a function that evaluates the features of all candidates into one matrix in turn."""
    memory = np.empty((AT_A_TIME, len(names)), np.float32, order="F")

    def evaluate() -> None:
        for start in range(0, len(indices), AT_A_TIME):
            part = indices[start : start + AT_A_TIME]
            features.matrix(part, names, memory[: len(part)])

    return evaluate


def rows_of(name: str) -> Iterator[Row]:
    """Yield the figures of one structure's features."""
    task = task_of(name)
    rng = np.random.default_rng(0)
    indices = np.sort(task.space.sample(CANDIDATES, rng))
    n = len(indices)
    features = TaskFeatures(task)
    told = np.sort(task.space.sample(TOLD, rng))
    model = XGBCostModel(0)
    model.fit(features.matrix(told), 1.0 / MadeUpTimes(features, indices[:: n // 2048])(told))
    read = [features.names[c] for c in columns_read([model], len(features.names))]
    repeating = TaskFeatures(task, repeats=True)
    for what, source, names, aim in (
        ("", features, features.names, 1e6),
        ("with_repeats_", repeating, repeating.names, 1e6),
        ("model_", features, read, 2e6),
    ):
        evaluate = matrices(source, indices, names)
        yield row(f"features.{what}columns.{name}", len(names), "columns")
        yield row(f"features.{what}candidates_per_s.{name}", rate(evaluate, n), "1/s", aim)
    ranked = rate(lambda: score([model], features, indices), n)
    yield row(f"ranking.candidates_per_s.{name}", ranked, "1/s")


# -- proposals -----------------------------------------------------------------------------------


def propose(size: int) -> dict[str, float]:
    """Propose twice from the space of a matmul of this size; return how long it took."""
    task = task_of("matmul_cuda", n=size)
    features = TaskFeatures(task)
    space = Space(task.space.knobs) if len(task.space) <= 10**7 else task.space
    tuner = ModelTuner(space, 0, features)
    for _ in tuner.preparations():
        pass
    rng = np.random.default_rng(0)
    told = np.sort(space.sample(TOLD, rng))
    times = MadeUpTimes(features, told)
    tuner.tell(times.observations(told))
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        asked = tuner.ask(ASKED)
        seconds.append(time.perf_counter() - start)
        tuner.tell(times.observations(asked))
    return {
        "configs": len(space),
        "proposal_s": seconds[0],
        "next_proposal_s": seconds[1],
        "peak_bytes": peak_bytes(),
        "gain": float(times(told).min() / times(asked).min()),
    }


def peak_bytes() -> float:
    """Return the most memory that this process has held; rusage counts what its parent held."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return float(peak) * 1024.0


def proposal_rows(label: str, size: int) -> Iterator[Row]:
    """Yield the figures of proposals from one space, measured in a process of its own."""
    command = [sys.executable, __file__, "--propose", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    aims = {"1e6": 1.5, "1e7": 15.0}
    yield row(f"ranking.configs.{label}", found["configs"], "configs")
    for what in ("", "next_"):
        name = f"ranking.{what}proposal_s.{label}"
        yield row(name, found[f"{what}proposal_s"], "s", aims.get(label), lower_is_better=True)
    peak = found["peak_bytes"] / GIGABYTE
    yield row(f"ranking.peak_memory.{label}", peak, "GiB", 2.0, lower_is_better=True)
    yield row(f"ranking.gain.{label}", found["gain"], "ratio")


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and report."""
    options = parser("Features of candidates, whole spaces ranked, and proposals.")
    options.add_argument("--propose", type=int, metavar="N", help="from matmul_cuda of this size")
    given = options.parse_args(words)
    if given.propose is not None:
        print(json.dumps(propose(given.propose)))
        return
    rows = [row("features.threads", MAX_THREADS, "threads")]
    for name in STRUCTURES:
        rows += rows_of(name)
    for label, size in SPACES.items():
        rows += proposal_rows(label, size)
    report("features", rows, given.json, given.save)


if __name__ == "__main__":
    main()
