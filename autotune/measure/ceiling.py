"""What this machine can do at best: its multiply-add peak and its copy bandwidth, measured by us.

No published figure is used: virtual machines, power limits and neighbours do not read data sheets.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest import lower_schedule
from autotune.measure.environment import cache_bytes
from autotune.runtime.llvm import CompiledFunction, compile_function
from autotune.runtime.threads import thread_count
from autotune.target import Target

SECONDS = 0.5
"""Time for all measurements together; compiling their kernels, the first time, comes on top."""

_CHAINS = 12
"""Multiply-adds that do not wait for each other: two units of up to five cycles need ten."""

_STEPS = 1 << 19
"""Multiply-adds in a row; they last about 2 ms, in which waking threads does not show."""

_LARGEST_COPY = 1 << 28
_ROUNDS = 3


@dataclass(frozen=True)
class Ceiling:
    """What a machine can do at best.

    Attributes
    ----------
    peak_flops : mapping of str to float
        Operations per second of multiply-adds in registers, with all threads, by element type; a
        multiply-add counts as two. Half floats are computed as float32 and have its peak; integers
        have none.
    copy_bytes_s : float
        Bytes per second, those read and those written, of the fastest of several ways to copy.
    """

    peak_flops: Mapping[str, float]
    copy_bytes_s: float

    def of_work(self, flops: float | None, touched_bytes: float, dtype: str) -> float:
        """Return the least seconds for some work: the roofline of Williams, Waterman, Patterson.

        Parameters
        ----------
        flops : float or None
            Operations; None if they do not count.
        touched_bytes : float
            Bytes of its inputs and outputs, each counted once.
        dtype : str
            Type of its elements; for one without a peak only the bytes count.
        """
        moving_s = touched_bytes / self.copy_bytes_s
        peak = self.peak_flops.get(dtype)
        return moving_s if flops is None or peak is None else max(moving_s, flops / peak)

    def share(
        self, cost_s: float, flops: float | None, touched_bytes: float, dtype: str
    ) -> float:
        """Return the least seconds for some work over those it takes: 1 is as fast as can be."""
        return self.of_work(flops, touched_bytes, dtype) / cost_s

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ceiling:
        """Rebuild from what `to_json` returned."""
        return cls(dict(data["peak_flops"]), data["copy_bytes_s"])


def measure_ceiling(
    target: Target,
    kinds: Sequence[str] = ("float32", "float64"),
    touched_bytes: float | None = None,
    seconds: float = SECONDS,
) -> Ceiling:
    """Measure what the machine can do, with nothing else going on in this process.

    Parameters
    ----------
    target : Target
        Of kind "llvm"; its threads and vector width are used.
    kinds : sequence of str
        Element types whose peak is wanted; those that have none are left out.
    touched_bytes : float, optional
        Bytes that the work to be judged reads and writes: as many are copied, so that work whose
        data stay in a cache is held against that cache. None: more than any cache holds.
    seconds : float
        Time to spend on running.

    Raises
    ------
    TargetError
        If the target is none of this machine's CPUs.
    """
    wide = sorted({dtypes.accumulator(kind) for kind in kinds if dtypes.is_float(kind)})
    copies = _copies(target, touched_bytes)
    share_s = seconds / (len(wide) + len(copies))
    measured = {kind: _peak(target, kind, share_s) for kind in wide}
    return Ceiling(
        {kind: measured[dtypes.accumulator(kind)] for kind in kinds if dtypes.is_float(kind)},
        max(count / fastest(call, share_s) for call, count in copies),
    )


def fastest(
    call: Callable[[], object],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the seconds of the fastest of the calls that fit into a time, of three at least.

    The fastest, since slow calls tell of neighbours and not of the machine.
    """
    end = clock() + seconds
    least, rounds = math.inf, 0
    while rounds < _ROUNDS or clock() < end:
        begin = clock()
        call()
        least = min(least, clock() - begin)
        rounds += 1
    return max(least, 1e-9)


def _peak(target: Target, dtype: str, seconds: float) -> float:
    """Operations per second of multiply-adds of one type in registers, with all threads."""
    kernel = multiply_adds(target, dtype, _STEPS)
    rows, chains, lanes = kernel.signature.parameters[1].fixed or ()
    operands = np.ones((chains, lanes), dtype)
    results = np.empty((rows, chains, lanes), dtype)
    call = kernel.bind(operands, results)
    call()
    return 2.0 * _STEPS * results.size / fastest(call, seconds)


def multiply_adds(target: Target, dtype: str, steps: int) -> CompiledFunction:
    """Return a kernel of (operands[chains, lanes], results[threads, chains, lanes]).

    Each result begins as 0 and becomes, `steps` times over, half of itself plus its operand.
    """
    lanes = max(1, target.vector_bytes // dtypes.itemsize(dtype))
    halve_and_add = te.comm_reducer(
        lambda x, y: x * te.const(0.5, dtype) + y, lambda kind: te.const(0, kind), "halve_and_add"
    )
    operands = te.placeholder((_CHAINS, lanes), dtype, name="operands")
    step = te.reduce_axis((0, steps), name="step")
    results = te.compute(
        (thread_count(target), _CHAINS, lanes),
        lambda _, chain, lane: halve_and_add(operands[chain, lane], axis=step),
        name="results",
    )
    s = te.create_schedule(results.op)
    registers = s.cache_write(results, "local")
    thread = s[results].op.axis[0]
    s[results].parallel(thread)
    s[registers].compute_at(s[results], thread)
    _, chain, lane = s[registers].op.axis
    s[registers].reorder(s[registers].op.reduce_axis[0], chain, lane)
    s[registers].unroll(chain)
    s[registers].vectorize(lane)
    return _compiled(s, [operands, results], "multiply_adds", target)


def _copies(
    target: Target, touched_bytes: float | None
) -> list[tuple[Callable[[], object], float]]:
    """Ways to copy as many bytes: with all threads, past the caches too, and with one thread.

    Each with the bytes that it reads and writes.
    """
    if touched_bytes is None:
        touched_bytes = 4.0 * cache_bytes()
    rows, lanes = thread_count(target), 4 * max(1, target.vector_bytes // 4)
    count = min(touched_bytes, _LARGEST_COPY) / 2 / 4
    columns = lanes * max(1, round(count / rows / lanes))
    source = np.ones((rows, columns), np.float32)
    goal = np.zeros_like(source)
    calls: list[Callable[[], object]] = [partial(np.copyto, goal, source)]
    for stream in (False, True):
        calls.append(copy_function(target, rows, columns, lanes, stream).bind(source, goal))
    return [(call, 2.0 * source.nbytes) for call in calls]


def copy_function(
    target: Target, rows: int, columns: int, lanes: int, stream: bool
) -> CompiledFunction:
    """Return a kernel that copies a float32 array, its rows in parallel, maybe past the caches."""
    source = te.placeholder((rows, columns), "float32", name="source")
    goal = te.compute((rows, columns), lambda y, x: source[y, x], name="goal")
    s = te.create_schedule(goal.op)
    row, column = s[goal].op.axis
    s[goal].parallel(row)
    _, lane = s[goal].split(column, factor=lanes)
    s[goal].vectorize(lane)
    if stream:
        s[goal].pragma(lane, "nontemporal_store")
    return _compiled(s, [source, goal], "copy", target)


def _compiled(s: Any, tensors: list[Any], name: str, target: Target) -> CompiledFunction:
    return compile_function(finalise(analyse(lower_schedule(s, tensors, name))), target)
