"""Splits the valid index sets of a contraction into boxes of independent indices.

Some indices are fixed such that no condition relates two other indices. For every value of the
fixed ones, each other index has its own list of values, and all combinations are valid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from autotune.tile.index_sets.index_conditions import Ends, check_reach, enumerated
from autotune.tile.index_sets.index_set import IndexSet

#: Smaller index sets are enumerated as fast.
_FEW_POINTS: Final = 1 << 16
#: Number of points that are enumerated in the time of a box's overhead.
_BOX_POINTS: Final = 1 << 12
#: With more indices, no choice of fixed indices is searched.
_MAX_INDICES: Final = 12


@dataclass(frozen=True)
class Box:
    """Index sets: one value for each fixed index, any of several for each free one."""

    #: Values of fixed indices.
    fixed: Mapping[str, int]
    #: Values of free indices, an array of int64 for each.
    values: Mapping[str, Any]

    @property
    def free(self) -> list[str]:
        """Names of the free indices."""
        return list(self.values)

    def shape(self, order: Sequence[str]) -> tuple[int, ...]:
        """Return how many values some free indices have."""
        return tuple(len(self.values[name]) for name in order)

    def along(self, order: Sequence[str]) -> dict[str, Any]:
        """Return values that broadcast, with an axis for each of some free indices."""
        ends = {name: (-1,) + (1,) * (len(order) - 1 - k) for k, name in enumerate(order)}
        return {**self.fixed, **{n: self.values[n].reshape(end) for n, end in ends.items()}}

    def pieces(self, most: int) -> Iterator[Box]:
        """Yield boxes of at most so many points, which together are this one."""
        count = math.prod(self.shape(self.free))
        if count <= most:
            yield self
            return
        longest = max(self.values, key=lambda name: len(self.values[name]))
        values = self.values[longest]
        step = max(most * len(values) // count, 1)
        for start in range(0, len(values), step):
            part = {**self.values, longest: values[start : start + step]}
            yield from replace(self, values=part).pieces(most)


def is_worthwhile(domain: IndexSet, ends: Ends) -> bool:
    """Whether boxes are faster than points; `ends` are the ranges of the indices."""
    counts = {name: high - low + 1 for name, (low, high) in ends.items()}
    points = math.prod(counts.values())
    if points < _FEW_POINTS or len(counts) > _MAX_INDICES:
        return False
    return math.prod(counts[name] for name in _fixed(domain, counts)) * _BOX_POINTS <= points


def boxes(domain: IndexSet, ends: Ends) -> Iterator[Box]:
    """Yield all valid index sets, each in one box.

    `domain`: the valid index sets, which are not empty.
    `ends`: least and largest value of every index.

    Raises UsageError if a value on the way would not fit in 64 bits.
    """
    conditions = (*domain.ranges, *domain.conditions)
    check_reach(conditions, ends)
    ranges = {name: np.arange(low, high + 1) for name, (low, high) in ends.items()}
    fixed = _fixed(domain, {name: len(values) for name, values in ranges.items()})
    own = {
        name: [c for c in conditions if name in c.form.names]
        for name in domain.names
        if name not in fixed
    }
    alone = [c for c in conditions if set(c.form.names) <= set(fixed)]
    for block in enumerated(fixed, alone, ends):
        for row in zip(*(block[name].tolist() for name in fixed), strict=True) if fixed else [()]:
            chosen = dict(zip(fixed, row, strict=True))
            values = {}
            for name, limits in own.items():
                kept = np.ones(len(ranges[name]), bool)
                for condition in limits:
                    kept &= condition.holds({**chosen, name: ranges[name]})
                values[name] = ranges[name][kept]
            if all(map(len, values.values())):
                yield Box(chosen, values)


def _fixed(domain: IndexSet, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return indices to fix, so that no condition relates two others; with the fewest values."""
    related = [set(c.form.names) for c in (*domain.ranges, *domain.conditions)]
    chosen: tuple[str, ...] = domain.names
    for length in range(len(domain.names)):
        for some in itertools.combinations(domain.names, length):
            if all(len(names.difference(some)) <= 1 for names in related):
                chosen = min(chosen, some, key=lambda s: math.prod(counts[n] for n in s))
    return chosen
