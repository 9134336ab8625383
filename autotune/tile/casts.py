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
        return (array != 0) & (array == array)
    if dtypes.is_float(source) and dtypes.is_integer(dtype):
        convert = np.vectorize(lambda x: dtypes.saturated(float(x), dtype), otypes=[target])
        return convert(array) if array.size else array.astype(target)
    if dtypes.is_half(dtype):
        return array.astype(np.float32).astype(target)
    return array.astype(target)
