"""Cuts arrays into vectors of as many lanes as their addresses allow, and counts the vectors.

`autotune/codegen/cuda/device/vectors.cuh` is the other side, which loads and stores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.ir import dtypes

VECTOR_BYTES = 16  # What one instruction of a thread loads or stores at most.


@dataclass(frozen=True)
class VectorPlan:
    """How kernels walk through rows of the same length in several arrays.

    Attributes
    ----------
    lanes : int
        Elements of a vector, a power of two.
    aligned : bool
        Whether every row of every array begins with a whole vector and ends with one, so that no
        lane needs a check.
    vectors : int
        Vectors that a row may touch, heads and tails included.
    """

    lanes: int
    aligned: bool
    vectors: int


def most_lanes(kinds: Sequence[str]) -> int:
    """Return the lanes with which no array of these types moves more than 16 bytes at a time.

    2 for float64, 4 for float32, 8 for the half types, 16 for int8.
    """
    return VECTOR_BYTES // max(map(dtypes.itemsize, kinds))


def plan_vectors(
    addresses: Sequence[int],
    kinds: Sequence[str],
    lead_dim: int,
    other_dim: int = 1,
    lanes: int | None = None,
) -> VectorPlan:
    """Cut the rows of arrays into vectors of as many lanes as all their addresses allow.

    Vectors lie at multiples of their size. Where rows begin inside of one, in all arrays at the
    same lane, its first lanes are left out; where they begin at different lanes, there are fewer
    lanes, down to one.

    Parameters
    ----------
    addresses : sequence of int
        Where each array begins, in bytes, a multiple of its element size.
    kinds : sequence of str
        Types of elements.
    lead_dim : int
        Elements of a row, which follow one another.
    other_dim : int
        Rows, each following the one before.
    lanes : int, optional
        Most lanes, a power of two; by default so many that the widest type moves 16 bytes.
    """
    wanted = most_lanes(kinds) if lanes is None else lanes
    starts = [a // dtypes.itemsize(kind) for a, kind in zip(addresses, kinds, strict=True)]
    while any((start - starts[0]) % wanted for start in starts):
        wanted //= 2
    offset = starts[0] % wanted
    even_rows = lead_dim % wanted == 0
    aligned = offset == 0 and even_rows
    if other_dim > 1 and not even_rows:
        offset = wanted - 1  # each row begins at a lane of its own
    return VectorPlan(wanted, aligned, -(-(offset + lead_dim) // wanted))
