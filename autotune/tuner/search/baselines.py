"""Baseline searches without learning, which any other search should beat: random and grid."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from autotune.tuner.base import Tuner
from search_spaces.space import Space

WINDOW = 1 << 15  # Candidates looked at in one go.

# Infeasible candidates in a row after which a walk through a huge space ends.
MOST_EMPTY = 10_000_000


class RandomTuner(Tuner):
    """Draws feasible candidates uniformly, each once."""

    def _propose(self, n: int) -> list[int]:
        return self._sample(n, self._generator())


class GridTuner(Tuner):
    """Walks through the space from index 0 on, in the order of the knobs' values.

    The space is looked at through a window, so one of any size costs no memory. The walk ends
    at the end of the space, or after ten million infeasible candidates in a row.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._walk = self._feasible()

    def _propose(self, n: int) -> list[int]:
        return list(islice((i for i in self._walk if i not in self._seen), n))

    def _feasible(self) -> Iterator[int]:
        empty = 0
        for first in range(0, len(self.space), WINDOW):
            indices = np.arange(first, min(first + WINDOW, len(self.space)), dtype=np.int64)
            found = indices[self.space.feasible(indices)].tolist()
            yield from found
            empty = 0 if found else empty + WINDOW
            if empty >= MOST_EMPTY:
                return
