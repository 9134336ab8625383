"""Evaluation of itervar columns, such as touched bytes and reuse, on a nest of numbers or arrays.

The numbers of a nest are scalars of one candidate, or arrays over candidates.

Only requested columns are evaluated. Every product is cached, and accesses with the same strides
and lengths share products, so nothing is computed twice.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from features.loop_nest import LoopNest, Number, as_scalar
from features.numbers import Arithmetic, Array
from features.plan import ExtractionPlan, FeatureColumn, Path
from features.schema import FeatureLayout

_Kind = Literal["count", "reuse"]
_Factors = tuple[Number, Number]


class Evaluation:
    """The columns of one nest; use it for one chunk of candidates only.

    Whether a column is an array depends on which numbers of the nest are arrays, not on values.
    """

    def __init__(
        self, nest: LoopNest, plan: ExtractionPlan, layout: FeatureLayout, arithmetic: Arithmetic
    ) -> None:
        self._nest = nest
        self._plan = plan
        self._layout = layout
        self._arithmetic = arithmetic
        self._lengths = [self._clean(loop.length) for loop in nest.loops]
        shortest = min(map(self._least, self._lengths), default=1)
        self._has_symbolic, self._has_odd = shortest < 0, shortest < 1
        self._topdown: dict[int, Number] = {}
        self._spans: dict[tuple[_Kind, int, int, int], Number] = {}
        self._volumes: dict[Path, Number] = {}
        # Both have identities as keys, and keep the operands alive so that no identity is reused.
        self._factors: dict[tuple[int, int], tuple[Number, Number, _Factors]] = {}
        self._products: dict[tuple[int, int], tuple[Number, Number, Array]] = {}

    def column(self, column: FeatureColumn) -> Number:
        """Return one column: a Python number, or an array (n,)."""
        row, field = column.row, column.field
        loop = self._nest.loops[row]
        match field:
            case "count" | "reuse":
                return self.touched(field, column.access, column.place)
            case "stride":
                return self._clean(self._nest.accesses[column.access].strides[column.place])
            case "mod":
                mods = self._nest.accesses[column.access].mods
                return self._clean(mods[column.place]) if self._layout.keeps_mod else -1
            case "thread_count":
                return self.thread_touched("count", column.access, column.place)
            case "thread_reuse":
                return self.thread_touched("reuse", column.access, column.place)
            case "length":
                return self._lengths[row]
            case "nest_level":
                return loop.depth
            case "topdown":
                return self.topdown(row)
            case "bottomup":
                return self.bottomup(row)
            case "add" | "mul" | "div":
                return self._clean(getattr(loop, field))
            case _:
                return int(self._plan.annotations[row] == field)

    def topdown(self, row: int) -> Number:
        """Product of the lengths from the outermost loop to this one."""
        if row not in self._topdown:
            parent = self._nest.loops[row].parent
            outer = 1 if parent < 0 else self.topdown(parent)
            if self._layout.multiplies_symbolic and self._is_after_none(row):
                outer = 0
            self._topdown[row] = self._times(outer, self._lengths[row])
        return self._topdown[row]

    def _is_after_none(self, row: int) -> bool:
        """Whether an empty loop comes before; AutoTVM v0.8 cannot divide by its length."""
        return any(
            isinstance(length, (int, float)) and length == 0 for length in self._lengths[:row]
        )

    def bottomup(self, row: int) -> Number:
        """Largest count times reuse below a row: for each access the product of all lengths."""
        largest: Number = -1
        for path in self._plan.paths_below[row]:
            volume = self._volume(path)
            if isinstance(largest, (int, float)) and isinstance(volume, (int, float)):
                largest = max(largest, volume)
            else:
                largest = self._arithmetic.larger(largest, volume)
        return largest

    def touched(self, kind: _Kind, access: int, place: int) -> Number:
        """Count or reuse of an access in the row at `place` of its loops."""
        return self._span(kind, access, place, len(self._nest.accesses[access].loops))

    def thread_touched(self, kind: _Kind, access: int, place: int) -> Number:
        """Count or reuse over that of the base row, 0 where there is no base.

        Counts are products over the rows inside, so the quotient is the product over the rows
        from `place` to the base. A base whose count is not positive (a symbolic length as a factor,
        or one of 0) is one that AutoTVM v0.8 does not recognise: the base itself, negated, stays.
        """
        base = self._plan.bases.get((self._nest.accesses[access].loops, place))
        if base is None:
            return 0
        quotient = self._span(kind, access, place, base)
        if not (self._has_odd and self._layout.multiplies_symbolic):
            return quotient
        base_count = self.touched("count", access, base)
        unresolved = -self.touched(kind, access, base)
        if isinstance(base_count, np.ndarray):
            return np.where(base_count > 0, quotient, unresolved)
        return quotient if base_count > 0 else unresolved

    def _span(self, kind: _Kind, access: int, place: int, end: int) -> Number:
        """Product of the count (or reuse) factors of the loops `place` to `end` of an access."""
        if place == end:
            return 1
        key = (kind, access, place, end)
        found = self._spans.get(key)
        if found is None:
            inner = self._span(kind, access, place + 1, end)
            found = self._spans[key] = self._times(self._factor(kind, access, place), inner)
        return found

    def _factor(self, kind: _Kind, access: int, place: int) -> Number:
        """Length of a loop if it adds to the count (stride not 0) or else to the reuse, or 1."""
        touching = self._nest.accesses[access]
        stride = self._clean(touching.strides[place])
        length = self._lengths[touching.loops[place]]
        if isinstance(stride, (int, float)):
            return length if (stride != 0) == (kind == "count") else 1
        key = (id(stride), id(length))
        if key not in self._factors:
            ones = self._arithmetic.ones()
            factors = self._arithmetic.factors(stride, length)
            self._factors[key] = (stride, length, factors or (self._times(length, ones), ones))
        count, reuse = self._factors[key][2]
        return count if kind == "count" else reuse

    def _volume(self, path: Path) -> Number:
        """Product of all lengths along a path of loops."""
        if path not in self._volumes:
            inner = self._volume(path[1:]) if len(path) > 1 else 1
            self._volumes[path] = self._times(self._lengths[path[0]], inner)
        return self._volumes[path]

    def _times(self, left: Number, right: Number) -> Number:
        """Multiply; equal products of the same arrays are one array."""
        unknown = self._has_symbolic and not self._layout.multiplies_symbolic
        if isinstance(left, (int, float)):
            if isinstance(right, (int, float)):
                return -1 if unknown and min(left, right) < 0 else left * right
            left, right = right, left
        if isinstance(right, (int, float)):
            if right == 1:
                return left
        elif left is self._arithmetic.ones():
            return right
        elif right is self._arithmetic.ones():
            return left
        key = (id(left), id(right))
        if key not in self._products:
            product = self._arithmetic.times(left, right, unknown)
            self._products[key] = (left, right, product)
        return self._products[key][2]

    def _clean(self, number: Number) -> Number:
        """Return a Python number, or an array over the candidates."""
        if isinstance(number, (int, float, np.generic)):
            return as_scalar(number)
        return self._arithmetic.array(number)

    def _least(self, number: Number) -> float:
        return number if isinstance(number, (int, float)) else self._arithmetic.least(number)
