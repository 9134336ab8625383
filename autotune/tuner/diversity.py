"""Batches of candidates that differ from each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.tuner.encoding import KnobDistances


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
