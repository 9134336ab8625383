"""Unique names for buffers that passes add to a function."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.ir.stmt import Allocate, PrimFunc
from autotune.ir.visitor import walk


class NameSupply:
    """The set of used names; it returns new names and adds them to the set."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    @classmethod
    def of_buffers(cls, function: PrimFunc) -> NameSupply:
        """Return the names of a function's parameters and allocations."""
        allocated = (s.buffer for s in walk(function.body) if isinstance(s, Allocate))
        return cls(buffer.name for buffer in (*function.params, *allocated))

    def unused(self, name: str) -> str:
        """Return `name`, numbered if it is taken."""
        unused, count = name, 0
        while unused in self._taken:
            count += 1
            unused = f"{name}_{count}"
        self._taken.add(unused)
        return unused
