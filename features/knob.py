"""Knob features: the choices themselves as numbers, the cheapest description of a candidate.

Numeric knobs give their value and its logarithm, small categorical knobs a one-hot code, larger
ones their position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from features.loop_nest import FeatureError, Number
from features.numbers import signed_log2, stack_columns

ONE_HOT_LIMIT = 16
"""Categorical knobs with more values than this give their position instead of a one-hot code."""


def knob_features(
    columns: Mapping[str, npt.NDArray[Any]], categories: Mapping[str, int] | None = None
) -> tuple[list[str], list[Number]]:
    """Return knob features as columns.

    Parameters
    ----------
    columns : mapping of str to array (n,)
        One column per number of a knob; a categorical knob's column holds positions.
    categories : mapping of str to int, optional
        The number of values of each categorical column; all other columns are numeric.

    Returns
    -------
    names : list of str
        ``NAME`` and ``NAME/log2`` of a numeric column, ``NAME/is_0`` ... of a small categorical
        one, ``NAME/position`` of a large one.
    features : list of float64 arrays (n,)

    Raises
    ------
    FeatureError
        For a category without a column, or a position out of range.
    """
    categories = categories or {}
    missing = [name for name in categories if name not in columns]
    if missing:
        raise FeatureError(f"categorical knob {missing[0]!r} has no column")
    names: list[str] = []
    features: list[Number] = []
    for name, column in columns.items():
        values = np.asarray(column, np.float64)
        if name not in categories:
            names += [name, f"{name}/log2"]
            features += [values, signed_log2(values)]
            continue
        size = categories[name]
        if values.size and not 0 <= values.min() <= values.max() < size:
            raise FeatureError(f"knob {name!r}: a position lies outside its {size} values")
        if size <= ONE_HOT_LIMIT:
            names += [f"{name}/is_{position}" for position in range(size)]
            features += [(values == position).astype(np.float64) for position in range(size)]
        else:
            names.append(f"{name}/position")
            features.append(values)
    return names, features


def knob_matrix(
    columns: Mapping[str, npt.NDArray[Any]],
    n: int,
    categories: Mapping[str, int] | None = None,
    order: Literal["C", "F"] = "F",
) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Return `knob_features` of `n` candidates as a float32 matrix (n, width)."""
    names, features = knob_features(columns, categories)
    return names, stack_columns(names, features, n, order)
