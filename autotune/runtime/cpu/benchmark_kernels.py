"""Kernels that measure the peak performance and the noise of the processor, or flush its caches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from autotune import te
from autotune.ir import dtypes
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import CompiledFunction, compile_function
from autotune.system.available_cpus import thread_count
from autotune.system.host import cache_bytes
from autotune.target import Target

# Multiply-adds that do not wait for each other: two units of up to five cycles need ten.
CHAINS = 12

# Multiply-adds in a row; they last about 2 ms, in which waking threads does not show.
STEPS = 1 << 19

_VECTORS = 4
_LARGEST_COPY = 1 << 28


def multiply_adds(target: Target, dtype: str, steps: int) -> tuple[Callable[[], None], int]:
    """Return a call that multiplies and adds in registers, with all threads, and how often.

    `target`: of kind "llvm"; each of its threads works on `CHAINS` of its vectors.
    `dtype`: Floating-point type.
    `steps`: Multiply-adds that follow each other in each lane.
    """
    kernel = multiply_add_function(target, dtype, steps)
    threads, chains, lanes = kernel.signature.parameters[1].fixed or ()
    kind = dtypes.numpy_dtype(dtype)
    results = np.empty((threads, chains, lanes), kind)
    return kernel.bind(np.ones((chains, lanes), kind), results), steps * results.size


def cache_flusher(target: Target) -> Callable[[], None]:
    """Return a call that evicts the contents of all caches, each core's own included."""
    call, _ = copying(target, 4.0 * cache_bytes())
    return call


def multiply_add_function(target: Target, dtype: str, steps: int) -> CompiledFunction:
    """Return a kernel of (operands[chains, lanes], results[threads, chains, lanes]).

    Each result begins as 0 and becomes, `steps` times over, half of itself plus its operand.
    """
    lanes = max(1, target.vector_bytes // dtypes.itemsize(dtype))
    halve_and_add = te.comm_reducer(
        lambda x, y: x * te.const(0.5, dtype) + y, lambda kind: te.const(0, kind), "halve_and_add"
    )
    operands = te.placeholder((CHAINS, lanes), dtype, name="operands")
    step = te.reduce_axis((0, steps), name="step")
    results = te.compute(
        (thread_count(target.threads), CHAINS, lanes),
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


def copies(target: Target, touched_bytes: float | None) -> list[tuple[Callable[[], object], float]]:
    """Return ways to copy: with one thread, with all of them, and that past the caches.

    Each is a call, and the bytes that it reads and writes.

    target: of kind "llvm".
    touched_bytes: bytes to read and write, together; None: more than any cache holds.
    """
    wanted = 4.0 * cache_bytes() if touched_bytes is None else touched_bytes
    wanted = min(wanted, _LARGEST_COPY)
    plain, moved = copying(target, wanted)
    source = np.ones(round(moved / 2), np.int8)
    return [
        (partial(np.copyto, np.zeros_like(source), source), moved),
        (plain, moved),
        copying(target, wanted, stream=True),
    ]


def copying(
    target: Target, touched_bytes: float, stream: bool = False
) -> tuple[Callable[[], None], float]:
    """Return a call that copies with all threads, and the bytes that it reads and writes.

    `target`: of kind "llvm".
    `touched_bytes`: about how many bytes, those read and those written.
    `stream`: whether it writes past the caches.
    """
    threads = thread_count(target.threads)
    unit = _VECTORS * max(1, target.vector_bytes // 4)
    columns = unit * max(1, round(touched_bytes / 2 / 4 / threads / unit))
    source = np.ones((threads, columns), np.float32)
    goal = np.zeros_like(source)
    call = copy_function(target, threads, columns, unit, stream).bind(source, goal)
    return call, 2.0 * source.nbytes


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
