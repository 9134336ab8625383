"""Kernels that measure the peak of a GPU: for multiply-adds, and for copying."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.launch_limits import LaunchSizes
from autotune.runtime.cuda.nvrtc import compile_cubin
from autotune.runtime.device import Call
from autotune.runtime.object_cache import default_cache

CHAINS = 8  # Multiply-adds of a thread that do not wait for each other.

THREADS = 256
BLOCKS = 8  # Threads of a block; a multiprocessor gets as many blocks as it holds.
STEPS = 1 << 14  # Multiply-adds in a row; they last about 1 ms.

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

# Threads of a block, and vectors of each, of the ways to copy that are tried.
_COPIES = ((256, 1), (256, 4), (512, 2), (1024, 1))

_C_TYPES = {"float32": "float", "float64": "double"}


class ThroughputKernels:
    """Makes these kernels on one GPU.

    `xp`: CuPy, with the device and the stream current.
    `number`: of the GPU.
    `arch`: what they are compiled for.
    `facts`: as of `autotune.runtime.cuda.cupy_driver.facts_of`.
    `stream`: CuPy's.
    """

    def __init__(
        self, xp: Any, number: int, arch: str, facts: Mapping[str, Any], stream: Any
    ) -> None:
        self._xp, self._number, self._arch = xp, number, arch
        self._facts, self._stream = facts, stream

    def multiply_adds(self, dtype: str) -> tuple[Call, float]:
        """Return a launch that multiplies and adds float32 or float64 in registers, and how often.

        It is of blocks that fill the GPU; each thread has chains that do not wait for each other.
        """
        blocks = BLOCKS * self._facts["multiprocessors"]
        text = _ADDING.format(type=_C_TYPES[dtype], threads=THREADS, chains=CHAINS, steps=STEPS)
        results = self._xp.empty((blocks * THREADS,), dtype)
        address = ctypes.c_uint64(int(results.data.ptr))
        launch = self._launch(text, "multiply_adds", blocks, THREADS, [address])

        def call(_held: object = results) -> None:
            launch()

        return call, float(blocks * THREADS * CHAINS * STEPS)

    def copies(self, touched_bytes: float | None) -> list[tuple[Call, float]]:
        """Return ways to copy, the driver's and by kernels, each with the bytes read and written.

        They touch about as many bytes as given, or four times what the largest cache holds.
        """
        xp = self._xp
        wanted = 4.0 * self._facts["l2_bytes"] if touched_bytes is None else touched_bytes
        free, _ = xp.cuda.runtime.memGetInfo()
        vectors = max(1, int(min(wanted, free * _SHARE_OF_MEMORY) / 2 / _VECTOR))
        source, goal = (xp.zeros((vectors * _VECTOR,), xp.uint8) for _ in range(2))

        def by_driver() -> None:
            goal.data.copy_from_device_async(source.data, source.nbytes, self._stream)

        ways: list[Call] = [by_driver]
        pointers = [ctypes.c_uint64(int(array.data.ptr)) for array in (source, goal)]
        for threads, items in _COPIES:
            text = _COPYING.format(threads=threads, items=items)
            blocks = math.ceil(vectors / (threads * items))
            arguments = [*pointers, ctypes.c_int64(vectors)]
            ways.append(self._launch(text, "copy", blocks, threads, arguments))
        return [(way, 2.0 * source.nbytes) for way in ways]

    def _launch(
        self, text: str, name: str, blocks: int, threads: int, values: Sequence[Any]
    ) -> Call:
        """Compile a text; return a launch of one of its kernels."""
        cubin = compile_cubin(text, self._arch, cache=default_cache())
        loaded = cupy_driver.LoadedKernel(cubin, name, self._number)
        sizes = LaunchSizes((blocks, 1, 1), (threads, 1, 1))
        return loaded.bound(sizes, int(self._stream.ptr), values)
