"""How many elements a vector of a CPU has."""

from __future__ import annotations

from autotune.ir import dtypes
from autotune.target import Target


def lanes_in(target: Target, dtype: str) -> int:
    """Return how many elements of a type a vector of the target has."""
    return max(1, target.vector_bytes // dtypes.itemsize(dtype))
