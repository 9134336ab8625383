"""Values at the limits of every data type, the results of casting them, and exact comparison."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import dtypes

Array = npt.NDArray[Any]
#: Smallest positive numbers.
_TINY = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 5e-324}


@cache
def edges(dtype: str) -> Array:
    """Values where something may change: limits, ties, subnormals, infinities, NaN."""
    kind = dtypes.numpy_dtype(dtype)
    if dtype == dtypes.BOOL:
        return np.array([False, True])
    low, high = dtypes.min_value(dtype), dtypes.max_value(dtype)
    if dtypes.is_integer(dtype):
        middle = int(high) // 2
        numbers = [low, low + 1, -7, -3, -1, 0, 1, 2, 3, 7, middle, middle + 1, high - 1, high]
        return np.array([n for n in dict.fromkeys(numbers) if low <= n <= high], kind)
    eps, tiny = dtypes.epsilon(dtype), _TINY[dtype]
    floats = [
        0.0, -0.0, 1.0, -1.0, 1 + eps, 1 - eps / 2, 3.0, -7.5, 0.1, 1 / 3, 100.7, -255.5, 70000.0,
        tiny, -3 * tiny, tiny / eps, 2.0**31, 2.0**63, high, low, np.inf, -np.inf, np.nan,
    ]  # fmt: skip
    return np.array([dtypes.rounded(value, dtype) for value in floats], kind)


def pairs(dtype: str) -> tuple[Array, Array]:
    """Every edge beside every other, as two arrays."""
    values = edges(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def converted(values: Array, target: str) -> Array:
    """Convert as docs/dtypes.md says, with NumPy where it is defined and Python where it is not."""
    kind = dtypes.numpy_dtype(target)
    if dtypes.is_float(values.dtype.name) and dtypes.is_integer(target):
        return np.array([dtypes.saturated(value, target) for value in values], kind)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtypes.is_half(target):
            values = values.astype(np.float32)
        return values.astype(kind)


def assert_same(actual: Array, expected: Array, signed_zeros: bool = True) -> None:
    """Equal in every element, with the sign of a zero; a NaN where a NaN is expected."""
    assert actual.dtype == expected.dtype
    if dtypes.is_float(actual.dtype.name):
        with np.errstate(invalid="ignore"):
            actual, expected = actual.astype(np.float64), expected.astype(np.float64)
        if signed_zeros:
            numbers = ~np.isnan(expected)
            signs = np.signbit(actual), np.signbit(expected)
            np.testing.assert_array_equal(signs[0][numbers], signs[1][numbers])
    np.testing.assert_array_equal(actual, expected)


def random_values(dtype: str, size: int, seed: int = 0) -> Array:
    """Return normally distributed floats, integers from 0 to 49, or bools."""
    rng = np.random.default_rng(seed)
    if dtypes.is_float(dtype):
        return converted(rng.normal(size=size) * 3, dtype)
    return rng.integers(0, 2 if dtype == "bool" else 50, size).astype(dtype)
