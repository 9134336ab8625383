"""Measures the noise of the machine: times a reference kernel of constant work.

What makes it slower, such as another program or a hot processor, makes candidates slower, too.
Without this measurement a search would blame the candidates.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections import deque
from collections.abc import Callable

# A machine with more noise than this is called noisy: a difference of a tenth cannot be seen on it.
NOISY = 0.1

DISTURBED = 0.25  # A call of the reference kernel that is slower by this share was disturbed.
CALLS = 4  # Calls in a loop, which lasts about as long as a repeat of a candidate: 8 ms.
LOOPS = 2  # Loops that are timed per sample; one call before them wakes the threads.
SAMPLES = 8  # Samples that the estimate is made from.
INTERVAL_S = 2.0  # Seconds between samples, which take a hundredth of the time then.


# Share of its time that a kernel's threads wait for a processor, all together, if a neighbour
# disturbs it.
WAITING = 0.05


def run_queue_wait_s() -> float | None:
    """Return how long this process's threads have been ready to run without running, in seconds.

    It is the sum over threads of the second number of Linux's ``/proc/self/task/*/schedstat``; None
    where there is no such file.
    """
    waited_ns = 0
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return None
    for thread in threads:
        with contextlib.suppress(OSError):  # a thread that has just ended
            with open(f"/proc/self/task/{thread}/schedstat", "rb") as file:
                waited_ns += int(file.read().split()[1])
            continue
        if not os.path.exists("/proc/self/schedstat"):
            return None
    return waited_ns * 1e-9


class WaitingShare:
    """The share of a period in which threads of this process waited for a processor.

    Others then had the processors: how noisy the machine was *during* that stretch, where
    `NoiseMonitor` tells how noisy it is most of the time.

    waited_s: like `run_queue_wait_s`.
    clock: monotonic time in seconds.
    """

    def __init__(
        self,
        waited_s: Callable[[], float | None] = run_queue_wait_s,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._waited_s = waited_s
        self._clock = clock
        self._begin = clock()
        self._before_s = waited_s()

    @property
    def disturbed(self) -> bool:
        """Whether the threads waited for a large share of the time; False if that is not known."""
        after_s = self._waited_s()
        if self._before_s is None or after_s is None:
            return False
        return after_s - self._before_s > WAITING * (self._clock() - self._begin)


class NoiseMonitor:
    """Times a reference kernel now and then, and estimates the noise from the latest times.

    The noise is by how much the upper quartile of the loops is slower than the fastest of all their
    calls, relative to that. So it grows with what loops in a row differ by, with the drift from one
    sample to another, and with another program that runs all the time: it slows every loop, which
    lasts for several time slices of the system, but not every call. One slow loop in a while does
    not count, as it does not for medians of candidates.

    call: runs the reference kernel once.
    clock: monotonic time in seconds.
    timed: runs it once and returns the seconds it takes; by the clock, if it is not given.
    """

    def __init__(
        self,
        call: Callable[[], object],
        clock: Callable[[], float] = time.perf_counter,
        timed: Callable[[], float] | None = None,
    ) -> None:
        self._call = call
        self._clock = clock
        self._timed = timed or self._timed_call
        self._loops: deque[list[float]] = deque(maxlen=SAMPLES * LOOPS)
        self._next = clock()

    @property
    def noise(self) -> float | None:
        """The estimate; None before the first sample."""
        if not self._loops:
            return None
        means = [statistics.fmean(loop) for loop in self._loops]
        upper = statistics.quantiles(means, n=4, method="inclusive")[2]
        return upper / min(map(min, self._loops)) - 1.0

    @property
    def noisy(self) -> bool:
        """Whether the machine is too noisy to tell good candidates from better ones."""
        return (self.noise or 0.0) > NOISY

    def is_quiet_now(self) -> bool:
        """Time the reference kernel once; return whether that went about as fast as ever."""
        self._call()
        seconds = self._timed()
        return not self._loops or seconds <= (1.0 + DISTURBED) * min(map(min, self._loops))

    def sample(self) -> None:
        """Time the reference kernel, unless the last sample is too recent."""
        if self._clock() < self._next:
            return
        self._call()
        for _ in range(LOOPS):
            self._loops.append([self._timed() for _ in range(CALLS)])
        self._next = self._clock() + INTERVAL_S

    def _timed_call(self) -> float:
        begin = self._clock()
        self._call()
        return max(self._clock() - begin, 1e-9)
