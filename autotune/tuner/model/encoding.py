"""Encodes configurations for a Gaussian process: knob values as numbers between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.cost_model.gaussian_process import KernelPrior
from search_spaces.knob import Knob
from search_spaces.space import Space

SIZE_LENGTH = -0.3
"""Logarithm of the length scale expected of a size."""

PATTERN_LENGTH = 0.7
"""The same for properties that may not matter: alignment, and a few numbers as categories."""

FEW_VALUES = 6
"""A numeric knob of 3 to this many values is also encoded as a category."""

MANY_CATEGORIES = 64
"""A category with more values than this counts by its position."""


@dataclass(frozen=True)
class _Axis:
    """Coordinates with one length scale: a table of their values, float64 (len(knob), width)."""

    knob: int
    table: FloatVector
    log_length: float


class KnobEncoding:
    """Coordinates of the configurations of a space.

    A size gives its logarithm and, unless all are powers of two, how often two divides it and
    whether it is one; one with few values also a category. A category gives a corner of a
    simplex. A tuple gives the coordinates of its members.

    Parameters
    ----------
    space : Space
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._axes = [
            axis
            for number, knob in enumerate(space.knobs)
            if len(knob) > 1
            for axis in _axes(number, knob)
        ]
        groups = [g for g, axis in enumerate(self._axes) for _ in range(axis.table.shape[1])]
        self.prior = KernelPrior(
            np.array(groups, dtype=np.int64), np.array([axis.log_length for axis in self._axes])
        )

    def matrix(self, indices: IndexVector) -> FloatVector:
        """Return the coordinates of candidates, float64 (n, d); d may be 0."""
        positions = self._space.positions(indices)
        parts = [axis.table[positions[:, axis.knob]] for axis in self._axes]
        if not parts:
            return np.zeros((len(indices), 0))
        out: FloatVector = np.concatenate(parts, axis=1)
        return out


def _axes(number: int, knob: Knob) -> list[_Axis]:
    if knob.numeric:
        columns = knob.columns(np.arange(len(knob), dtype=np.int64)).values()
        return [axis for column in columns for axis in _size_axes(number, column.astype(float))]
    values = [knob.value(position) for position in range(len(knob))]
    first = values[0]
    if isinstance(first, tuple) and all(
        isinstance(value, tuple) and len(value) == len(first) for value in values
    ):
        members = zip(*values, strict=True)
        return [axis for member in members for axis in _member_axes(number, list(member))]
    return [_category(number, values)]


def _member_axes(number: int, values: list[object]) -> list[_Axis]:
    if len(set(values)) < 2:
        return []
    if all(isinstance(value, int) for value in values):
        return _size_axes(number, np.array(values, dtype=np.float64))
    return [_category(number, values)]


def _size_axes(number: int, column: FloatVector) -> list[_Axis]:
    distinct = np.unique(column)
    if len(distinct) < 2:
        return []
    low = float(distinct[0])
    size = np.log2(column) if low > 0 else np.sign(column) * np.log2(1.0 + np.abs(column))
    axes = [_Axis(number, _unit(size)[:, None], SIZE_LENGTH)]
    whole = bool(np.all(column == np.round(column)))
    if whole and len(distinct) > 4 and not _powers_of_two(distinct):
        axes.append(_Axis(number, _unit(_twos(column))[:, None], PATTERN_LENGTH))
        powers = np.array([_powers_of_two(value) for value in column], dtype=np.float64)
        axes.append(_Axis(number, _unit(powers)[:, None], PATTERN_LENGTH))
    if 3 <= len(distinct) <= FEW_VALUES:
        axes.append(_category(number, column.tolist()))
    return axes


def _category(number: int, values: Sequence[object]) -> _Axis:
    distinct = list(dict.fromkeys(values))
    positions = np.array([distinct.index(value) for value in values])
    if len(distinct) > MANY_CATEGORIES:
        return _Axis(number, _unit(positions.astype(np.float64))[:, None], PATTERN_LENGTH)
    corners = np.eye(len(distinct)) / np.sqrt(2.0)  # 1 apart from each other
    return _Axis(number, corners[positions], PATTERN_LENGTH)


def _powers_of_two(values: FloatVector) -> bool:
    """Whether all of some whole numbers are powers of two, or below 1."""
    powers = np.log2(np.maximum(values, 1.0))
    return bool(np.all(powers == np.round(powers)))


def _twos(column: FloatVector) -> FloatVector:
    """Return how often 2 divides each number, at most 7 times; 0 for numbers below 1."""
    whole = column.astype(np.int64)
    count = np.zeros(len(column))
    for power in range(1, 8):
        count += (whole > 0) & (whole % (1 << power) == 0)
    return count


def _unit(values: FloatVector) -> FloatVector:
    spread = values.max() - values.min()
    out: FloatVector = (values - values.min()) / (spread or 1.0)
    return out
