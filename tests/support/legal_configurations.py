"""The default of a space and a few legal configurations drawn from it.

AUTOTUNE_EXAMPLES=n draws n of them where tests leave the number open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

import autotune
from autotune.ir import dtypes
from autotune.task.task import Task
from autotune.te.tensor import Tensor

#: Configurations that a test of right answers tries besides the default.
TRIED = int(os.environ.get("AUTOTUNE_EXAMPLES", "2"))

#: Draws for each configuration that is wanted.
DRAWS = 2_000


def default_and_drawn(task: Task, count: int, seed: int = 0) -> list[int]:
    """Return the default and the first legal ones of some random configurations.

    No more are looked at than needed: each may be of a structure that has to be traced. Of a small
    space all are: with vectors of some width its default may be the only legal configuration.
    """
    rng, default, size = np.random.default_rng(seed), task.default_index, len(task.space)
    is_small = size <= DRAWS
    drawn = rng.permutation(size) if is_small else rng.integers(size, size=DRAWS * count)
    others = (index for index in dict.fromkeys(drawn.tolist()) if index != default)
    found = list(islice((index for index in others if not task.refusal(index)), count))
    assert found or is_small, "none of the drawn configurations is legal"
    return [default, *found]


def small_integers(tensors: Iterable[Tensor], most: int = 3) -> list[Any]:
    """Return random whole numbers from -`most` to `most` for inputs: sums of them are exact."""
    rng = np.random.default_rng(0)
    return [
        rng.integers(-most, most + 1, t.shape).astype(dtypes.numpy_dtype(t.dtype)) for t in tensors
    ]


def assert_right(
    task: Task, indices: Iterable[int], arrays: list[Any], expected: Any, tolerance: float = 0.0
) -> None:
    """Build configurations, and hold what they compute of arrays against what is right."""
    results = expected if isinstance(expected, tuple) else (np.ascontiguousarray(expected),)
    for index in indices:
        structure = task.concrete_structure(index)
        outs = [np.full_like(result, 77) for result in results]
        autotune.build(structure.schedule, list(structure.tensors), task.target)(*arrays, *outs)
        about = str(task.space.config(index).values)
        for out, result in zip(outs, results, strict=True):
            np.testing.assert_allclose(out, result, tolerance, tolerance, err_msg=about)


def drawn(task: Task) -> set[int]:
    """Return the default and `TRIED` configurations, whatever they are."""
    return {task.default_index, *task.space.sample(TRIED, np.random.default_rng(0)).tolist()}
