"""Counts the measurements since the best time last became clearly better."""

from __future__ import annotations

CLEARLY = 1.02
"""An improvement by this factor counts."""


class ImprovementTracker:
    """Compares the best throughput before each proposal; the order of results does not matter."""

    def __init__(self) -> None:
        self._best = 0.0
        self._since = 0

    def in_vain(self, best: float, known: int) -> int:
        """Return the number of measurements since the last clear improvement.

        best: greatest throughput so far, in runs per second.
        known: number of measurements so far.
        """
        if best > CLEARLY * self._best:
            self._best, self._since = best, known
        return known - self._since
