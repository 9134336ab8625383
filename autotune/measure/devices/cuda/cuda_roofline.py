"""What a GPU can do at best: how fast it copies, multiplies and adds, and what cuBLAS takes."""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.ir import dtypes
from autotune.measure.devices.cuda.event_timing import Stopwatch
from autotune.measure.roofline import Ceiling
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.nvrtc import compile_cubin
from autotune.runtime.object_cache import default_cache
from autotune.target import Target

SECONDS = 0.5
"""Time for all measurements together; compiling their kernels, the first time, comes on top."""

CHAINS = 8
"""Multiply-adds of a thread that do not wait for each other."""

THREADS = 256
BLOCKS = 8
"""Blocks of so many threads for each multiprocessor: as many as one holds."""

_STEPS = 1 << 14
_ROUNDS = 3
_LOOP_S = 2e-3
_SHARE_OF_MEMORY = 0.25
_VECTOR = 16

_ADDING = """
extern "C" __global__ void __launch_bounds__({threads}) multiply_adds({type}* results) {{
  {type} sums[{chains}], operand = {type}(threadIdx.x);
  for (int i = 0; i < {chains}; ++i) sums[i] = {type}(i);
#pragma unroll 4
  for (int step = 0; step < {steps}; ++step) {{
#pragma unroll
    for (int i = 0; i < {chains}; ++i) sums[i] = sums[i] * {type}(0.5) + operand;
  }}
  {type} sum = 0;
  for (int i = 0; i < {chains}; ++i) sum += sums[i];
  results[blockIdx.x * {threads} + threadIdx.x] = sum;
}}
"""

_COPYING = """
struct __align__(16) Vector {{ unsigned int lanes[4]; }};
extern "C" __global__ void __launch_bounds__({threads})
copy(const Vector* __restrict__ from, Vector* __restrict__ to, long long count) {{
  const long long first = (long long)blockIdx.x * {threads} * {items} + threadIdx.x;
  Vector held[{items}];
#pragma unroll
  for (int i = 0; i < {items}; ++i) {{
    if (first + i * {threads} < count) held[i] = from[first + i * {threads}];
  }}
#pragma unroll
  for (int i = 0; i < {items}; ++i) {{
    if (first + i * {threads} < count) to[first + i * {threads}] = held[i];
  }}
}}
"""

_COPIES = ((256, 1), (256, 4), (512, 2), (1024, 1))
"""Threads of a block, and vectors of each, of the ways to copy that are tried."""

_C_TYPES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class Device:
    """A GPU as measurements use it.

    Attributes
    ----------
    xp : module
        CuPy, with the device and the stream that are to be used current.
    number : int
    arch : str
        What kernels are compiled for.
    facts : mapping
        As of `autotune.runtime.cuda.cupy_driver.facts_of`.
    stream : object
        CuPy's, the current one.
    stopwatch : Stopwatch
    """

    xp: Any
    number: int
    arch: str
    facts: dict[str, Any]
    stream: Any
    stopwatch: Stopwatch

    @classmethod
    def take(cls, target: Target) -> Device:
        """Make a target's GPU this process's own: with a context, and a stream that none shares.

        Raises
        ------
        TargetError
            If it cannot be used.
        """
        os.environ["CUPY_TF32"] = "0"  # float32 products are of float32
        number = target.device
        facts, xp = cupy_driver.facts_of(number), cupy_driver.cupy()
        arch = target.options.get("arch", facts["arch"])
        xp.cuda.Device(number).use()
        stream = xp.cuda.Stream(non_blocking=True)
        stream.use()
        return cls(xp, number, arch, facts, stream, Stopwatch(xp, stream, facts["l2_bytes"]))

    @property
    def usable(self) -> bool:
        """Whether the device still works for this process; after some errors it never does."""
        try:
            self.stopwatch.flush()
            self.stopwatch.wait()
            self.xp.cuda.runtime.deviceSynchronize()
        except RuntimeError:
            return False
        return True

    def kernel(
        self, text: str, name: str, blocks: int, threads: int, values: Sequence[Any]
    ) -> Callable[[], None]:
        """Compile a text; return a launch of one of its kernels."""
        cubin = compile_cubin(text, self.arch, cache=default_cache())
        loaded = cupy_driver.LoadedKernel(cubin, name, self.number)
        return loaded.bound((blocks, 1, 1), (threads, 1, 1), 0, int(self.stream.ptr), values)


