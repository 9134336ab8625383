"""Index maps of `transform_layout`: indices into storage as axes or parts of axes.

An index is an axis `i`, or digits of it: `i // 8`, `i % 8`, `i // 8 % 4`. Each axis occurs as a
whole or in consecutive digits, so that two elements never get the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from autotune.errors import IRError, ScheduleError
from autotune.ir.axes import IterVar
from autotune.ir.expr import BinaryOp, Expr, is_const
from autotune.ir.ops import binary, const, convert
from autotune.te.compute import ceildiv


class Digits(NamedTuple):
    """``axis // divisor % modulus``, an index into storage; no modulus stands for no limit."""

    axis: IterVar
    divisor: Expr
    modulus: Expr | None

    def of(self, position: Expr) -> Expr:
        """Return the index for a position along the axis, counted from where storage begins."""
        index = binary("//", position, self.divisor)
        return index if self.modulus is None else binary("%", index, self.modulus)

    def extent(self, length: Expr) -> Expr:
        """Return the number of values of the index for an axis of this length."""
        rest = ceildiv(length, self.divisor)
        return rest if self.modulus is None else binary("min", self.modulus, rest)


def index_map(axes: Sequence[IterVar], indices: Sequence[Any]) -> tuple[Digits, ...]:
    """Return the digits of a map's indices; indices that are always 0 are left out.

    `axes`: the dimensions that are mapped.
    `indices`: the result of the map.

    Raises ScheduleError if two elements could get the same place, or this is not known.
    """
    digits = tuple(_digits(index, axes) for index in indices if not is_const(index, 0))
    for axis in axes:
        _check_all_there(axis, [d for d in digits if d.axis is axis])
    return digits


def _digits(index: Any, axes: Sequence[IterVar]) -> Digits:
    names = ", ".join(axis.name for axis in axes)
    wanted = (
        f"give axes ({names}) or parts of them, as in i // 8, i % 8, i // 8 % 4; each axis whole "
        "or in all its parts"
    )
    try:
        expr = convert(index)
    except IRError:
        raise ScheduleError(f"the map gives {index!r}, which is not an index; {wanted}") from None
    chain: list[BinaryOp] = []
    inner = expr
    while isinstance(inner, BinaryOp) and inner.op in ("//", "%"):
        chain.insert(0, inner)
        inner = inner.a
    axis = next((axis for axis in axes if axis.var is inner), None)
    if axis is None:
        raise ScheduleError(f"the map gives `{expr}`; {wanted}")
    found = Digits(axis, const(1), None)
    for node in chain:
        if found.modulus is not None:
            raise ScheduleError(f"the map gives `{expr}`, which divides a remainder; {wanted}")
        if node.op == "%":
            found = Digits(axis, found.divisor, node.b)
        else:
            found = Digits(axis, binary("*", found.divisor, node.b), None)
    return found


def _check_all_there(axis: IterVar, own: list[Digits]) -> None:
    """Raise an error if digits of an axis are missing or repeated."""
    left = own
    divisor: Expr | None = const(1)
    while divisor is not None:
        step = next((d for d in left if d.divisor is divisor), None)
        if step is None:
            break
        left = [d for d in left if d is not step]
        divisor = None if step.modulus is None else binary("*", divisor, step.modulus)
    if divisor is None and not left:
        return
    if not own:
        problem = f"axis {axis.name!r} is not among the indices: its elements would share a place"
    else:
        texts = ", ".join(f"`{d.of(axis.var)}`" for d in own)
        problem = f"{texts}: not every element along axis {axis.name!r} has a place, and only one"
    name = axis.name
    raise ScheduleError(f"{problem}; give {name} itself, or {name} // n and {name} % n")
