"""The knob that stores a large result past the caches, instead of reading its lines first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from autotune import te
from autotune.ir import dtypes
from autotune.rules.knob_definer import StageKnobs
from autotune.rules.stage_graph import extent
from autotune.rules.threads import memory_seconds, operation_seconds
from autotune.schedule.schedule import Schedule
from autotune.system import host

#: Bytes of a result that some cache may be too small for, and of a line of it.
_LARGE: Final = 1 << 22
_LINE_BYTES: Final = 64

#: Most operations beside stores past the cache, as a share of the time of the stores.
_LIGHT: Final = 0.8


def is_streamed(
    knobs: StageKnobs, schedule: Schedule, tensor: te.Tensor, stages: Sequence[te.Tensor]
) -> bool:
    """Define whether a result that may not fit into the cache is stored past it.

    Stores past the cache come in bursts between other operations, which then have to wait: those
    of `stages`. If there are several stages, rows are read before they are written, and the cache
    has less time to write its lines.
    """
    size = math.prod(map(extent, tensor.op.axis)) * dtypes.itemsize(tensor.dtype)
    line = extent(tensor.op.axis[-1]) * dtypes.itemsize(tensor.dtype) % _LINE_BYTES
    if size < _LARGE or line or tensor.op.reduce_axis or not schedule[tensor].is_output:
        return False
    ways = ["cached", "streamed"]
    is_light = operation_seconds(knobs.target, stages) < _LIGHT * memory_seconds([tensor])
    passes = min(len(stages), 2)
    likely = ways[is_light and 2 * passes * size >= host.cache_bytes()]
    way: str = knobs.define_knob("stores", ways, default=likely)
    return way == "streamed"
