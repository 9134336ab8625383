"""Timing one kernel: a loop of calls around one clock, long enough for the clock and the caches."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from itertools import repeat

from autotune.measure.policy import TimingPolicy

_GROWTH = 100
"""A loop grows at most by this factor at once: one call may have been far faster than the next."""


def time_kernel(
    call: Callable[[], object],
    policy: TimingPolicy,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> tuple[float, ...]:
    """Time a kernel that has been called once.

    Parameters
    ----------
    call : callable
        Runs the kernel once.
    policy : TimingPolicy
    clock_ns : callable
        Monotonic time in nanoseconds.

    Returns
    -------
    tuple of float
        Seconds per call, one number per repeat. Loops too short for the policy are run again,
        longer, and do not count.
    """
    for _ in range(policy.warmup - 1):
        call()
    shortest_s = policy.min_repeat_ms * 1e-3
    costs: list[float] = []
    number, spent_s = 1, 0.0
    collecting = gc.isenabled()
    gc.disable()
    try:
        while len(costs) < policy.repeats and (not costs or spent_s < policy.budget_ms * 1e-3):
            seconds = _loop(call, number, clock_ns)
            if not costs and seconds < shortest_s:
                number = _longer(number, seconds, shortest_s)
                continue
            costs.append(seconds / number)
            spent_s += seconds
    finally:
        if collecting:
            gc.enable()
    return tuple(costs)


def _loop(call: Callable[[], object], number: int, clock_ns: Callable[[], int]) -> float:
    """Seconds that `number` calls take, at least one nanosecond."""
    begin = clock_ns()
    for _ in repeat(None, number):
        call()
    return max(clock_ns() - begin, 1) * 1e-9


def _longer(number: int, seconds: float, wanted_s: float) -> int:
    """Return a number of calls that should last `wanted_s` and a little more."""
    wanted = math.ceil(number * 1.1 * wanted_s / seconds)
    return min(max(wanted, number + 1), number * _GROWTH)
