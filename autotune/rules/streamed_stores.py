"""The knob that stores a large result past the caches, instead of reading its lines first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autotune import te
from autotune.ir import dtypes
from autotune.rules.knob_definer import KnobDefiner
from autotune.rules.stage_graph import extent, is_open, length_of
from autotune.rules.threads import bytes_of, memory_seconds, operation_seconds
from autotune.schedule.schedule import Schedule
from autotune.system import host
from autotune.system.available_cpus import available_cpus
from autotune.target import Target

#: Bytes of a result that some cache may be too small for, and of a line of it.
LARGE: Final = 1 << 22
LINE_BYTES: Final = 64

#: Bytes of the largest cache that a CPU can count on: other processes, and other virtual machines
#: on the same host, use the cache, too.
_SHARE_BYTES: Final = 16 << 20

#: Most operations beside stores past the cache, as a share of the time of the stores.
_LIGHT: Final = 0.8


def outlasts_caches(
    target: Target, tensor: te.Tensor, stages: Sequence[te.Tensor], light: float = _LIGHT
) -> bool:
    """Whether a result should be stored past the caches by default: twice its size exceeds them.

    Such stores come in bursts, during which other operations wait. So the operations of `stages`
    must take less than `light` times as long as the stores.
    """
    is_light = operation_seconds(target, stages) < light * memory_seconds([tensor])
    cache_bytes = min(host.cache_bytes(), _SHARE_BYTES * available_cpus())
    return is_light and 2 * bytes_of(tensor) >= cache_bytes


def is_streamed(
    knobs: KnobDefiner,
    schedule: Schedule,
    tensor: te.Tensor,
    stages: Sequence[te.Tensor],
    light: float = _LIGHT,
) -> bool:
    """Define whether a result that may not fit into the cache is stored past it."""
    if bytes_of(tensor) < LARGE or tensor.op.reduce_axis or not schedule[tensor].is_output:
        return False
    ways = ["cached", "streamed"]
    likely = ways[outlasts_caches(knobs.target, tensor, stages, light)]
    way: str = knobs.define_knob("stores", ways, default=likely)
    return way == "streamed"


def has_whole_lines(tensor: te.Tensor) -> bool:
    """Whether all rows of a result begin at the same place of a cache line."""
    if is_open(length_of(tensor.op.axis[-1])):
        return False
    return extent(tensor.op.axis[-1]) * dtypes.itemsize(tensor.dtype) % LINE_BYTES == 0
