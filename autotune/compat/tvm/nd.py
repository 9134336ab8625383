"""`tvm.nd`: arrays on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from autotune.compat.arrays import NDArray, empty_array, new_array
from autotune.compat.devices import Device, chosen_device

__all__ = ["NDArray", "array", "empty"]


def array(
    arr: npt.ArrayLike | NDArray, device: Device | None = None, ctx: Device | None = None
) -> NDArray:
    """Return a copy of an array of NumPy on a device, by default the processor.

    `ctx` is the older name of `device`.
    """
    return new_array(arr, chosen_device("nd.array", device, ctx))


def empty(
    shape: int | Sequence[int],
    dtype: npt.DTypeLike = "float32",
    device: Device | None = None,
    ctx: Device | None = None,
) -> NDArray:
    """Return a new array on a device, by default the processor, whose elements may be anything.

    `ctx` is the older name of `device`.
    """
    return empty_array(shape, dtype, chosen_device("nd.empty", device, ctx))
