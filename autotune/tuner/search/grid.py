"""Grid search: every feasible candidate in order of its index."""

from __future__ import annotations

import numpy as np

from autotune.tuner.base import Tuner
from search_spaces.space import Space

WINDOW = 1 << 15  # Candidates looked at in one go.

# Infeasible candidates in a row after which a walk through a huge space ends.
MAX_EMPTY_WINDOWS = 10_000_000


class GridTuner(Tuner):
    """Walks through the space from index 0 on, in the order of the knobs' values.

    The space is looked at through a window, so one of any size costs no memory. The walk ends
    at the end of the space, or after ten million infeasible candidates in a row.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._window: list[int] = []
        self._next = 0

    def _propose(self, n: int) -> list[int]:
        proposals: list[int] = []
        while len(proposals) < n and self._fill():
            index = self._window.pop()
            if index not in self._seen:
                proposals.append(index)
        return proposals

    def _fill(self) -> bool:
        """Make sure the window holds a candidate; False where the walk ends."""
        last = min(len(self.space), self._next + MAX_EMPTY_WINDOWS)
        while not self._window and self._next < last:
            stop = min(self._next + WINDOW, len(self.space))
            indices = np.arange(self._next, stop, dtype=np.int64)
            self._window = indices[self.space.feasible(indices)][::-1].tolist()
            self._next = stop
        return bool(self._window)
