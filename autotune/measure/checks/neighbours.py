"""What the neighbours of an element show: its usual magnitude, and whether they change together."""

from __future__ import annotations

import math

import numpy as np

from autotune.measure.checks.check_inputs import Array

# Number of neighbours whose median replaces an element's own value where that one is smaller.
BLOCK = 16

_ENOUGH = 8
"""Independent changes that the scale of an element is estimated from.

Their root mean square is below a fifteenth of the scale for one element in 10^8. That of 2 changes
is for one in 200, and a scan of 10^7 steps has whole stretches of such elements.
"""

_SURVEYED = 1 << 12  # Most blocks of an output in which changes are compared.


def medians_of_neighbours(values: Array) -> Array:
    """Return for each element of a row the median of its block of neighbours, zeros left out."""
    whole = values.size // BLOCK * BLOCK
    found = np.empty_like(values)
    if whole:
        blocks = values[:whole].reshape(-1, BLOCK)
        found[:whole].reshape(-1, BLOCK)[:] = _medians(blocks)
    if whole < values.size:
        found[whole:] = _medians(values[max(0, values.size - BLOCK) :][np.newaxis])
    return found


def changes_needed(first: Array, second: Array) -> int:
    """Return after how many random changes of the inputs the scale of each element is known.

    The changes of neighbours that depend on the same inputs are proportional: in a scan, all of
    them are small at once. Where neighbours change independently, as in a matrix product, at least
    some of them show the scale. With u and v the first and second changes in a block, each divided
    by the root of u^2 + v^2, the square of their cosine is 1 for neighbours that change together,
    and between 1/(2 r) and 1/r for r independent ones.

    first, second: what `sampled_blocks` returns for an output after two changes of the inputs.
    """
    with np.errstate(all="ignore"):
        size = np.hypot(first, second)
        u, v = (np.nan_to_num(change / size) for change in (first, second))
        cosines = (u * v).sum(axis=1) ** 2 / ((u * u).sum(axis=1) * (v * v).sum(axis=1))
    cosines = cosines[np.isfinite(cosines)]
    if not cosines.size:
        return _ENOUGH
    return math.ceil(_ENOUGH * min(1.0, 2 * float(cosines.mean())))


def sampled_blocks(now: Array, before: Array) -> Array:
    """Return by how much the elements of an output have changed, in some blocks, a row for each."""
    blocks = now.size // BLOCK
    step = max(1, blocks // _SURVEYED)
    new, old = (
        array.reshape(-1)[: blocks * BLOCK].reshape(-1, BLOCK)[::step] for array in (now, before)
    )
    with np.errstate(all="ignore"):
        return np.asarray(new - old)


def _medians(blocks: Array) -> Array:
    """Return the median of what is not 0 in each row of positive numbers, as a column."""
    ordered = np.sort(blocks, axis=1)
    zeros = (ordered == 0).sum(axis=1, keepdims=True)
    middle = np.minimum((zeros + blocks.shape[1]) // 2, blocks.shape[1] - 1)
    return np.take_along_axis(ordered, middle, axis=1)
