"""Values of index expressions for all threads at once, as arrays, to find conflicting accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import dtypes
from autotune.ir.evaluate.column_programs import CALLS
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Select,
    Var,
)
from autotune.ir.visitor import walk_expr

Array = npt.NDArray[Any]


class IndexValues:
    """Evaluates index expressions at many points; the last axis of the arrays is the lanes."""

    def __init__(self, known: Mapping[Var, Array]) -> None:
        self.known = known
        self._values: dict[Expr, Array] = {}

    def hold(self, conditions: Sequence[Expr], lanes: int) -> Array:
        """Return the points at which all conditions hold, for accesses of some number of lanes."""
        chosen: Array = np.ones(1, bool)
        for condition in conditions:
            holds = self.value(condition)
            if condition.lanes != lanes:  # a condition for all lanes holds for each of them
                holds = np.asarray(holds.any(axis=-1, keepdims=True))
            chosen = chosen & holds
        return chosen

    def value(self, node: Expr) -> Array:
        """Return the values of an expression that reads no memory."""
        found = self._values.get(node)
        if found is None:
            found = self._values[node] = self._value(node)
        return found

    def _value(self, node: Expr) -> Array:
        match node:
            case Const():
                return np.full(1, node.value)
            case Var():
                return self.known[node]
            case BinaryOp(op="//" | "%" as op):
                a, b = self.value(node.a), self.value(node.b)
                safe = np.where(b == 0, 1, b)
                return a // safe if op == "//" else a % safe
            case BinaryOp():
                return np.asarray(CALLS[node.op](self.value(node.a), self.value(node.b)))
            case Not():
                return ~self.value(node.a)
            case Select() | Call(name="if_then_else"):
                test, true, false = map(self.value, node.children)
                return np.where(test, true, false)
            case Call(name="likely"):
                return self.value(node.children[0])
            case Cast() | Broadcast():
                return self.value(node.children[0])
            case Ramp():
                lanes = np.arange(node.lanes)
                return self.value(node.base) + self.value(node.stride) * lanes
            case _:
                raise TypeError(f"no index: {node!r}")


def is_plain(expr: Expr) -> bool:
    """Whether an expression is computed from variables and numbers, all of them indices."""
    return all(
        (dtypes.is_index(node.dtype) or node.dtype == dtypes.BOOL)
        and (not isinstance(node, Call) or node.name in ("likely", "if_then_else"))
        and not isinstance(node, Load)
        for node in walk_expr(expr)
    )


def collide(index: Array, thread: Array, other: Array, by: Array) -> bool:
    """Whether different threads access one element."""
    if not len(index) or not len(other):
        return False
    start = min(index.min(), other.min())
    size = int(max(index.max(), other.max()) - start) + 1
    low, high = _extremes(index - start, thread, size)
    low_by, high_by = _extremes(other - start, by, size)
    both = (high >= 0) & (high_by >= 0)
    alone = (low == high) & (low_by == high_by) & (low == low_by)
    return bool((both & ~alone).any())


def _extremes(index: Array, thread: Array, size: int) -> tuple[Array, Array]:
    """Return the first and the last thread that accesses each element; -1 for none."""
    low = np.full(size, np.iinfo(np.int64).max)
    high = np.full(size, -1)
    np.minimum.at(low, index, thread)
    np.maximum.at(high, index, thread)
    return low, high
