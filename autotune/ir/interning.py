"""Interning: equal nodes are one object, as long as it is referenced.

A constructor asks `find` for the node; if there is none, it makes one and passes it to `interned`.
The nodes can be compared with `is` and used as keys by identity; they support weak references.
Threads that make the same node at the same time get one object. The table does not keep unused
nodes alive. No Python code runs when a node is freed, because an interrupt would be lost there. An
interrupt at any place leaves a consistent table.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, TypeVar

Node = TypeVar("Node")
Key = tuple[Any, ...]


class _Entry(weakref.ref[Any]):
    """Weak reference of the table to a node, with the key of the node."""

    __slots__ = ("key",)
    key: Key


_table: dict[Key, _Entry] = {}

_dead: deque[_Entry] = deque()  # Entries of freed nodes that are still in the table.


def find(key: Key) -> Any:
    """Return the node with a key: its class, and then its parts; None if there is none.

    The parts are plain values, and the `id` of each object in the node.
    """
    entry = _table.get(key)
    return None if entry is None else entry()


def interned(key: Key, node: Node) -> Node:
    """Return the one node with a key: `node`, unless another thread has made it meanwhile."""
    if _dead:
        purge_dead_entries()
    entry = _Entry(node, _dead.append)
    entry.key = key  # before it is in the table, so that an interrupt does no harm
    while (found := (status := _table.setdefault(key, entry))()) is None:
        _dead.append(status)
        purge_dead_entries()
    one: Node = found
    return one


def purge_dead_entries() -> None:
    """Remove the entries of freed nodes from the table."""
    while _dead:
        try:
            entry = _dead.popleft()
            if _table[entry.key] is entry:  # no call until the next line:
                del _table[entry.key]  # no other thread runs in between
        except (IndexError, KeyError):
            continue  # another thread took the entry, or it never came into the table
