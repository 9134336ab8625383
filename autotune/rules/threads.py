"""Shares a loop among threads: in contiguous parts of about equal length, one after another.

::

    for (i, 0, n)          parallel (p, 0, ceildiv(n, chunk))
      f(i)           ->      for (i, 0, min(chunk, n - p*chunk))
                               f(p*chunk + i)

with chunk = ceildiv(n, threads). The knob `threads` is the number of parts. With one part the loop
is serial and nothing is launched. A launch takes no more threads than there are parts, and no more
than the process has, so the values do not depend on the machine. Nor do they depend on the work, as
the same knob may share the loop of one stage, or of several stages together.

Where only calls know the sizes, a nest of loops is shared, each thread getting a contiguous part of
its iterations: one loop in their place would divide by what only calls know. `threads` is the
largest number of threads then, and a call of little work has one thread, whatever the knob says::

    for (i, 0, m)          parallel (i, 0, m)
      for (j, 0, n)   ->     parallel (j, 0, n)
        f(i, j)                f(i, j)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.axes import IterVar
from autotune.ir.expr import BinaryOp, Call, Expr, Reduce
from autotune.ir.visitor import walk_expr
from autotune.rules.knob_definer import KnobDefiner
from autotune.rules.stage_graph import iterations, likely_shape, open_iterations
from autotune.schedule.stage import Stage
from autotune.system.available_cpus import thread_count
from autotune.target import Target
from autotune.te.tensor import ComputeOp

PARALLEL: Final = 1 << 16  # Least number of operations of a stage with several threads.

#: Seconds that a launch takes, with the wait for the last thread.
LAUNCH: Final = 5e-6

#: Launches that a call of sizes that only calls know must take on one thread, to use several.
_LEAST_LAUNCHES: Final = 1.5

#: Numbers of parts.
COUNTS: Final = (1, 2, 8, 64)

#: Seconds of an operation of one vector, of a function such as exp, and of a byte from memory, on
#: one core. They are typical values of processors, right within a factor of two.
_OPERATION: Final = 1.5e-10
_FUNCTION: Final = 20 * _OPERATION
BYTE: Final = 5e-11

#: Bytes that a cache of a core keeps from call to call, and how much faster it is than memory.
_CACHE_BYTES: Final = 1 << 19
_NEARER: Final = 3

#: Calls that only choose or hint.
_CHEAP: Final = ("if_then_else", "likely", "min", "max", "abs")


def lanes_in(target: Target, dtype: str) -> int:
    """Return how many elements of a type a vector of the target has."""
    return max(1, target.vector_bytes // dtypes.itemsize(dtype))


def serial_seconds(target: Target, stages: Iterable[te.Tensor]) -> float:
    """Return about how long one thread needs for some stages, computed in vectors.

    What a stage reads may be in a cache, so only what all of them write and read first counts as
    traffic of the memory: the bytes of their operands and results, each once.
    """
    every = list(stages)
    arrays = dict.fromkeys(t for tensor in every for t in (tensor, *tensor.op.input_tensors))
    return max(operation_seconds(target, every), memory_seconds(arrays))


def operation_seconds(target: Target, stages: Iterable[te.Tensor]) -> float:
    """Return about how long the operations of some stages take in vectors of one thread."""
    seconds = 0.0
    for tensor in stages:
        assert isinstance(tensor.op, ComputeOp)
        vectors = iterations(tensor) / lanes_in(target, tensor.dtype)
        seconds += vectors * sum(map(_cost, tensor.op.body))
    return seconds


def memory_seconds(arrays: Iterable[te.Tensor]) -> float:
    """Return about how long one thread needs to read or write some arrays."""
    size = sum(map(bytes_of, arrays))
    return BYTE * size / (_NEARER if size <= _CACHE_BYTES else 1)


def bytes_of(tensor: te.Tensor) -> int:
    """Return the size of a tensor."""
    return math.prod(likely_shape(tensor)) * dtypes.itemsize(tensor.dtype)


def _cost(value: Expr) -> float:
    parts = (value.combiner.result, value.sources) if isinstance(value, Reduce) else ((), (value,))
    nodes = [node for part in parts for root in part for node in walk_expr(root)]
    calls = sum(isinstance(node, Call) and node.name not in _CHEAP for node in nodes)
    plain = sum(isinstance(node, BinaryOp) and dtypes.is_float(node.dtype) for node in nodes)
    return _FUNCTION * calls + _OPERATION * max(plain, 1)


def likely_threads(target: Target, seconds: float) -> int:
    """Return the number of parts that should be the fastest on a target."""
    cores = thread_count(target.threads)

    def duration(threads: int) -> float:
        used = min(threads, cores)
        return seconds / used + (LAUNCH if used > 1 else 0.0)

    least = min(map(duration, COUNTS))
    return 1 if duration(1) <= least else max(n for n in COUNTS if duration(n) <= least)


def has_few_tasks(target: Target, tasks: int, seconds: float) -> bool:
    """Whether threads would wait for each other at the end of some tasks, of so much work."""
    cores = thread_count(target.threads)
    return cores > 1 and tasks < 2 * cores and seconds >= 4 * LAUNCH


def share(
    cfg: KnobDefiner,
    stage: Stage,
    axis: IterVar,
    length: Any,
    seconds: float,
) -> IterVar:
    """Share a loop among threads; return the loop over its iterations within one part.

    `cfg`: where the knob `threads` is defined.
    `axis`: a loop of the stage, with no parallel loop around it. It must have neither annotation
    nor attached stages.
    `length`: number of its iterations: an integer, or an expression of knobs. There is a knob even
    if there is one iteration, since a trace cannot ask for the value of an expression.
    `seconds`: time that one thread needs for all of them; see `serial_seconds`.
    """
    if seconds < LAUNCH:
        return axis
    threads = cfg.define_knob("threads", COUNTS, likely_threads(cfg.target, seconds))
    part, inner = stage.split(axis, factor=te.ceildiv(length, threads))
    stage.parallel(part)
    return inner


def share_open(
    cfg: KnobDefiner,
    stage: Stage,
    loops: Sequence[IterVar],
    seconds: float,
    whole: te.Tensor,
) -> IterVar:
    """Share loops of lengths that only calls know, as `share` does; return the innermost loop.

    `loops`: those around all others of the stage, outermost first.
    `whole`: what is computed; a call that is shorter than some launches runs on one thread.
    """
    if seconds < LAUNCH:
        return loops[-1]
    threads = cfg.define_knob("threads", COUNTS, likely_threads(cfg.target, seconds))
    least = math.ceil(_LEAST_LAUNCHES * LAUNCH / seconds * iterations(whole))
    return share_nest(stage, loops, threads, open_iterations(whole), least)


def share_nest(
    stage: Stage, loops: Sequence[IterVar], threads: Any, work: Any, least: int
) -> IterVar:
    """Share the iterations of a nest, which only calls know; return its innermost loop.

    `work`: a number or an expression; a call of less than `least` runs on one thread.
    """
    most = te.max(0, te.min(threads, work // least * COUNTS[-1]))
    for axis in loops:
        stage.parallel(axis)
    stage.pragma(next(iter(loops)), "num_threads", most)
    return loops[-1]
