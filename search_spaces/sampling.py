"""Drawing feasible indices without repetition, from a list of them or by trial and error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from search_spaces.constraints import CHUNK
from search_spaces.knob import IntArray

# Draws in a row without a new feasible index after which trial and error gives up.
MAX_REJECTED_DRAWS = 1 << 22


def sample_pool(pool: IntArray, n: int, rng: np.random.Generator, excluded: IntArray) -> IntArray:
    """Draw up to `n` different members of `pool`, ascending int64, leaving out `excluded`."""
    keep = np.ones(len(pool), dtype=bool)
    at = np.searchsorted(pool, excluded)
    within = at < len(pool)
    at, excluded = at[within], excluded[within]
    keep[at[pool[at] == excluded]] = False
    free = pool[keep]
    return free[rng.choice(len(free), size=min(n, len(free)), replace=False)]


def sample_by_trial(
    size: int,
    feasible: Callable[[IntArray], npt.NDArray[np.bool_]],
    n: int,
    rng: np.random.Generator,
    excluded: IntArray,
) -> IntArray:
    """Draw up to `n` different indices below `size` that are feasible and not `excluded`."""
    taken = np.unique(excluded)
    found = [np.zeros(0, dtype=np.int64)]
    missing, fruitless = n, 0
    while missing > 0 and fruitless < MAX_REJECTED_DRAWS:
        draws = rng.integers(size, size=min(max(1024, 2 * missing), CHUNK))
        distinct, first = np.unique(draws[feasible(draws)], return_index=True)
        at = np.searchsorted(taken, distinct)
        known = np.zeros(len(distinct), dtype=bool)
        if len(taken):
            known = taken[np.minimum(at, len(taken) - 1)] == distinct
        order = np.argsort(first[~known], kind="stable")[:missing]  # in the order of the draws
        new = distinct[~known][order]
        found.append(new)
        taken = np.insert(taken, np.sort(at[~known][order]), np.sort(new))
        missing -= len(new)
        fruitless = 0 if len(new) else fruitless + len(draws)
    return np.concatenate(found)
