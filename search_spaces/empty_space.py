"""Explains in one line why a space is empty: rejections by rule, and the nearest configuration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from search_spaces import nearest
from search_spaces.columns import Codec, LazyColumns
from search_spaces.constraints import CHUNK, Constraint, evaluated
from search_spaces.knob import IntArray
from search_spaces.rejection_counts import ENUMERABLE, SAMPLE, FeasibilityCounts


def explanation(
    codec: Codec, constraints: Sequence[Constraint], counts: FeasibilityCounts, aim: int
) -> str:
    """Return rejections by rule and, if no configuration is left, the nearest one.

    It breaks the fewest rules, then by the smallest shares of their limits, and is then the fewest
    steps from `aim`.
    """
    whole = f"{counts.size} configurations"
    asked = whole if counts.exact else f"{counts.counted} configurations drawn from {counts.size}"
    line = f"{counts.feasible or 'none'} of {asked} feasible"
    charged = ", ".join(
        f"{rule.name} rejects {rule.first}" + (f" ({rule.message})" if rule.message else "")
        for rule in counts.rules
        if rule.first
    )
    if counts.feasible:
        return f"{line}: {charged}" if charged else line
    index = _fewest_violations(codec, constraints, aim)
    columns = LazyColumns(codec, np.array([index]))
    broken = []
    for rule, (holds, _) in zip(constraints, evaluated(constraints, columns, 1), strict=True):
        if not holds[0]:
            detail = "" if rule.detail is None else rule.detail(columns)
            broken.append(f"{rule.name} ({detail})" if detail else rule.name)
    values = ", ".join(
        f"{knob.name}={knob.value(position)!r}"
        for knob, position in zip(codec.knobs, codec.digits(index), strict=True)
    )
    return f"{line}: {charged}; nearest is {values}, stopped by {' and '.join(broken)}"


def _fewest_violations(codec: Codec, constraints: Sequence[Constraint], aim: int) -> int:
    if codec.size <= ENUMERABLE:
        indices = np.arange(codec.size, dtype=np.int64)
    else:
        indices = np.random.default_rng(0).integers(codec.size, size=SAMPLE)
    parts = [
        _violations(codec, constraints, indices[start : start + CHUNK])
        for start in range(0, len(indices), CHUNK)
    ]
    broken, missed = (np.concatenate(part) for part in zip(*parts, strict=True))
    steps = nearest.steps_to(codec, aim, indices)
    return int(indices[np.lexsort((steps, missed, broken))[0]])


def _violations(
    codec: Codec, constraints: Sequence[Constraint], indices: IntArray
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return how many rules each configuration breaks, and by what shares of their limits."""
    columns = LazyColumns(codec, indices)
    broken, missed = np.zeros(len(indices), dtype=np.int64), np.zeros(len(indices))
    for rule, (holds, _) in zip(
        constraints, evaluated(constraints, columns, len(indices)), strict=True
    ):
        broken += ~holds
        if rule.miss is not None and not holds.all():
            missed[~holds] += rule.miss(columns.rows(~holds), int(np.count_nonzero(~holds)))
    return broken, missed
