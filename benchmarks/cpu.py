"""Tuned CPU kernels against NumPy, and what tuning costs; every ratio comes from one run.

Each kernel is tuned by `autotune run` into a temporary log, built from that log, checked, and
timed in turn with its baseline.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, paired, parser, report, row

import autotune
from autotune.lowering.finalise import analyse, finalise
from autotune.runtime.cpu.benchmark_kernels import copies
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.target import Target
from autotune.task.task import Task

Array = np.ndarray[Any, np.dtype[Any]]


def tune(folder: Path, template: str, args: dict[str, int], trials: int) -> tuple[Any, float]:
    """Tune a template as a user would; return the built function and the seconds it took."""
    log = folder / f"{template}-{'-'.join(map(str, args.values()))}.jsonl"
    command = [sys.executable, "-m", "autotune", "run", template, "--seed", "1"]
    command += ["--trials", str(trials), "--log", str(log)]
    for name, value in args.items():
        command += ["--set", f"{name}={value}"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"autotune run {template} failed: {done.stderr.strip()}")
    print(done.stdout.strip().splitlines()[-1], file=sys.stderr)
    return autotune.build(template, args, target="llvm", records=str(log)), seconds


def uniform(*shape: int) -> Array:
    """Return random float32 values in [-1, 1)."""
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def matmul_rows(folder: Path, trials: int) -> list[Row]:
    """Tuned matmul over NumPy's BLAS, and the speed of tuning."""
    aim = 1.5 if Target.of("llvm").vector_bytes >= 64 else 1.0
    rows = []
    for n in (512, 1024, 2048):
        built, seconds = tune(folder, "matmul", {"m": n, "n": n, "k": n}, trials)
        a, b, c, d = uniform(n, n), uniform(n, n), np.empty((n, n), "f4"), np.empty((n, n), "f4")
        ours, theirs = paired(partial(built, a, b, c), partial(np.matmul, a, b, out=d))
        np.testing.assert_allclose(c, d, rtol=1e-3, atol=1e-3)
        rows.append(row(f"matmul.{n}.over_numpy", theirs / ours, "ratio", aim))
        rows.append(row(f"matmul.{n}.gflops", 2e-9 * n**3 / ours, "GFLOPS"))
        rows.append(row(f"matmul.{n}.numpy_gflops", 2e-9 * n**3 / theirs, "GFLOPS"))
        if n == 512:
            rows.append(row("tuning.trials_per_s.matmul_512", trials / seconds, "1/s", 5.0))
    return rows


def broadcast_rows(folder: Path, trials: int) -> list[Row]:
    """Tuned broadcast_add over np.add, and as a share of copy bandwidth."""
    n = 4096
    built, _ = tune(folder, "broadcast_add", {"n": n}, trials)
    a, b, c, d = uniform(n, 1), uniform(n, n), np.empty((n, n), "f4"), np.empty((n, n), "f4")
    ours, theirs = paired(lambda: built(a, b, c), lambda: np.add(a, b, out=d))
    np.testing.assert_array_equal(c, d)
    ways = copies(Target.of("llvm"), 2.0 * b.nbytes)
    pairs = [paired(lambda: built(a, b, c), copy) for copy, _ in ways]
    share = min(copy / mine for mine, copy in pairs)
    return [
        row(f"broadcast_add.{n}.over_numpy", theirs / ours, "ratio", 1.0),
        row(f"broadcast_add.{n}.share_of_copy", share, "ratio", 0.9),
        row(f"broadcast_add.{n}.gb_per_s", 8e-9 * n * n / ours, "GB/s"),
    ]


def im2col(data: Array, weight: Array, columns: Array, out: Array) -> None:
    """Convolution by unfolding windows and NumPy's BLAS."""
    o, c, kh, kw = weight.shape
    windows = np.lib.stride_tricks.sliding_window_view(data[0], (kh, kw), axis=(1, 2))
    np.copyto(columns, windows.transpose(0, 3, 4, 1, 2))
    np.matmul(weight.reshape(o, -1), columns.reshape(c * kh * kw, -1), out=out.reshape(o, -1))


