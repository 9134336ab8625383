"""Compares the outputs of a candidate with the right answers, element by element, on the device.

What is copied to the CPU is a number or two for each chunk, and the first wrong element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.runtime.device import Device, DeviceArray, Host


@dataclass(frozen=True)
class Verdict:
    """The comparison of an output with the expected one."""

    max_error: float  # Largest absolute error; NaN or infinite if an element is.
    wrong: int = 0  # Elements with a larger error than allowed.
    first: tuple[int, ...] | None = None  # Where the first of them is.
    allowed: float = 0.0  # Error that this one may have.


class OutputCheck:
    """Compares outputs of many candidates with one expected array.

    NaN and infinities are right only where they are expected; 0 equals -0.

    device: where the outputs are.
    expected: the right answer, C-contiguous; it is copied.
    allowed: absolute error that each element may have: floats of the same shape, or one for all.
        Integers and bools must be equal, but where it is infinite.
    """

    def __init__(self, device: Device, expected: Host, allowed: Host | float = 0.0) -> None:
        self._device = device
        self._dtype = expected.dtype.name
        self._is_float = dtypes.is_float(self._dtype)
        self._expected = device.keep(expected.view(device.stored_as(self._dtype)))
        self._allowed = device.keep(np.reshape(allowed, -1))
        self._flat = self._expected.array.reshape(-1)
        if self._is_float:
            kind = device.widened(self._flat[:0], self._dtype).dtype
            self._scratch = device.xp.empty((min(device.chunk, max(expected.size, 1)),), kind)

    @property
    def is_intact(self) -> bool:
        """Whether the kept answer and its allowed errors are unchanged."""
        return self._expected.intact and self._allowed.intact

    def poison(self, output: DeviceArray) -> None:
        """Fill an output with a value that is wrong in every element.

        That is NaN for floats (0 where NaN is expected) and all bits flipped for integers and
        bools.
        """
        if not self._is_float:
            self._device.xp.invert(self._expected.array, out=output)
            return
        nan = np.array([np.nan], dtypes.numpy_dtype(self._dtype))
        output[...] = nan.view(output.dtype)[0]
        if self._expects_nan:
            wrong = output.reshape(-1)
            for part in self._parts():
                wrong[part][self._nan(self._flat[part])] = 0

    def check(self, output: DeviceArray) -> Verdict:
        """Compare an output, of the expected array's shape, C-contiguous."""
        flat, worst, wrong, first = output.reshape(-1), 0.0, 0, None
        with np.errstate(all="ignore"):
            for part in self._parts():
                a, b, allowed = flat[part], self._flat[part], self._allowed_in(part)
                error = self._quickly(a, b, allowed)
                if error is None:
                    error, bad, place = self._closely(a, b, allowed)
                    first = part.start + place if first is None and bad else first
                    wrong += bad
                worst = math.nan if math.isnan(error + worst) else max(worst, error)
        if first is None:
            return Verdict(worst)
        where = tuple(int(i) for i in np.unravel_index(first, output.shape))
        return Verdict(worst, wrong, where, float(self._allowed_in(slice(first, first + 1))[0]))

    def values_at(self, output: DeviceArray, place: tuple[int, ...]) -> tuple[Any, Any]:
        """Return one element of an output, and its right value."""
        number = int(np.ravel_multi_index(place, output.shape)) if place else 0
        kind = dtypes.numpy_dtype(self._dtype)
        found, right = (
            self._device.download(array[number : number + 1]).view(kind)[0]
            for array in (output.reshape(-1), self._flat)
        )
        return found, right

    def _parts(self) -> list[slice]:
        chunk = self._device.chunk
        return [slice(at, at + chunk) for at in range(0, self._flat.size, chunk)]

    @cached_property
    def _expects_nan(self) -> bool:
        return any(bool(self._nan(self._flat[part]).any()) for part in self._parts())

    def _nan(self, array: DeviceArray) -> DeviceArray:
        return self._device.xp.isnan(self._device.widened(array, self._dtype))

    def _allowed_in(self, part: slice) -> DeviceArray:
        """Return the errors that some elements may have, or one for all."""
        allowed = self._allowed.array
        return allowed if allowed.size == 1 else allowed[part]

    def _quickly(self, a: DeviceArray, b: DeviceArray, allowed: DeviceArray) -> float | None:
        """Return the largest error; None if an element may be wrong."""
        if not self._is_float:
            return None if bool((a != b).any()) else 0.0
        xp, scratch = self._device.xp, self._scratch[: a.size]
        a, b = (self._device.widened(array, self._dtype) for array in (a, b))
        xp.subtract(a, b, out=scratch)
        xp.abs(scratch, out=scratch)
        right = bool((scratch <= allowed).all())  # not for NaN
        return float(scratch.max()) if right else None

    def _closely(
        self, a: DeviceArray, b: DeviceArray, allowed: DeviceArray
    ) -> tuple[float, int, int]:
        """Return the largest error, the number of wrong elements, and the first of them."""
        xp = self._device.xp
        if self._is_float:
            a, b = (self._device.widened(array, self._dtype).astype(xp.float64) for array in (a, b))
            same = (a == b) | (xp.isnan(a) & xp.isnan(b))
            errors = xp.abs(a - b)
        else:  # of 64 bits too: their difference fits into unsigned ones
            same = a == b
            high, low = (f(a, b).astype(xp.uint64) for f in (xp.maximum, xp.minimum))
            errors = (high - low).astype(xp.float64)
        errors = xp.where(same, 0.0, errors)
        bad = ~(errors <= allowed)
        count = int(bad.sum())
        return float(errors.max()), count, int(bad.astype(xp.uint8).argmax()) if count else 0
