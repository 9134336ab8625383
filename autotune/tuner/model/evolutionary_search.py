"""Candidates of a space too large to be scored whole: a population bred towards high scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.system.available_cpus import in_threads
from autotune.tuner.model.scoring import distinct, highest, without
from autotune.tuner.search.mutations import changed, crossed
from search_spaces.space import Space

BROODS = 2
"""Parts of a generation that are bred at the same time."""


@dataclass(frozen=True)
class PopulationSettings:
    """How a population evolves.

    Attributes
    ----------
    scored : int
        Candidates scored in all, fewer only if the generations do not find so many.
    draws : int
        Random configurations; those that are feasible are scored first.
    parent_share, parents : float, int
        The best share of those scored so far, and no fewer than so many, have children.
    children : int
        Bred in each generation; what is feasible and new of them is scored.
    generations : int
    """

    scored: int = 1_000_000
    draws: int = 1 << 19
    parent_share: float = 0.05
    parents: int = 4096
    children: int = 1 << 18
    generations: int = 32


def evolve(
    space: Space,
    first: IndexVector,
    score: Callable[[IndexVector], FloatVector],
    rng: np.random.Generator,
    settings: PopulationSettings,
) -> tuple[IndexVector, FloatVector]:
    """Return candidates, ascending int64 (n,), bred towards high scores, and their scores (n,).

    A child is one of two parents, or mixes their knobs; up to two knobs are changed.

    Parameters
    ----------
    space : Space
    first : int64 (k,)
        Feasible candidates to begin with, besides random ones.
    score : callable
        Returns the scores of candidates, ascending int64 (n,); the higher the better.
    rng : numpy.random.Generator
    settings : PopulationSettings
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
        parents = known[highest(scores, size, rng)]
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
    broods: list[IndexVector] = []
    jobs = [
        partial(_breed, space, positions, count // BROODS, own, broods) for own in rng.spawn(BROODS)
    ]
    in_threads(jobs, BROODS)
    return distinct(np.concatenate(broods))


def _breed(
    space: Space,
    positions: IndexVector,
    count: int,
    rng: np.random.Generator,
    broods: list[IndexVector],
) -> None:
    """Add the feasible ones of so many children of parents at some positions to the broods."""
    some, others = (positions[rng.integers(len(positions), size=count)] for _ in range(2))
    mixed = np.where(rng.random((count, 1)) < 0.5, some, crossed(some, others, rng))
    children = changed(space, mixed, rng.integers(3, size=count), rng)
    found = distinct(space.indices_of(children))
    broods.append(found[space.feasible(found)])
