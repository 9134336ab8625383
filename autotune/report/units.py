"""Times and speeds as short texts with units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.system.number_text import three_digits as three_digits
from autotune.system.number_text import time_text as time_text
from autotune.system.words import counted

if TYPE_CHECKING:
    from autotune.task.task import Task


def duration_text(seconds: float) -> str:
    """Return how long something takes, to the second: "8 s", "2:05 min", "1:00:00 h"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"


def age_text(seconds: float) -> str:
    """Return how long ago something was, in its largest unit: "3 days", "2 hours", "8 s"."""
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            return counted(int(seconds // length), unit)
    return f"{int(seconds)} s"


def size_text(size: float) -> str:
    """Return a number of bytes with three digits: "0 B", "17.0 KiB", "512 MiB"."""
    if size < 1024:
        return f"{size:.0f} B"
    scale, unit = 1024.0, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if size / scale >= 999.5:
            scale, unit = scale * 1024, larger
    return f"{three_digits(size / scale)} {unit}"


def percent_text(share: float) -> str:
    """Return a share >= 0 to the tenth or whole: ``0.0123`` -> "1.2 %", ``0.59`` -> "59 %"."""
    percent = 100.0 * share
    if 0.0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %"


@dataclass(frozen=True)
class Work:
    """The work of one run of a kernel: its operations and the bytes that it moves."""

    flops: float | None  # Floating-point operations, if known.
    bytes: float  # Size of its arrays.

    @classmethod
    def of(cls, task: Task) -> Work:
        """Return the work of a task's kernel, by which all speeds of it are reported.

        Operations count where the template says how many there are.

        UsageError if the template's count fails.
        """
        return cls(task.flops or None, task.bytes)

    def speed_text(self, cost_s: float) -> str:
        """Return the speed of a run of `cost_s` seconds: in GFLOPS if these are known, or GB/s."""
        gflops = self.gflops(cost_s)
        if gflops is not None:
            return f"{three_digits(gflops)} GFLOPS"
        return f"{three_digits(1e-9 * self.bytes / cost_s)} GB/s"

    def gflops(self, cost_s: float) -> float | None:
        """Return 10^9 operations per second; None if the operations are not known."""
        return None if self.flops is None else 1e-9 * self.flops / cost_s
