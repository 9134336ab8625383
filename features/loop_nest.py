"""A lowered loop nest as plain data: the only input of all feature extractors.

Each number is a scalar (one candidate) or a float64 array with one element per candidate, so one
nest describes a single schedule or a whole search space.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Number: TypeAlias = int | float | npt.NDArray[np.float64]

# Annotations of loops, in the order of the one-hot code.
ANNOTATIONS = (
    "BLOCK_X",
    "BLOCK_Y",
    "BLOCK_Z",
    "THREAD_X",
    "THREAD_Y",
    "THREAD_Z",
    "PARALLEL",
    "UNROLL",
    "VECTORIZE",
    "SERIAL",
)

# A virtual thread: accepted as an annotation too; layouts without a slot for it say SERIAL.
VIRTUAL_THREAD = "VIRTUAL_THREAD"

SYMBOLIC = -1  # The length of a loop whose extent is not known before the kernel is called.


class FeatureError(ValueError):
    """An invalid loop nest, knob column or request; its message is one line."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop or bound thread axis: one row of the itervar features."""

    name: str  # The variable's name; need not be unique.
    annotation: str  # One of `ANNOTATIONS`, or `VIRTUAL_THREAD`.
    length: Number  # Number of iterations, `SYMBOLIC` if unknown.
    parent: int  # Index of the loop around this one, smaller than this loop's own; -1 for a root.
    depth: int  # Nest level; 1 for a root.
    # Float additions and subtractions, multiplications, divisions and remainders in the text for
    # which this is the innermost open loop.
    add: Number
    mul: Number
    div: Number


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """One load or store."""

    buffer: str  # The buffer's name.
    number: int  # Position among the accesses of that name in the whole function, from 0.
    loops: tuple[int, ...]  # Indices of all loops open around the access, outermost first.
    # In elements, one per open loop; 0 where the loop's variable is absent from the index.
    strides: tuple[Number, ...]
    mods: tuple[Number, ...]  # The modulus the variable stands under, else -1; one per open loop.
    itemsize: int  # Bytes per element.
    is_store: bool  # Whether the access writes.

    @property
    def name(self) -> str:
        """The access's name in the features: ``<buffer>_<number>``."""
        return f"{self.buffer}_{self.number}"


@dataclass(frozen=True, slots=True)
class LoopNest:
    """The loops, in order of first appearance, and the accesses of one lowered function."""

    loops: tuple[Loop, ...]
    accesses: tuple[BufferAccess, ...]

    def with_numbers(self, number: Callable[[Any], Any]) -> LoopNest:
        """Return the nest with `number` applied to each of its numbers."""
        loops = (
            replace(
                loop,
                length=number(loop.length),
                add=number(loop.add),
                mul=number(loop.mul),
                div=number(loop.div),
            )
            for loop in self.loops
        )
        accesses = (
            replace(
                access,
                strides=tuple(map(number, access.strides)),
                mods=tuple(map(number, access.mods)),
            )
            for access in self.accesses
        )
        return LoopNest(tuple(loops), tuple(accesses))


def candidate(nest: LoopNest, index: int) -> LoopNest:
    """Return the nest of one candidate: every array replaced by its element `index`.

    Whole numbers become Python ints.
    """

    def pick(number: Number) -> int | float:
        return as_scalar(number[index] if isinstance(number, np.ndarray) else number)

    return nest.with_numbers(pick)


def as_scalar(number: int | float | np.generic) -> int | float:
    """Return a Python int where the number is whole, else a Python float."""
    if isinstance(number, int):
        return int(number)
    value = float(number)
    return int(value) if value.is_integer() else value
