"""Arrays on a device, with the methods that arrays of TVM and MXNet have in common."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.compat.devices import Device
from autotune.errors import ArgumentError
from autotune.ir import dtypes
from autotune.runtime.cpu.aligned_arrays import aligned_copy, aligned_zeros
from autotune.runtime.cuda import cupy_driver
from autotune.system.words import one_line


class NDArray:
    """A C-contiguous array on a device.

    Attributes
    ----------
    data : array
        Of NumPy, or of CuPy on a GPU.
    device : Device
        Where it is; `ctx` and `context` are other names.
    """

    def __init__(self, data: Any, device: Device) -> None:
        self.data = data
        self.device = self.ctx = self.context = device

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> str:
        """Name of the type of its elements."""
        return str(np.dtype(self.data.dtype).name)

    def numpy(self) -> npt.NDArray[Any]:
        """Return a copy in an array of NumPy; waits until what writes it has ended."""
        copy: npt.NDArray[Any] = (
            self.data.copy() if type(self.data) is np.ndarray else self.data.get()
        )
        return copy

    asnumpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return a copy in an array of NumPy, for functions that take whatever looks like one.

        ValueError if no copy is wanted.
        """
        if copy is False:
            raise ValueError("elements of an NDArray are copied to be read by NumPy")
        return self.numpy().astype(dtype or self.data.dtype, copy=False)

    def copyfrom(self, source: NDArray | npt.ArrayLike) -> NDArray:
        """Copy another array of the same shape into this one, which is returned; converts types.

        Raises
        ------
        ArgumentError
            If the shapes differ, or the values are complex.
        """
        values = _plain(source)
        if values.shape != self.shape:
            raise ArgumentError(
                f"copyfrom: an array of shape {self.shape} cannot take one of {values.shape}"
            )
        if np.iscomplexobj(values):
            raise ArgumentError(f"copyfrom: {self.dtype} cannot hold {values.dtype.name}")
        self.data[...] = new_array(values.astype(self.data.dtype), self.device).data
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy this into another array, or to a new one on a device; return that.

        Raises
        ------
        ArgumentError
            If the shapes differ, or it is neither.
        """
        if isinstance(target, Device):
            return new_array(self.numpy(), target)
        if not isinstance(target, NDArray):
            raise ArgumentError(f"copyto: expected an NDArray or a device, got {target!r}")
        return target.copyfrom(self)

    def wait_to_read(self) -> None:
        """Wait until all work on its device has ended."""
        self.device.sync()

    def __repr__(self) -> str:
        return f"<NDArray {self.shape} {self.dtype} on {self.device}>\n{self.numpy()}"


def new_array(values: npt.ArrayLike | NDArray, device: Device) -> NDArray:
    """Return a copy of some values on a device.

    Raises ArgumentError if there are no arrays of their type there.
    """
    plain = _plain(values)
    if plain.dtype.name not in dtypes.ALL:
        raise ArgumentError(f"there are no arrays of {plain.dtype.name}: convert it with .astype")
    number = device.gpu_number
    if number is None:
        return NDArray(aligned_copy(plain), device)
    (bits,) = cupy_driver.copied([np.ascontiguousarray(plain).reshape(plain.shape)], number)
    try:
        return NDArray(bits.view(plain.dtype), device)
    except (TypeError, ValueError):
        raise ArgumentError(f"CuPy has no arrays of {plain.dtype.name} for {device}") from None


def _plain(values: npt.ArrayLike | NDArray) -> npt.NDArray[Any]:
    """Return values as an array of NumPy; ArgumentError if they are none."""
    if isinstance(values, NDArray):
        return values.numpy()
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"these are no elements of an array: {one_line(str(error))}") from error


def empty_array(shape: int | Sequence[int], dtype: npt.DTypeLike, device: Device) -> NDArray:
    """Return a new array whose elements may be anything.

    Raises ArgumentError if the shape or the type is none, IRError if the type is unknown.
    """
    try:
        sizes = tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
    except TypeError:
        sizes = (-1,)
    if min(sizes, default=0) < 0:
        raise ArgumentError(f"a shape is a tuple of whole numbers >= 0, got {shape!r}")
    try:
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    except TypeError as error:
        raise ArgumentError(f"there are no arrays of {dtype!r}: give a dtype") from error
    kind = np.dtype(dtypes.numpy_dtype(dtypes.check(name)))
    number = device.gpu_number
    if number is None:
        return NDArray(aligned_zeros(sizes, kind), device)
    return NDArray(cupy_driver.empty(sizes, kind, number), device)
