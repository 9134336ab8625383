"""The part of MXNet that d2l-tvm's page on broadcast addition uses, made of CuPy or NumPy.

MXNet itself is no longer developed, and does not install on the Python that autotune needs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.compat.arrays import NDArray, empty_array, new_array
from autotune.compat.devices import Device, cpu, gpu

__all__ = ["cpu", "gpu", "nd"]


def _array(
    source_array: npt.ArrayLike | NDArray, ctx: Device | None = None, dtype: Any = None
) -> NDArray:
    """Return a copy of an array on a device; float32, unless a type is given or it has its own.

    As in MXNet only an `NDArray` has its own.
    """
    held = source_array.dtype if isinstance(source_array, NDArray) else "float32"
    plain = source_array.numpy() if isinstance(source_array, NDArray) else np.asarray(source_array)
    return new_array(plain.astype(dtype or held), ctx or cpu())


def _broadcast_add(lhs: NDArray, rhs: NDArray, out: NDArray | None = None) -> NDArray:
    """Return the sum of two arrays of one device, or write it to `out`; it is not waited for."""
    if out is None:
        shape = np.broadcast_shapes(lhs.shape, rhs.shape)
        out = empty_array(shape, lhs.dtype, lhs.device)
    np.add(lhs.data, rhs.data, out=out.data)  # calls CuPy for its arrays
    return out


nd = SimpleNamespace(NDArray=NDArray, array=_array, broadcast_add=_broadcast_add)
"""Functions of arrays."""
