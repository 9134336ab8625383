"""Timing on a GPU: events on a private stream, and launches queued up before the first begins.

A kernel of a few microseconds ends before the next is launched. Where that could be, the stream is
given something else to do first, so that what lies between two events is the device's time alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

QUEUED = 512  # Launches that are queued up at most; a stream takes about twice as many.
LAUNCH_S = 8e-6  # Seconds that launching is taken to take before it was seen.
LONGEST_LAUNCH_S = 5e-5  # Launching that takes longer than that has been disturbed.

# Seconds for which the device is given other work, about, while launches are queued up.
AHEAD_S = 2e-3

MIN_FLUSH = 1 << 20  # Bytes that are written to flush a cache, at least.

_FILLS = 8


class Stopwatch:
    """Times calls that launch work on a stream of the current GPU.

    `xp`: CuPy.
    `stream`: CuPy's.
    `l2_bytes`: size of the device's largest cache.
    """

    def __init__(self, xp: Any, stream: Any, l2_bytes: int) -> None:
        self._stream = stream
        self._elapsed = xp.cuda.get_elapsed_time
        self._begin, self._end = xp.cuda.Event(), xp.cuda.Event()
        self._filler = xp.empty((max(2 * l2_bytes, MIN_FLUSH),), xp.uint8)
        self._call_s, self._launch_s = math.inf, LAUNCH_S
        self.flush()
        self.wait()
        self._fill_s = self._timed(self.flush, _FILLS) / _FILLS
        self.new_kernel()

    def wait(self) -> None:
        """Wait until all that was launched has ended; raises what became of it."""
        self._stream.synchronize()

    def flush(self) -> None:
        """Write twice as much as the cache holds, without waiting for it."""
        self._filler.data.memset_async(0, self._filler.nbytes, self._stream)

    def new_kernel(self) -> None:
        """Forget how long calls took: others come."""
        self._call_s, self._launch_s = math.inf, LAUNCH_S

    def seconds(self, call: Callable[[], object], number: int) -> float:
        """Return the seconds that the device takes for so many calls in a row.

        They are launched in groups, each behind something else that keeps the device busy for as
        long as launching takes longer than running.

        `call`: launches work; it may not wait for it.
        `number`: at least 1.
        """
        total, left = 0.0, number
        while left:
            late_s = max(self._launch_s - self._call_s, AHEAD_S / QUEUED / 2)
            group = min(left, QUEUED, math.ceil(AHEAD_S / late_s))
            ahead_s = self._launch_s + group * max(self._launch_s - self._call_s, 0.0)
            for _ in range(math.ceil(ahead_s / self._fill_s)):
                self.flush()
            total += self._timed(call, group)
            left -= group
        total = max(total, 1e-9)
        self._call_s = total / number
        return total

    def _timed(self, call: Callable[[], object], number: int) -> float:
        self._begin.record(self._stream)
        begin = time.perf_counter()
        for _ in repeat(None, number):
            call()
        self._launch_s = min((time.perf_counter() - begin) / number, LONGEST_LAUNCH_S)
        self._end.record(self._stream)
        self._end.synchronize()
        return max(float(self._elapsed(self._begin, self._end)) * 1e-3, 1e-9)
