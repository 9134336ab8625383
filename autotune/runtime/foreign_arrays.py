"""Arrays of other libraries as NumPy arrays on the same memory, never as copies.

They offer their memory through ``__array_interface__`` (NumPy's protocol) or DLPack
(https://dmlc.github.io/dlpack/latest/c_api.html). DLPack's structures are read here and not by
`numpy.from_dlpack`, which knows no bfloat16 and cannot tell whether older exports may be written.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import ArgumentError

_CPU_DEVICES = (1, 3, 11)  # kDLCPU, and memory of the CPU pinned for CUDA or for ROCm
_DEVICE_NAMES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed"}
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_READ_ONLY, _COPIED = 1, 2


class DLTensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )

    @property
    def dtype(self) -> str:
        """Type of its elements, by our names where we have it."""
        held = f"{_KINDS.get(self.code, f'type {self.code} of ')}{self.bits}"
        held = "bool" if held == "bool8" else held
        return held if self.lanes == 1 else f"{held} with {self.lanes} lanes"


class _DLManagedTensorVersioned(ctypes.Structure):
    """DLManagedTensorVersioned, of version 1."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


class _Memory:
    """Memory that an owner keeps alive, as NumPy takes it."""

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def library_of(array: object) -> str:
    """Return the name of the package that an array is of, such as "numpy", "torch" or "jax"."""
    package = type(array).__module__.partition(".")[0]
    return "jax" if package == "jaxlib" else package


def dtype_name(array: object) -> str:
    """Return the type of an array's elements, of whatever library; torch's is "torch.float32".

    Raises ArgumentError if it is no array.
    """
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise ArgumentError(f"expected an array with shape and dtype, got {type(array).__name__}")
    return str(getattr(array.dtype, "name", array.dtype)).rsplit(".", 1)[-1]


def as_numpy(array: object, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return any array in the CPU's memory as a NumPy array on the same memory.

    `array`: a NumPy array, or what has ``__array_interface__`` or ``__dlpack__``.
    `dtype`: what a DLPack array must hold.

    Raises ArgumentError if it is no such array, is elsewhere, or holds something else; without the
    argument's name.
    """
    if isinstance(array, np.ndarray):
        return array
    with refusals(array):
        # NumPy's own scalars have the first one, too, but it gives a temporary copy.
        if hasattr(array, "__array_interface__") and not isinstance(array, np.generic):
            return np.asarray(array)
        if hasattr(array, "__dlpack__"):
            return _from_dlpack(array, dtype)
    raise ArgumentError(
        "must be an array (of NumPy, or with __array_interface__ or DLPack), got "
        f"{type(array).__name__}: numpy.asarray makes one"
    )


@contextlib.contextmanager
def refusals(array: object) -> Iterator[None]:
    """Say of errors of an array's library that it gives no access to its memory."""
    try:
        yield
    except ArgumentError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ArgumentError(
            f"must give access to its memory, got {type(array).__name__}, which refuses: {reason}"
        ) from error


def _from_dlpack(array: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    device, number = (int(part) for part in array.__dlpack_device__())
    if device not in _CPU_DEVICES:
        name = _DEVICE_NAMES.get(device, f"type {device}")
        raise ArgumentError(
            f"must be in the CPU's memory, got {type(array).__name__} on device {name}:{number}: "
            "copy it to the CPU first"
        )
    capsule, tensor, read_only = open_dlpack(array)
    held = tensor.dtype
    if held != dtype.name:
        raise ArgumentError(f"must have dtype {dtype.name}, got {held}: convert it first")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim))
    interface = {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": f"|V{dtype.itemsize}",
        "data": ((tensor.data or 0) + tensor.byte_offset, read_only),
    }
    return np.asarray(_Memory(capsule, interface)).view(dtype)


def open_dlpack(array: Any, **options: object) -> tuple[object, DLTensor, bool]:
    """Return the owner of an array's memory, its address, and whether writes would be lost.

    `array`: has ``__dlpack__``.
    `options`: for ``__dlpack__``, such as `stream`.
    """
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **options)
    except TypeError:  # written before there were versions
        capsule = array.__dlpack__(**options)
    tensor, read_only = _opened(capsule)
    # Those of JAX never change, but it does not say so.
    return capsule, tensor, read_only or library_of(array) == "jax"


def _opened(capsule: object) -> tuple[DLTensor, bool]:
    """Return the tensor in a capsule, which goes on owning it, and whether writing is in vain."""
    api = ctypes.pythonapi
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_IsValid", api)
    )
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    if is_valid(capsule, b"dltensor_versioned"):
        versioned = _DLManagedTensorVersioned.from_address(
            pointer(capsule, b"dltensor_versioned") or 0
        )
        if versioned.major != 1:
            raise BufferError(f"DLPack version {versioned.major} is not known")
        return versioned.tensor, bool(versioned.flags & (_READ_ONLY | _COPIED))
    return DLTensor.from_address(pointer(capsule, b"dltensor") or 0), False
