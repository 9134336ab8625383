"""Whether a kernel computed the right answer, judged on the GPU as `measure.checks` would."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.measure.checks.compare_outputs import Verdict
from autotune.measure.devices.cuda.device_buffers import (
    ChecksummedCopy,
    GpuArray,
    Host,
    on_host,
    widened,
)

CHUNK = 1 << 22
"""Elements that are compared together: what comparing takes of memory is some times that."""


class DeviceOutputCheck:
    """Compares outputs of many candidates with one expected array, all of it on the GPU.

    The rules are those of `autotune.measure.checks.compare_outputs.Comparison`. What is copied to
    the CPU is a number or two for each chunk, and the place of the first wrong element.

    Parameters
    ----------
    xp : module
        CuPy, with the device and the stream that are to be used current.
    expected : array
        The right answer, as `stored_as` says; it is copied.
    dtype : str
        Type of its elements.
    allowed : ndarray or float
        Absolute error that each element may have: on the CPU, of the same shape, or one for all.
        Integers and bools must be equal, but where it is infinite.
    """

    def __init__(
        self, xp: Any, expected: GpuArray, dtype: str, allowed: Host | float = 0.0
    ) -> None:
        self._xp = xp
        self._dtype = dtype
        self._sealed = ChecksummedCopy(xp, expected)
        self._flat = self._sealed.array.reshape(-1)
        uploaded = xp.asarray(np.reshape(allowed, -1))
        self._errors = ChecksummedCopy(xp, uploaded)

    @cached_property
    def _expects_nan(self) -> bool:
        parts = range(0, self._flat.size, CHUNK)
        return any(bool(self._nan(self._flat[at : at + CHUNK]).any()) for at in parts)

    def _nan(self, array: GpuArray) -> GpuArray:
        return self._xp.isnan(widened(self._xp, array, self._dtype))

    @property
    def is_intact(self) -> bool:
        """Whether the right answer, and what error is allowed, are as they were."""
        return self._sealed.intact and self._errors.intact

    def _allowed(self, begin: int, end: int) -> GpuArray:
        """Return the errors that some elements may have, or one for all."""
        errors = self._errors.array
        return errors if errors.size == 1 else errors[begin:end]

    def poison(self, output: GpuArray) -> None:
        """Fill an output with what is a wrong answer in every element; see `compare.poison`."""
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
            allowed = self._allowed(begin, begin + CHUNK)
            error = self._quickly(a, b, allowed)
            if error is None:
                error, bad, place = self._closely(a, b, allowed)
                first = begin + place if first is None and bad else first
                wrong += bad
            worst = math.nan if math.isnan(error + worst) else max(worst, error)
        if first is None:
            return Verdict(worst)
        where = tuple(int(i) for i in np.unravel_index(first, output.shape))
        return Verdict(worst, wrong, where, float(self._allowed(first, first + 1)[0]))

    def values_at(self, output: GpuArray, place: tuple[int, ...]) -> tuple[Any, Any]:
        """Return one element of an output, and what it should be."""
        number = int(np.ravel_multi_index(place, output.shape)) if place else 0
        found, right = (
            on_host(array[number : number + 1], self._dtype)[0]
            for array in (output.reshape(-1), self._flat)
        )
        return found, right

    def _quickly(self, a: GpuArray, b: GpuArray, allowed: GpuArray) -> float | None:
        """Return the largest error; None if an element may be wrong."""
        xp = self._xp
        if not dtypes.is_float(self._dtype):
            return None if bool((a != b).any()) else 0.0
        a, b = (widened(xp, array, self._dtype) for array in (a, b))
        errors = xp.abs(a - b)
        return float(errors.max()) if bool((errors <= allowed).all()) else None  # not for NaN

    def _closely(self, a: GpuArray, b: GpuArray, allowed: GpuArray) -> tuple[float, int, int]:
        """Return the largest error, the number of wrong elements, and the first of them."""
        xp = self._xp
        same = a == b
        if dtypes.is_float(self._dtype):
            a, b = (widened(xp, array, self._dtype).astype(xp.float64) for array in (a, b))
            same = (a == b) | (xp.isnan(a) & xp.isnan(b))
            errors = xp.abs(a - b)
        else:  # of 64 bits too: their difference fits into unsigned ones
            high, low = (f(a, b).astype(xp.uint64) for f in (xp.maximum, xp.minimum))
            errors = (high - low).astype(xp.float64)
        errors = xp.where(same, 0.0, errors)
        bad = ~(errors <= allowed)
        count = int(bad.sum())
        return float(errors.max()), count, int(bad.astype(xp.uint8).argmax()) if count else 0
