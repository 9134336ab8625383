"""The default of a space and a few legal configurations drawn from it."""

from __future__ import annotations

from itertools import islice

import numpy as np

from autotune.task.task import Task

#: Draws for each configuration that is wanted.
DRAWS = 100


def default_and_drawn(task: Task, count: int, seed: int = 0) -> list[int]:
    """Return the default and the first legal ones of some random configurations.

    No more are looked at than needed: each may be of a structure that has to be traced.
    """
    rng = np.random.default_rng(seed)
    drawn = dict.fromkeys(rng.integers(len(task.space), size=DRAWS * count).tolist())
    return [task.default_index, *islice((i for i in drawn if not task.refusal(i)), count)]
