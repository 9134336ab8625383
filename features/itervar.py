"""Itervar features: attributes, arithmetic and memory accesses of each loop.

The same evaluation serves one candidate (rows of Python ints) and all candidates of a search space
(columns and a float32 matrix). The rules are AutoTVM's. `plan.py` finds the columns and paths of a
nest, and `evaluate.py` computes their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from features.evaluate import Evaluation
from features.loop_nest import FeatureError, LoopNest, Number
from features.numbers import Arithmetic, Scratch, signed_log2, stack_columns
from features.plan import FeatureColumn, plan_of
from features.schema import column_name, fields_of, layout_named

# ``(('_itervar_', name), ('_attr_', ...), ('_arith_', ...), (access, stride, ...), ...)``.
Row = tuple[tuple[Any, ...], ...]


def itervar_rows(nest: LoopNest, take_log: bool = False, layout: str = "itervar") -> list[Row]:
    """Return the features of one candidate, one row per loop in order of first appearance.

    A row is ``('_itervar_', name)``, ``('_attr_', length, nest_level, topdown, bottomup,
    *one_hot)``, ``('_arith_', add, mul, div)``, then for each access ``(name, stride, mod, count,
    reuse, thread_count, thread_reuse)``, sorted by the bytes of the name. Whole numbers are ints.

    nest: every number a scalar.
    take_log: apply `signed_log2` to all but the nest level and the one-hot code; gives floats.
    layout: ``"itervar"`` or ``"autotvm08"`` (one-hot order of AutoTVM v0.8, mod -1).

    FeatureError if the nest holds arrays or contradicts itself.
    """
    arrangement = layout_named(layout)
    plan = plan_of(nest, arrangement)
    evaluation = Evaluation(nest, plan, arrangement, Scratch())
    rows: list[list[tuple[Any, ...]]] = [[("_itervar_", loop.name)] for loop in nest.loops]
    for row, key, columns in plan.groups:
        values = [_number(evaluation, column, take_log) for column in columns]
        for column, value in zip(columns, values, strict=True):
            if isinstance(value, np.ndarray):
                raise FeatureError(
                    f"column {column.name} is an array over candidates; rows describe one"
                    " candidate: take it with features.candidate(nest, index)"
                )
        rows[row].append((key, *values))
    return [tuple(row) for row in rows]


def flatten_rows(rows: Sequence[Row]) -> npt.NDArray[np.float64]:
    """Return all numbers of the rows as one float64 array of shape (width,)."""
    return np.array([value for row in rows for pair in row[1:] for value in pair[1:]], np.float64)


def flatten_names(rows: Sequence[Row]) -> list[str]:
    """Return the names of the numbers that `flatten_rows` returns, in the same order."""
    return [
        column_name(index, row[0][1], pair[0], field)
        for index, row in enumerate(rows)
        for pair in row[1:]
        for field in fields_of(pair[0], len(pair) - 1)
    ]


def itervar_columns(
    nest: LoopNest,
    *,
    names: Sequence[str] | None = None,
    take_log: bool = False,
    layout: str = "itervar",
    arithmetic: Arithmetic | None = None,
) -> tuple[list[str], list[Number]]:
    """Return the features of all candidates as columns, in the order of `flatten_names`.

    A column is a scalar, or an array (n,). Arrays may be those of the nest and may repeat: do not
    write to them. The names come first.

    nest: numbers are scalars or float64 arrays of one common shape (n,).
    names: only these columns, in this order; nothing else is evaluated.
    take_log, layout: as for `itervar_rows`.
    arithmetic: a `Scratch`, where the columns lie: they hold until its next use. Pass the same one
        for every chunk.

    FeatureError for an unknown name, or a nest that contradicts itself.
    """
    arrangement = layout_named(layout)
    plan = plan_of(nest, arrangement)
    arithmetic = Scratch() if arithmetic is None else arithmetic
    arithmetic.reset()
    evaluation = Evaluation(nest, plan, arrangement, arithmetic)
    wanted = plan.columns if names is None else plan.of_names(tuple(names))
    columns = [_number(evaluation, column, take_log) for column in wanted]
    return [column.name for column in wanted], columns


def itervar_matrix(
    nest: LoopNest,
    n: int,
    *,
    take_log: bool = False,
    layout: str = "itervar",
    scratch: Scratch | None = None,
) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Return the features of `n` candidates as a float32 matrix (n, width), scalars repeated.

    Columns are contiguous: filling rows of several hundred columns takes several times as long.
    Other parameters as for `itervar_columns`.

    FeatureError if an array of the nest does not have the shape (n,), and as for `itervar_columns`.
    """
    names, columns = itervar_columns(nest, take_log=take_log, layout=layout, arithmetic=scratch)
    return names, stack_columns(names, columns, n)


def _number(evaluation: Evaluation, column: FeatureColumn, take_log: bool) -> Number:
    value = evaluation.column(column)
    return signed_log2(value) if take_log and column.is_logged else value
