"""Scores of many candidates by models: what they read is evaluated part by part, in threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource, FloatVector, IndexVector
from autotune.system.available_cpus import run_in_threads

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
    """Return the places, ascending, of those of `width` columns that any of the models reads."""
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
