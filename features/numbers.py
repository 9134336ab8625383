"""Arithmetic shared by the extractors: on arrays of candidates, signed logarithms, matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from features.loop_nest import FeatureError, Number

Array = npt.NDArray[np.float64]


def signed_log2(value: Number) -> Number:
    """Return log2(1 + x) for x >= 0 and -log2(1 - x) below, elementwise, in float64."""
    if isinstance(value, np.ndarray):
        return np.copysign(np.log2(1.0 + np.abs(value)), value)
    return float(np.copysign(np.log2(1.0 + abs(value)), value))


class Arithmetic(Protocol):
    """The arithmetic for columns: `Scratch` works on arrays of candidates.

    A compiler may implement it with arrays that represent code. Equal arrays should be one object.
    """

    def reset(self) -> None:
        """Begin a nest; earlier results may become invalid."""

    def array(self, number: Array) -> Array:
        """Return an array of a nest; FeatureError if it is none."""

    def least(self, array: Array) -> float:
        """Return a lower bound of an array of a nest; a large number if it is empty."""

    def ones(self) -> Array:
        """Return the array of ones, known by its identity, after any other array."""

    def times(self, left: Array, right: Number, unknown: bool) -> Array:
        """Return the product; if `unknown`, -1 where either one is negative."""

    def larger(self, left: Number, right: Number) -> Array:
        """Return the maximum of an array and something."""

    def factors(self, stride: Array, length: Number) -> tuple[Array, Array] | None:
        """Return (length, 1) where a stride is not 0, (1, length) where it is.

        None if (length, 1) is right everywhere, as the length is 1 where the stride is 0.
        """


class Scratch:
    """Arithmetic whose result arrays are reused for the next chunk of candidates.

    New memory costs more than the arithmetic. Use one object per thread.
    """

    def __init__(self) -> None:
        self._arrays: list[Array] = []
        self._taken = 0
        self._n = -1  # of the first array met
        self._ones: Array | None = None

    def take(self, n: int) -> Array:
        """Return an uninitialised array (n,), not handed out since the last `reset`."""
        if self._taken == len(self._arrays):
            self._arrays.append(np.empty(n))
        elif self._arrays[self._taken].size < n:
            self._arrays[self._taken] = np.empty(n)
        array = self._arrays[self._taken]
        self._taken += 1
        return array if array.size == n else array[:n]

    def reset(self) -> None:
        """Reuse all arrays: columns of the previous chunk are overwritten from now on."""
        self._taken, self._n, self._ones = 0, -1, None

    def array(self, number: Array) -> Array:
        """Return a float64 array over the candidates as it is."""
        self._n = number.size if self._n < 0 else self._n
        if number.dtype != np.float64 or number.shape != (self._n,):
            raise FeatureError(
                f"a loop nest holds an array of {number.dtype} and shape {number.shape}; expected"
                f" scalars or float64 arrays over the candidates, here of shape ({self._n},)"
            )
        return number

    def least(self, array: Array) -> float:
        """Return the least element."""
        return float(np.min(array, initial=np.inf))

    def ones(self) -> Array:
        """Return the array of ones."""
        if self._ones is None:
            self._ones = np.ones(self._n)
        return self._ones

    def times(self, left: Array, right: Number, unknown: bool) -> Array:
        """Return the product."""
        product = np.multiply(left, right, out=self.take(self._n))
        if unknown:
            product[np.minimum(left, right) < 0] = -1.0
        return product

    def larger(self, left: Number, right: Number) -> Array:
        """Return the maximum."""
        return np.maximum(left, right, out=self.take(self._n))

    def factors(self, stride: Array, length: Number) -> tuple[Array, Array] | None:
        """Return the length and 1, changed over where the stride is 0; None if that is nowhere."""
        still = stride == 0
        if not (still & (length != 1)).any():
            return None
        return np.where(still, 1.0, length), np.where(still, length, 1.0)


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
