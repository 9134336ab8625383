"""Strides of an index looked up by knob values: for indices with too many cases for expressions.

What was worked out for some values is kept; the rest of a batch is worked out as columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.ir.expr import Expr, Knob, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.visitor import walk_expr
from autotune.lowering.candidate_columns import HardIndexError
from autotune.lowering.index_columns import touch_columns
from autotune.lowering.strides import ABSENT, Amount, Touch, text_touches

Columns = Mapping[str, npt.NDArray[np.int64 | np.float64]]
IntArray = npt.NDArray[np.int64]

MOST_KEPT = 1 << 20
"""Combinations of knob values whose touches are kept."""

LARGEST_KEY = 1 << 62


@dataclass(frozen=True, eq=False)
class Lookup:
    """One column of a table: the stride or the modulus of a variable."""

    table: IndexTable


class IndexTable:
    """The touches of one index for every combination of knob values that was asked for.

    Parameters
    ----------
    index : Expr
        A flat index over loop variables and knobs.
    loops : sequence of (Var, Expr)
        Loops around it, with their extents, outermost first.

    Attributes
    ----------
    knobs : tuple of Knob
        What the touches depend on.
    touches : dict of Var to Touch
        Of each loop's variable, as lookups in this table.
    """

    def __init__(self, index: Expr, loops: Sequence[tuple[Var, Expr]]) -> None:
        self._index = index
        self._loops = tuple(loops)
        exprs = (index, *(extent for _, extent in loops))
        found = {node: None for expr in exprs for node in walk_expr(expr) if isinstance(node, Knob)}
        self.knobs = tuple(found)
        self.touches = {var: Touch(Lookup(self), Lookup(self)) for var, _ in loops}
        self._keys = np.zeros(0, np.int64)
        self._numbers = np.zeros((0, 2 * len(self._loops)), np.int64)

    def lookup(self, columns: Columns) -> dict[Amount, npt.NDArray[np.float64]]:
        """Return a column (n,) for each lookup."""
        values = np.stack([np.asarray(columns[k.name], np.int64) for k in self.knobs])
        numbers = self._looked_up(values)
        lookups = (lookup for touch in self.touches.values() for lookup in touch)
        return {
            lookup: np.asarray(column, np.float64)
            for lookup, column in zip(lookups, numbers.T, strict=True)
        }

    def _looked_up(self, values: IntArray) -> IntArray:
        """Return strides and moduli, (n, 2 * loops), for knob values (knobs, n)."""
        keys = self._keys_of(values)
        if keys is None:
            return self._worked_out(values)
        distinct, first, rows = np.unique(keys, return_index=True, return_inverse=True)
        places = np.searchsorted(self._keys, distinct)
        known = np.zeros(len(distinct), bool)
        if len(self._keys):
            known = self._keys[np.minimum(places, len(self._keys) - 1)] == distinct
        new = np.flatnonzero(~known)
        numbers = np.empty((len(distinct), self._numbers.shape[1]), np.int64)
        numbers[known] = self._numbers[places[known]]
        if len(new):
            numbers[new] = self._worked_out(values[:, first[new]])
            if len(self._keys) + len(new) <= MOST_KEPT:
                self._keys = np.insert(self._keys, places[new], distinct[new])
                self._numbers = np.insert(self._numbers, places[new], numbers[new], axis=0)
        return numbers[rows]

    def _keys_of(self, values: IntArray) -> IntArray | None:
        """Return one number for each combination of values; None if they are too many."""
        keys = np.zeros(values.shape[1], np.int64)
        count = 1
        for knob, column in zip(self.knobs, values, strict=True):
            size = knob.high - knob.low + 1
            count *= size
            keys = keys * size + (column - knob.low)
        return keys if count <= LARGEST_KEY else None

    def _worked_out(self, values: IntArray) -> IntArray:
        """Return strides and moduli of new combinations of values."""
        columns = {k.name: column for k, column in zip(self.knobs, values, strict=True)}
        n = values.shape[1]
        try:
            numbers, hard = touch_columns(self._index, self._loops, columns, n)
        except HardIndexError:
            numbers, hard = np.empty((n, 2 * len(self._loops)), np.int64), np.arange(n)
        for row in hard:
            touches = self.touches_at(tuple(map(int, values[:, row])))
            numbers[row] = [x for var, _ in self._loops for x in touches.get(var, ABSENT)]
        return numbers

    def touches_at(self, key: tuple[int, ...]) -> Mapping[Var, Touch]:
        """Return the touches for one combination of the knobs' values."""
        values = zip(self.knobs, key, strict=True)
        ranges: dict[Var, tuple[float, float]] = {knob: (v, v) for knob, v in values}
        simplifier = Simplifier(ranges)
        for var, extent in self._loops:
            largest = simplifier.bounds(simplifier.expr(extent))[1]
            simplifier.bind(var, 0, max(0.0, largest - 1))
        return text_touches(simplifier.expr(self._index))
