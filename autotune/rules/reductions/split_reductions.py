"""Rewrites long reductions with few results into parts, which threads compute side by side.

::

                                      parallel (p)
    for (j)                             for (r) for (j)
      for (r)                 ->          P[p, j] = P[p, j] + A[p*chunk + r, j]
        C[j] = C[j] + A[r, j]         for (j) for (p)
                                        C[j] = C[j] + P[p, j]

Each part reads its own contiguous piece of memory. Where a row of results is long, the steps come
before the columns, some of them unrolled, so that memory is read in the order in which it lies.
"""

from __future__ import annotations

import math
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.axes import IterVar
from autotune.ir.visitor import mentions, reads
from autotune.rules.knob_definer import StageKnobs
from autotune.rules.reductions.vector_partial_sums import runs_along_rows
from autotune.rules.stage_graph import (
    extent,
    is_open,
    iterations,
    length_of,
    reduced_over,
    reduction_of,
)
from autotune.rules.threads import COUNTS, LAUNCH, has_few_tasks, lanes_in, serial_seconds, share
from autotune.schedule.schedule import Schedule
from autotune.system.available_cpus import thread_count
from autotune.target import Target
from autotune.te.reduction import reduction

#: Tasks from which on threads need no others, and the least number of steps of a part.
_ENOUGH_TASKS: Final = 64
_LEAST_STEPS: Final = 16

#: Least number of steps of the parts of a contraction, most parts of a sum whose length only calls
#: know, and about how many rows a tile has.
_LONG_SUM: Final = 256
_OPEN_PARTS: Final = 8
_ROWS: Final = 4

#: Bytes of a block of results, which stays in the first cache.
_BLOCK_BYTES: Final = 16 << 10


def runs_along_columns(tensor: te.Tensor, lanes: int) -> bool:
    """Whether a reduction reads each element once, and neighbours for neighbouring results."""
    axes, reduced = list(tensor.op.axis), reduction_of(tensor)
    own = [r for source in reduced.sources for r in reads(source)]
    if not axes or lanes < 2 or extent(axes[-1]) < lanes or len(reduced.axes) > 1:
        return False
    every = [*axes, *reduced.axes]
    if any(extent(a) > 1 and not mentions(r, a.var) for r in own for a in every):
        return False
    return bool(own) and all(
        r.children[-1] is axes[-1].var
        and not any(mentions(i, axes[-1].var) for i in r.children[:-1])
        for r in own
    )


def parts_knob(knobs: StageKnobs, tensor: te.Tensor, tasks: int) -> Any:
    """Define into how many parts a reduction is split, or return None if there are enough tasks.

    `tasks` is the number of those that threads can share without that.
    """
    seconds = serial_seconds(knobs.target, [tensor])
    steps = extent(tensor.op.reduce_axis[0])
    counts = [n for n in COUNTS if n == 1 or n * _LEAST_STEPS <= steps]
    if tasks >= _ENOUGH_TASKS or seconds < 2 * LAUNCH or len(counts) == 1:
        return None
    few = has_few_tasks(knobs.target, tasks, seconds)
    enough = 2 * thread_count(knobs.target.threads)
    likely = next((n for n in counts if n >= enough), counts[-1]) if few else 1
    return knobs.define_knob("parts", counts, default=likely)


def joining_seconds(target: Target, tensor: te.Tensor) -> float:
    """Return about how long one thread needs to combine the results of a reduction's parts."""
    most = min(1 / _LEAST_STEPS, COUNTS[-1] / extent(tensor.op.reduce_axis[0]))
    return most * serial_seconds(target, [tensor])


