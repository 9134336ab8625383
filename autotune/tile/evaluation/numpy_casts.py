"""Conversion of NumPy arrays between types of Tile, as docs/dtypes.md says."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.ir import dtypes


def cast(array: Any, dtype: str) -> Any:
    """Convert an array as docs/dtypes.md says: floats to integers saturate, 0 of a NaN."""
    source = array.dtype.name
    target = dtypes.numpy_dtype(dtype)
    if dtype == dtypes.BOOL:
        return array != 0
    if dtypes.is_float(source) and dtypes.is_integer(dtype):
        return _saturated(array, target)
    if dtypes.is_half(dtype):
        return array.astype(np.float32).astype(target)
    return array.astype(target)


def _saturated(array: Any, target: np.dtype[Any]) -> Any:
    """Convert floats to integers as `dtypes.saturated` does."""
    limits = np.iinfo(target)
    low, above = float(limits.min), float(limits.max + 1)  # powers of 2, which floats are exactly
    whole = np.trunc(array.astype(np.float64))
    inside = (whole > low) & (whole < above)  # no NaN is
    least, none, most = (target.type(n) for n in (limits.min, 0, limits.max))
    cut = np.where(whole >= above, most, np.where(whole <= low, least, none))
    return np.where(inside, np.where(inside, whole, 0).astype(target), cut)
