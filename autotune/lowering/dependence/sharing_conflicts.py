"""Finds conflicting accesses to shared storage: one element, two threads, at least one write.

Conflicts are found by enumeration: the elements of all threads are computed. Terms that are equal
for all threads are left out, or enumerated too. If there are too many cases, or numbers are not
known, accesses to the same storage count as conflicting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from autotune.ir.ops import const
from autotune.ir.visitor import free_vars, mentions, walk_expr
from autotune.lowering.dependence.accesses import Access, in_one_step

#: Largest number of elements of all threads, and of values of common terms, that are enumerated.
MAX_POINTS, MAX_CASES = 1 << 21, 64


class Conflicts:
    """Decides whether accesses of a block's threads conflict.

    `threads`: variables and lengths of the loops over the threads, outermost first.
    `states`: names of arrays whose first dimension is the steps, and whether `in_one_step` can
    separate their indices; else all accesses conflict.
    """

    def __init__(
        self, threads: Sequence[tuple[Var, int]], states: Mapping[str, bool] | None = None
    ) -> None:
        self.states = states or {}
        self.threads = list(threads)
        self.count = math.prod(extent for _, extent in threads)
        self.ranges: dict[Var, int] = {}
        self._found: dict[tuple[Access, Access], bool] = {}

    def between(self, a: Access, b: Access) -> bool:
        """Whether an element may be accessed by one thread in `a` and by another in `b`.

        Variables of loops that enclose both have the same value in both.
        """
        if a.buffer is not b.buffer or not (a.writes or b.writes) or self.count == 1:
            return False
        found = self._found.get((a, b))
        if found is None:
            found = self._found[a, b] = self._between(a, b)
        return found

    def _between(self, a: Access, b: Access) -> bool:
        if not self.states.get(a.buffer.name, True):
            return True
        if a.buffer.name in self.states:
            columns = in_one_step(a, b, {var for var, _ in self.threads})
            if columns is None:
                return False
            a, b = columns
        first, second = self._apart(*self._alone(a, b))
        own = {var for var, _ in (*self.threads, *first.free, *second.free)}
        fewer = [_only_about(access, own) for access in (first, second)]
        # Conditions on common terms only exclude cases, and would need many more cases.
        if fewer[0] is not first or fewer[1] is not second:
            return self._somewhere(*fewer) and self._somewhere(first, second)
        return self._somewhere(first, second)

    def _somewhere(self, first: Access, second: Access) -> bool:
        """Whether accesses conflict for some values of the variables of all threads."""
        cases = self._cases(first, second)
        if cases is None:
            return True
        for case in cases:
            points = self._points(first, case), self._points(second, case)
            if points[0] is None or points[1] is None or collide(*points[0], *points[1]):
                return True
        return False

    def _alone(self, a: Access, b: Access) -> tuple[Access, Access]:
        """Return the accesses; variables that occur in only one of them become loops around it."""
        used = [{v for e in (x.index, *x.conditions) for v in free_vars(e)} for x in (a, b)]
        own = {var for var, _ in (*self.threads, *a.free, *b.free)}
        found = []
        for access, mine, theirs in zip((a, b), used, reversed(used), strict=True):
            for var in mine - theirs - own:
                if var in self.ranges:
                    access = access.anywhere_in(var, const(self.ranges[var]))
            found.append(access)
        return found[0], found[1]

    def _apart(self, a: Access, b: Access) -> tuple[Access, Access]:
        """Return the accesses without the terms of both indices that are equal for all threads."""
        own = {var for var, _ in (*self.threads, *a.free, *b.free)}
        terms = [list(_terms(access.index, 1)) for access in (a, b)]
        kept = []
        for access, mine, theirs in zip((a, b), terms, reversed(terms), strict=True):
            index: Expr = const(0)
            for scale, atom in mine:
                alike = own.isdisjoint(free_vars(atom)) and atom.lanes == 1
                same = [s for s, other in theirs if other is atom]
                here = [s for s, other in mine if other is atom]
                if not (alike and sum(same) == sum(here)):
                    index = index + atom * scale
            kept.append(replace(access, index=index))
        return kept[0], kept[1]

    def _cases(self, a: Access, b: Access) -> list[dict[Var, int]] | None:
        """Return all values of the variables that both accesses have in common."""
        own = {var for var, _ in (*self.threads, *a.free, *b.free)}
        common: dict[Var, int] = {}
        for access in (a, b):
            for expr in (access.index, *access.conditions):
                for var in free_vars(expr):
                    if var in own or var in common:
                        continue
                    extent = self._length(var, (a, b))
                    if extent is not None and extent * math.prod(common.values()) <= MAX_CASES:
                        common[var] = extent
                    elif expr is access.index:
                        return None
        values = itertools.product(*map(range, common.values()))
        return [dict(zip(common, value, strict=True)) for value in values]

    def _length(self, var: Var, accesses: Sequence[Access]) -> int | None:
        """Return how many values of a variable, from 0 on, cover all cases of the indices."""
        length = self.ranges.get(var)
        moduli = [1]
        for access in accesses:
            for expr in (access.index, *access.conditions):
                found = _modulus(expr, var)
                if found is None:
                    return length
                moduli.append(found)
        period = math.lcm(*moduli)
        return period if length is None else min(length, period)

    def _points(self, access: Access, case: Mapping[Var, int]) -> tuple[Array, Array] | None:
        """Return the accessed elements, and the thread of each; None if they are too many."""
        if not is_plain(access.index):
            return None
        axes: list[tuple[Var, int]] = list(self.threads)
        conditions = list(access.conditions)
        used = {var for expr in (access.index, *conditions) for var in free_vars(expr)}
        for var, extent in access.free:
            if var not in used and isinstance(extent, Const) and extent.value > 0:
                continue
            length = self.longest(extent)
            if length is None:
                if var in used:
                    return None
                continue
            axes.append((var, length))
            if not isinstance(extent, Const):
                conditions.append(var < extent)
        total = math.prod(length for _, length in axes) * access.index.lanes
        if total > MAX_POINTS:
            return None
        known: dict[Var, Array] = {var: np.full(1, value) for var, value in case.items()}
        for position, (var, length) in enumerate(axes):
            shape = [1] * (len(axes) + 1)
            shape[position] = length
            known[var] = np.arange(length).reshape(shape)
        shape = [length for _, length in axes] + [access.index.lanes]
        number: Array = np.zeros(1, np.int64)
        for var, length in self.threads:
            number = number * length + known[var]
        points = IndexValues(known)
        index = np.broadcast_to(points.value(access.index), shape)
        thread = np.broadcast_to(number, shape)
        decided = [c for c in conditions if is_plain(c) and known.keys() >= set(free_vars(c))]
        mask = np.broadcast_to(points.hold(decided, access.index.lanes), shape)
        return index[mask], thread[mask]

    def longest(self, extent: Expr) -> int | None:
        """Return an upper bound of a loop's length; None if none is known."""
        if isinstance(extent, Const):
            return max(0, int(extent.value))
        known = free_vars(extent)
        lengths = {**dict(self.threads), **self.ranges}
        if not is_plain(extent) or not all(var in lengths for var in known):
            return None
        if math.prod(lengths[var] for var in known) > MAX_POINTS:
            return None
        axes = np.ix_(*(np.arange(lengths[var]) for var in known))
        values = {var: axis[..., None] for var, axis in zip(known, axes, strict=True)}
        return max(0, int(IndexValues(values).value(extent).max()))


