"""Strides of an index looked up by knob values: for indices with too many cases for expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.ir.expr import Expr, Knob, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.visitor import walk_expr
from autotune.lowering.strides import ABSENT, Amount, Touch, text_touches

Columns = Mapping[str, npt.NDArray[np.int64 | np.float64]]


@dataclass(frozen=True, eq=False)
class Lookup:
    """One column of a table: the stride or the modulus of a variable."""

    table: IndexTable


class IndexTable:
    """The touches of one index for every combination of knob values that was asked for.

    Each combination is simplified and walked as a single candidate is: exact, and slow once.

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
        self._known: dict[tuple[int, ...], Mapping[Var, Touch]] = {}

    def lookup(self, columns: Columns) -> dict[Amount, npt.NDArray[np.float64]]:
        """Return a column (n,) for each lookup."""
        values = np.stack([np.asarray(columns[k.name], np.int64) for k in self.knobs], axis=1)
        distinct, rows = np.unique(values, axis=0, return_inverse=True)
        touches = [self.touches_at(tuple(map(int, key))) for key in distinct]
        found: dict[Amount, npt.NDArray[np.float64]] = {}
        for var, lookups in self.touches.items():
            numbers = np.array([touch.get(var, ABSENT) for touch in touches], np.float64)
            for lookup, column in zip(lookups, numbers.T, strict=True):
                found[lookup] = column[rows.reshape(-1)]
        return found

    def touches_at(self, key: tuple[int, ...]) -> Mapping[Var, Touch]:
        """Return the touches for one combination of the knobs' values."""
        found = self._known.get(key)
        if found is None:
            values = zip(self.knobs, key, strict=True)
            ranges: dict[Var, tuple[float, float]] = {knob: (v, v) for knob, v in values}
            simplifier = Simplifier(ranges)
            for var, extent in self._loops:
                largest = simplifier.bounds(simplifier.expr(extent))[1]
                simplifier.bind(var, 0, max(0.0, largest - 1))
            found = self._known[key] = text_touches(simplifier.expr(self._index))
        return found
