"""Checks whether a record is plausible.

In: a task and a record. Out: a lower bound of the time on such a device, and whether the recorded
schedule steps are those that the template makes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.task.task import Task
from records import Record
from records.record import to_plain

# More than any present processor or GPU reaches, so that no correct record is rejected.
_MAX_HZ = 8e9
_VECTORS_PER_CYCLE = 4  # Multiply-adds of whole vectors that a core starts per cycle.
_MATRIX_UNITS = 16  # Times as many operations as by vectors, with units for products of matrices.
_GPU_OPERATIONS = 1 << 17  # Operations per cycle of a multiprocessor, with such units.
_GPU_STORED_BYTES = 512  # Bytes per cycle that a multiprocessor stores.
_SHORTEST_CALL_S = 1e-9
_SHORTEST_LAUNCH_S = 1e-7  # The time between two kernels of a queue is several times as long.


def has_other_steps(task: Task, record: Record) -> bool:
    """Whether a record has other schedule steps than the template makes of its configuration.

    `task`: the workload of the record, whose space has the configuration.
    """
    if record.steps is None:
        return False
    now = to_plain(task.steps_of(task.space.index_of(record.config["values"])), "steps")
    return now is not None and record.steps != now


def least_seconds(task: Task, device: Mapping[str, Any]) -> float:
    """Return a lower bound of the workload's time on a device, in seconds.

    The bound is the number of operations, and the bytes of the outputs, divided by peaks that are
    far too high on purpose. A peak that needs an unknown fact of the device is infinite.
    """
    arguments = task.arguments
    stored = sum(
        dtypes.itemsize(a.dtype) * math.prod(a.fixed or ()) for a in arguments if a.is_output
    )
    try:
        flops = task.flops or 0.0
    except UsageError:  # the template's own count fails: nothing is known of it
        flops = 0.0
    if device.get("kind") == "gpu":
        units = _number(device, "multiprocessors") * _MAX_HZ
        peak, bandwidth = units * _GPU_OPERATIONS, units * _GPU_STORED_BYTES
        shortest_s = _SHORTEST_LAUNCH_S
    else:
        units = _number(device, "threads") * _number(device, "vector_bytes") * _MAX_HZ
        itemsize = min((dtypes.itemsize(a.dtype) for a in arguments), default=1)
        peak = units * 2 * _VECTORS_PER_CYCLE * _MATRIX_UNITS / max(itemsize, 1)
        bandwidth = units * _VECTORS_PER_CYCLE
        shortest_s = _SHORTEST_CALL_S
    return max(shortest_s, flops / peak, stored / bandwidth)


def _number(device: Mapping[str, Any], key: str) -> float:
    value = device.get(key)
    known = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if known else math.inf  # type: ignore[arg-type]
