"""Candidates of a large space: a population that evolves towards high scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.system.available_cpus import run_in_threads
from autotune.tuner.model.scoring import distinct, top_rows, without
from autotune.tuner.search.mutations import crossover, mutated
from search_spaces.space import Space

OFFSPRING_PARTS = 2  # Parts of a generation that are bred at the same time.


@dataclass(frozen=True)
class PopulationSettings:
    """How a population evolves."""

    # Candidates scored in all, fewer only if the generations do not find so many.
    scored: int = 1 << 17
    draws: int = 1 << 17  # Random configurations; those that are feasible are scored first.
    # The best share of those scored so far, and no fewer than so many, have children.
    parent_share: float = 0.05
    parents: int = 4096
    children: int = 1 << 16  # Bred in each generation; what is feasible and new of them is scored.
    generations: int = 4


def evolve(
    space: Space,
    first: IndexVector,
    score: Callable[[IndexVector], FloatVector],
    rng: np.random.Generator,
    settings: PopulationSettings,
) -> tuple[IndexVector, FloatVector]:
    """Return candidates, ascending int64 (n,), bred towards high scores, and their scores (n,).

    A child is one of two parents, or mixes their knobs; up to two knobs are changed.

    first: int64 (k,); feasible candidates to begin with, besides random ones.
    score: returns the scores of candidates, ascending int64 (n,); the higher the better.
    """
    drawn = rng.integers(len(space), size=settings.draws)
    known = distinct(np.concatenate([drawn[space.feasible(drawn)], first]))
    if not len(known):  # few are feasible
        known = np.sort(space.sample(settings.parents, rng))
    scores = score(known)
    for _ in range(settings.generations if len(known) else 0):
        wanted = settings.scored - len(known)
        if wanted <= 0:
            break
        size = max(int(settings.parent_share * len(known)), settings.parents)
        parents = known[top_rows(scores, size, rng)]
        new = without(_children(space, parents, settings.children, rng), known)
        new = np.sort(rng.permutation(new)[:wanted])
        at = np.searchsorted(known, new)
        known, scores = np.insert(known, at, new), np.insert(scores, at, score(new))
    return known, scores


def _children(
    space: Space, parents: IndexVector, count: int, rng: np.random.Generator
) -> IndexVector:
    """Return the feasible ones of so many children, distinct and ascending."""
    positions = space.positions(parents)
    offspring: list[IndexVector] = []
    jobs = [
        partial(_add_offspring, space, positions, count // OFFSPRING_PARTS, own, offspring)
        for own in rng.spawn(OFFSPRING_PARTS)
    ]
    run_in_threads(jobs, OFFSPRING_PARTS)
    return distinct(np.concatenate(offspring))


def _add_offspring(
    space: Space,
    positions: IndexVector,
    count: int,
    rng: np.random.Generator,
    offspring: list[IndexVector],
) -> None:
    """Add the feasible children of parents at some positions to the list."""
    some, others = (positions[rng.integers(len(positions), size=count)] for _ in range(2))
    mixed = np.where(rng.random((count, 1)) < 0.5, some, crossover(some, others, rng))
    children = mutated(space, mixed, rng.integers(3, size=count), rng)
    found = distinct(space.indices_of(children))
    offspring.append(found[space.feasible(found)])
