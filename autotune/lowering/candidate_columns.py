"""Numbers and truths of many candidates at once: columns, or one value that holds for all.

A value that is the same for all candidates stays one number, and what is decided for all is a bool,
so that work on columns is done only where candidates differ.
"""

from __future__ import annotations

from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

IntColumn = npt.NDArray[np.int64]

Int: TypeAlias = "int | IntColumn"
"""A number for each candidate; one Python int if it is the same for all."""

Mask: TypeAlias = "bool | npt.NDArray[np.bool_]"
"""A truth for each candidate; one bool if it is the same for all."""


class HardIndexError(Exception):
    """An index holds what these columns do not know; it is simplified one candidate at a time."""


def decided(mask: Mask | np.bool_) -> Mask:
    """Return a mask, as a bool if it is the same for all."""
    if isinstance(mask, np.ndarray):
        count = np.count_nonzero(mask)
        return False if count == 0 else True if count == mask.size else mask
    return bool(mask)


def both(a: Mask, b: Mask) -> Mask:
    """Return a and b."""
    if a is True or b is False:
        return b
    if b is True or a is False:
        return a
    return decided(a & b)


def either(a: Mask, b: Mask) -> Mask:
    """Return a or b."""
    if a is False or b is True:
        return b
    if b is False or a is True:
        return a
    return decided(a | b)


def but(a: Mask, b: Mask) -> Mask:
    """Return a and not b."""
    return both(a, (not b) if isinstance(b, bool) else ~b)


def where(mask: Mask, a: Int, b: Int) -> Int:
    """Return `a` where the mask is true, else `b`."""
    if mask is True or a is b:
        return a
    if mask is False:
        return b
    return cast(Int, np.where(mask, a, b))


def equal(a: Int, b: Int) -> Mask:
    """Return where two columns have one value."""
    return True if a is b else decided(np.equal(a, b) if is_column(a, b) else a == b)


def is_column(*values: Int) -> bool:
    """Return whether one of some numbers differs between candidates."""
    return any(isinstance(value, np.ndarray) for value in values)


def least(a: Int, b: Int) -> Int:
    """Return the smaller of two numbers."""
    return np.minimum(a, b) if is_column(a, b) else min(a, b)


def most(a: Int, b: Int) -> Int:
    """Return the larger of two numbers."""
    return np.maximum(a, b) if is_column(a, b) else max(a, b)


def divides(a: Int, b: Int) -> Mask:
    """Return where `a`, if it is not 0, divides `b`."""
    divisor = where(decided(np.equal(a, 0)), 1, a)
    return decided(np.equal(b % divisor, 0))
