"""Unique names: of buffers that passes add to a function, of tensors that are generated."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import all_allocated


class NameSupply:
    """The set of used names; it returns new names and adds them to the set."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        #: The new names.
        self.made: set[str] = set()

    @classmethod
    def of_buffers(cls, function: PrimFunc) -> NameSupply:
        """Return the names of a function's parameters and allocations."""
        return cls(b.name for b in (*function.params, *all_allocated(function.body)))

    def unused(self, name: str) -> str:
        """Return `name`, numbered if it is taken."""
        return self.numbered(name) if name in self._taken else self._add(name)

    def numbered(self, stem: str) -> str:
        """Return an unused name with the least number."""
        names = (f"{stem}_{count}" for count in itertools.count(1))
        return self._add(next(name for name in names if name not in self._taken))

    def _add(self, name: str) -> str:
        self._taken.add(name)
        self.made.add(name)
        return name
