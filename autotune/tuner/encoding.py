"""Encodes configurations as numbers, by the values of their knobs.

`KnobEncoding` is what a Gaussian process reads, `KnobDistances` tells how different configurations
are, and `KnobFeatures` is what boosted trees read where there is no template. `max_min_subset`
picks candidates that differ from each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.base import FloatMatrix, FloatVector, IndexVector
from features.knob_columns import knob_matrix
from search_spaces.knob import Knob
from search_spaces.space import Space

SIZE_LENGTH = -0.3  # Logarithm of the length scale expected of a size.

# The same for properties that may not matter: alignment, and a few numbers as categories.
PATTERN_LENGTH = 0.7

FEW_VALUES = 6  # A numeric knob of 3 to this many values is also encoded as a category.
MANY_CATEGORIES = 64  # A category with more values than this counts by its position.


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
        self.groups = np.array(groups, dtype=np.int64)  # (d,): the axis of each coordinate
        self.log_lengths = np.array([axis.log_length for axis in self._axes])

    def matrix(self, indices: IndexVector) -> FloatVector:
        """Return the coordinates of candidates, float64 (n, d); d may be 0."""
        positions = self._space.positions(indices)
        parts = [axis.table[positions[:, axis.knob]] for axis in self._axes]
        if not parts:
            return np.zeros((len(indices), 0))
        out: FloatVector = np.concatenate(parts, axis=1)
        return out


class KnobDistances:
    """Distances between the configurations of a space.

    A numeric knob contributes the mean difference of its columns on a logarithmic scale, a
    categorical knob 0 or 1; each knob at most 1.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._tables: dict[int, FloatVector] = {}
        for number, knob in enumerate(space.knobs):
            if knob.numeric:
                sizes = [_unit(_signed_log2(column)) for column in _columns(knob)]
                self._tables[number] = np.stack(sizes, axis=1) / len(sizes)

    def positions(self, indices: Sequence[int] | IndexVector) -> IndexVector:
        """Return the knob positions of candidates, int64 (n, knobs)."""
        return self._space.positions(np.asarray(indices, dtype=np.int64))

    def distances(self, some: IndexVector, many: IndexVector) -> FloatVector:
        """Return the distances of positions (k, knobs) from positions (n, knobs): (k, n)."""
        total = np.zeros((len(some), len(many)))
        for number in range(some.shape[1]):
            here, there = some[:, number], many[:, number]
            table = self._tables.get(number)
            if table is None:
                total += here[:, None] != there
            else:
                for column in table.T:
                    total += np.abs(column[here][:, None] - column[there])
        return total

    def distance(self, one: IndexVector, many: IndexVector) -> FloatVector:
        """Return the distances from positions (knobs,) to positions (n, knobs): shape (n,)."""
        out: FloatVector = self.distances(one[np.newaxis], many)[0]
        return out


class KnobFeatures:
    """A `FeatureSource` of the knob values themselves, which needs no template."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._categories = space.categories
        self.names: tuple[str, ...] = tuple(self._named_matrix(np.zeros(0, dtype=np.int64))[0])

    def prepare(self, n: int) -> None:
        """Do nothing."""

    def matrix(self, indices: IndexVector, names: Sequence[str] | None = None) -> FloatMatrix:
        """Return the features of the candidates at ``indices``, float32 (n, len(names))."""
        matrix = self._named_matrix(indices)[1]
        return matrix if names is None else matrix[:, [self.names.index(name) for name in names]]

    def preparations(self) -> Iterator[None]:
        """Do nothing ahead: there is nothing that takes long."""
        return iter(())

    def _named_matrix(self, indices: IndexVector) -> tuple[list[str], FloatMatrix]:
        columns = self._space.columns(indices)
        return knob_matrix(columns, len(indices), self._categories, order="C")


def _columns(knob: Knob) -> list[FloatVector]:
    """Return the columns of all values of a numeric knob, float64 (len(knob),) each."""
    return [column.astype(np.float64) for column in knob.tables.values()]


def _signed_log2(values: FloatVector) -> FloatVector:
    """Return sign(x) log2(1 + abs(x)): a logarithmic scale that has zero and negative numbers."""
    out: FloatVector = np.sign(values) * np.log2(1.0 + np.abs(values))
    return out


def _axes(number: int, knob: Knob) -> list[_Axis]:
    if knob.numeric:
        return [axis for column in _columns(knob) for axis in _size_axes(number, column)]
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
    size = np.log2(column) if low > 0 else _signed_log2(column)
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


def max_min_subset(
    knobs: KnobDistances, candidates: Sequence[int], taken: Sequence[int], n: int
) -> list[int]:
    """Pick up to ``n`` candidates, each as far as can be from those picked or taken before.

    The greedy max-min rule; where nothing is taken yet, the first candidate comes first.
    """
    positions = knobs.positions(candidates)
    apart = knobs.distances(positions, knobs.positions(taken))
    nearest: FloatVector = apart.min(axis=1, initial=np.inf)
    picked: list[int] = []
    for _ in range(min(n, len(candidates))):
        row = int(np.argmax(nearest))
        picked.append(int(candidates[row]))
        nearest = np.minimum(nearest, knobs.distance(positions[row], positions))
        nearest[row] = -1.0
    return picked


def pick_diverse(
    knobs: KnobDistances, ranked: IndexVector, member_scores: FloatVector, n: int
) -> list[int]:
    """Pick up to ``n`` candidates from the front of ``ranked``, passing over near copies.

    A near copy differs from one picked before in one knob only, or has the same score from
    every member of the model, which then knows no difference. Copies fill up what is left.

    ranked: int64 (m,); candidates, best first.
    member_scores: float64 (members, m); the model's scores of these candidates.
    """
    positions = knobs.positions(ranked)
    picked: list[int] = []
    copies: list[int] = []
    signatures: set[bytes] = set()
    for row in range(len(ranked)):
        if len(picked) == n:
            break
        signature = member_scores[:, row].tobytes()
        moves = (positions[picked] != positions[row]).sum(axis=1)
        if signature in signatures or (moves <= 1).any():
            copies.append(row)
            continue
        signatures.add(signature)
        picked.append(row)
    picked += copies[: n - len(picked)]
    return [int(ranked[row]) for row in picked]
