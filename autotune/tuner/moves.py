"""Moves of model-free search: small changes of a configuration, and mixtures of two."""

from __future__ import annotations

import numpy as np

from autotune.cost_model.base import IndexVector
from search_spaces.space import Space

TRIES = 64
"""Random moves looked at before a search gives up on finding an unseen, feasible one."""


def one_knob_changes(space: Space, index: int) -> IndexVector:
    """Return the feasible candidates that differ from `index` in one knob, whatever its value.

    In an unmanageably large knob only the neighbours in its topology count.
    """
    (here,) = space.positions([index])
    rows = []
    for number, knob in enumerate(space.knobs):
        many = len(knob) > 256
        for there in knob.neighbors(int(here[number])) if many else range(len(knob)):
            if there != here[number]:
                row = here.copy()
                row[number] = there
                rows.append(row)
    if not rows:
        return np.zeros(0, dtype=np.int64)
    indices = space.indices_of(np.array(rows))
    changed: IndexVector = indices[space.feasible(indices)]
    return changed


def crossed(
    one: IndexVector, other: IndexVector, count: int, rng: np.random.Generator
) -> IndexVector:
    """Return `count` mixtures of two rows of knob positions, each knob from either; int64."""
    mask = rng.random((count, len(one))) < 0.5
    mixed: IndexVector = np.where(mask, one, other)
    return mixed


def mutated(
    space: Space, rows: IndexVector, rate: float, rng: np.random.Generator
) -> IndexVector:
    """Change each knob of some rows with probability `rate`: to a neighbour, or to any value."""
    changed = rows.copy()
    hit = rng.random(rows.shape) < rate
    for row, number in np.argwhere(hit).tolist():
        knob = space.knobs[number]
        near = knob.neighbors(int(rows[row, number]))
        if near and rng.random() < 0.5:
            changed[row, number] = near[int(rng.integers(len(near)))]
        else:
            changed[row, number] = int(rng.integers(len(knob)))
    return changed


def two_knobs_changed(
    space: Space, row: IndexVector, count: int, rng: np.random.Generator
) -> IndexVector:
    """Return `count` copies of a row of knob positions with two knobs changed to any other value.

    With one knob only, that one; the row itself where no knob has another value.
    """
    varying = [number for number, knob in enumerate(space.knobs) if len(knob) > 1]
    rows = np.repeat(row[np.newaxis], count, axis=0)
    for copy in rows:
        for number in rng.permutation(varying)[:2]:
            size = len(space.knobs[number])
            copy[number] = (copy[number] + rng.integers(1, size)) % size
    return rows


def first_new(space: Space, rows: IndexVector, barred: set[int]) -> int | None:
    """Return the first of some rows of knob positions that is feasible and not barred."""
    indices = space.indices_of(rows)
    for index in indices[space.feasible(indices)].tolist():
        if index not in barred:
            return int(index)
    return None
