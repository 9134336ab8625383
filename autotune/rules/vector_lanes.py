"""How many elements a vector has."""

from __future__ import annotations

from typing import Final

from autotune.ir import dtypes
from autotune.target import Target

PARALLEL: Final = 1 << 16  # Least number of operations of a stage with several threads.


def lanes_in(target: Target, dtype: str) -> int:
    """Return how many elements of a type a vector of the target has."""
    return max(1, target.vector_bytes // dtypes.itemsize(dtype))
