"""Interning: equal nodes are one object, as long as it is referenced.

What is made by `interned` may be compared with `is`, and serve as a key by its identity. Threads
that make one node at the same time get the same one. A node that nobody holds any more dies as
any object does: the table of all nodes does not keep it alive, and no code of Python's runs as it
dies, where an interrupt would be lost. An interrupt at any place leaves a table that is whole.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Node = TypeVar("Node")
Key = tuple[Any, ...]


class _Entry(weakref.ref[Any]):
    """A node as the table has it: weakly, with its key there."""

    __slots__ = ("key",)
    key: Key


_table: dict[Key, _Entry] = {}

_dead: deque[_Entry] = deque()
"""Nodes that died since the last one was made: they are still in the table."""


def interned(cls: type[Node], key: Key, fill: Callable[[Node], None]) -> Node:
    """Return the node of a class with a key, a new one if there is none.

    Parameters
    ----------
    cls : type
        Class of the node, whose instances can be referred to weakly.
    key : tuple
        What it is built of: plain values, and by `id` the objects that it holds.
    fill : callable
        Sets the attributes of a new node. If it raises, there is no node.
    """
    full = (cls, *key)
    entry = _table.get(full)
    found: Node | None = None if entry is None else entry()
    if found is None:
        if _dead:
            purge_dead_entries()
        made = object.__new__(cls)
        fill(made)
        entry = _Entry(made, _dead.append)
        entry.key = full  # before it is in the table, whatever interrupts
        while (found := (status := _table.setdefault(full, entry))()) is None:
            _dead.append(status)
            purge_dead_entries()
    return found


def purge_dead_entries() -> None:
    """Take nodes that have died out of the table."""
    while _dead:
        try:
            entry = _dead.popleft()
            if _table[entry.key] is entry:  # nothing is called up to the next line:
                del _table[entry.key]  # no other thread comes between
        except (IndexError, KeyError):
            continue  # another thread took the entry, or it never came into the table
