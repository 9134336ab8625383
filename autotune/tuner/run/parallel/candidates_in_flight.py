"""The candidates that were submitted to several devices and have no result yet."""

from __future__ import annotations

import math

from autotune.measure.measurer import SupportsParallelRuns
from autotune.measure.result import MeasureInput, MeasureResult

# Candidates in flight for each device. Those beyond one per device wait in a queue, so that no
# device waits for a proposal; the price is that each is chosen without the others' results. With
# `overlap` each device has one candidate that is built while it runs another.
FACTOR, WITH_OVERLAP = 1.25, 2.0

# For so many devices one candidate is asked for at a time: a proposal takes as long for several.
DEVICES_PER_PROPOSAL = 4


class CandidatesInFlight:
    """Submits candidates, and says how many there should be.

    measurer: its devices run them.
    """

    def __init__(self, measurer: SupportsParallelRuns) -> None:
        self._measurer = measurer
        self._indices: set[int] = set()

    def __len__(self) -> int:
        return len(self._indices)

    def __contains__(self, index: int) -> bool:
        return index in self._indices

    def missing(self, most: float) -> int:
        """Return how many to submit now; a few at a time, except where none is in flight.

        most: in flight, at most.
        """
        width = self._measurer.width
        factor = WITH_OVERLAP if self._measurer.overlap else FACTOR
        wanted = min(max(width + 1, math.ceil(factor * width)), most)
        missing = int(max(0, wanted - len(self)))
        is_worth_asking = missing >= width // DEVICES_PER_PROPOSAL or wanted == most
        return missing if is_worth_asking or not self._indices else 0

    def submit(self, candidate: MeasureInput) -> None:
        """Let a device run a candidate as soon as one is free."""
        self._indices.add(candidate.config.index)
        self._measurer.submit(candidate)

    def next_result(self) -> tuple[MeasureInput, MeasureResult]:
        """Wait for the next candidate to end; AutotuneError if none ever will."""
        candidate, result = self._measurer.next_result()
        self._indices.discard(candidate.config.index)
        return candidate, result

    def withdraw(self) -> list[int]:
        """Take back the candidates that no device has begun; return their configurations."""
        found = [candidate.config.index for candidate in self._measurer.withdraw()]
        self._indices.difference_update(found)
        return found

    def forget(self) -> list[int]:
        """Give up all of them, because the devices are gone; return their configurations."""
        found = sorted(self._indices)
        self._indices.clear()
        return found
