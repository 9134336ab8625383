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


class Scratch:
    """Arrays for intermediate results that the next chunk of candidates uses again.

    Fresh memory costs more than the arithmetic done in it. One per thread.
    """

    def __init__(self) -> None:
        self._arrays: list[npt.NDArray[np.float64]] = []
        self._taken = 0

    def take(self, n: int) -> npt.NDArray[np.float64]:
        """Return an uninitialised array (n,), not handed out since the last `reset`."""
        if self._taken == len(self._arrays):
            self._arrays.append(np.empty(n))
        elif self._arrays[self._taken].size < n:
            self._arrays[self._taken] = np.empty(n)
        array = self._arrays[self._taken]
        self._taken += 1
        return array if array.size == n else array[:n]

    def reset(self) -> None:
        """Take all arrays back: columns of the chunk before are overwritten from now on."""
        self._taken = 0


def stack_columns(
    names: Sequence[str],
    columns: Sequence[Number],
    n: int,
    order: Literal["C", "F"] = "F",
    out: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.float32]:
    """Return columns, scalars or arrays (n,), as one float32 matrix (n, width), `out` if given."""
    shape = (n, len(columns))
    matrix = np.empty(shape, np.float32, order=order) if out is None else out
    if matrix.shape != shape or matrix.dtype != np.float32:
        raise FeatureError(
            f"out is {matrix.dtype} of shape {matrix.shape}, expected float32 of shape {shape}"
        )
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        if isinstance(column, np.ndarray) and column.shape != (n,):
            raise FeatureError(f"column {name} has shape {column.shape}, expected ({n},)")
        matrix[:, index] = column
    return matrix