def sum_parts(target: Target, tensor: te.Tensor) -> int:
    """Return into how many parts the sum of a contraction is split: long ones with few results.

    Only the last axis of the result may be open: else a call could have many results, and the
    results of its parts would take more memory than all operands. If it is, and rows are few, calls
    of few columns need parts, and those of many read whole rows by them.
    """
    (first, *_), (*rows, last) = tensor.op.reduce_axis, tensor.op.axis
    if any(is_open(length_of(axis)) for axis in rows):
        return 1
    steps, lanes = extent(first), lanes_in(target, tensor.dtype)
    is_few = math.prod(map(extent, rows)) <= _ROWS
    if runs_along_rows(tensor, lanes):
        wide = -(-extent(last) // _ROWS)
    else:
        wide = 1 if is_few and is_open(length_of(last)) else -(-extent(last) // lanes)
    tasks = math.prod(-(-extent(axis) // _ROWS) for axis in rows) * wide
    counts = [n for n in COUNTS if n == 1 or steps >= n * _LONG_SUM]
    if is_open(length_of(first)):
        counts = [n for n in counts if n <= _OPEN_PARTS]
    else:
        counts = [n for n in counts if steps % n == 0]
    is_short = serial_seconds(target, [tensor]) < 4 * LAUNCH
    return 1 if is_short or tasks >= _ENOUGH_TASKS else counts[-1]


def column_tasks(tensor: te.Tensor) -> int:
    """Return the number of blocks of columns that fit into the first cache."""
    width = min(_BLOCK_BYTES // dtypes.itemsize(tensor.dtype), extent(tensor.op.axis[-1]))
    return result_count(tensor) // width


def partial_results(
    tensor: te.Tensor,
    parts: Any,
    unit: int,
    is_even: bool = False,
    along: IterVar | None = None,
    in_turns: bool = False,
) -> te.Tensor:
    """Return the results of the parts of a reduction: an axis for the parts, then its own.

    `tensor`: a reduction.
    `parts`: their number; an integer or a knob.
    `unit`: what the length of each part is a multiple of.
    `is_even`: whether all parts are known to have this length.
    `along`: the axis that is divided; by default the first one.
    `in_turns`: whether steps are dealt out to the parts in turns, so that parts side by side read
    steps side by side; otherwise a part has steps in a row.
    """
    reduced = reduction_of(tensor)
    first = reduced.axes[0] if along is None else along
    rest = [a for a in reduced.axes if a is not first]
    size = length_of(first)
    chunk = te.ceildiv(size, parts * unit) * unit
    step = te.reduce_axis((0, chunk), first.name)
    copies = [te.reduce_axis((a.dom.min, a.dom.extent), a.name) for a in rest]  # type: ignore[union-attr]

    def part(p: Any, *place: Any) -> Any:
        values = {a.var: i for a, i in zip(tensor.op.axis, place, strict=True)}
        values |= {a.var: copy.var for a, copy in zip(rest, copies, strict=True)}
        at = step.var * parts + p if in_turns else p * chunk + step.var
        values[first.var] = at
        return reduced_over(reduced, [step, *copies], values, None if is_even else at < size)

    results: te.Tensor = te.compute((parts, *tensor.shape), part, name=f"{tensor.name}_parts")
    return results


def joined(tensor: te.Tensor, parts: te.Tensor) -> te.Tensor:
    """Return a reduction computed from the results of its parts."""
    every = te.reduce_axis((0, parts.shape[0]), "p")
    combiner = reduction_of(tensor).combiner

    def total(*place: Any) -> Any:
        return reduction(combiner, [parts[(every.var, *place)]], every, None)[0]

    result: te.Tensor = te.compute(tensor.shape, total, name=tensor.name)
    return result


def schedule_columns(
    knobs: StageKnobs, schedule: Schedule, tensor: te.Tensor, whole: te.Tensor, parts: Any
) -> None:
    """Compute a reduction along columns, or its parts, some rows of the operand at a time.

    `tensor`: the stage: `whole`, or its parts.
    `whole`: the reduction as it was given.
    `parts`: number of parts; 1 if there are none.
    """
    stage, (*front, columns) = schedule[tensor], list(tensor.op.axis)
    (rows,) = tensor.op.reduce_axis
    lanes, length = lanes_in(knobs.target, tensor.dtype), extent(columns)
    vectors = max(_BLOCK_BYTES // knobs.target.vector_bytes, 1)
    widths = [n for n in (vectors, 4, 16, 64, 4 * vectors) if n == 4 or n * lanes <= 2 * length]
    width = knobs.define_knob("block_columns", sorted(set(widths), key=widths.index))
    unroll = knobs.define_knob("unroll", [8, 4, 1, 2])
    outer, lane = stage.split(columns, factor=lanes)
    outer, inner = stage.split(outer, factor=width)
    steps, step = stage.split(rows, factor=unroll)
    stage.reorder(*front, outer, steps, inner, step, lane)
    stage.unroll(step)
    stage.vectorize(lane)
    count = math.prod(extent(a) for a in whole.op.axis[:-1])
    tasks = parts * count * te.ceildiv(length, lanes * width)
    share(
        knobs, stage, stage.fuse(*front, outer), tasks,
        serial_seconds(knobs.target, [whole]),
    )  # fmt: skip


def result_count(tensor: te.Tensor) -> int:
    """Return the number of results of a reduction."""
    return iterations(tensor) // math.prod(map(extent, tensor.op.reduce_axis))
