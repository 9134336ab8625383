"""Times several kernels in turns, so that other load of the machine affects all of them equally."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from autotune.measure.timing.kernel_timing import (
    SAMPLE_S,
    Loop,
    gc_disabled,
    lower_quartile,
    timed_loop,
)
from autotune.measure.timing.noise_monitor import WaitingShare

LAPS = 32  # Turns that each kernel gets in a round, if a turn is not too short then.

# A turn lasts so long at least: the first of its calls find the caches and threads as another
# kernel has left them.
SHORTEST_TURN_S = 2e-3

# Of a kernel that takes longer one turn is enough, and the first call is as good as the second.
SLOW_S = 0.05

# Turns that are taken again make a round at most so many times as long, or so many seconds long: a
# neighbour that uses a core now and then is gone by then.
OVERTIME, PATIENCE_S = 2.0, 0.15
WARM_SHARE = 1 / 3  # Share of a turn that does not count.

Call = Callable[[], object]


def time_interleaved(
    calls: Mapping[int, Call],
    seconds: float,
    rng: np.random.Generator,
    loop: Loop | None = None,
    flush: Call | None = None,
    begin: Call = lambda: None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    waiting_share: Callable[[], WaitingShare] = WaitingShare,
) -> dict[int, float]:
    """Time kernels in turns; return the seconds per call of each.

    In each lap every kernel has a turn, in random order. The first third of a turn is not counted;
    of the rest the lower quartile of loops of half a millisecond counts. A turn in which the
    kernel's threads had to wait for a processor does not count if there is another; kernels of
    which most turns were such have further turns. There is no new lap after `OVERTIME` times the
    seconds, and `PATIENCE_S`.

    The speed of a machine wanders by some percent within a tenth of a second, for all kernels
    alike. So a kernel's cost is what is left of its turns when what they have in common with the
    other turns of the same lap is taken out, by a median polish (Tukey, 1977) of their logarithms;
    the lower quartile of the laps is added again. Turns that take more than `SLOWER` times as long
    as the lower quartile of their kernel do not count.

    calls: runs each kernel once. Each has been called before.
    seconds: how long all of it should take: every kernel has at least one turn.
    rng: draws the order.
    loop: makes a number of calls in a row and returns the seconds they take; by the clock, if it is
        not given.
    flush: empties the caches before each sample, which is then a single call.
    begin: called when a turn begins.
    clock_ns: monotonic time in nanoseconds.
    waiting_share: begins to count how long threads wait for a processor.
    """
    loop = loop or partial(timed_loop, clock_ns=clock_ns)
    share_s = seconds / len(calls)
    turn_s = max(share_s / LAPS, SHORTEST_TURN_S)
    calm: dict[int, dict[int, float]] = {index: {} for index in calls}
    disturbed: dict[int, dict[int, float]] = {index: {} for index in calls}
    begun = clock_ns()
    with gc_disabled():
        timer = _Turn(loop, flush, begin, clock_ns)
        pace_s = {index: timer.call_s(call) for index, call in calls.items()}
        mean_s = statistics.fmean(pace_s.values())
        least = 1 if mean_s > SLOW_S else 2
        laps = max(least, math.floor(share_s / max(turn_s, 1.5 * mean_s)))
        end = begun + max(OVERTIME * seconds, PATIENCE_S) * 1e9
        for lap in itertools.count():
            wanted = [i for i in calls if lap < laps or 2 * len(calm[i]) < laps]
            if not wanted or (lap and clock_ns() > end):
                break
            for index in rng.permutation(wanted).tolist():
                waiting = waiting_share()
                found = lower_quartile(timer.samples(calls[index], pace_s[index], turn_s))
                (disturbed if waiting.disturbed else calm)[index][lap] = found
    return polished({index: calm[index] or disturbed[index] for index in calls})


POLISHES = 4  # Passes of the median polish: each changes the residuals less than the one before.

# A turn so many times as long as the quicker ones of its kernel was disturbed, though no thread had
# to wait: a neighbour on the other half of the core, say. The machine's own speed wanders by less.
SLOWER = 1.5


def polished(turns: Mapping[int, Mapping[int, float]]) -> dict[int, float]:
    """Return the cost of each kernel, without the common effect of each lap.

    turns: seconds of each kernel in each lap in which it has a turn that counts; it has one at
        least.
    """
    laps = sorted({lap for found in turns.values() for lap in found})
    left = np.full((len(turns), len(laps)), np.nan)
    for row, found in enumerate(turns.values()):
        slowest = SLOWER * float(np.quantile(list(found.values()), 0.25, method="lower"))
        for lap, seconds in found.items():
            if seconds <= slowest:
                left[row, laps.index(lap)] = math.log(seconds)
    left = left[:, ~np.isnan(left).all(axis=0)]
    whole = ~np.isnan(left).any(axis=0)
    of_kernels, of_laps = np.zeros((len(turns), 1)), np.zeros((1, left.shape[1]))
    for _ in range(POLISHES):
        # Of two turns the faster one counts: what disturbs a turn makes it slower.
        change = np.nanquantile(left, 0.5, axis=1, keepdims=True, method="lower")
        left, of_kernels = left - change, of_kernels + change
        change = np.nanmedian(left, axis=0, keepdims=True)
        left, of_laps = left - change, of_laps + change
    # In a lap without a turn of some kernel, what is common to the others may be their own.
    of_all = np.quantile(of_laps[:, whole] if whole.any() else of_laps, 0.25)
    return {index: math.exp(of_all + of_kernels[row, 0]) for row, index in enumerate(turns)}


class _Turn:
    """Times one kernel for a moment.

    loop, flush, begin, clock_ns: as of `time_interleaved`.
    """

    def __init__(
        self, loop: Loop, flush: Call | None, begin: Call, clock_ns: Callable[[], int]
    ) -> None:
        self._loop = loop
        self._flush = flush
        self._begin = begin
        self._clock_ns = clock_ns

    def call_s(self, call: Call) -> float:
        """Return about how long a call takes; a short one is made after another one."""
        self._begin()
        seconds = self._loop(call, 1)
        return seconds if seconds > SLOW_S else self._loop(call, 1)

    def samples(self, call: Call, call_s: float, turn_s: float) -> list[float]:
        """Return the valid samples of one turn, in seconds per call."""
        self._begin()
        if self._flush is not None:
            self._flush()
            return [self._loop(call, 1)]
        number = max(1, round(SAMPLE_S / call_s))
        start = self._clock_ns()
        if call_s < turn_s:  # the first calls of a longer one are a small part of it
            self._until(start, WARM_SHARE * turn_s, call, number)
        return self._until(start, turn_s, call, number)

    def _until(self, start: int, turn_s: float, call: Call, number: int) -> list[float]:
        """Return samples taken until a turn has lasted so long, at least one."""
        found = [self._loop(call, number) / number]
        while (self._clock_ns() - start) * 1e-9 < turn_s:
            found.append(self._loop(call, number) / number)
        return found


def reallocated(arrays: Sequence[Any], rng: np.random.Generator) -> tuple[list[Any], object]:
    """Return copies of arrays at new addresses, and the memory to keep alive with them.

    They are allocated by NumPy alone, as in a program that calls a built function. So they are on
    huge pages if that program's arrays are, and their addresses are random.
    """
    found, between = [], []
    for array in arrays:
        between.append(np.empty(16 * int(rng.integers(1, 1 << 14)), np.uint8))
        new = np.empty(array.shape, array.dtype)
        np.copyto(new, array)
        found.append(new)
    return found, between
