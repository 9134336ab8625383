"""Data types by name: widths, ranges, promotion, rounding and the matching NumPy types.

Types are plain strings ("float32", "uint8", "bool"), as NumPy and TVM spell them. docs/dtypes.md
states the rules that these functions implement.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from autotune.errors import IRError

INDEX: Final = "int32"
BOOL: Final = "bool"
HALVES: Final = ("float16", "bfloat16")
FLOATS: Final = (*HALVES, "float32", "float64")
SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTEGERS: Final = (*SIGNED, *UNSIGNED)
NUMBERS: Final = (*FLOATS, *INTEGERS)
ALL: Final = (*NUMBERS, BOOL)

_BITS: Final = {
    "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64,
    "int8": 8, "int16": 16, "int32": 32, "int64": 64,
    "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "bool": 1,
}  # fmt: skip
#: Explicit bits of a mantissa, and the exponent of the largest numbers.
_MANTISSA: Final = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
_LARGEST_EXPONENT: Final = {"float16": 15, "bfloat16": 127, "float32": 127, "float64": 1023}

_LONGEST_SHOWN: Final = 128  # Bits of the longest integer that is shown in full.

_LOWEST: Final[dict[str, int | float]] = {
    **{name: -(1 << _BITS[name] - 1) for name in SIGNED},
    **dict.fromkeys(UNSIGNED, 0),
    **{name: -(2.0 - 2.0 ** -_MANTISSA[name]) * 2.0 ** _LARGEST_EXPONENT[name] for name in FLOATS},
    BOOL: False,
}
_HIGHEST: Final[dict[str, int | float]] = {
    **{name: (1 << _BITS[name] - 1) - 1 for name in SIGNED},
    **{name: (1 << _BITS[name]) - 1 for name in UNSIGNED},
    **{name: -_LOWEST[name] for name in FLOATS},
    BOOL: True,
}


def check(dtype: str) -> str:
    """Return `dtype` if it names a supported type, else raise `IRError`."""
    if dtype not in _BITS:
        raise IRError(f"unknown dtype {dtype!r}: expected one of {', '.join(ALL)}")
    return dtype


# -- kinds ---------------------------------------------------------------------------------


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype in _MANTISSA


def is_half(dtype: str) -> bool:
    """Whether `dtype` is float16 or bfloat16, whose arithmetic is that of float32, rounded."""
    return dtype in HALVES


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is an integer type (bool is not)."""
    return dtype in INTEGERS


def is_unsigned(dtype: str) -> bool:
    """Whether `dtype` is an unsigned integer type."""
    return dtype in UNSIGNED


def is_index(dtype: str) -> bool:
    """Whether `dtype` is a type of indices and sizes, whose arithmetic is taken as exact there.

    Integers of all other types are data: they wrap around everywhere.
    """
    return dtype == "int32" or dtype == "int64"


def holds(wide: str, narrow: str) -> bool:
    """Whether both are integer types and `wide` has every value of `narrow`."""
    return (
        is_integer(wide)
        and is_integer(narrow)
        and _LOWEST[wide] <= _LOWEST[narrow]
        and _HIGHEST[narrow] <= _HIGHEST[wide]
    )


# -- sizes and ranges ----------------------------------------------------------------------


def bits(dtype: str) -> int:
    """Width of one value in bits (1 for bool, which is stored in a byte)."""
    return _BITS[check(dtype)]


def itemsize(dtype: str) -> int:
    """Size of one stored element in bytes."""
    return (bits(dtype) + 7) // 8


def min_value(dtype: str) -> int | float:
    """Smallest finite value of `dtype`."""
    return _LOWEST[check(dtype)]


def max_value(dtype: str) -> int | float:
    """Largest finite value of `dtype`."""
    return _HIGHEST[check(dtype)]


def fits(value: float, dtype: str) -> bool:
    """Whether `dtype` can represent `value` without overflow; a float is rounded."""
    if is_float(check(dtype)) and not isinstance(value, int):
        # From half a unit in the last place beyond the largest number on, rounding overflows.
        return not math.isfinite(value) or abs(value) / max_value(dtype) < 1 + epsilon(dtype) / 4
    return min_value(dtype) <= value <= max_value(dtype) and value == int(value)


def number_text(value: object) -> str:
    """Return a number as messages show it: of a very large integer its magnitude."""
    if isinstance(value, int) and value.bit_length() > _LONGEST_SHOWN:
        return f"about {'-' if value < 0 else ''}10^{round(value.bit_length() * math.log10(2))}"
    return str(value)


def epsilon(dtype: str) -> float:
    """Distance from 1 to the next number of a floating-point type."""
    return 2.0 ** -_MANTISSA[check(dtype)]


