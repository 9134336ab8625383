"""How noisy the machine is: a reference kernel that should always take the same time is timed.

Whatever makes it take longer, a neighbour, a hot processor, a busy memory, makes candidates slow
too, and a search that does not know takes it for their fault.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from records import relative_spread

NOISY = 0.1
"""Noise above which a machine is called noisy: candidates a tenth apart cannot be told apart."""

CALLS = 8
"""Calls that are timed at a look; one more before them wakes the threads."""

LOOKS = 8
"""Looks that the estimate is made of."""

INTERVAL_S = 1.0
"""Seconds between looks, each of which takes some 10 ms."""


class NoiseMonitor:
    """Times a reference kernel now and then, and estimates the noise from the latest times.

    The noise is the interquartile range of these times over their median. It shows both how much
    calls in a row differ and how far the machine drifts from one look to another, and is not
    impressed by single slow calls, which medians of candidates are not either.

    Parameters
    ----------
    call : callable
        Runs the reference kernel once.
    clock : callable
        Monotonic time in seconds.
    """

    def __init__(
        self, call: Callable[[], object], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._call = call
        self._clock = clock
        self._times_s: deque[float] = deque(maxlen=LOOKS * CALLS)
        self._next = clock()

    @property
    def noise(self) -> float | None:
        """Relative spread of the latest times; None before the first look."""
        return relative_spread(self._times_s)

    @property
    def noisy(self) -> bool:
        """Whether the machine is too noisy to tell good candidates from better ones."""
        return (self.noise or 0.0) > NOISY

    def look(self) -> None:
        """Time the reference kernel, unless the last look is too short a while ago."""
        if self._clock() < self._next:
            return
        self._call()
        for _ in range(CALLS):
            begin = self._clock()
            self._call()
            self._times_s.append(self._clock() - begin)
        self._next = self._clock() + INTERVAL_S