def _only_about(access: Access, variables: set[Var]) -> Access:
    """Return the access without the conditions that mention any other variables."""
    kept = tuple(c for c in access.conditions if variables.issuperset(free_vars(c)))
    return access if len(kept) == len(access.conditions) else replace(access, conditions=kept)


def _terms(node: Expr, scale: int) -> Iterator[tuple[int, Expr]]:
    """Yield the terms of a sum, each a whole number times an expression."""
    match node:
        case BinaryOp(op="+" | "-" as op):
            yield from _terms(node.a, scale)
            yield from _terms(node.b, scale if op == "+" else -scale)
        case BinaryOp(op="*") if isinstance(node.b, Const):
            yield from _terms(node.a, scale * int(node.b.value))
        case Ramp():
            yield from _terms(node.base, scale)
            yield scale, Ramp(const(0, node.dtype), node.stride, node.lanes)
        case _:
            yield scale, node


def _modulus(expr: Expr, var: Var) -> int | None:
    """Return the period of an expression in a variable; None if it has none."""
    if expr is var:
        return None
    if not any(node is var for node in walk_expr(expr)):
        return 1
    if isinstance(expr, BinaryOp) and expr.op == "%" and isinstance(expr.b, Const):
        if all(a is var or not mentions(a, var) for _, a in _terms(expr.a, 1)):
            return abs(int(expr.b.value)) or None
        return None
    found = [_modulus(child, var) for child in expr.children]
    return None if None in found else math.lcm(*(f for f in found if f is not None))


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
