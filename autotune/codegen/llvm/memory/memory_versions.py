"""Versions of memory: loaded values are reused until the next write."""

from __future__ import annotations

from collections.abc import Hashable

from autotune.ir.expr import Buffer, Expr, Load


class MemoryVersions:
    """Counts the changes of memory.

    A store to a buffer makes a new version of that buffer alone. A loop, or a branch that joins,
    begins a new epoch: a new version of all buffers.
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._stores: dict[Buffer, int] = {}
        self._sources: dict[Expr, tuple[Buffer, ...]] = {}

    def stored(self, buffer: Buffer) -> None:
        """Record a store to `buffer`."""
        self._stores[buffer] = self._stores.get(buffer, 0) + 1

    def begin_epoch(self) -> None:
        """Record that control flow may come from code with other stores."""
        self._epoch += 1

    def sources(self, expr: Expr) -> tuple[Buffer, ...]:
        """Buffers that the value of `expr` is read from."""
        known = self._sources.get(expr)
        if known is None:
            found = dict.fromkeys([expr.buffer] if isinstance(expr, Load) else ())
            for child in expr.children:
                found |= dict.fromkeys(self.sources(child))
            self._sources[expr] = known = tuple(found)
        return known

    def version(self, expr: Expr) -> Hashable:
        """Return the version of the memory that `expr` depends on."""
        sources = self._sources.get(expr)
        if sources is None:
            sources = self.sources(expr)
        if not sources:
            return None
        if len(sources) == 1:
            return self.version_of(sources[0])
        return (self._epoch, *[self._stores.get(buffer, 0) for buffer in sources])

    def version_of(self, buffer: Buffer) -> Hashable:
        """Return the version of a buffer."""
        return self._epoch, self._stores.get(buffer, 0)
