"""Names the axes of a schedule that exceed the limits of blocks or threads.

`target_limits` has the same limits as rules over knobs, by which rejections are counted. The
messages here are for schedules that are written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autotune.ir.expr import Const, Var
from autotune.ir.ops import const
from autotune.ir.stmt import PrimFunc, Stmt
from autotune.lowering.target_limits import Rule, launches, thread_loops
from autotune.target import GpuLimits


@dataclass(frozen=True)
class _Bound:
    """An axis that is bound to blocks or threads, and its length."""

    stage: str
    axis: str
    tag: str
    length: int


def thread_limit_rules(function: PrimFunc, gpu: GpuLimits) -> list[Rule]:
    """Return the limits of a GPU that the axes of a function without knobs exceed, as rules."""
    names = function.info.bound_axes
    kernels = [list(_longest(kernel, names).values()) for kernel in launches(function.body)]
    return [(const(False), message) for axes in kernels for message in _broken(axes, gpu)]


def _longest(kernel: Stmt, names: Mapping[Var, tuple[str, str]]) -> dict[str, _Bound]:
    """Return the longest loop that is bound to each axis of blocks or threads in a kernel."""
    found: dict[str, _Bound] = {}
    for loop in thread_loops(kernel):
        tag, extent = loop.thread_tag, loop.extent
        if loop.var in names and isinstance(extent, Const):
            own = _Bound(*names[loop.var], tag, int(extent.value))
            found[tag] = max(found.get(tag, own), own, key=lambda bound: bound.length)
    return found


def _broken(axes: list[_Bound], gpu: GpuLimits) -> Iterator[str]:
    threads = [bound for bound in axes if bound.tag.startswith("threadIdx")]
    for bound in axes:
        along = bound.tag[-1]
        of_block = bound in threads
        limit = (gpu.block if of_block else gpu.grid)["xyz".index(along)]
        if bound.length > limit:
            what = "a block has at most {} threads" if of_block else "a grid has at most {} blocks"
            remedy = (
                "bind the outer part to blocks"
                if of_block
                else ("bind it to blockIdx.x" if along != "x" else "give each block more to do")
            )
            yield (
                f"stage {bound.stage!r}, axis {bound.axis!r}: {bound.length} iterations are bound "
                f"to {bound.tag}, but {what.format(limit)} along {along}; split the axis to at "
                f"most that length, or {remedy}"
            )
    total = math.prod(bound.length for bound in threads)
    if total > gpu.threads and len(threads) > 1:
        listed = " and ".join(f"{b.axis!r} ({b.length}, {b.tag})" for b in threads)
        stages = ", ".join(dict.fromkeys(repr(b.stage) for b in threads))
        yield (
            f"stage {stages}: axes {listed} together make {total} threads of a block, which has "
            f"at most {gpu.threads}; split the axes further, and bind the outer parts to blocks"
        )
