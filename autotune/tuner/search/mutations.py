"""Moves of model-free search: small changes of a configuration, and mixtures of two."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.cost_model.base import FloatVector, IndexVector
from search_spaces.knob import Knob
from search_spaces.space import Space

MANY_VALUES = 256  # Values of a knob from which on only neighbours in its topology are near.
MAX_KEPT = 4096  # Values of a knob up to which the neighbours of all of them are kept.


def one_knob_neighbors(space: Space, indices: Sequence[int] | IndexVector) -> IndexVector:
    """Return the feasible candidates that differ from one of `indices` in one knob.

    In an unmanageably large knob only the neighbours in its topology count.
    """
    positions = space.positions(indices)
    moved = [np.zeros((0, len(space.knobs)), dtype=np.int64)]
    for number, knob in enumerate(space.knobs):
        here = positions[:, number]
        if len(knob) > MANY_VALUES:
            flat, counts, place = _around(knob, here)
            own = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
            near = [flat[own[at] : own[at + 1]] for at in place]
        else:
            others = np.arange(len(knob) - 1)
            near = list(others + (others >= here[:, np.newaxis]))
        rows = np.repeat(positions, [len(there) for there in near], axis=0)
        rows[:, number] = np.concatenate([here[:0], *near])
        moved.append(rows)
    changed = space.indices_of(np.concatenate(moved))
    feasible: IndexVector = changed[space.feasible(changed)]
    return feasible


def crossover(some: IndexVector, others: IndexVector, rng: np.random.Generator) -> IndexVector:
    """Mix rows of knob positions pairwise, each knob from either; int64 (n, knobs)."""
    mixed: IndexVector = np.where(rng.random(some.shape) < 0.5, some, others)
    return mixed


def mutated(
    space: Space, rows: IndexVector, knobs: IndexVector, rng: np.random.Generator
) -> IndexVector:
    """Change some knobs of each row of knob positions: to a neighbour, or to any other value.

    rows: int64 (n, knobs).
    knobs: int64 (n,); how many different knobs to change in each row; knobs of one value are none
        to change.
    """
    out = rows.copy()
    varying = np.array([k for k, knob in enumerate(space.knobs) if len(knob) > 1], dtype=np.int64)
    order = np.argsort(rng.random((len(rows), len(varying))), axis=1)
    for turn in range(min(int(knobs.max(initial=0)), len(varying))):
        due = np.flatnonzero(knobs > turn)
        numbers = varying[order[due, turn]]
        near, lot = rng.random(len(due)) < 0.5, rng.random(len(due))
        for number in varying:
            own = numbers == number
            here = rows[due[own], number]
            out[due[own], number] = _other_values(space.knobs[number], here, near[own], lot[own])
    return out


def _other_values(
    knob: Knob, here: IndexVector, step: npt.NDArray[np.bool_], draw: FloatVector
) -> IndexVector:
    """Return the positions that draws from [0, 1) stand for, other than these, int64 (n,).

    Where `step`, one of the neighbours, if there is one.
    """
    flat, counts, place = _around(knob, here)
    chosen = (np.cumsum(counts) - counts)[place] + (draw * counts[place]).astype(np.int64)
    anywhere: IndexVector = (here + 1 + (draw * (len(knob) - 1)).astype(np.int64)) % len(knob)
    steps = step & (counts[place] > 0)
    anywhere[steps] = flat[chosen[steps]]
    return anywhere


def _around(knob: Knob, here: IndexVector) -> tuple[IndexVector, IndexVector, IndexVector]:
    """Return the neighbours in a row, the number for each, and the owner of each in `here`."""
    if len(knob) <= MAX_KEPT:
        return *knob.adjacency, here
    positions, place = np.unique(here, return_inverse=True)
    around = [knob.neighbors(position) for position in positions.tolist()]
    counts = np.array([len(near) for near in around], dtype=np.int64)
    return np.array([*itertools.chain(*around)], dtype=np.int64), counts, place


def unseen(space: Space, rows: IndexVector, excluded: set[int]) -> list[int]:
    """Return the candidates among rows of knob positions that are feasible and not barred."""
    indices = space.indices_of(rows)
    feasible = indices[space.feasible(indices)].tolist()
    return [index for index in dict.fromkeys(feasible) if index not in excluded]
