"""Counts which rules of a space reject configurations, one configuration after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from search_spaces import Space
from search_spaces.constraints import first_violated


def rejections(space: Space, indices: Any = None) -> dict[str, int]:
    """Return how many of some configurations (of all) break each rule, and none before it."""
    given = np.arange(len(space)) if indices is None else np.asarray(indices, dtype=np.int64)
    broken = first_violated(space.constraints, space._codec, given)
    return {rule.name: int((broken == n).sum()) for n, rule in enumerate(space.constraints)}
