"""Features of schedules and of search spaces: the face of the feature extractors.

`get_itervar_feature`, `flatten_itervar_feature` and `get_flatten_name` describe one schedule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.lowering.finalise import analyse
from autotune.lowering.nest import lower_schedule
from autotune.lowering.to_loop_nest import loop_nest
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor
from features import Row, flatten_names, flatten_rows, itervar_rows

__all__ = ["flatten_itervar_feature", "get_flatten_name", "get_itervar_feature"]


def get_itervar_feature(
    schedule: Schedule, args: Sequence[Tensor], take_log: bool = False
) -> list[Row]:
    """Return the features of every loop of a schedule, outer loops first.

    Parameters
    ----------
    schedule : Schedule
        Concrete: without knobs.
    args : sequence of Tensor
        Parameters of the function: inputs, then outputs.
    take_log : bool
        Apply log2(1 + x), mirrored for negative x, to all but the nest level and the one-hot code.

    Returns
    -------
    list of tuple
        One row per loop: ``('_itervar_', name)``, ``('_attr_', length, nest_level, topdown,
        bottomup, *one_hot)``, ``('_arith_', add, mul, div)``, then per access ``(name, stride,
        mod, count, reuse, thread_count, thread_reuse)``.

    Raises
    ------
    LoweringError
        If the schedule cannot be lowered, or has knobs.
    """
    return itervar_rows(loop_nest(analyse(lower_schedule(schedule, args))), take_log=take_log)


def flatten_itervar_feature(fea: Sequence[Row]) -> npt.NDArray[np.float64]:
    """Return all numbers of the rows of `get_itervar_feature` as one float64 array (width,)."""
    return flatten_rows(fea)


def get_flatten_name(fea: Sequence[Row]) -> list[str]:
    """Return the names of the numbers that `flatten_itervar_feature` returns, in its order."""
    return flatten_names(fea)
