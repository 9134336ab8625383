"""Data types by name: widths, ranges, promotion and the matching NumPy types.

Types are plain strings ("float32", "int64", "bool"), as NumPy and TVM spell them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.errors import IRError

INDEX = "int32"
BOOL = "bool"

_BITS = {"float32": 32, "float64": 64, "int32": 32, "int64": 64, "bool": 1}
_ITEMSIZE = {"float32": 4, "float64": 8, "int32": 4, "int64": 8, "bool": 1}
#: From weakest to strongest: the stronger of two operand types is the type of the result.
_STRENGTH = ("bool", "int32", "int64", "float32", "float64")


def check(dtype: str) -> str:
    """Return `dtype` if it names a supported type, else raise `IRError`."""
    if dtype not in _BITS:
        raise IRError(f"unknown dtype {dtype!r}: expected one of {', '.join(_BITS)}")
    return dtype


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype.startswith("float")


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is an integer type (bool is not)."""
    return dtype.startswith("int")


def holds(wide: str, narrow: str) -> bool:
    """Whether both are integer types and `wide` has every value of `narrow`."""
    return is_integer(wide) and is_integer(narrow) and bits(wide) >= bits(narrow)


def bits(dtype: str) -> int:
    """Width of one value in bits (1 for bool, which is stored in a byte)."""
    return _BITS[check(dtype)]


def itemsize(dtype: str) -> int:
    """Size of one stored element in bytes."""
    return _ITEMSIZE[check(dtype)]


def promote(a: str, b: str) -> str:
    """Type of an arithmetic result of operands of types `a` and `b`."""
    return a if _STRENGTH.index(check(a)) >= _STRENGTH.index(check(b)) else b


def numpy_dtype(dtype: str) -> npt.DTypeLike:
    """NumPy's type of the same name."""
    return np.dtype(check(dtype))


def min_value(dtype: str) -> int | float | bool:
    """Smallest finite value of `dtype` (minus infinity for floats)."""
    if is_float(check(dtype)):
        return -float("inf")
    return False if dtype == BOOL else int(np.iinfo(dtype).min)


def max_value(dtype: str) -> int | float | bool:
    """Largest finite value of `dtype` (infinity for floats)."""
    if is_float(check(dtype)):
        return float("inf")
    return True if dtype == BOOL else int(np.iinfo(dtype).max)


def of_value(value: object) -> str:
    """Type that a Python or NumPy scalar gets when no context gives one."""
    if isinstance(value, (bool, np.bool_)):
        return BOOL
    if isinstance(value, (np.floating, np.integer)) and value.dtype.name in _BITS:
        return value.dtype.name
    if isinstance(value, (int, np.integer)):
        return "int32" if -(2**31) <= int(value) < 2**31 else "int64"
    if isinstance(value, (float, np.floating)):
        return "float32"
    raise IRError(f"cannot use a {type(value).__name__} ({value!r}) in an expression")


def accumulator(dtype: str) -> str:
    """Type in which sums and products over values of `dtype` are carried out by default."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype
