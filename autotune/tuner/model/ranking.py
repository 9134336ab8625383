"""Selects the candidates that are predicted: all of a small space, the best-ranked of a large one.

One model scores every candidate, the others the best of those. In a very large space a population
evolves towards high scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource, FloatVector, IndexVector
from autotune.system.available_cpus import run_in_threads
from autotune.tuner.search.mutations import crossover, mutated, one_knob_neighbors
from search_spaces.knob import SpaceError
from search_spaces.space import ENUMERABLE, Space

PART = 1 << 15  # Candidates whose features one thread evaluates at a time.
BLOCK = 2048  # Candidates that a model scores at a time: their rows stay in the cache.
MAX_THREADS = 2  # Threads at a time; they need the interpreter for a tenth of the time.


def score(
    models: Sequence[CostModel],
    features: FeatureSource,
    indices: IndexVector,
    part_rows: int = PART,
    threads: int = MAX_THREADS,
) -> FloatVector:
    """Return the scores of candidates by each model, float64 (len(models), n).

    They are what the models predict from all features. Evaluated are only the columns that a
    model reads, and at no time for more than a part of the candidates per thread.

    models: fitted to `features`.
    features: may be asked by several threads at a time.
    indices: int64 (n,).
    part_rows, threads: no score depends on them.
    """
    columns = columns_read(models, len(features.names))
    scores = np.empty((len(models), len(indices)))
    parts = [slice(start, start + part_rows) for start in range(0, len(indices), part_rows)]
    jobs = [
        partial(_score_part, models, features, columns, indices[part], scores[:, part])
        for part in parts
    ]
    run_in_threads(jobs, threads)
    return scores


def columns_read(models: Sequence[CostModel], width: int) -> IndexVector:
    """Return the positions, ascending, of the columns (of `width`) that any model reads."""
    read = [model.columns for model in models]
    known = [columns for columns in read if columns is not None]
    return np.unique(np.concatenate(known)) if len(known) == len(read) else np.arange(width)


def top_rows(scores: FloatVector, n: int, rng: np.random.Generator) -> IndexVector:
    """Return the rows of the ``n`` highest scores, ascending; ties at the edge by lot."""
    if len(scores) <= n:
        return np.arange(len(scores), dtype=np.int64)
    edge = np.partition(scores, len(scores) - n)[len(scores) - n]
    above = np.flatnonzero(scores > edge)
    tied = rng.choice(np.flatnonzero(scores == edge), n - len(above), replace=False)
    return np.sort(np.concatenate([above, tied]))


def distinct(indices: IndexVector) -> IndexVector:
    """Return indices ascending, each once; NumPy's `unique` takes several times as long."""
    ascending = np.sort(indices)
    new = np.ones(len(indices), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    return ascending[new]


def without(indices: IndexVector, excluded: IndexVector) -> IndexVector:
    """Return the indices that are not barred; both ascend, and few may be barred of many."""
    if not len(excluded):
        return indices
    at = np.searchsorted(excluded, indices)
    kept: IndexVector = indices[excluded[np.minimum(at, len(excluded) - 1)] != indices]
    return kept


def _score_part(
    models: Sequence[CostModel],
    features: FeatureSource,
    columns: IndexVector,
    indices: IndexVector,
    scores: FloatVector,
) -> None:
    """Write the scores of a few candidates."""
    names = features.names
    matrix = features.matrix(indices, [names[column] for column in columns])
    rows = np.zeros((min(BLOCK, len(indices)), len(names)), np.float32)
    for start in range(0, len(indices), BLOCK):
        block = matrix[start : start + BLOCK]
        rows[: len(block), columns] = block
        for own, model in zip(scores, models, strict=True):
            own[start : start + BLOCK] = model.predict(rows[: len(block)])


SAMPLE = 1 << 16  # Random configurations that say what share of a space is feasible.


RANKINGS = 5  # Models that score a space within the first hundred measurements.


@dataclass(frozen=True)
class PopulationSettings:
    """How a population evolves."""

    # Candidates scored in all; fewer only if the generations do not find as many.
    scored: int = 1 << 15
    draws: int = 1 << 15  # Random configurations; those that are feasible are scored first.
    # The best share of the candidates scored so far, and at least this number, have children.
    parent_share: float = 0.05
    parents: int = 4096
    children: int = 1 << 14  # Children of each generation; the feasible and new ones are scored.
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
    """Return the feasible ones of `count` children, distinct and ascending."""
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


@dataclass(frozen=True)
class RankingSettings:
    """How much of a space is scored, and how often."""

    # At most so many feasible candidates are all scored by each new model. Of more, a population is
    # that evolves from the last one's best.
    whole: int = 1 << 15
    # In a space of more configurations no attempt is made to find all that are feasible.
    looked_at: int = 1 << 24
    population: PopulationSettings = field(default_factory=PopulationSettings)
    # All models score the best share of the scored candidates, and at least this number.
    pool_share: float = 0.02
    pool_min: int = 8192
    kept: int = 4096  # So many of these are returned.


class SpaceRanker:
    """Keeps the candidates that models score highest.

    features: gives the rows that the models read.
    """

    def __init__(
        self, space: Space, features: FeatureSource, settings: RankingSettings | None = None
    ) -> None:
        self._space = space
        self._features = features
        self._settings = settings or RankingSettings()
        self._pool = np.zeros(0, dtype=np.int64)
        self._scores = np.zeros(0)
        self._models: tuple[CostModel, ...] = ()

    def prepare(self) -> None:
        """Find the feasible candidates, and prepare their features."""
        whole = self._whole
        scored = self._settings.population.scored if whole is None else len(whole)
        self._features.prepare(RANKINGS * scored)

    def rank(
        self, models: Sequence[CostModel], measured: IndexVector, rng: np.random.Generator
    ) -> None:
        """Score the space, unless these models have done so.

        models: the first one scores every candidate; the mean of all their scores counts for the
            best of those. Others are taken for new models.
        measured: int64 (k,); candidates not to keep, ascending.
        rng: breeds a population, and chooses among equal scores.
        """
        if tuple(models) != self._models:
            self._pool = self._best_share(models[0], measured, rng)
            self._models = tuple(models)
            self._scores = score(models, self._features, self._pool).mean(axis=0)

    def best(self, seen: IndexVector) -> IndexVector:
        """Return the candidates ranked highest that are not among the `seen`, int64 (m,)."""
        unseen = np.isin(self._pool, seen, invert=True)
        pool, scores = self._pool[unseen], self._scores[unseen]
        return pool[np.sort(np.argsort(-scores, kind="stable")[: self._settings.kept])]

    @cached_property
    def _whole(self) -> IndexVector | None:
        """All feasible candidates, ascending; None if they are too many."""
        space, settings = self._space, self._settings
        if len(space) > settings.looked_at:
            return None
        if len(space) > settings.whole:
            drawn = np.random.default_rng(0).integers(len(space), size=SAMPLE)
            if space.feasible(drawn).mean() * len(space) > settings.whole:
                return None
        return space.feasible_indices(settings.looked_at)

    def _best_share(
        self, model: CostModel, measured: IndexVector, rng: np.random.Generator
    ) -> IndexVector:
        """Return the best of all candidates that were not measured, or of a population."""
        settings = self._settings

        def scored(indices: IndexVector) -> FloatVector:
            out: FloatVector = score([model], self._features, indices)[0]
            return out

        if self._whole is not None:
            rows = without(self._whole, measured)
            scores = scored(rows)
        else:
            rows, scores = evolve(self._space, self._pool, scored, rng, settings.population)
            unseen = np.isin(rows, measured, invert=True)
            rows, scores = rows[unseen], scores[unseen]
        size = max(math.ceil(settings.pool_share * len(rows)), settings.pool_min)
        return rows[top_rows(scores, size, rng)]


@dataclass(frozen=True)
class CandidateSettings:
    """How many candidates are judged."""

    whole: int = 30_000  # A space of at most this number of feasible candidates is judged whole.
    random: int = 4096  # Random candidates of a larger one.
    incumbents: int = 8  # The one-knob changes of this number of best candidates are judged, too.
    # Of the cost models, whose best candidates are judged, too.
    ranking: RankingSettings = field(default_factory=RankingSettings)


class Candidates:
    """Chooses the candidates of a space that are judged.

    features: what the cost models read.
    """

    def __init__(
        self, space: Space, features: FeatureSource, settings: CandidateSettings | None = None
    ) -> None:
        self._space = space
        self._settings = settings or CandidateSettings()
        self.ranker = SpaceRanker(space, features, self._settings.ranking)  # of a large space

    def whole(self) -> IndexVector | None:
        """Return all feasible candidates, ascending; None if they are too many."""
        try:
            feasible = self._space.feasible_indices(ENUMERABLE)
        except SpaceError:
            return None
        return feasible if len(feasible) <= self._settings.whole else None

    def prepare(self) -> None:
        """Make ready for ranking a large space."""
        if self.whole() is None:
            self.ranker.prepare()

    def some(self, best: Sequence[int], seen: IndexVector, rng: np.random.Generator) -> IndexVector:
        """Return some unseen candidates, ascending: random ones, and those that look good.

        best: the fastest candidates measured, best first.
        seen: int64 (k,).
        """
        settings = self._settings
        parts = [self._space.sample(settings.random, rng, exclude=seen), self.ranker.best(seen)]
        parts.append(one_knob_neighbors(self._space, best[: settings.incumbents]))
        return np.setdiff1d(np.concatenate(parts), seen)

    def around(self, candidates: IndexVector, seen: IndexVector) -> IndexVector:
        """Return the unseen candidates one knob away from these, and these, ascending."""
        near = one_knob_neighbors(self._space, candidates)
        return np.setdiff1d(np.concatenate([candidates, near]), seen)


OFFSPRING_PARTS = 2  # Parts of a generation that are bred at the same time.
