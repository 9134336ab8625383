"""New names for a Tile function that has names already."""

from __future__ import annotations

import itertools
from collections.abc import Iterable


class TileNameSupply:
    """The names of a function, and new ones (`made`)."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)
        self.made: set[str] = set()

    def fresh(self, wanted: str) -> str:
        """Return an unused name: the given one, or the name with a number."""
        return self._make(wanted) if wanted not in self._used else self.numbered(wanted)

    def numbered(self, stem: str) -> str:
        """Return an unused name with the least number."""
        names = (f"{stem}_{k}" for k in itertools.count(1))
        return self._make(next(n for n in names if n not in self._used))

    def _make(self, name: str) -> str:
        self._used.add(name)
        self.made.add(name)
        return name
