"""Stores of several results that belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.ir.expr import Buffer, Load
from autotune.ir.ops import const
from autotune.ir.stmt import Stmt, Store, allocated, seq
from autotune.ir.visitor import walk_expr


def store_together(stores: Sequence[Store], unused: Callable[[str], str]) -> Stmt:
    """Return stores that all read the values from before the first store.

    A store comes after the stores that read its destination; in a cycle the new values are stored
    in temporaries first.

    `stores`: each to a buffer of its own.
    `unused`: returns a name for a temporary, made from the one given.
    """
    pending, ordered = list(stores), []
    while len(pending) > 1:
        free = next(
            (
                one
                for one in pending
                if not any(_loads(other, one.buffer) for other in pending if other is not one)
            ),
            None,
        )
        if free is None:
            break
        pending.remove(free)
        ordered.append(free)
    if len(pending) <= 1:
        return seq(*ordered, *pending)
    aside = [
        Buffer(unused(f"{b.name}.new"), b.dtype, (const(1),), "local")
        for b in (one.buffer for one in pending)
    ]
    zero = const(0)
    body = seq(
        *ordered,
        *(Store(new, zero, one.value) for new, one in zip(aside, pending, strict=True)),
        *(
            Store(one.buffer, one.index, Load(new, zero))
            for new, one in zip(aside, pending, strict=True)
        ),
    )
    return allocated(aside[::-1], body)


def _loads(store: Store, buffer: Buffer) -> bool:
    """Whether the value of a store is computed from a buffer."""
    return any(isinstance(e, Load) and e.buffer is buffer for e in walk_expr(store.value))
