"""Distances between candidates, and batches of candidates that differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.cost_model.base import FloatVector, IndexVector
from search_spaces.space import Space


class Geometry:
    """Distances between the configurations of a space.

    A numeric knob contributes the mean difference of its columns on a logarithmic scale, a
    categorical knob 0 or 1; each knob at most 1.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._tables: dict[int, FloatVector] = {}
        for number, knob in enumerate(space.knobs):
            if knob.numeric:
                columns = knob.columns(np.arange(len(knob), dtype=np.int64)).values()
                table = np.stack([_unit_scale(c.astype(np.float64)) for c in columns], axis=1)
                self._tables[number] = table / table.shape[1]

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


def _unit_scale(column: FloatVector) -> FloatVector:
    values = np.sign(column) * np.log2(1.0 + np.abs(column))
    spread = values.max() - values.min()
    scaled: FloatVector = (values - values.min()) / (spread or 1.0)
    return scaled


def max_min_subset(
    geometry: Geometry, candidates: Sequence[int], taken: Sequence[int], n: int
) -> list[int]:
    """Pick up to ``n`` candidates, each as far as can be from those picked or taken before.

    The greedy max-min rule; where nothing is taken yet, the first candidate comes first.
    """
    positions = geometry.positions(candidates)
    apart = geometry.distances(positions, geometry.positions(taken))
    nearest: FloatVector = apart.min(axis=1, initial=np.inf)
    picked: list[int] = []
    for _ in range(min(n, len(candidates))):
        row = int(np.argmax(nearest))
        picked.append(int(candidates[row]))
        nearest = np.minimum(nearest, geometry.distance(positions[row], positions))
        nearest[row] = -1.0
    return picked


def pick_diverse(
    geometry: Geometry, ranked: IndexVector, member_scores: FloatVector, n: int
) -> list[int]:
    """Pick up to ``n`` candidates from the front of ``ranked``, passing over near copies.

    A near copy differs from one picked before in one knob only, or has the same score from
    every member of the model, which then knows no difference. Copies fill up what is left.

    Parameters
    ----------
    ranked : int64 (m,)
        Candidates, best first.
    member_scores : float64 (members, m)
        The model's scores of these candidates.
    """
    positions = geometry.positions(ranked)
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
