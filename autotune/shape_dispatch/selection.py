"""Chooses the smallest set of kernels that keeps every shape within a share of its best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

FloatMatrix = npt.NDArray[np.float64]
FloatVector = npt.NDArray[np.float64]

# Most sets of equal size that are compared.
_MOST_COMPARED = 20_000

ROUNDING = 1e-9  # Losses that differ by less are equal.

# Scale of the logistic distribution of errors of logarithms of slow-downs: between processes those
# of half of the products of benchmarks/dispatch.py differ by more (decision 149).
_ERROR = 0.01

# Logarithm of a slow-down by which a limit is kept in nine of ten measurements.
_SAFE = 2.2 * _ERROR


def select(
    losses: FloatMatrix,
    within: float | Sequence[float],
    most: int | None = None,
    everywhere: Collection[int] = (),
) -> tuple[int, ...]:
    """Return a smallest set of kernels such that each shape has a kernel with a small loss.

    Limits are kept by so much that shapes most likely keep them when they are measured again, if
    some kernel does. A shape that no kernel keeps within `within` has its own limit: what the best
    kernel for it reaches. Of the smallest sets it is the one of the least `costs_of` shapes. If
    more than `most` kernels would be needed, it is such a set of `most`, which need not keep all
    limits: no shape that all kernels but one suit badly decides for the others. Of very many sets
    it is one that is good.

    Parameters
    ----------
    losses : ndarray of float64, shape (n, kernels)
        What each shape loses by each kernel: 0.1 where it takes 1.1 times as long as the best for
        the shape; inf where the kernel cannot be used.
    within : float or sequence of float
        Largest loss, >= 0, of all shapes or of each; inf for a shape that may lose anything.
    most : int, optional
        Largest number of kernels, >= 1.
    everywhere : collection of int
        Kernels that work for every size: the set has one of these. Empty: any will do.

    Returns
    -------
    tuple of int
        The columns of the kernels, in ascending order.

    Raises
    ------
    ValueError
        If some shape has no kernel at all, or no set of `most` kernels serves all shapes.
    """
    if not losses.size or not np.isfinite(losses).any(axis=1).all():
        raise ValueError("some shape has no kernel")
    own = losses.min(axis=1)
    needed = set(everywhere) or set(range(losses.shape[1]))
    limits = np.maximum(within, own)
    safe = np.expm1(np.log1p(within) - _SAFE)
    costs = costs_of(losses, limits)
    found = _smallest(losses, np.where(own <= safe, safe, limits), costs, needed, most)
    if found is None:
        assert most is not None
        found = _least_cost(costs, most, needed)
    if not np.isfinite(losses[:, found].min(axis=1)).all():
        raise ValueError(f"no {most} kernels serve all shapes")
    return found


def promising(
    losses: FloatMatrix, within: float | Sequence[float], most: int, everywhere: Collection[int]
) -> tuple[int, ...]:
    """Return at most so many kernels by which shapes lose little, in ascending order.

    Parameters
    ----------
    losses, within, everywhere
        As of `select`, but shapes may have no kernel.
    most : int
        Largest number of kernels, >= 1.
    """
    usable = np.flatnonzero(np.isfinite(losses).any(axis=0)).tolist()
    own = losses[:, usable]
    needed = {n for n, column in enumerate(usable) if column in set(everywhere)}
    limits = np.maximum(within, own.min(axis=1))
    chosen = _least_cost(costs_of(own, limits), most, needed or {*range(len(usable))})
    return tuple(usable[n] for n in chosen)


def costs_of(losses: FloatMatrix, limits: Sequence[float] | FloatVector) -> FloatMatrix:
    """Return the cost of each shape with each kernel: a small one is better, inf is no kernel.

    That is the logarithm of the slow-down, plus the chance that the shape exceeds its limit when it
    is measured again: to exceed it is worse than what is lost within limits.

    Parameters
    ----------
    losses : ndarray of float64, shape (n, kernels)
        As of `select`.
    limits : sequence of float, length n
        Largest loss of each shape; inf for a shape that may lose anything.
    """
    usable = np.isfinite(losses)
    slower = np.log1p(np.where(usable, losses, 0))
    over = slower - np.log1p(limits)[:, None]
    return np.where(usable, slower + (1 + np.tanh(over / (2 * _ERROR))) / 2, np.inf)


def _smallest(
    losses: FloatMatrix,
    limits: FloatVector,
    costs: FloatMatrix,
    needed: set[int],
    most: int | None,
) -> tuple[int, ...] | None:
    """Return the best of the smallest sets that keep all limits; None if they exceed `most`."""
    allowed = (losses <= (limits + ROUNDING)[:, None]) & np.isfinite(losses)
    covers = [sum(1 << row for row in np.flatnonzero(column).tolist()) for column in allowed.T]
    every = (1 << len(losses)) - 1
    if most is None or most > len(covers):
        most = len(covers)
    for size in range(1, most + 1):
        best: tuple[tuple[int, float], tuple[int, ...]] | None = None
        for number, chosen in enumerate(_sets(covers, every, size, needed)):
            best = min(filter(None, (best, (_total(costs, chosen), chosen))))
            if number >= _MOST_COMPARED:
                break
        if best is not None:
            return best[1]
    return None


def _least_cost(costs: FloatMatrix, size: int, needed: set[int]) -> tuple[int, ...]:
    """Return the set of kernels with the least cost, or of very many one with little.

    That is a set which no exchange of one kernel makes better: the interchange heuristic for
    p-medians (Teitz and Bart, "Heuristic methods for estimating the generalized vertex median of a
    weighted graph", 1968), after a greedy start.
    """
    every, kept = range(costs.shape[1]), list[int]()
    size = min(size, len(every))

    def total(chosen: Sequence[int]) -> tuple[int, float]:
        return _total(costs, chosen)

    if math.comb(len(every), size) <= _MOST_COMPARED:
        sets = itertools.combinations(every, size)
        return min((one for one in sets if not needed.isdisjoint(one)), key=total)
    while len(kept) < size:
        last = len(kept) + 1 == size and needed.isdisjoint(kept)
        free = [n for n in (needed if last else every) if n not in kept]
        kept.append(min(free, key=lambda n: total([*kept, n])))
    while True:
        exchanged = [
            [*kept[:place], new, *kept[place + 1 :]]
            for place in range(len(kept))
            for new in every
            if new not in kept
        ]
        allowed = [chosen for chosen in exchanged if not needed.isdisjoint(chosen)]
        better = min(allowed, key=total, default=kept)
        if total(better) >= total(kept):
            return tuple(sorted(kept))
        kept = better


def _total(costs: FloatMatrix, chosen: Sequence[int]) -> tuple[int, float]:
    """Return how many shapes a set of kernels does not serve, and the cost of all others."""
    least = costs[:, list(chosen)].min(axis=1)
    served = np.isfinite(least)
    return int((~served).sum()), round(float(least[served].sum()), 12)


def _sets(
    covers: Sequence[int], left: int, size: int, needed: set[int], chosen: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """Return the sets of `size` kernels that cover all shapes in `left`, with one of `needed`."""
    has_needed = not needed.isdisjoint(chosen)
    if not left:
        if has_needed:
            yield tuple(sorted(chosen))
        elif size:
            yield from (tuple(sorted((*chosen, kernel))) for kernel in needed)
        return
    widest = max((cover & left).bit_count() for cover in covers)
    if size * widest < left.bit_count():
        return
    # The row with the fewest kernels decides: one of these is in every set.
    rows = _rows(left)
    row = min(rows, key=lambda row: sum(cover >> row & 1 for cover in covers))
    for kernel, cover in enumerate(covers):
        if cover >> row & 1:
            yield from _sets(covers, left & ~cover, size - 1, needed, (*chosen, kernel))


def _rows(bits: int) -> list[int]:
    return [row for row in range(bits.bit_length()) if bits >> row & 1]


def worst_and_mean(losses: Sequence[float]) -> tuple[float, float]:
    """Return the largest loss, and the geometric mean of slow-downs less one."""
    return max(losses), math.expm1(sum(map(math.log1p, losses)) / len(losses))
