"""Keeps the records of one group that a build may use, while a log is read once."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from records.outline import Outline
from records.record import Record

MOST_TRIALS = 64  # Trials of a group that a source of records returns, the fastest ones.

T = TypeVar("T")


@dataclass
class BestOfGroup(Generic[T]):
    """All records of final comparisons, and the fastest trials.

    `most`: trials that are kept.
    `finals`: what was given of final comparisons, in order.
    `trials`, `ok`: number of trials that went by, and of those that succeeded.
    `first_s`, `last_s`: earliest and latest time stamp, of trials and of final comparisons.
    """

    most: int = MOST_TRIALS
    finals: list[T] = field(default_factory=list)
    trials: int = 0
    ok: int = 0
    first_s: float = float("inf")
    last_s: float = float("-inf")
    # A heap, the worst first: -cost in seconds, -number of the trial, what was given of it.
    _fastest: list[tuple[float, int, T]] = field(default_factory=list)

    def add(self, record: Record | Outline, given: T) -> None:
        """Take in a record; `given`: what is wanted of it if it is among the best."""
        self.first_s = min(self.first_s, record.timestamp)
        self.last_s = max(self.last_s, record.timestamp)
        if record.final is not None:
            self.finals.append(given)
            return
        self.trials += 1
        if not record.ok:
            return
        self.ok += 1
        entry = (-(record.cost_s or 0.0), -self.ok, given)
        if len(self._fastest) < self.most:
            heapq.heappush(self._fastest, entry)
        elif entry > self._fastest[0]:
            heapq.heapreplace(self._fastest, entry)

    def fastest(self) -> list[tuple[float, T]]:
        """Return the costs of the fastest trials and what was given of them.

        The fastest comes first, and of equally fast ones the earlier.
        """
        return [(-cost, given) for cost, _, given in sorted(self._fastest, reverse=True)]

    def kept(self, most: int | None = None) -> list[T]:
        """Return what was given of final comparisons, and of the fastest trials, `most` of them."""
        return [*self.finals, *(given for _, given in self.fastest()[:most])]
