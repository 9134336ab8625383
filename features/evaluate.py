"""Evaluation of itervar columns on a nest whose numbers are scalars or arrays over candidates.

Values are pulled by the columns asked for, every product is kept, and accesses that share strides
and lengths share their products, so nothing is worked out twice and nothing that is not needed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from features.loop_nest import FeatureError, LoopNest, Number, as_scalar
from features.plan import Column, Path, Plan
from features.schema import Layout

_Kind = Literal["count", "reuse"]
_Key = tuple[str, float | int]


class Evaluation:
    """The columns of one nest; hold it only as long as one chunk of candidates is worked on."""

    def __init__(self, nest: LoopNest, plan: Plan, layout: Layout) -> None:
        self._nest = nest
        self._plan = plan
        self._layout = layout
        self._lengths = [self._clean(loop.length) for loop in nest.loops]
        self._has_symbolic = any(np.min(length, initial=0) < 0 for length in self._lengths)
        self._topdown: dict[int, Number] = {}
        self._spans: dict[tuple[str, int, int, int], Number] = {}
        self._volumes: dict[Path, Number] = {}
        self._kept: dict[tuple[str, _Key, _Key], tuple[Number, Number, Number]] = {}

    def column(self, column: Column) -> Number:
        """Return one column: a Python number, or an array (n,)."""
        row, field = column.row, column.field
        loop = self._nest.loops[row]
        match field:
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
            case "stride":
                return self._stride(column.access, column.place)
            case "mod":
                mods = self._nest.accesses[column.access].mods
                return self._clean(mods[column.place]) if self._layout.keeps_mod else -1
            case "count" | "reuse":
                return self.touched(field, column.access, column.place)
            case "thread_count":
                return self.thread_touched("count", column.access, column.place)
            case "thread_reuse":
                return self.thread_touched("reuse", column.access, column.place)
            case _:
                return int(self._plan.annotations[row] == field)

    def topdown(self, row: int) -> Number:
        """Product of the lengths from the outermost loop to this one."""
        if row not in self._topdown:
            parent = self._nest.loops[row].parent
            outer = 1 if parent < 0 else self.topdown(parent)
            self._topdown[row] = self._times(outer, self._lengths[row])
        return self._topdown[row]

    def bottomup(self, row: int) -> Number:
        """Largest count times reuse below a row: for each access the product of all lengths."""
        largest: Number = -1
        for path in self._plan.paths_below[row]:
            volume = self._volume(path)
            if isinstance(largest, np.ndarray) or isinstance(volume, np.ndarray):
                largest = np.maximum(largest, volume)
            else:
                largest = max(largest, volume)
        return largest

    def touched(self, kind: _Kind, access: int, place: int) -> Number:
        """Count or reuse of an access in the row at `place` of its loops."""
        return self._span(kind, access, place, len(self._nest.accesses[access].loops))

    def thread_touched(self, kind: _Kind, access: int, place: int) -> Number:
        """Count or reuse over that of the base row, 0 where there is no base.

        Counts are products over the rows inside, so the quotient is the product over the rows
        from `place` to the base. A base whose count is negative (a symbolic length as a factor)
        is one that AutoTVM v0.8 does not recognise: the base itself, negated, stays.
        """
        base = self._plan.bases.get((self._nest.accesses[access].loops, place))
        if base is None:
            return 0
        quotient = self._span(kind, access, place, base)
        if not (self._has_symbolic and self._layout.multiplies_symbolic):
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
        if key not in self._spans:
            inner = self._span(kind, access, place + 1, end)
            self._spans[key] = self._times(self._factor(kind, access, place), inner)
        return self._spans[key]

    def _factor(self, kind: _Kind, access: int, place: int) -> Number:
        """Length of a loop if it adds to the count (stride not 0) or else to the reuse, or 1."""
        stride = self._stride(access, place)
        length = self._lengths[self._nest.accesses[access].loops[place]]
        if not isinstance(stride, np.ndarray):
            return length if (stride != 0) == (kind == "count") else 1
        if not isinstance(length, np.ndarray) and length == 1:
            return 1
        key = (kind, _key(stride), _key(length))
        if key not in self._kept:
            moves = stride != 0 if kind == "count" else stride == 0
            self._kept[key] = (stride, length, np.where(moves, length, 1.0))
        return self._kept[key][2]

    def _volume(self, path: Path) -> Number:
        """Product of all lengths along a path of loops."""
        if path not in self._volumes:
            inner = self._volume(path[1:]) if len(path) > 1 else 1
            self._volumes[path] = self._times(self._lengths[path[0]], inner)
        return self._volumes[path]

    def _times(self, left: Number, right: Number) -> Number:
        """Multiply; equal products of the same arrays are one array."""
        if not isinstance(left, np.ndarray):
            if not isinstance(right, np.ndarray):
                unknown = self._has_symbolic and min(left, right) < 0
                return -1 if unknown and not self._layout.multiplies_symbolic else left * right
            if left == 1:
                return right
        elif not isinstance(right, np.ndarray) and right == 1:
            return left
        key = ("times", _key(left), _key(right))
        if key not in self._kept:
            product = left * right
            if self._has_symbolic and not self._layout.multiplies_symbolic:
                product = np.where(np.minimum(left, right) < 0, -1.0, product)
            # The operands are kept too: their identities are the key.
            self._kept[key] = (left, right, product)
        return self._kept[key][2]

    def _stride(self, access: int, place: int) -> Number:
        return self._clean(self._nest.accesses[access].strides[place])

    @staticmethod
    def _clean(number: Number) -> Number:
        """Return a Python number, or a float64 array with one axis."""
        if not isinstance(number, np.ndarray):
            return as_scalar(number)
        if number.dtype != np.float64 or number.ndim != 1:
            raise FeatureError(
                f"a loop nest holds an array of {number.dtype} and shape {number.shape};"
                " expected scalars or float64 arrays over candidates, of shape (n,)"
            )
        return number


def _key(number: Number) -> _Key:
    return ("array", id(number)) if isinstance(number, np.ndarray) else ("scalar", number)
