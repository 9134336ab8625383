"""Times tuned kernels in turns with their baselines, on a GPU, or on a CPU as a test."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gpu_rows import COPY, SCAN, Kernel

from autotune.builder import BuiltFunction, build_task
from autotune.reuse import choose
from autotune.runtime.cpu.benchmark_kernels import copies as cpu_copies
from autotune.target import Target
from autotune.task.task import Task
from records import RecordStore

Array = np.ndarray[Any, np.dtype[Any]]
Call = Callable[[], object]

ROUNDS = 9
ROUND_S = 0.01
"""Seconds that the calls of a round take at least, of each of both."""

_SEED = 0


class Bench(Protocol):
    """A device that runs tuned kernels and their baselines.

    Attributes
    ----------
    target : str
    """

    target: str

    def call_of(self, built: BuiltFunction, given: Sequence[Array]) -> Call:
        """Return a call of a function on some arrays."""

    def library(self, kernel: Kernel) -> Call:
        """Return a call of the library's function of the same arrays: a product, or sums."""

    def copies(self, size: float) -> list[tuple[Call, float]]:
        """Return ways to copy, each with the bytes that it reads and writes: about `size`."""

    def seconds(self, call: Call, number: int) -> float:
        """Return the seconds that so many calls in a row take."""

    def clocks(self) -> dict[str, int] | None:
        """Return the present clocks of the device, if they are known."""


def target_of(facts: Mapping[str, Any], on_cpu: bool) -> str:
    """Return what kernels are built for: the very architecture, whose shared memory is known."""
    return "cuda -on=cpu -arch=sm_90" if on_cpu else f"cuda -arch={facts['arch']}"


def per_call(bench: Bench, call: Call) -> tuple[float, int]:
    """Return the seconds of a call, roughly, and how many make a round."""
    bench.seconds(call, 1)
    seconds = bench.seconds(call, 3) / 3
    return seconds, max(1, round(ROUND_S / seconds))


def paired(bench: Bench, ours: Call, theirs: Call, rounds: int = ROUNDS) -> tuple[float, float]:
    """Return the median seconds of a call of each, timed in turn."""
    numbers = [per_call(bench, call)[1] for call in (ours, theirs)]
    pairs = [
        [
            bench.seconds(call, number) / number
            for call, number in zip((ours, theirs), numbers, strict=True)
        ]
        for _ in range(rounds)
    ]
    mine, others = zip(*pairs, strict=True)
    return statistics.median(mine), statistics.median(others)


def fastest_copy(bench: Bench, size: float) -> tuple[Call, float, float]:
    """Return the best of some ways to copy, the bytes that it moves, and bytes per second."""
    found = []
    for call, moved in bench.copies(size):
        _, number = per_call(bench, call)
        seconds = statistics.median(bench.seconds(call, number) / number for _ in range(5))
        found.append((moved / seconds, call, moved))
    speed, call, moved = max(found, key=lambda entry: entry[0])
    return call, moved, speed


def judged(bench: Bench, kernel: Kernel, log: Path) -> dict[str, Any]:
    """Return the comparison of a tuned kernel with its baseline, in one run.

    Returns
    -------
    dict
        "ratio": of their time to ours, or of the bytes per second that ours moves to those of the
        best copy of as many; "ours_s", "theirs_s": median seconds; "speed" and "unit"; "config"
        of the best record; "clocks" of the device afterwards.
    """
    built = best_of(kernel, bench.target, log)
    ours = bench.call_of(built, arrays(kernel, bench.target))
    if kernel.against != COPY:
        ours_s, theirs_s = paired(bench, ours, bench.library(kernel))
        ratio = theirs_s / ours_s
    else:
        copy, moved, _ = fastest_copy(bench, kernel.amount)
        ours_s, theirs_s = paired(bench, ours, copy)
        ratio = (kernel.amount / ours_s) / (moved / theirs_s)
    return {
        "ratio": ratio,
        "ours_s": ours_s,
        "theirs_s": theirs_s,
        "speed": 1e-9 * kernel.amount / ours_s,
        "unit": kernel.unit,
        "config": dict(built.config.values),
        "clocks": bench.clocks(),
    }


