"""Scores of many candidates by models: what they read is evaluated part by part, on all cores.

Few candidates are shared out among threads. With many, a forked process takes a half: threads wait
for the interpreter at each of NumPy's operations, and two are little faster than one.
"""

from __future__ import annotations

import math
import mmap
import os
import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource, FloatVector, IndexVector
from autotune.processes import beside
from autotune.runtime.threads import in_threads, thread_count

PART = 1 << 15
"""Candidates whose features one thread evaluates at a time."""

BLOCK = 2048
"""Candidates that a model scores at a time: their rows stay in the cache."""

MOST_THREADS = 2
"""Threads, or processes, at a time."""

FORKED = 1 << 17
"""From so many candidates on, half of them is left to another process."""


def score(
    models: Sequence[CostModel],
    features: FeatureSource,
    indices: IndexVector,
    part_rows: int = PART,
    threads: int = MOST_THREADS,
) -> FloatVector:
    """Return the scores of candidates by each model, float64 (len(models), n).

    They are what the models predict from all features. Evaluated are only the columns that a
    model reads, and at no time for more than a part of the candidates per thread.

    Parameters
    ----------
    models : sequence of CostModel
        Fitted to `features`.
    features : FeatureSource
        May be asked by several threads at a time.
    indices : int64 (n,)
    part_rows, threads : int
        No score depends on them.
    """
    columns = columns_read(models, len(features.names))
    middle = len(indices) // 2 if min(threads, thread_count()) > 1 else 0
    forks = middle >= FORKED // 2 and hasattr(os, "fork")
    shape = len(models), len(indices)
    scores = _shared(shape) if forks else np.empty(shape)

    def run(start: int, stop: int, threads: int) -> None:
        jobs = [
            partial(_score_part, models, features, columns, indices[part], scores[:, part])
            for at in range(start, stop, part_rows)
            for part in (slice(at, min(at + part_rows, stop)),)
        ]
        in_threads(jobs, threads)

    if not forks:
        run(0, len(indices), threads)
        return scores
    begin = time.monotonic()
    with beside(partial(run, middle, len(indices), 1)) as done:
        run(0, middle, 1)
        other = done(1.0 + 3 * (time.monotonic() - begin))
    if not other:
        run(middle, len(indices), 1)
    return scores


def _shared(shape: tuple[int, ...]) -> FloatVector:
    """Return memory that forked processes write to, too; float64."""
    memory = mmap.mmap(-1, max(8 * math.prod(shape), 1))
    return np.frombuffer(memory, np.float64, math.prod(shape)).reshape(shape)


def columns_read(models: Sequence[CostModel], width: int) -> IndexVector:
    """Return the places, ascending, of those of `width` columns that any of the models reads."""
    read = [model.columns for model in models]
    known = [columns for columns in read if columns is not None]
    return np.unique(np.concatenate(known)) if len(known) == len(read) else np.arange(width)


def highest(scores: FloatVector, n: int, rng: np.random.Generator) -> IndexVector:
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


def without(indices: IndexVector, barred: IndexVector) -> IndexVector:
    """Return the indices that are not barred; both ascend, and few may be barred of many."""
    if not len(barred):
        return indices
    at = np.searchsorted(barred, indices)
    kept: IndexVector = indices[barred[np.minimum(at, len(barred) - 1)] != indices]
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
