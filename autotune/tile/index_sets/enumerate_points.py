"""Enumerates the index values that satisfy conditions, in blocks of NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autotune.errors import UsageError
from autotune.tile.index_sets.index_conditions import Condition, RangeCondition, reach

#: Index values by name, one array of equal length for each.
Block = dict[str, NDArray[np.int64]]
#: Least and largest value of every index.
Ends = Mapping[str, tuple[int, int]]
#: Number of points per block.
_BLOCK: Final = 1 << 18


def enumerated(names: Sequence[str], conditions: Sequence[Condition], box: Ends) -> Iterator[Block]:
    """Yield all integers inside a box that satisfy every condition, in blocks.

    Raises UsageError if a value on the way would not fit in 64 bits.
    """
    check_reach(conditions, box)
    yield from _extended({}, 1, list(names), conditions, box)


def check_reach(conditions: Iterable[Condition], box: Ends) -> None:
    """Refuse conditions whose values inside a box would not fit in 64 bits, by a UsageError."""
    for condition in conditions:
        size = condition.size if isinstance(condition, RangeCondition) else 1
        top = abs(condition.form.denominator * size)
        if max(reach(condition.form, box), top) >= 2**62:
            raise UsageError(f"indices reach too far to be enumerated: {condition.form}")


def _extended(
    values: Block,
    count: int,
    rest: list[str],
    conditions: Sequence[Condition],
    box: Ends,
) -> Iterator[Block]:
    """Extend partial points by the next index; drop points without a valid extension."""
    if not rest:
        if count:
            yield values or {"": np.zeros(1, np.int64)}
        return
    low, high = box[rest[0]]
    for first in range(low, high + 1, _BLOCK):
        numbers = np.arange(first, min(first + _BLOCK, high + 1), dtype=np.int64)
        step = max(_BLOCK // len(numbers), 1)
        for start in range(0, count, step):
            longer = {
                name: np.repeat(v[start : start + step], len(numbers)) for name, v in values.items()
            }
            longer[rest[0]] = np.tile(numbers, min(step, count - start))
            kept = _possible(longer, rest[1:], conditions, box)
            chosen = {name: v[kept] for name, v in longer.items()}
            yield from _extended(chosen, int(kept.sum()), rest[1:], conditions, box)


def _possible(
    values: Block,
    rest: Sequence[str],
    conditions: Sequence[Condition],
    box: Ends,
) -> NDArray[np.bool_]:
    """Whether partial points may have a valid extension; exact for complete points."""
    kept: NDArray[np.bool_] = np.ones(len(next(iter(values.values()))), bool)
    for condition in conditions:
        if not any(name in rest for name in condition.form.names):
            kept &= condition.holds(values)
        elif isinstance(condition, RangeCondition):
            terms, constant, d = condition.form.whole()
            ends = [sorted((c * box[n][0], c * box[n][1])) for n, c in terms.items() if n in rest]
            known = sum((c * values[n] for n, c in terms.items() if n in values), start=constant)
            kept &= known + sum(e[1] for e in ends) >= 0
            kept &= known + sum(e[0] for e in ends) < d * condition.size
    return kept
