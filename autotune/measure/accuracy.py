"""Whether a kernel computed the right answer: inputs to draw, outputs to poison, errors to bound.

A fast wrong kernel is a failure, so what it is checked on must not be kind: values of both signs,
never zero, and outputs that hold anything but the answer before the kernel runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import dtypes

Array = npt.NDArray[Any]

SAFETY = 8.0
"""Allowed error over the expected one (below); the largest of 10^6 normal errors is 5 of them."""

_LARGEST_INT = 8
_CHUNK = 1 << 16


def draw(shape: Sequence[int], dtype: str, rng: np.random.Generator, signed: bool = True) -> Array:
    """Return random values of `dtype`, C-contiguous, never zero (bools are of both kinds).

    Magnitudes lie between 0.1 and 1 for floats, from 1 to 8 for integers, which leaves sums and
    products of many exact; half of the values are negative if `signed`.
    """
    kind = dtypes.numpy_dtype(dtype)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.kind in "iu":
        values = rng.integers(1, _LARGEST_INT + 1, shape, dtype=kind)
    else:
        values = rng.random(shape, dtype=np.float64 if kind.itemsize == 8 else np.float32)
        values = np.asarray(values * 0.9 + 0.1, dtype=kind)
    if signed and kind.kind != "u":
        np.negative(values, out=values, where=rng.random(shape, dtype=np.float32) < 0.5)
    return values


def poison(output: Array, expected: Array) -> None:
    """Fill `output` with what is a wrong answer in every element.

    That is NaN for floats (0 where NaN is expected) and all bits flipped for integers and bools.
    """
    if dtypes.is_float(output.dtype.name):
        output.fill(np.nan)
        with np.errstate(invalid="ignore"):
            least = expected.min(initial=0.0)
        if bool(np.isnan(least)):
            output[np.isnan(expected)] = 0.0
    else:
        np.invert(expected, out=output)


@dataclass(frozen=True)
class Verdict:
    """How an output compares with what was expected.

    Attributes
    ----------
    max_error : float
        Largest absolute error; NaN or infinite if an element is.
    wrong : int
        Elements outside the tolerance.
    first : tuple of int or None
        Where the first of them is.
    tolerance : float
        Error allowed to an element of magnitude 0.
    """

    max_error: float
    wrong: int = 0
    first: tuple[int, ...] | None = None
    tolerance: float = 0.0


@dataclass(frozen=True)
class Tolerance:
    """What error an element of an output may have: `absolute`, and `relative` times its magnitude.

    Rounding errors of a sum of n terms in any order grow like sqrt(n) units in the last place of
    the magnitude sums typically have (Higham, Accuracy and Stability of Numerical Algorithms,
    section 4.2, errors taken as independent); then the sum is rounded to the output's type. An
    element may therefore be off by SAFETY * (eps of the output + eps of the accumulator * sqrt(n))
    * (root mean square of the output + its own magnitude). Integers and bools must be equal.

    Attributes
    ----------
    absolute, relative : float
    """

    absolute: float = 0.0
    relative: float = 0.0

    @classmethod
    def of(
        cls,
        dtype: str,
        reduction_length: int,
        accumulator: str | None,
        root_mean_square: Callable[[], float],
    ) -> Tolerance:
        """Return the tolerance of an output.

        Parameters
        ----------
        dtype : str
            Type of its elements.
        reduction_length, accumulator
            As of `Comparison`.
        root_mean_square : callable
            Returns that of the right answer's finite elements; asked of floats only.
        """
        if not dtypes.is_float(dtype):
            return cls()
        summed = dtypes.epsilon(accumulator or dtype) * math.sqrt(reduction_length)
        relative = SAFETY * (dtypes.epsilon(dtype) + summed)
        return cls(relative * root_mean_square(), relative)


class Comparison:
    """Compares outputs of many candidates with one expected array, by its `Tolerance`.

    Parameters
    ----------
    expected : ndarray
        The right answer, C-contiguous.
    reduction_length : int
        Terms n that one element accumulates, 1 for element-wise computations.
    accumulator : str, optional
        Floating-point type that they are accumulated in; the output's if not given.
    """

    def __init__(
        self, expected: Array, reduction_length: int = 1, accumulator: str | None = None
    ) -> None:
        self.expected = expected
        dtype = expected.dtype.name
        self.tolerance = Tolerance.of(
            dtype, reduction_length, accumulator, lambda: _root_mean_square(expected)
        )
        # Differences of half floats are taken in float32, which is faster.
        kind = np.dtype(np.float32) if dtypes.is_half(dtype) else expected.dtype
        self._scratch = np.empty(min(_CHUNK, max(expected.size, 1)), dtype=kind)

    def check(self, actual: Array) -> Verdict:
        """Compare an output, of the expected array's shape and dtype, C-contiguous."""
        left, right = actual.reshape(-1), self.expected.reshape(-1)
        worst, wrong, first = 0.0, 0, None
        for begin in range(0, left.size, _CHUNK):
            a, b = left[begin : begin + _CHUNK], right[begin : begin + _CHUNK]
            error = self._largest(a, b)
            if not error <= self.tolerance.absolute:  # NaN included
                error, bad = self._closely(a, b)
                if first is None and len(bad):
                    first = begin + int(bad[0])
                wrong += len(bad)
            worst = math.nan if math.isnan(error + worst) else max(worst, error)
        place = None if first is None else np.unravel_index(first, actual.shape)
        where = None if place is None else tuple(int(i) for i in place)
        return Verdict(worst, wrong, where, self.tolerance.absolute)

    def _largest(self, a: Array, b: Array) -> float:
        """Largest absolute difference, NaN if there is a NaN or infinity anywhere."""
        if not dtypes.is_float(a.dtype.name):
            return 0.0 if np.array_equal(a, b) else math.inf
        scratch = self._scratch[: a.size]
        with np.errstate(all="ignore"):
            np.subtract(a, b, out=scratch, dtype=scratch.dtype)
            np.abs(scratch, out=scratch)
        return float(scratch.max())

    def _closely(self, a: Array, b: Array) -> tuple[float, npt.NDArray[np.intp]]:
        """Return the largest error and where elements are outside their own tolerance."""
        with np.errstate(all="ignore"):
            if dtypes.is_integer(a.dtype.name):
                errors = _distance(a, b).astype(np.float64)
            else:
                errors = np.abs(a.astype(np.float64) - b.astype(np.float64))
            magnitude = np.abs(b.astype(np.float64))
        magnitude[~np.isfinite(magnitude)] = 0.0
        allowed = self.tolerance.absolute + self.tolerance.relative * magnitude
        same = (a == b) | ((a != a) & (b != b))  # equal infinities, NaN where NaN is expected
        errors[same] = 0.0
        return float(errors.max()), np.flatnonzero(~(errors <= allowed))


def _distance(a: Array, b: Array) -> Array:
    """Absolute differences of integers, exact: those of 64 bits fit into unsigned ones."""
    high, low = np.maximum(a, b).astype(np.uint64), np.minimum(a, b).astype(np.uint64)
    return high - low


def _root_mean_square(values: Array) -> float:
    """Root mean square of the finite values, in float64, without a copy of everything."""
    roots, count = [0.0], 0
    flat = values.reshape(-1)
    for begin in range(0, flat.size, _CHUNK):
        chunk = flat[begin : begin + _CHUNK].astype(np.float64)
        finite = chunk[np.isfinite(chunk)]
        largest = float(np.abs(finite).max(initial=0.0))
        if largest:  # scaled, as squares of large values would overflow
            finite /= largest
            roots.append(largest * math.sqrt(float(np.dot(finite, finite))))
        count += finite.size
    return math.hypot(*roots) / math.sqrt(count) if count else 0.0
