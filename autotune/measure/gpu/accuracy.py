"""Whether a kernel computed the right answer, judged on the GPU as `measure.accuracy` would."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.measure.accuracy import Tolerance, Verdict
from autotune.measure.gpu.buffers import GpuArray, Sealed, on_host, widened

CHUNK = 1 << 22
"""Elements that are compared together: what comparing takes of memory is some times that."""


class DeviceComparison:
    """Compares outputs of many candidates with one expected array, all of it on the GPU.

    The rules are those of `autotune.measure.accuracy.Comparison`. What is copied to the CPU is one
    number for each chunk, and the place of the first wrong element.

    Parameters
    ----------
    xp : module
        CuPy, with the device and the stream that are to be used current.
    expected : array
        The right answer, as `stored_as` says; it is copied.
    dtype : str
        Type of its elements.
    reduction_length : int
        Terms that one element accumulates, 1 for element-wise computations.
    accumulator : str, optional
        Floating-point type that they are accumulated in; `dtype` if not given.
    """

    def __init__(
        self,
        xp: Any,
        expected: GpuArray,
        dtype: str,
        reduction_length: int = 1,
        accumulator: str | None = None,
    ) -> None:
        self._xp = xp
        self._dtype = dtype
        self._sealed = Sealed(xp, expected)
        self._flat = self._sealed.array.reshape(-1)
        self.tolerance = Tolerance.of(
            dtype, reduction_length, accumulator, lambda: _root_mean_square(xp, self._flat, dtype)
        )

    @cached_property
    def _expects_nan(self) -> bool:
        parts = range(0, self._flat.size, CHUNK)
        return any(bool(self._nan(self._flat[at : at + CHUNK]).any()) for at in parts)

    def _nan(self, array: GpuArray) -> GpuArray:
        return self._xp.isnan(widened(self._xp, array, self._dtype))

    @property
    def intact(self) -> bool:
        """Whether the right answer is as it was."""
        return self._sealed.intact

    def poison(self, output: GpuArray) -> None:
        """Fill an output with what is a wrong answer in every element; see `accuracy.poison`."""
        if not dtypes.is_float(self._dtype):
            self._xp.invert(self._sealed.array, out=output)
            return
        nan = np.array([np.nan], dtypes.numpy_dtype(self._dtype))
        output[...] = nan.view(output.dtype)[0]
        if self._expects_nan:
            wrong = output.reshape(-1)
            for begin in range(0, wrong.size, CHUNK):
                part = self._nan(self._flat[begin : begin + CHUNK])
                wrong[begin : begin + CHUNK][part] = 0

    def check(self, output: GpuArray) -> Verdict:
        """Compare an output, of the expected array's shape."""
        flat, worst, wrong, first = output.reshape(-1), 0.0, 0, None
        for begin in range(0, flat.size, CHUNK):
            a, b = (array[begin : begin + CHUNK] for array in (flat, self._flat))
            error = self._largest(a, b)
            if not error <= self.tolerance.absolute:  # NaN included
                error, bad, place = self._closely(a, b)
                first = begin + place if first is None and bad else first
                wrong += bad
            worst = math.nan if math.isnan(error + worst) else max(worst, error)
        at = None if first is None else np.unravel_index(first, output.shape)
        where = None if at is None else tuple(int(i) for i in at)
        return Verdict(worst, wrong, where, self.tolerance.absolute)

    def values_at(self, output: GpuArray, place: tuple[int, ...]) -> tuple[Any, Any]:
        """Return one element of an output, and what it should be."""
        number = int(np.ravel_multi_index(place, output.shape)) if place else 0
        found, right = (
            on_host(array[number : number + 1], self._dtype)[0]
            for array in (output.reshape(-1), self._flat)
        )
        return found, right

    def _largest(self, a: GpuArray, b: GpuArray) -> float:
        """Largest absolute difference, NaN if there is a NaN or infinity anywhere."""
        xp = self._xp
        if not dtypes.is_float(self._dtype):
            return math.inf if bool((a != b).any()) else 0.0
        a, b = (widened(xp, array, self._dtype) for array in (a, b))
        return float(xp.abs(a - b).max())

    def _closely(self, a: GpuArray, b: GpuArray) -> tuple[float, int, int]:
        """Return the largest error, how many are outside their own tolerance, and the first."""
        xp = self._xp
        same = a == b
        if dtypes.is_float(self._dtype):
            a, b = (widened(xp, array, self._dtype).astype(xp.float64) for array in (a, b))
            same = (a == b) | (xp.isnan(a) & xp.isnan(b))
            errors, magnitude = xp.abs(a - b), xp.abs(b)
            magnitude = xp.where(xp.isfinite(magnitude), magnitude, 0.0)
        else:  # of 64 bits too: their difference fits into unsigned ones
            high, low = (f(a, b).astype(xp.uint64) for f in (xp.maximum, xp.minimum))
            errors, magnitude = (high - low).astype(xp.float64), 0.0
        errors = xp.where(same, 0.0, errors)
        allowed = self.tolerance.absolute + self.tolerance.relative * magnitude
        bad = ~(errors <= allowed)
        count = int(bad.sum())
        return float(errors.max()), count, int(bad.astype(xp.uint8).argmax()) if count else 0


def _root_mean_square(xp: Any, flat: GpuArray, dtype: str) -> float:
    """Root mean square of the finite values, in float64."""
    roots, count = [0.0], 0
    for begin in range(0, flat.size, CHUNK):
        chunk = widened(xp, flat[begin : begin + CHUNK], dtype).astype(xp.float64)
        finite = xp.isfinite(chunk)
        chunk = xp.where(finite, chunk, 0.0)
        largest = float(xp.abs(chunk).max())
        if largest:  # scaled, as squares of large values would overflow
            chunk = chunk / largest
            roots.append(largest * math.sqrt(float((chunk * chunk).sum())))
        count += int(finite.sum())
    return math.hypot(*roots) / math.sqrt(count) if count else 0.0
