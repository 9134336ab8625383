"""How often inputs are changed follows from whether neighbours in an output change together."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.measure.checks.error_bounds import (
    CHANGE,
    changes_needed,
    perturbed_inputs,
    sampled_blocks,
)

SIGNS = np.where(np.arange(4096) % 3, 1.0, -1.0)


def needed(function, *arrays, seed=0):
    """Return how often the inputs of a function are to be changed."""
    rng = np.random.default_rng(seed)
    before = function(*arrays)
    found = [function(*perturbed_inputs(arrays, CHANGE, rng, wide=True)) for _ in range(2)]
    return changes_needed(*(sampled_blocks(now, before) for now in found))


def normal(*shape):
    """Return values of both signs."""
    return np.random.default_rng(0).standard_normal(shape)


def softmax(a):
    e = np.exp(a)
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (np.exp, (normal(4096),)),
        (np.add, (normal(4096), normal(4096))),
        (np.matmul, (normal(64, 32), normal(32, 64))),
        (softmax, (normal(16, 256),)),
        (lambda a: np.cumsum(a, axis=0), (normal(64, 64),)),
    ],
    ids=["exp", "sum", "matrix product", "softmax", "scan of columns"],
)
def test_two_changes_are_enough_where_neighbours_change_independently(function, arrays, seed):
    assert needed(function, *arrays, seed=seed) <= 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "function",
    [np.cumsum, lambda a: np.full(4096, a.sum()), lambda a: a.sum() * SIGNS, np.sum],
    ids=["scan", "broadcast sum", "sum of both signs", "single element"],
)
def test_eight_changes_are_needed_where_neighbours_change_together(function, seed):
    assert needed(function, normal(4096), seed=seed) >= 7


def test_a_scan_of_few_columns_needs_a_few_changes():
    assert 2 <= needed(lambda a: np.cumsum(a, axis=0), normal(4096, 4)) <= 5


def test_outputs_that_do_not_change_do_not_fail():
    assert needed(np.ones_like, normal(4096)) == 8
    assert needed(lambda a: np.full(64, np.nan), normal(8)) == 8