class NotTunedError(Exception):
    """A log holds no valid record of a row."""


def best_of(kernel: Kernel, target: str, log: Path) -> BuiltFunction:
    """Return the fastest configuration that a log holds, built; NotTunedError if it holds none."""
    task = Task.from_reference(kernel.template, kernel.args, target)
    records = RecordStore(log).load() if log.exists() else []
    if choose(task, records) is None:
        raise NotTunedError(f"{kernel.name}: {log} holds no valid record of it")
    return build_task(task, records)


def arrays(kernel: Kernel, target: str) -> list[Array]:
    """Return inputs with random values in [-1, 1), and outputs."""
    rng = np.random.default_rng(_SEED)
    return [
        np.zeros(argument.shape, argument.dtype)
        if argument.is_output
        else (2 * rng.random(argument.shape, np.float32) - 1).astype(argument.dtype)
        for argument in Task.from_reference(kernel.template, kernel.args, target).arguments
    ]


def _library(xp: Any, kernel: Kernel, held: Sequence[Any]) -> Call:
    if kernel.against == SCAN:
        x, y = (array.reshape(-1) for array in held)
        return lambda: xp.cumsum(x, out=y)
    a, b, c = held
    return lambda: xp.matmul(a, b, out=c)


class OnGpu:
    """The first GPU, on a stream of its own; a `Bench`."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        from autotune.runtime.cuda.device.cuda_device import CudaDevice

        self.target = target_of(facts, on_cpu=False)
        self._device = CudaDevice(Target.parse(self.target))
        self._xp = self._device.xp
        self.clocks = self._device.clocks

    def call_of(self, built: BuiltFunction, given: Sequence[Array]) -> Call:
        """Return launches of a function, whose arrays are copied to the device."""
        held = [self._xp.asarray(array) for array in given]
        # Without the checks of arrays that a call of the built function begins with.
        call = self._device.bind(self._device.load(built._compiled.program), held)
        return lambda _held=held: call()

    def library(self, kernel: Kernel) -> Call:
        """Return CuPy's function.

        Its products are cuBLAS's, which uses no TF32 unless CUPY_TF32 is set, its sums along one
        row CUB's unless CUPY_ACCELERATORS says otherwise.
        """
        held = [self._xp.asarray(array) for array in arrays(kernel, self.target)]
        return _library(self._xp, kernel, held)

    def copies(self, size: float) -> list[tuple[Call, float]]:
        """Return the driver's copy, and those of some kernels."""
        return self._device.copies(size)

    def seconds(self, call: Call, number: int) -> float:
        """Return seconds between two events of the device around so many launches."""
        stopwatch = self._device.stopwatch
        stopwatch.new_kernel()
        stopwatch.seconds(call, 1)  # how long it takes says how far launches must be ahead
        return stopwatch.seconds(call, number)


class OnCpu:
    """The processor in a GPU's place, where times mean nothing; a `Bench`."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.target = target_of(facts, on_cpu=True)

    def call_of(self, built: BuiltFunction, given: Sequence[Array]) -> Call:
        """Return a call of a function."""
        return built.bind(*given)

    def library(self, kernel: Kernel) -> Call:
        """Return NumPy's function."""
        return _library(np, kernel, arrays(kernel, self.target))

    def copies(self, size: float) -> list[tuple[Call, float]]:
        """Return copies with one thread, with all of them, and past the caches."""
        return cpu_copies(Target.of("llvm"), size)

    def seconds(self, call: Call, number: int) -> float:
        """Return wall time."""
        begin = time.perf_counter()
        for _ in range(number):
            call()
        return max(time.perf_counter() - begin, 1e-9)

    def clocks(self) -> None:
        """Know nothing of clocks."""
