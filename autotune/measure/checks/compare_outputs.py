"""Compares the outputs of a candidate with the right answers, element by element."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import Array

_CHUNK = 1 << 16


def poison(output: Array, expected: Array) -> None:
    """Fill `output` with a value that is wrong in every element.

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
        Elements with a larger error than allowed.
    first : tuple of int or None
        Where the first of them is.
    allowed : float
        Error that this one may have.
    """

    max_error: float
    wrong: int = 0
    first: tuple[int, ...] | None = None
    allowed: float = 0.0


class OutputCheck:
    """Compares outputs of many candidates with one expected array.

    NaN and infinities are right only where they are expected; 0 equals -0.

    Parameters
    ----------
    expected : ndarray
        The right answer, C-contiguous.
    allowed : ndarray or float
        Absolute error that each element may have: floats of the same shape, or one for all.
        Integers and bools must be equal, but where it is infinite.
    """

    def __init__(self, expected: Array, allowed: Array | float = 0.0) -> None:
        self.expected = expected
        self.allowed = allowed
        # Differences of half floats are taken in float32, which is exact enough and faster.
        dtype = expected.dtype.name
        kind = np.dtype(np.float32) if dtypes.is_half(dtype) else expected.dtype
        self._scratch = np.empty(min(_CHUNK, max(expected.size, 1)), dtype=kind)

    def check(self, actual: Array) -> Verdict:
        """Compare an output, of the expected array's shape and dtype, C-contiguous."""
        left, right = actual.reshape(-1), self.expected.reshape(-1)
        worst, wrong, first = 0.0, 0, None
        for begin in range(0, left.size, _CHUNK):
            part = slice(begin, begin + _CHUNK)
            allowed = self._allowed(part)
            error = self._quickly(left[part], right[part], allowed)
            if error is None:
                error, bad = _closely(left[part], right[part], allowed)
                if first is None and len(bad):
                    first = begin + int(bad[0])
                wrong += len(bad)
            worst = math.nan if math.isnan(error + worst) else max(worst, error)
        if first is None:
            return Verdict(worst)
        where = tuple(int(i) for i in np.unravel_index(first, actual.shape))
        allowed = np.reshape(self._allowed(slice(first, first + 1)), -1)
        return Verdict(worst, wrong, where, float(allowed[0]))

    def _allowed(self, part: slice) -> Array | float:
        if isinstance(self.allowed, np.ndarray):
            return self.allowed.reshape(-1)[part]
        return self.allowed

    def _quickly(self, a: Array, b: Array, allowed: Array | float) -> float | None:
        """Return the largest error; None if an element may be wrong."""
        if not dtypes.is_float(a.dtype.name):
            return 0.0 if np.array_equal(a, b) else None
        scratch = self._scratch[: a.size]
        with np.errstate(all="ignore"):
            np.subtract(a, b, out=scratch, dtype=scratch.dtype)
            np.abs(scratch, out=scratch)
            right = bool((scratch <= allowed).all())  # not for NaN
        return float(scratch.max()) if right else None


def _closely(a: Array, b: Array, allowed: Array | float) -> tuple[float, npt.NDArray[np.intp]]:
    """Return the largest error, and where elements have a larger error than allowed."""
    with np.errstate(all="ignore"):
        if dtypes.is_integer(a.dtype.name):
            errors = _distance(a, b).astype(np.float64)
        else:
            errors = np.abs(a.astype(np.float64) - b.astype(np.float64))
        same = (a == b) | ((a != a) & (b != b))  # equal infinities, NaN where NaN is expected
        errors[same] = 0.0
        return float(errors.max()), np.flatnonzero(~(errors <= allowed))


def _distance(a: Array, b: Array) -> Array:
    """Absolute differences of integers, exact: those of 64 bits fit into unsigned ones."""
    high, low = np.maximum(a, b).astype(np.uint64), np.minimum(a, b).astype(np.uint64)
    return high - low
