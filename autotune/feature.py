"""Features of schedules and of search spaces: the public interface of the feature extractors.

`get_itervar_feature`, `flatten_itervar_feature` and `get_flatten_name` describe one schedule loop
by loop, `get_curve_feature` in a fixed number of columns; `get_knob_feature` describes
configurations, `TaskFeatures` all candidates of a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import UsageError
from autotune.extract.space_features import FloatMatrix, TaskFeatures
from autotune.extract.to_loop_nest import autotvm08_nest, loop_nest
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor
from features import (
    CURVE_NAMES,
    KnobStatistics,
    Row,
    curve_matrix,
    flatten_names,
    flatten_rows,
    itervar_rows,
    layout_named,
)
from search_spaces import IntArray, Space

__all__ = [
    "TaskFeatures",
    "flatten_itervar_feature",
    "get_curve_feature",
    "get_curve_name",
    "get_flatten_name",
    "get_itervar_feature",
    "get_knob_feature",
]


def get_itervar_feature(
    schedule: Schedule, args: Sequence[Tensor], take_log: bool = False, layout: str = "itervar"
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
    layout : str
        ``"itervar"``, or ``"autotvm08"`` for what AutoTVM v0.8 returns: another order of the
        one-hot code, which has virtual threads too, no moduli, and no loops or stores that only
        set a reduction's accumulators.

    Returns
    -------
    list of tuple
        One row per loop: ``('_itervar_', name)``, ``('_attr_', length, nest_level, topdown,
        bottomup, *one_hot)``, ``('_arith_', add, mul, div)``, then per access ``(name, stride,
        mod, count, reuse, thread_count, thread_reuse)``.

    Raises
    ------
    UsageError
        If an argument is not what it should be.
    LoweringError
        If the schedule cannot be lowered, or has knobs.
    FeatureError
        If the layout is unknown.
    """
    tensors = _checked("get_itervar_feature", schedule, args, layout)
    if layout_named(layout).initial_stores:
        nest = loop_nest(lower_schedule(schedule, tensors))
    else:
        nest = autotvm08_nest(schedule, tensors)
    return itervar_rows(nest, take_log=take_log, layout=layout)


def flatten_itervar_feature(
    fea: Sequence[Row] | Schedule,
    args: Sequence[Tensor] | None = None,
    take_log: bool = False,
    layout: str = "itervar",
) -> npt.NDArray[np.float64]:
    """Return all numbers of itervar features as one float64 array (width,).

    Parameters
    ----------
    fea : list of rows, or Schedule
        What `get_itervar_feature` returned; or a schedule, whose features are taken.
    args, take_log, layout
        As for `get_itervar_feature`, of a schedule.

    Raises
    ------
    UsageError
        If `fea` is neither.
    LoweringError, FeatureError
        As `get_itervar_feature`, for a schedule.
    """
    return flatten_rows(_rows("flatten_itervar_feature", fea, args, take_log, layout))


def get_flatten_name(
    fea: Sequence[Row] | Schedule,
    args: Sequence[Tensor] | None = None,
    take_log: bool = False,
    layout: str = "itervar",
) -> list[str]:
    """Return the names of the numbers that `flatten_itervar_feature` returns, in its order.

    It has the same parameters and errors.
    """
    return flatten_names(_rows("get_flatten_name", fea, args, take_log, layout))


def _checked(caller: str, schedule: Any, args: Any, layout: Any) -> list[Tensor]:
    """Return the tensors of a schedule; refuse other objects, naming the called function."""
    if not isinstance(schedule, Schedule):
        raise UsageError(
            f"{caller}: expected a schedule, got {_kind(schedule)}; make one with "
            "te.create_schedule"
        )
    if not isinstance(args, (list, tuple)) or not all(isinstance(t, Tensor) for t in args):
        raise UsageError(
            f"{caller}: expected the list of the schedule's tensors, got {_kind(args)}; give "
            f"inputs, then outputs, as in {caller}(s, [A, B])"
        )
    if not isinstance(layout, str):
        raise UsageError(f"{caller}: layout must be a name, got {_kind(layout)}")
    return list(args)


def _rows(caller: str, fea: Any, args: Any, take_log: bool, layout: str) -> Sequence[Row]:
    """Return the given rows, or the rows of the given schedule."""
    if isinstance(fea, Schedule):
        tensors = _checked(caller, fea, args, layout)
        return get_itervar_feature(fea, tensors, take_log, layout)
    if not isinstance(fea, (list, tuple)) or not all(map(_is_row, fea)):
        raise UsageError(
            f"{caller}: expected what get_itervar_feature returns, or a schedule and its tensors, "
            f"got {_kind(fea)}"
        )
    if args is not None:
        raise UsageError(
            f"{caller}: features are given, so the tensors are not needed; leave them out"
        )
    return fea


def _is_row(row: Any) -> bool:
    """Whether something is a row of `get_itervar_feature`, or its JSON form."""
    if not isinstance(row, (list, tuple)) or not row:
        return False
    named = all(isinstance(e, (list, tuple)) and e and isinstance(e[0], str) for e in row)
    return (
        named
        and len(row[0]) == 2
        and all(isinstance(value, (int, float)) for entry in row[1:] for value in entry[1:])
    )


def _kind(value: Any) -> str:
    """Describe an object in a few words."""
    inside = {type(each).__name__ for each in value} if isinstance(value, (list, tuple)) else ()
    of = f" of {', '.join(sorted(inside))}" if inside else ""
    return "nothing" if value is None else f"a {type(value).__name__}{of}"


def get_curve_feature(
    schedule: Schedule, args: Sequence[Tensor], take_log: bool = False
) -> npt.NDArray[np.float64]:
    """Return the curve features of a schedule, float64 (width,), the same width for every schedule.

    Parameters
    ----------
    schedule, args
        As for `get_itervar_feature`.
    take_log : bool
        Apply log2(1 + x) to all of them.

    Raises
    ------
    LoweringError
        If the schedule cannot be lowered, or has knobs.
    """
    nest = loop_nest(lower_schedule(schedule, args))
    features: npt.NDArray[np.float64] = curve_matrix(nest, take_log=take_log)[0]
    return features


def get_curve_name() -> list[str]:
    """Return the names of the numbers that `get_curve_feature` returns, in its order."""
    return list(CURVE_NAMES)


def get_knob_feature(
    space: Space, indices: Sequence[int] | IntArray
) -> tuple[list[str], FloatMatrix]:
    """Return the knobs of configurations as numbers.

    Parameters
    ----------
    space : Space
    indices : sequence of int
        The configurations, n of them.

    Returns
    -------
    names : list of str
        As `features.KnobLayout` has them; the same for all configurations of the space.
    matrix : float32 (n, len(names))

    Raises
    ------
    SpaceError
        If an index lies outside the space.
    """
    log_index = knob_statistics(space)
    configs = [space.config(int(index)).values for index in indices]
    layout = log_index.layout()
    return list(layout.names), layout.matrix(configs)


def knob_statistics(space: Space) -> KnobStatistics:
    """Return statistics of all values that the knobs of a space take."""
    log_index = KnobStatistics()
    for knob in space.knobs:
        for position in range(1 if knob.numeric else len(knob)):
            log_index.add({knob.name: knob.value(position)})
    return log_index
