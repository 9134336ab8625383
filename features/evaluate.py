"""Evaluation of itervar columns on a nest whose numbers are scalars or arrays over candidates.

Values are pulled by the columns asked for, every product is kept, and accesses that share strides
and lengths share their products, so nothing is worked out twice and nothing that is not needed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from features.loop_nest import FeatureError, LoopNest, Number, as_scalar
from features.numbers import Scratch
from features.plan import Column, Path, Plan
from features.schema import Layout

_Kind = Literal["count", "reuse"]
_Array = npt.NDArray[np.float64]
_Factors = tuple[Number, Number]


class Evaluation:
    """The columns of one nest; hold it only as long as one chunk of candidates is worked on.

    Whether a column is an array depends on which numbers of the nest are arrays, not on values.
    """

    def __init__(self, nest: LoopNest, plan: Plan, layout: Layout, scratch: Scratch) -> None:
        self._nest = nest
        self._plan = plan
        self._layout = layout
        self._scratch = scratch
        self._n = -1  # of the first array met
        self._lengths = [self._clean(loop.length) for loop in nest.loops]
        self._has_symbolic = any(np.min(length, initial=0) < 0 for length in self._lengths)
        self._has_odd = any(np.min(length, initial=1) < 1 for length in self._lengths)
        self._topdown: dict[int, Number] = {}
        self._spans: dict[tuple[_Kind, int, int, int], Number] = {}
        self._volumes: dict[Path, Number] = {}
        # Both are keyed by identity, and hold the operands lest an identity be used again.
        self._factors: dict[tuple[int, int], tuple[Number, Number, _Factors]] = {}
        self._products: dict[tuple[int, int], tuple[Number, Number, _Array]] = {}
        self._ones: _Array | None = None

    def column(self, column: Column) -> Number:
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
        """Whether an empty loop comes before, by whose length AutoTVM v0.8 cannot divide."""
        return any(
            not isinstance(length, np.ndarray) and length == 0 for length in self._lengths[:row]
        )

    def bottomup(self, row: int) -> Number:
        """Largest count times reuse below a row: for each access the product of all lengths."""
        largest: Number = -1
        for path in self._plan.paths_below[row]:
            volume = self._volume(path)
            if isinstance(largest, np.ndarray) or isinstance(volume, np.ndarray):
                largest = np.maximum(largest, volume, out=self._scratch.take(self._n))
            else:
                largest = max(largest, volume)
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
        stride = touching.strides[place]
        length = self._lengths[touching.loops[place]]
        if not isinstance(stride, np.ndarray):
            return length if (stride != 0) == (kind == "count") else 1
        key = (id(stride), id(length))
        if key not in self._factors:
            factors = self._both_factors(self._clean_array(stride), length)
            self._factors[key] = (stride, length, factors)
        count, reuse = self._factors[key][2]
        return count if kind == "count" else reuse

    def _both_factors(self, stride: _Array, length: Number) -> _Factors:
        """Return the count and reuse factors of a loop whose stride is an array.

        Mostly a stride is 0 only where the length is 1; then the length is the count's factor.
        """
        ones = self._all_ones()
        still = stride == 0
        if not (still & (length != 1)).any():
            return self._times(length, ones), ones
        return np.where(still, 1.0, length), np.where(still, length, 1.0)

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
            left, right = right, left
        if isinstance(right, np.ndarray):
            ones = self._all_ones()
            if left is ones:
                return right
            if right is ones:
                return left
        elif right == 1:
            return left
        key = (id(left), id(right))
        if key not in self._products:
            product = np.multiply(left, right, out=self._scratch.take(self._n))
            if self._has_symbolic and not self._layout.multiplies_symbolic:
                product[np.minimum(left, right) < 0] = -1.0
            self._products[key] = (left, right, product)
        return self._products[key][2]

    def _all_ones(self) -> _Array:
        """Return the one array of ones, known by its identity."""
        if self._ones is None:
            self._ones = np.ones(self._n)
        return self._ones

    def _clean(self, number: Number) -> Number:
        """Return a Python number, or a float64 array over the candidates."""
        return self._clean_array(number) if isinstance(number, np.ndarray) else as_scalar(number)

    def _clean_array(self, number: _Array) -> _Array:
        self._n = number.size if self._n < 0 else self._n
        if number.dtype != np.float64 or number.shape != (self._n,):
            raise FeatureError(
                f"a loop nest holds an array of {number.dtype} and shape {number.shape}; expected"
                f" scalars or float64 arrays over the candidates, here of shape ({self._n},)"
            )
        return number
