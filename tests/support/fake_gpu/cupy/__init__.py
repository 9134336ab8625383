"""What autotune uses of CuPy, on the CPU: memory is NumPy's, kernels are run from their source.

For processes that tests start, see `fake_machine.py`. Calls are carried out at once; how long they
take is made up, and a launch that is repeated, on memory in which only kernels have written since,
is carried out twice.
What is wrong with a kernel is read off its source, such as ``// fault: misaligned address``, and as
on a GPU comes out when it is waited for.
"""

from __future__ import annotations

import os

import numpy as np

from . import cuda as cuda
from ._device import allocated, machine

__version__ = "14.0.0"

int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64


class ndarray(np.ndarray):
    """An array in what stands for the GPU's memory."""

    @property
    def data(self):
        return cuda.MemoryPointer(self.__array_interface__["data"][0])

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None, max_version=None):
        assert stream is not None, "who uses it says in which stream"
        return self.view(np.ndarray).__dlpack__(max_version=max_version)

    def get(self):
        machine.check()
        return np.array(self, copy=True, subok=False)

    def set(self, values):
        machine.check()
        assert type(values) is np.ndarray
        assert (values.dtype, values.shape) == (self.dtype, self.shape)
        self[...] = values.view(ndarray)
        machine.wrote()

    def __setitem__(self, key, value):
        assert type(value) is not np.ndarray, "CuPy takes no arrays of NumPy"
        super().__setitem__(key, value)
        machine.wrote()

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        machine.check()
        assert method != "__call__" or "where" not in kwargs, "CuPy has no such argument"
        for value in inputs:
            if type(value) is np.ndarray:
                raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        out = kwargs.pop("out", None)
        if out is not None:
            machine.spend(2e-5)
            machine.wrote()
            kwargs["out"] = tuple(each.view(np.ndarray) for each in out)
        plain = [v.view(np.ndarray) if isinstance(v, ndarray) else v for v in inputs]
        with np.errstate(all="ignore"):  # a GPU gives no warnings
            made = getattr(ufunc, method)(*plain, **kwargs)
        return made.view(ndarray) if isinstance(made, np.ndarray) else made


def empty(shape, dtype=float):
    """Return memory that holds anything."""
    made = np.empty(shape, dtype)
    allocated(made.nbytes)
    made.reshape(-1).view(np.uint8)[...] = 0xA5
    return made.view(ndarray)


def zeros(shape, dtype=float):
    """Return memory that holds zeros."""
    made = empty(shape, dtype)
    made[...] = 0
    return made


def asarray(values):
    """Copy to the GPU, unless it is there."""
    if isinstance(values, ndarray):
        return values
    values = np.asarray(values)
    made = empty(values.shape, values.dtype)
    made.set(np.ascontiguousarray(values).reshape(values.shape))
    return made


def ascontiguousarray(array):
    """Return an array whose rows follow one another."""
    assert isinstance(array, ndarray)
    return np.ascontiguousarray(array).view(ndarray)


def arange(count):
    """Return 0, 1, ..., count - 1."""
    return asarray(np.arange(count))


def empty_like(array):
    """Return memory for as much as an array holds."""
    return empty(array.shape, array.dtype)


def where(condition, a, b):
    """Return a or b."""
    plain = [v.view(np.ndarray) if isinstance(v, ndarray) else v for v in (condition, a, b)]
    return np.where(*plain).view(ndarray)


def matmul(a, b, out):
    """Multiply matrices, as by cuBLAS."""
    if os.environ.get("FAKE_GPU_CUBLAS") == "missing":
        raise ImportError("libcublas.so.12: cannot open shared object file")
    out[...] = np.matmul(a, b)
    machine.spend(3e-5)


def cumsum(array, out):
    """Sum elements up to each."""
    out[...] = np.cumsum(array).view(ndarray)
    machine.spend(3e-5)


abs, invert, subtract = np.abs, np.invert, np.subtract
isfinite, isnan, maximum, minimum = np.isfinite, np.isnan, np.maximum, np.minimum
