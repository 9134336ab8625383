"""Checks the arguments of the built-in templates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.ir.expr import SizeVar

LARGEST = 2**31 - 1  # Loops count in int32.


def check_arguments(template: str, dtype: str, known: tuple[str, ...], **sizes: int) -> None:
    """Raise `UsageError` if a dtype is not one of `known`, or a size cannot be one."""
    check_choice(template, "dtype", dtype, known)
    for name, size in sizes.items():
        if isinstance(size, SizeVar):
            continue
        if size < 1:
            raise UsageError(f"{template}: {name} must be at least 1, got {size}")
        if size > LARGEST:
            raise UsageError(f"{template}: {name} must be at most {LARGEST}, got {size}")


def check_choice(template: str, name: str, value: object, choices: Iterable[object]) -> None:
    """Raise `UsageError` if the value of an argument is not one of some choices."""
    known = list(choices)
    if value not in known:
        listed = ", ".join(str(choice) or '""' for choice in known)
        raise UsageError(f"{template}: {name} must be one of {listed}, got {value!r}")


def check_positive(template: str, name: str, value: float, dtype: str) -> None:
    """Raise `UsageError` if a number is not above 0 and finite as a float32 or float64."""
    with np.errstate(over="ignore"):
        rounded = np.dtype(dtype).type(value)
    if not 0 < rounded < np.inf:
        wanted = "above 0" if value <= 0 else f"above 0 and finite in {dtype}"
        raise UsageError(f"{template}: {name} must be {wanted}, got {value}")


def result_type(template: str, dtype: str, out_dtype: str) -> str:
    """Return the type of a product's result: `out_dtype`, or `dtype` if that is empty.

    Raises UsageError if it is no type of numbers, or one of the two is an integer type and the
    other is not.
    """
    if not out_dtype:
        return dtype
    check_choice(template, "out_dtype", out_dtype, ("", *dtypes.NUMBERS))
    if dtypes.is_float(dtype) != dtypes.is_float(out_dtype):
        kind = "a float" if dtypes.is_float(dtype) else "an integer"
        raise UsageError(
            f"{template}: out_dtype must be {kind} type, as dtype is {dtype}; got {out_dtype}"
        )
    return out_dtype


def sum_type(dtype: str, out_dtype: str) -> str:
    """Return the type in which products are summed: the wider of the two; float32 for halves."""
    wider = max(dtype, out_dtype, key=dtypes.bits)
    return dtypes.accumulator(wider)
