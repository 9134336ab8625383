"""Evaluates expressions over knobs for many configurations at once, exactly.

The expressions become one list of NumPy operations on float64 chunks. Common subexpressions are
computed once, and scratch memory is shared by lifetime. Integers below 2^52 are exact in float64.
If the knobs' ranges allow larger values, chunks are checked, and rows with such values are computed
again in Python integers; a result is then rounded once, to float64. A division by zero is poison:
it is an error unless a select does not choose it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.evaluate.column_steps import ColumnSteps
from autotune.ir.evaluate.interpreter import scalar_function
from autotune.ir.expr import Expr, KnobVar
from autotune.ir.printer import excerpt
from autotune.ir.visitor import walk_expr

Array = npt.NDArray[Any]


class ColumnProgram:
    """A compiled evaluation of expressions over columns of knob values.

    `exprs`: scalar integer or bool expressions over `KnobVar` variables.
    `chunk`: rows evaluated at a time; 8,192 float64 values of a few columns stay in cache.

    Raises IRError if an expression has another type, or contains a constant of 2^52 or more.
    """

    def __init__(self, exprs: Sequence[Expr], chunk: int = 8192) -> None:
        self.exprs = tuple(exprs)
        self.chunk = chunk
        knobs = {k: None for e in self.exprs for k in walk_expr(e) if isinstance(k, KnobVar)}
        self._knobs = tuple(knobs)
        #: Names of the columns that are read.
        self.knobs = tuple(dict.fromkeys(knob.name for knob in self._knobs))
        self._steps = ColumnSteps(self.exprs, self._knobs)
        #: The value of each expression that is the same in all rows, else None.
        self.constants = self._steps.constants

    def __call__(
        self, columns: Mapping[str, Array], out: Sequence[Array] | None = None
    ) -> list[Array | int | bool]:
        """Evaluate all expressions.

        Parameters
        ----------
        columns : mapping of str to ndarray of int64 or float64, shape (n,)
            Values of each knob, within the knob's range.
        out : sequence of ndarray, shape (n,), optional
            One array per expression to write to, of any strides (columns of a feature matrix,
            say; contiguous ones are filled twice as fast): float32 or float64, or bool for
            conditions.

        Returns
        -------
        list
            `out`; without it, a float64 array of shape (n,) per expression (bool for a condition),
            or one int or bool where all rows have the same value.

        Raises
        ------
        IRError
            If a column is missing or holds values outside its knob's range, or if a used value of
            some row is a division by zero.
        """
        inputs, rows = self._inputs(columns)
        results: list[Array | int | bool] = []
        if out is not None:
            self._check_out(out, rows)
            for array, value in zip(out, self.constants, strict=True):
                if value is not None:
                    array[...] = value
            results.extend(out)
        else:
            for expr, value in zip(self.exprs, self.constants, strict=True):
                kind = np.bool_ if expr.dtype == dtypes.BOOL else np.float64
                results.append(np.empty(rows, kind) if value is None else value)
        targets = [r for r, v in zip(results, self.constants, strict=True) if v is None]
        self._evaluate(inputs, targets, rows)
        return results

    def _inputs(self, columns: Mapping[str, Array]) -> tuple[list[Array], int]:
        inputs: list[Array] = []
        for knob in self._knobs:
            if knob.name not in columns:
                raise IRError(f"no column is given for knob {knob.name!r}")
            column = np.asarray(columns[knob.name])
            if column.ndim != 1 or (inputs and len(column) != len(inputs[0])):
                raise IRError(f"column {knob.name!r} has shape {column.shape}: not as the others")
            if column.size and not (knob.low <= column.min() and column.max() <= knob.high):
                raise IRError(
                    f"column {knob.name!r} holds values from {column.min()} to {column.max()}, "
                    f"but its knob has values from {knob.low} to {knob.high}"
                )
            inputs.append(column)
        return inputs, len(inputs[0]) if inputs else 0

    def _check_out(self, out: Sequence[Array], rows: int) -> None:
        if len(out) != len(self.exprs):
            raise IRError(f"{len(self.exprs)} expressions need as many arrays, not {len(out)}")
        for expr, array in zip(self.exprs, out, strict=True):
            kinds = "fb" if expr.dtype == dtypes.BOOL else "f"
            if array.dtype.kind not in kinds or (self._knobs and array.shape != (rows,)):
                raise IRError(
                    f"the array for `{excerpt(expr)}` is {array.dtype} of shape {array.shape}: "
                    f"expected float32 or float64 of shape ({rows},)"
                )

    def _evaluate(self, inputs: list[Array], targets: Sequence[Any], rows: int) -> None:
        size = min(self.chunk, rows)
        scratch: list[Array] = [np.empty(size, kind) for kind in self._steps.scratch]
        large = np.zeros(size, np.bool_)
        for start in range(0, rows, self.chunk):
            stop = min(start + self.chunk, rows)
            if stop - start < size:
                scratch = [array[: stop - start] for array in scratch]
                large = large[: stop - start]
            part = [column[start:stop].astype(np.float64, copy=False) for column in inputs]
            outs = [target[start:stop] for target in targets]
            # Rows that an earlier operation made too large may overflow or divide by anything.
            arrays = [*part, *outs, large, *self._steps.literals, *scratch]
            with np.errstate(all="ignore"):
                for run, first, second, to in self._steps.steps:
                    if second is None:
                        run(arrays[first], out=arrays[to])
                    else:
                        run(arrays[first], arrays[second], out=arrays[to])
            if large.any():
                self._recompute(part, outs, np.flatnonzero(large))
                large[:] = False

    @functools.cached_property
    def _exactly(self) -> Callable[..., tuple[int | bool, ...]]:
        exprs = [e for e, v in zip(self.exprs, self.constants, strict=True) if v is None]
        return scalar_function(exprs, self._knobs)

    def _recompute(self, part: list[Array], outs: list[Array], rows: Array) -> None:
        for row in rows:
            values = self._exactly(*(int(column[row]) for column in part))
            for out, value in zip(outs, values, strict=True):
                out[row] = value
