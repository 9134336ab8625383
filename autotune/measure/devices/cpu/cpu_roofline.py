"""Measures what this machine can do at best: its multiply-add peak and its copy bandwidth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from autotune.ir import dtypes
from autotune.measure.devices.cpu.benchmark_kernels import copying, multiply_adds
from autotune.measure.environment import cache_bytes
from autotune.measure.roofline import Ceiling
from autotune.target import Target

SECONDS = 0.5
"""Time for all measurements together; compiling their kernels, the first time, comes on top."""

_STEPS = 1 << 19
"""Multiply-adds in a row; they last about 2 ms, in which waking threads does not show."""

_LARGEST_COPY = 1 << 28
_ROUNDS = 3


def measure_ceiling(
    target: Target,
    kinds: Sequence[str] = ("float32", "float64"),
    touched_bytes: float | None = None,
    seconds: float = SECONDS,
) -> Ceiling:
    """Measure what the machine can do, with nothing else going on in this process.

    Parameters
    ----------
    target : Target
        Of kind "llvm"; its threads and vector width are used.
    kinds : sequence of str
        Element types whose peak is wanted; those that have none are left out.
    touched_bytes : float, optional
        Bytes that the work to be judged reads and writes: as many are copied, so that work whose
        data stay in a cache is held against that cache. None: more than any cache holds.
    seconds : float
        Time to spend on running.

    Raises
    ------
    TargetError
        If the target is none of this machine's CPUs.
    """
    wide = sorted({dtypes.accumulator(kind) for kind in kinds if dtypes.is_float(kind)})
    ways = copies(target, touched_bytes)
    share_s = seconds / (len(wide) + len(ways))
    measured = {kind: _peak(target, kind, share_s) for kind in wide}
    return Ceiling(
        {kind: measured[dtypes.accumulator(kind)] for kind in kinds if dtypes.is_float(kind)},
        max(count / fastest(call, share_s) for call, count in ways),
    )


def fastest(
    call: Callable[[], object],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the seconds of the fastest of the calls that fit into a time, of three at least.

    The fastest, since slow calls tell of neighbours and not of the machine.
    """
    end = clock() + seconds
    least, rounds = math.inf, 0
    while rounds < _ROUNDS or clock() < end:
        begin = clock()
        call()
        least = min(least, clock() - begin)
        rounds += 1
    return max(least, 1e-9)


def _peak(target: Target, dtype: str, seconds: float) -> float:
    """Operations per second of multiply-adds of one type in registers, with all threads."""
    call, count = multiply_adds(target, dtype, _STEPS)
    call()
    return 2.0 * count / fastest(call, seconds)


def copies(
    target: Target, touched_bytes: float | None
) -> list[tuple[Callable[[], object], float]]:
    """Return ways to copy: with one thread, with all of them, and that past the caches.

    Parameters
    ----------
    target : Target
        Of kind "llvm".
    touched_bytes : float, optional
        Bytes to read and write, together; None: more than any cache holds.

    Returns
    -------
    list of (callable, float)
        Each a call, and the bytes that it reads and writes.
    """
    wanted = 4.0 * cache_bytes() if touched_bytes is None else touched_bytes
    wanted = min(wanted, _LARGEST_COPY)
    plain, moved = copying(target, wanted)
    source = np.ones(round(moved / 2), np.int8)
    return [
        (partial(np.copyto, np.zeros_like(source), source), moved),
        (plain, moved),
        copying(target, wanted, stream=True),
    ]