def multiply_adds(device: Device, dtype: str, steps: int) -> tuple[Callable[[], None], float]:
    """Return a launch that multiplies and adds in registers, and how often.

    Parameters
    ----------
    device : Device
    dtype : str
        "float32" or "float64".
    steps : int
        Multiply-adds that follow each other in each of a thread's chains.
    """
    blocks = BLOCKS * device.facts["multiprocessors"]
    text = _ADDING.format(type=_C_TYPES[dtype], threads=THREADS, chains=CHAINS, steps=steps)
    results = device.xp.empty((blocks * THREADS,), dtype)
    address = ctypes.c_uint64(int(results.data.ptr))
    launch = device.kernel(text, "multiply_adds", blocks, THREADS, [address])

    def call(_held: object = results) -> None:
        launch()

    return call, float(blocks * THREADS * CHAINS * steps)


def reference_kernel(device: Device) -> Callable[[], float]:
    """Return a call that always does the same, about 1 ms of it; it returns its seconds."""
    launch, _ = multiply_adds(device, "float32", _STEPS)

    def call() -> float:
        device.stopwatch.new_kernel()
        return device.stopwatch.seconds(launch, 1)

    return call


def measure_ceiling(
    device: Device,
    kinds: Sequence[str],
    touched_bytes: float | None,
    library: Callable[[], None] | None = None,
    seconds: float = SECONDS,
) -> Ceiling:
    """Measure what a GPU can do, with nothing else going on there.

    Parameters
    ----------
    device : Device
    kinds : sequence of str
        Element types whose peak is wanted; those that have none are left out.
    touched_bytes : float, optional
        Bytes that the work to be judged reads and writes: as many are copied. None: four times
        what the largest cache holds.
    library : callable, optional
        Launches the vendor's kernel for the same work.
    seconds : float
        Time to spend on running.
    """
    wide = sorted({dtypes.accumulator(kind) for kind in kinds if dtypes.is_float(kind)})
    ways, moved = copies(device, touched_bytes)
    share_s = seconds / (len(wide) + len(ways) + (library is not None))
    peaks = {}
    for kind in wide:
        call, count = multiply_adds(device, kind, _STEPS)
        peaks[kind] = 2.0 * count / fastest(device.stopwatch, call, share_s)
    return Ceiling(
        {kind: peaks[dtypes.accumulator(kind)] for kind in kinds if dtypes.is_float(kind)},
        moved / min(fastest(device.stopwatch, call, share_s) for call in ways),
        None if library is None else fastest(device.stopwatch, library, share_s),
    )


def fastest(stopwatch: Stopwatch, call: Callable[[], object], seconds: float) -> float:
    """Return the least seconds of a call, of loops that fit into a time; of three at least."""
    stopwatch.new_kernel()
    first_s = stopwatch.seconds(call, 1)
    number = max(1, round(min(_LOOP_S, seconds) / first_s))
    end, least, rounds = time.perf_counter() + seconds, math.inf, 0
    while rounds < _ROUNDS or time.perf_counter() < end:
        least = min(least, stopwatch.seconds(call, number) / number)
        rounds += 1
    return least


def copies(
    device: Device, touched_bytes: float | None
) -> tuple[list[Callable[[], None]], float]:
    """Return ways to copy, the driver's and by kernels, and the bytes read and written by each."""
    xp = device.xp
    wanted = 4.0 * device.facts["l2_bytes"] if touched_bytes is None else touched_bytes
    free, _ = xp.cuda.runtime.memGetInfo()
    vectors = max(1, int(min(wanted, free * _SHARE_OF_MEMORY) / 2 / _VECTOR))
    source, goal = (xp.zeros((vectors * _VECTOR,), xp.uint8) for _ in range(2))

    def by_driver() -> None:
        goal.data.copy_from_device_async(source.data, source.nbytes, device.stream)

    ways: list[Callable[[], None]] = [by_driver]
    pointers = [ctypes.c_uint64(int(array.data.ptr)) for array in (source, goal)]
    for threads, items in _COPIES:
        text = _COPYING.format(threads=threads, items=items)
        blocks = math.ceil(vectors / (threads * items))
        arguments = [*pointers, ctypes.c_int64(vectors)]
        ways.append(device.kernel(text, "copy", blocks, threads, arguments))
    return ways, 2.0 * source.nbytes
