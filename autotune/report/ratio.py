"""How much faster one kernel is than another, no surer than their repeats allow."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.report.units import three_digits

NOISE = 3.0
"""Slowest repeat over the fastest, beyond which a median is not compared with another."""


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as a baseline something is.

    Attributes
    ----------
    value : float
        The baseline's median time over its own.
    low, high : float
        The same of their repeats that lie closest together, and furthest apart.
    repeated : bool
        Whether both were timed more than once: else `low` and `high` mean nothing.
    noisy : bool
        Whether the repeats of either differ so much that `value` means nothing.
    """

    value: float
    low: float
    high: float
    repeated: bool = True
    noisy: bool = False

    @classmethod
    def of(
        cls, costs_s: Sequence[float] | None, baseline_s: Sequence[float] | None
    ) -> Ratio | None:
        """Compare two kernels' times, one per repeat; None if either has none."""
        if not costs_s or not baseline_s:
            return None
        return cls(
            statistics.median(baseline_s) / statistics.median(costs_s),
            min(baseline_s) / max(costs_s),
            max(baseline_s) / min(costs_s),
            min(len(costs_s), len(baseline_s)) > 1,
            any(max(times) > NOISE * min(times) for times in (costs_s, baseline_s)),
        )

    @property
    def level(self) -> bool:
        """Whether the repeats leave open which of the two is faster."""
        return self.repeated and self.low <= 1.0 <= self.high

    @property
    def text(self) -> str:
        """The ratio alone: "2.17x"; "?" if noise hides it."""
        return "?" if self.noisy else f"{three_digits(self.value)}x"

    @property
    def range_text(self) -> str:
        """What the repeats leave open: "2.10 to 2.25"."""
        if self.noisy:
            return "too noisy"
        if not self.repeated:
            return "timed once"
        return f"{three_digits(self.low)} to {three_digits(self.high)}"

    def sentence(self, baseline: str) -> str:
        """Return it in words: "2.17x the default (2.10 to 2.25)"."""
        if self.noisy:
            return "too noisy for a ratio"
        if self.level:
            return f"as fast as {baseline} ({self.range_text})"
        return f"{self.text} {baseline} ({self.range_text})"
