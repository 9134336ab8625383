"""Interning: equal nodes are one object, as long as it is referenced.

Nodes that `interned` makes can be compared with `is` and used as keys by identity. Threads that
make the same node at the same time get one object. The table does not keep unused nodes alive. No
Python code runs when a node is freed, because an interrupt would be lost there. An interrupt at any
place leaves a consistent table.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Node = TypeVar("Node")
Key = tuple[Any, ...]


class _Entry(weakref.ref[Any]):
    """Weak reference of the table to a node, with the key of the node."""

    __slots__ = ("key",)
    key: Key


_table: dict[Key, _Entry] = {}

_dead: deque[_Entry] = deque()  # Entries of freed nodes that are still in the table.


def interned(cls: type[Node], key: Key, fill: Callable[[Node], None]) -> Node:
    """Return the node of a class with a key; make it if there is none.

    `cls`: class of the node; its instances must support weak references.
    `key`: the parts of the node: plain values, and the `id` of each object in it.
    `fill`: sets the attributes of a new node. If it raises, there is no node.
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
        entry.key = full  # before it is in the table, so that an interrupt does no harm
        while (found := (status := _table.setdefault(full, entry))()) is None:
            _dead.append(status)
            purge_dead_entries()
    return found


def purge_dead_entries() -> None:
    """Remove the entries of freed nodes from the table."""
    while _dead:
        try:
            entry = _dead.popleft()
            if _table[entry.key] is entry:  # no call until the next line:
                del _table[entry.key]  # no other thread runs in between
        except (IndexError, KeyError):
            continue  # another thread took the entry, or it never came into the table
