"""The speed-up of one kernel over another, with the range that their repeats allow."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.report.units import three_digits
from records import Record

WIDEST = 2.0  # The upper end of a range over its lower end, beyond which a ratio says nothing.


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as a baseline something is."""

    value: float  # The baseline's median time over its own.
    # Of a final comparison, what its rounds leave open (`tuner/run/finalists.py`).
    # Of others, the baseline's lower quartile over its own upper one, and the other way round: what
    # the middle half of the repeats leave open, so that one disturbed repeat of five does not
    # count. Of fewer than four repeats, the quickest and the slowest count as quartiles.
    low: float
    high: float
    # Whether both were timed more than once: else `low` and `high` mean nothing.
    repeated: bool = True

    @classmethod
    def of(
        cls, costs_s: Sequence[float] | None, baseline_s: Sequence[float] | None
    ) -> Ratio | None:
        """Compare two kernels' times, one per repeat; None if either has none."""
        if not costs_s or not baseline_s:
            return None
        quick_s, slow_s = _quartiles(costs_s)
        quick_baseline_s, slow_baseline_s = _quartiles(baseline_s)
        return cls(
            statistics.median(baseline_s) / statistics.median(costs_s),
            quick_baseline_s / slow_s,
            slow_baseline_s / quick_s,
            min(len(costs_s), len(baseline_s)) > 1,
        )

    @classmethod
    def of_final(cls, record: Record) -> Ratio | None:
        """Return a record's ratio to the default in a final comparison; None if there is none."""
        final = record.final or {}
        if final.get("over_default") is None:
            return None
        low, high = final["range"]
        return cls(final["over_default"], low, high, len(record.costs_s or ()) > 1)

    @property
    def noisy(self) -> bool:
        """Whether the repeats differ so much that the ratio means nothing."""
        return self.high > WIDEST * self.low

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
        """The uncertainty of the repeats: "2.10 to 2.25"."""
        if self.noisy:
            return "too noisy"
        if not self.repeated:
            return "timed once"
        return f"{three_digits(self.low)} to {three_digits(self.high)}"

    def short(self, baseline: str) -> str:
        """Return it in a few words: "2.17x the default"."""
        if self.noisy:
            return "too noisy for a ratio"
        return f"level with {baseline}" if self.level else f"{self.text} {baseline}"

    def sentence(self, baseline: str) -> str:
        """Return it in words: "2.17x the default (2.10 to 2.25)"."""
        return self.short(baseline) + ("" if self.noisy else f" ({self.range_text})")


def _quartiles(costs_s: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper quartile; the extremes of fewer than four times."""
    if len(costs_s) < 4:
        return min(costs_s), max(costs_s)
    low, _, high = statistics.quantiles(costs_s, n=4, method="inclusive")
    return low, high
