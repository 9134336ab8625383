"""Arithmetic shared by the extractors: the signed logarithm, and columns put into a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from features.loop_nest import FeatureError, Number


def signed_log2(value: Number) -> Number:
    """Return log2(1 + x) for x >= 0 and -log2(1 - x) below, elementwise, in float64."""
    if isinstance(value, np.ndarray):
        return np.copysign(np.log2(1.0 + np.abs(value)), value)
    return float(np.copysign(np.log2(1.0 + abs(value)), value))


def stack_columns(
    names: Sequence[str], columns: Sequence[Number], n: int, order: Literal["C", "F"] = "F"
) -> npt.NDArray[np.float32]:
    """Return columns, scalars or arrays (n,), as one float32 matrix (n, width)."""
    matrix = np.empty((n, len(columns)), np.float32, order=order)
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        if isinstance(column, np.ndarray) and column.shape != (n,):
            raise FeatureError(f"column {name} has shape {column.shape}, expected ({n},)")
        matrix[:, index] = column
    return matrix
