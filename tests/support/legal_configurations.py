"""The default of a space and a few legal configurations drawn from it.

AUTOTUNE_EXAMPLES=n draws n of them where tests leave the number open.
"""

from __future__ import annotations

import os
from itertools import islice

import numpy as np

from autotune.task.task import Task

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
