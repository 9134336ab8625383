"""Arrays of NumPy that begin where a cache line does, as temporaries of compiled functions do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNMENT = 64  # Bytes of a cache line, and of the longest vector.


def aligned_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a new array of zeros that begins at a cache line."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)  # `numpy.zeros` has no huge pages
    start = -memory.ctypes.data % ALIGNMENT
    memory[start : start + size] = 0
    return memory[start : start + size].view(kind).reshape(shape)


def aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a copy of an array that is C-contiguous and begins at a cache line."""
    copy = aligned_zeros(array.shape, array.dtype)
    copy[...] = array
    return copy
