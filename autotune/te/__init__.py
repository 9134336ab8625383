"""Tensor expressions: what to compute, without saying how.

In: shapes, types and Python functions of indices. Out: tensors and the operations that define
them. Read `tensor.py` first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from autotune.ir.ops import cast, if_then_else, select
from autotune.ir.ops import select as Select
from autotune.te.compute import (
    ceildiv,
    compute,
    floordiv,
    floormod,
    indexdiv,
    indexmod,
    placeholder,
    reduce_axis,
    size_var,
    thread_axis,
    var,
)
from autotune.te.math_functions import (
    Max,
    Min,
    abs,
    all,
    any,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceil,
    const,
    cos,
    erf,
    exp,
    exp2,
    floor,
    fmod,
    isnan,
    log,
    log2,
    max_value,
    min_value,
    popcount,
    pow,
    power,
    round,
    rsqrt,
    shift_left,
    shift_right,
    shift_right_logical,
    sigmoid,
    sin,
    sqrt,
    tanh,
    trunc,
)
from autotune.te.reduction import comm_reducer, max, min, prod, sum
from autotune.te.scan import ScanOp, scan
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor

if TYPE_CHECKING:
    from autotune.schedule.schedule import Schedule
    from autotune.schedule.steps import Step


def create_schedule(
    ops: Operation | Sequence[Operation], steps: Iterable[Step | list[Any]] = ()
) -> Schedule:
    """Return the schedule that computes `ops`, carried out by `steps` if any are given.

    The field spells it ``te.create_schedule``. Schedules stand above the other files of this
    package, which they import; so this name is imported when it is called.
    """
    from autotune.schedule.schedule import create_schedule as create

    return create(ops, steps)
