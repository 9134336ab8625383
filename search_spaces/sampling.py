"""Drawing feasible indices without repetition, from a list of them or by trial and error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from search_spaces.constraints import CHUNK
from search_spaces.knob import IntArray

FRUITLESS_DRAWS = 1 << 22
"""Draws in a row without a new feasible index after which trial and error gives up."""


def sample_pool(pool: IntArray, n: int, rng: np.random.Generator, barred: IntArray) -> IntArray:
    """Draw up to `n` different members of `pool`, ascending int64, leaving out `barred`."""
    keep = np.ones(len(pool), dtype=bool)
    at = np.searchsorted(pool, barred)
    within = at < len(pool)
    at, barred = at[within], barred[within]
    keep[at[pool[at] == barred]] = False
    free = pool[keep]
    return free[rng.choice(len(free), size=min(n, len(free)), replace=False)]


def sample_by_trial(
    size: int,
    feasible: Callable[[IntArray], npt.NDArray[np.bool_]],
    n: int,
    rng: np.random.Generator,
    barred: IntArray,
) -> IntArray:
    """Draw up to `n` different indices below `size` that are feasible and not `barred`."""
    taken = set(barred.tolist())
    found: list[int] = []
    fruitless = 0
    while len(found) < n and fruitless < FRUITLESS_DRAWS:
        draws = rng.integers(size, size=min(max(1024, 2 * (n - len(found))), CHUNK))
        before = len(found)
        for index in draws[feasible(draws)].tolist():
            if len(found) < n and index not in taken:
                taken.add(index)
                found.append(index)
        fruitless = 0 if len(found) > before else fruitless + len(draws)
    return np.array(found, dtype=np.int64)