def least_positive(dtype: str) -> float:
    """Return the smallest positive number of a floating-point type, which is subnormal."""
    return float(2.0 ** (1 - _LARGEST_EXPONENT[check(dtype)] - _MANTISSA[dtype]))


def identity(op: str, dtype: str) -> int | float:
    """Neutral element of `op`: "+", "*", "min" or "max" (infinite for floats).

    That of a sum of floats is -0.0, because -0.0 + 0.0 is 0.0.
    """
    if op in ("min", "max"):
        if is_float(check(dtype)):
            return math.inf if op == "min" else -math.inf
        return max_value(dtype) if op == "min" else min_value(dtype)
    if op == "+":
        return -0.0 if is_float(check(dtype)) else 0
    assert op == "*"
    return 1


def accumulator(dtype: str) -> str:
    """Type in which reductions over `dtype` accumulate unless told otherwise."""
    return "float32" if is_half(check(dtype)) else dtype


# -- results of operations -----------------------------------------------------------------


def promote(a: str, b: str) -> str:
    """Type of an arithmetic result of operands of types `a` and `b`.

    Any float is stronger than any integer, any integer than bool. Of two floats the wider wins;
    float16 with bfloat16 gives float32. Two integers give the wider width, signed if either is.
    """
    if check(a) == check(b) or b == BOOL:
        return a
    if a == BOOL:
        return b
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if is_float(a):
        return "float32" if bits(a) == bits(b) else max(a, b, key=bits)
    return f"{'u' * (is_unsigned(a) and is_unsigned(b))}int{max(bits(a), bits(b))}"


def wrapped(value: int, dtype: str) -> int:
    """Return the number of an integer type that is congruent to `value` modulo 2 ** bits."""
    return (int(value) - int(_LOWEST[dtype])) % (1 << _BITS[dtype]) + int(_LOWEST[dtype])


def saturated(value: float, dtype: str) -> int:
    """Return a float as an integer type: rounded to zero, cut to its range, 0 for a NaN."""
    low, high = int(_LOWEST[dtype]), int(_HIGHEST[dtype])
    number = float(value)
    if number != number:
        return 0
    if math.isinf(number):
        return low if number < 0 else high
    return min(max(int(number), low), high)


def rounded(value: Any, dtype: str) -> Any:
    """Return a number as a NumPy scalar of a floating-point type, to nearest, ties to even.

    The half types are always converted from float32, as processors do: 64-bit values are rounded
    twice.
    """
    if is_half(dtype):
        value = rounded(value, "float32")
    elif isinstance(value, (int, np.integer)) and -(2**63) <= value < 2**64:
        # NumPy's integers are rounded once, Python's go through a double.
        value = np.int64(value) if value < 2**63 else np.uint64(value)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(value).astype(scalar_type(dtype))[()]


# -- NumPy -----------------------------------------------------------------------------------


@functools.cache
def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's type of the same name; bfloat16 is the one of ml_dtypes."""
    source: Any = check(dtype)
    if dtype == "bfloat16":
        import ml_dtypes  # imported here, so that other types do not need it

        source = ml_dtypes.bfloat16
    found: np.dtype[Any] = np.dtype(source)
    return found


def scalar_type(dtype: str) -> Any:
    """NumPy's class of scalars of `dtype`."""
    return numpy_dtype(dtype).type


def converted(array: Any, dtype: str) -> Any:
    """Return an array as another type: floats to integers saturate, 0 of a NaN."""
    target = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        if dtype == BOOL:
            return array != 0
        if is_float(array.dtype.name) and is_integer(dtype):
            return _saturated(array, target)
        return (array.astype(np.float32) if is_half(dtype) else array).astype(target)


def _saturated(array: Any, target: np.dtype[Any]) -> Any:
    """Convert floats to integers as `saturated` does."""
    limits = np.iinfo(target)
    low, above = float(limits.min), float(limits.max + 1)  # powers of 2, which floats are exactly
    whole = np.trunc(array.astype(np.float64))
    inside = (whole > low) & (whole < above)  # no NaN is
    least, none, most = (target.type(n) for n in (limits.min, 0, limits.max))
    cut = np.where(whole >= above, most, np.where(whole <= low, least, none))
    return np.where(inside, np.where(inside, whole, 0).astype(target), cut)


def of_value(value: object) -> str:
    """Type of a Python or NumPy scalar without a context."""
    if isinstance(value, (bool, np.bool_)):
        return BOOL
    if isinstance(value, np.generic) and value.dtype.name in _BITS:
        return value.dtype.name
    if isinstance(value, (int, np.integer)):
        return "int32" if -(2**31) <= int(value) < 2**31 else "int64"
    if isinstance(value, (float, np.floating)):
        return "float32"
    raise IRError(f"cannot use a {type(value).__name__} ({value!r}) in an expression")