def conv_rows(folder: Path, trials: int) -> list[Row]:
    """Tuned convolution over im2col with NumPy's BLAS."""
    size = {"n": 1, "c": 64, "h": 56, "w": 56, "o": 64, "kh": 3, "kw": 3}
    built, _ = tune(folder, "conv2d_nchw", size, trials)
    data, weight = uniform(1, 64, 56, 56), uniform(64, 64, 3, 3)
    out, other = np.empty((1, 64, 54, 54), "f4"), np.empty((1, 64, 54, 54), "f4")
    columns = np.empty((64, 3, 3, 54, 54), "f4")
    ours, theirs = paired(
        lambda: built(data, weight, out), lambda: im2col(data, weight, columns, other)
    )
    np.testing.assert_allclose(out, other, rtol=1e-3, atol=1e-3)
    gflops = 2e-9 * 54 * 54 * 64 * 64 * 9 / ours
    return [
        row("conv2d.1x64x56x56.over_im2col", theirs / ours, "ratio", 1.0),
        row("conv2d.1x64x56x56.gflops", gflops, "GFLOPS"),
    ]


def softmax_rows(folder: Path, trials: int) -> list[Row]:
    """Tuned softmax over NumPy."""
    m, n = 4096, 1024
    built, _ = tune(folder, "softmax", {"m": m, "n": n}, trials)
    x, y, z = uniform(m, n), np.empty((m, n), "f4"), np.empty((m, n), "f4")

    def numpy_softmax() -> None:
        np.subtract(x, x.max(axis=1, keepdims=True), out=z)
        np.exp(z, out=z)
        np.divide(z, z.sum(axis=1, keepdims=True), out=z)

    ours, theirs = paired(lambda: built(x, y), numpy_softmax)
    np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-7)
    return [row(f"softmax.{m}x{n}.over_numpy", theirs / ours, "ratio", 1.0)]


def candidate_rows() -> list[Row]:
    """Milliseconds from a configuration to machine code, the cache switched off."""
    task = Task.from_reference("matmul", {"m": 512, "n": 512, "k": 512}, "llvm")
    indices = task.space.sample(25, np.random.default_rng(0))
    lowering, compiling = [], []
    for index in indices:
        start = time.perf_counter()
        structure = task.structure(int(index))
        function = finalise(analyse(structure.function, task.knob_values(int(index))))
        middle = time.perf_counter()
        compile_function(function, "llvm", cache=ObjectCache(None))
        lowering.append(1e3 * (middle - start))
        compiling.append(1e3 * (time.perf_counter() - middle))
    both = [a + b for a, b in zip(lowering, compiling, strict=True)]
    return [
        row("candidate.matmul_512.total", np.median(both), "ms", 60.0, lower_is_better=True),
        row("candidate.matmul_512.lower", np.median(lowering), "ms"),
        row("candidate.matmul_512.compile", np.median(compiling), "ms"),
    ]


def main() -> None:
    """Run the benchmarks and report."""
    options = parser(__doc__ or "")
    options.add_argument("--trials", type=int, default=128, help="measurements per kernel")
    options.add_argument("--only", default="", help="regular expression on the names of the parts")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts: dict[str, Callable[[], list[Row]]] = {
            "candidate": candidate_rows,
            "matmul": lambda: matmul_rows(folder, args.trials),
            "broadcast_add": lambda: broadcast_rows(folder, args.trials),
            "conv2d": lambda: conv_rows(folder, args.trials),
            "softmax": lambda: softmax_rows(folder, args.trials),
        }
        rows = [r for name, part in parts.items() if re.search(args.only, name) for r in part()]
    report("cpu", rows, args.json, args.save)


if __name__ == "__main__":
    main()
