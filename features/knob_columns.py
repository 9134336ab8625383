"""Knob features: the knob values as numbers, the cheapest description of a candidate.

Numeric knobs give their value and its logarithm, small categorical knobs a one-hot code, larger
ones their position.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from features.loop_nest import FeatureError, Number
from features.numbers import signed_log2, stack_columns

# Categorical knobs with more values than this give their position instead of a one-hot code.
ONE_HOT_LIMIT = 16


def knob_features(
    columns: Mapping[str, npt.NDArray[Any]], categories: Mapping[str, int] | None = None
) -> tuple[list[str], list[Number]]:
    """Return names and values of knob features, float64 (n,) each.

    ``NAME`` and ``NAME/log2`` of a numeric column, ``NAME/is_0`` ... of a small categorical one,
    ``NAME/position`` of a large one.

    columns: one array (n,) per number of a knob; a categorical knob's column holds positions.
    categories: the number of values of each categorical column; all other columns are numeric.

    FeatureError for a category without a column, or a position out of range.
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


class KnobStatistics:
    """Collects the values of knobs, to define columns for configurations from any source."""

    def __init__(self) -> None:
        self._numbers: dict[str, bool] = {}
        self._categories: dict[str, dict[str, None]] = {}

    def add(self, values: Mapping[str, object]) -> None:
        """Add one configuration: knob values as numbers, flags, texts, or sequences of them."""
        for part, value in knob_parts(values):
            if isinstance(value, str):
                self._categories.setdefault(part, {})[value] = None
            else:  # flags are numbers that need no logarithm
                is_flag = isinstance(value, bool) and self._numbers.get(part, True)
                self._numbers[part] = is_flag

    def layout(self) -> KnobLayout:
        """Return the layout for all added configurations."""
        return KnobLayout(
            dict(sorted(self._numbers.items())),
            {part: tuple(sorted(seen)) for part, seen in sorted(self._categories.items())},
        )


class KnobLayout:
    """Named columns for the values of knobs, the same for the spaces of several templates.

    Numbers give ``PART`` and ``PART/log2``, flags ``PART`` alone; texts ``PART=TEXT`` for each
    text, or ``PART/position`` in sorted order if there are more than `ONE_HOT_LIMIT`. A part is a
    knob's name, with ``.0``, ``.1`` ... if its values are sequences.

    numbers: numeric parts, and whether each holds flags.
    categories: parts that hold texts, and which.
    """

    def __init__(
        self, numbers: Mapping[str, bool], categories: Mapping[str, Sequence[str]]
    ) -> None:
        self._taken: dict[str, None] = {}
        self._values: dict[str, int] = {}
        self._logarithms: dict[str, int] = {}
        self._texts: dict[tuple[str, str], tuple[int, float]] = {}
        for part, is_flag in numbers.items():
            self._values[part] = self._place(part)
            if not is_flag:
                self._logarithms[part] = self._place(f"{part}/log2")
        one_hot: set[int] = set()
        for part, texts in categories.items():
            if len(texts) > ONE_HOT_LIMIT:
                place = self._place(f"{part}/position")
                self._texts |= {(part, text): (place, float(k)) for k, text in enumerate(texts)}
            else:
                for text in texts:
                    place = self._place(f"{part}={text}")
                    self._texts[part, text] = place, 1.0
                    one_hot.add(place)
        self.names = tuple(self._taken)  # of the columns
        self._lacking = [0.0 if k in one_hot else np.nan for k in range(len(self.names))]

    def _place(self, name: str) -> int:
        """Return the place of one more column; a name that is taken gets a number."""
        free, count = name, 1
        while free in self._taken:
            count += 1
            free = f"{name}#{count}"
        self._taken[free] = None
        return len(self._taken) - 1

    def matrix(self, configs: Sequence[Mapping[str, object]]) -> npt.NDArray[np.float32]:
        """Return the features of configurations, float32 (n, len(names)).

        A missing part of a configuration is NaN; in a one-hot code it is 0.

        FeatureError for a part or a text that the layout lacks.
        """
        out = np.tile(self._lacking, (len(configs), 1))
        for row, values in zip(out, configs, strict=True):
            for part, value in knob_parts(values):
                try:
                    if isinstance(value, str):
                        place, number = self._texts[part, value]
                    else:
                        place, number = self._values[part], _float(value)
                except KeyError:
                    raise FeatureError(f"no column for knob {part!r} = {value!r}") from None
                row[place] = number
        for part, place in self._logarithms.items():
            out[:, place] = signed_log2(out[:, self._values[part]])
        with np.errstate(over="ignore"):
            return out.astype(np.float32)


def _float(value: float) -> float:
    """Return a number as a float, which is infinite for an integer beyond all of them."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def knob_parts(values: Mapping[str, object]) -> Iterator[tuple[str, bool | int | float | str]]:
    """Yield the parts of a configuration: ``NAME``, or ``NAME.0``, ``NAME.1`` ... of a sequence.

    A value that is not a number, a flag or a text becomes its JSON text.
    """
    for name, value in values.items():
        if isinstance(value, list | tuple):
            yield from knob_parts({f"{name}.{k}": item for k, item in enumerate(value)})
        elif isinstance(value, bool | int | float | str):
            yield name, value
        else:
            yield name, json.dumps(value, sort_keys=True)


def describe_knob(name: str) -> tuple[str, str]:
    """Return the meaning and the unit of a column of a `KnobLayout`."""
    for suffix, meaning in _SUFFIXES.items():
        if name.endswith(suffix):
            return meaning.format(name.removesuffix(suffix)), "1"
    part, equals, text = name.partition("=")
    if equals:
        return f"1 if knob {part} is {text}, else 0", "1"
    return f"knob {name} as a number (flags: 0 or 1)", "1"


_SUFFIXES = {
    "/log2": "sign(x) log2(1 + |x|) of knob {}",
    "/position": "knob {}: position of its text among all of them, sorted",
}
