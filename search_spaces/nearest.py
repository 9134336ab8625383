"""Distances between configurations, in knob steps, and a search in order of distance.

A step moves one knob to a neighbouring position, so the distance between two configurations is
the sum over the knobs of the distances between their positions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from search_spaces.columns import Codec
from search_spaces.knob import IntArray

MAX_SHELL = 1 << 20  # Shells with more configurations than this are not enumerated.


def knob_steps(codec: Codec, index: int) -> list[IntArray]:
    """For each knob, the steps from its position in `index` to every position, int64 (len,)."""
    digits = codec.digits(index)
    return [knob.steps_from(i) for knob, i in zip(codec.knobs, digits, strict=True)]


def steps_to(codec: Codec, index: int, indices: IntArray) -> IntArray:
    """Knob steps from `index` to each of `indices`; int64 (n,)."""
    total = np.zeros(len(indices), dtype=np.int64)
    for k, steps in enumerate(knob_steps(codec, index)):
        total += steps[codec.digit(indices, k)]
    return total


def shells(codec: Codec, index: int) -> Iterator[IntArray]:
    """Yield the configurations 1, 2, 3, ... steps away; stops before a shell above `MAX_SHELL`."""
    steps = knob_steps(codec, index)
    sizes = np.ones(1)
    for table in steps:
        sizes = np.convolve(sizes, np.bincount(table).astype(float))
    for radius in range(1, len(sizes)):
        if sizes[: radius + 1].max() > MAX_SHELL:
            return
        yield _shell(codec, steps, radius)


def _shell(codec: Codec, steps: list[IntArray], radius: int) -> IntArray:
    """Return the configurations exactly `radius` steps away, ascending."""
    # partial[r]: indices over the knobs so far, r steps away on these knobs
    partial = [np.zeros(1 if r == 0 else 0, dtype=np.int64) for r in range(radius + 1)]
    for table, stride in zip(steps, codec.strides, strict=True):
        moves = [np.flatnonzero(table == r) * stride for r in range(radius + 1)]
        partial = [
            np.concatenate([np.add.outer(partial[r - s], moves[s]).ravel() for s in range(r + 1)])
            for r in range(radius + 1)
        ]
    return np.sort(partial[radius])
