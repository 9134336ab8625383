"""Arrays that a reference computes a bound of all its intermediate values with."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.measure.checks.check_inputs import Array


class Magnitudes(np.ndarray):
    """Magnitudes of numbers: differences are sums, and factors lose their signs.

    What a function of sums, differences and products returns for them is at least as large as every
    partial sum in any order. What NumPy does not tell this class of, such as matrix products, only
    adds and multiplies.
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a function of elements."""
        if ufunc is np.subtract:
            ufunc = np.add
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(map(_plain, out))
        found = getattr(ufunc, method)(*map(_magnitude, inputs), **options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        return found.view(Magnitudes) if isinstance(found, np.ndarray) else found


def _magnitude(value: Any) -> Any:
    """Return an operand, positive, as a plain array; those of this class are positive already."""
    if isinstance(value, Magnitudes):
        return _plain(value)
    array = np.asarray(value)
    return np.abs(value) if array.dtype.kind in "fi" else value


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Magnitudes) else value


def magnitudes(array: Array) -> Array:
    """Return the magnitudes of an array's elements."""
    return np.abs(array).view(Magnitudes)
