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

    No more are looked at than needed: each may be of a structure that has to be traced.
    """
    rng, default = np.random.default_rng(seed), task.default_index
    drawn = dict.fromkeys(rng.integers(len(task.space), size=DRAWS * count).tolist())
    legal = (index for index in drawn if index != default and not task.refusal(index))
    found = list(islice(legal, count))
    assert found or len(task.space) == 1, "none of the drawn configurations is legal"
    return [default, *found]
