"""An NVIDIA GPU as a device: CuPy's arrays on a separate stream, timed by events."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from autotune.errors import error_text
from autotune.ir import dtypes
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.device.throughput_kernels import ThroughputKernels
from autotune.runtime.cuda.gpu_program import GpuProgram
from autotune.runtime.cuda.loaded_program import LoadedProgram
from autotune.runtime.cuda.nvml import clock_reader
from autotune.runtime.device import Call, DeviceArray, Host
from autotune.target import Target

QUEUED = 512  # Launches that are queued up at most; a stream takes about twice as many.
LAUNCH_S = 8e-6  # Seconds that launching is taken to take before it was seen.
LONGEST_LAUNCH_S = 5e-5  # Launching that takes longer than that has been disturbed.

# Seconds for which the device is given other work, about, while launches are queued up.
AHEAD_S = 2e-3

MIN_FLUSH = 1 << 20  # Bytes that are written to flush a cache, at least.

_FILLS = 8


class Stopwatch:
    """Times calls that launch work on a stream of the current GPU.

    `xp`: CuPy.
    `stream`: CuPy's.
    `l2_bytes`: size of the device's largest cache.
    """

    def __init__(self, xp: Any, stream: Any, l2_bytes: int) -> None:
        self._stream = stream
        self._elapsed = xp.cuda.get_elapsed_time
        self._begin, self._end = xp.cuda.Event(), xp.cuda.Event()
        self._filler = xp.empty((max(2 * l2_bytes, MIN_FLUSH),), xp.uint8)
        self._call_s, self._launch_s = math.inf, LAUNCH_S
        self.flush()
        self.wait()
        self._fill_s = self._timed(self.flush, _FILLS) / _FILLS
        self.new_kernel()

    def wait(self) -> None:
        """Wait until all that was launched has ended; raises what became of it."""
        self._stream.synchronize()

    def flush(self) -> None:
        """Write twice as much as the cache holds, without waiting for it."""
        self._filler.data.memset_async(0, self._filler.nbytes, self._stream)

    def new_kernel(self) -> None:
        """Forget how long calls took: others come."""
        self._call_s, self._launch_s = math.inf, LAUNCH_S

    def seconds(self, call: Callable[[], object], number: int) -> float:
        """Return the seconds that the device takes for so many calls in a row.

        They are launched in groups, each behind something else that keeps the device busy for as
        long as launching takes longer than running.

        `call`: launches work; it may not wait for it.
        `number`: at least 1.
        """
        total, left = 0.0, number
        while left:
            late_s = max(self._launch_s - self._call_s, AHEAD_S / QUEUED / 2)
            group = min(left, QUEUED, math.ceil(AHEAD_S / late_s))
            ahead_s = self._launch_s + group * max(self._launch_s - self._call_s, 0.0)
            for _ in range(math.ceil(ahead_s / self._fill_s)):
                self.flush()
            total += self._timed(call, group)
            left -= group
        total = max(total, 1e-9)
        self._call_s = total / number
        return total

    def _timed(self, call: Callable[[], object], number: int) -> float:
        self._begin.record(self._stream)
        begin = time.perf_counter()
        for _ in repeat(None, number):
            call()
        self._launch_s = min((time.perf_counter() - begin) / number, LONGEST_LAUNCH_S)
        self._end.record(self._stream)
        self._end.synchronize()
        return max(float(self._elapsed(self._begin, self._end)) * 1e-3, 1e-9)


_BFLOAT16 = "bfloat16"
_OF_CUBLAS = frozenset({"float16", "float32", "float64"})


class ChecksummedCopy:
    """A copy of an array on the GPU, with a checksum that shows whether it was changed.

    A checksum, because pages of GPU memory cannot be made read-only.
    """

    def __init__(self, xp: Any, array: DeviceArray) -> None:
        self._xp = xp
        words = xp.zeros((-(-array.nbytes // 8),), xp.uint64)
        self.array: DeviceArray = words.view(xp.uint8)[: array.nbytes].view(array.dtype)
        self.array = self.array.reshape(array.shape)
        self.array[...] = array
        self._words = words
        self._sum = self._summed()

    @property
    def intact(self) -> bool:
        """Whether its contents are unchanged, as far as their sum shows."""
        return self._summed() == self._sum

    def _summed(self) -> int:
        return int(self._words.sum(dtype=self._xp.uint64))


class CudaDevice:
    """A GPU with a context in this process; see `autotune.runtime.device.Device`.

    `target`: of kind "cuda", without -on=cpu.

    `arch`: what kernels are compiled for.
    `facts`: as of `autotune.runtime.cuda.cupy_driver.facts_of`.
    `stream`: CuPy's current stream, which nothing else uses.

    Raises TargetError if the GPU cannot be used.
    """

    is_host = False

    def __init__(self, target: Target) -> None:
        os.environ["CUPY_TF32"] = "0"  # float32 products are of float32
        self.target = target
        self.number = target.device
        self.facts, self.xp = cupy_driver.facts_of(self.number), cupy_driver.cupy()
        self.arch = target.options.get("arch", self.facts["arch"])
        self.name = f"cuda:{self.number} ({self.facts['name']})"
        self.memory_bytes: int = self.facts["memory_bytes"]
        self.chunk = 1 << 22  # what comparing takes of memory is some times that
        used = self.xp.cuda.Device(self.number)
        used.use()
        self.stream = self.xp.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.stopwatch = Stopwatch(self.xp, self.stream, self.facts["l2_bytes"])
        watch = self.stopwatch
        self.loop, self.new_kernel, self.flush = watch.seconds, watch.new_kernel, watch.flush
        self.clocks, problem = clock_reader(used.pci_bus_id)
        self.notes = [problem] if problem else []
        kernels = ThroughputKernels(self.xp, self.number, self.arch, self.facts, self.stream)
        self.multiply_adds, self.copies = kernels.multiply_adds, kernels.copies

    # -- arrays ----------------------------------------------------------------------------

    def stored_as(self, dtype: str) -> np.dtype[Any]:
        """Return the type that CuPy holds elements in: bits for bfloat16, which it lacks."""
        return np.dtype(np.uint16 if dtype == _BFLOAT16 else dtypes.numpy_dtype(dtype))

    def widened(self, array: DeviceArray, dtype: str) -> DeviceArray:
        """Return elements as CuPy computes with them: half types as float32, others as is."""
        if dtype == _BFLOAT16:
            return (array.astype(self.xp.uint32) << 16).view(self.xp.float32)
        return array.astype(self.xp.float32) if dtypes.is_half(dtype) else array

    def upload(self, array: DeviceArray, values: Host) -> None:
        """Fill an array from the CPU, after all work on it has ended."""
        self.stream.synchronize()
        array.set(values)

    def download(self, array: DeviceArray) -> Host:
        """Return a copy on the CPU."""
        found: Host = array.get()
        return found

    def keep(self, array: DeviceArray) -> ChecksummedCopy:
        """Return a copy with a checksum."""
        return ChecksummedCopy(self.xp, self.xp.asarray(array))

    # -- code ------------------------------------------------------------------------------

    def load(self, binary: GpuProgram) -> LoadedProgram:
        """Load code into the GPU's memory."""
        return LoadedProgram(binary, self.number)

    def bind(self, loaded: LoadedProgram, arrays: Sequence[DeviceArray]) -> Call:
        """Return launches of all kernels on arrays, and on copies of those they may overwrite."""
        held = list(arrays)
        for n in loaded.scratch_inputs:
            held[n] = arrays[n].copy()
        launch = loaded.bind([int(array.data.ptr) for array in held], int(self.stream.ptr))
        if not loaded.scratch_inputs:
            return launch

        def call(_held: object = held) -> None:
            launch()

        return call

    def wait(self) -> None:
        """Wait until all that was launched has ended; raises what became of it."""
        self.stopwatch.wait()

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

    def library(
        self, reference: object, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> Call | None:
        """Return a launch of cuBLAS's kernel where the reference says that it has one."""
        types = {array.dtype.name for array in (*inputs, *outputs)}
        if reference is not np.matmul or len(types) > 1 or not types <= _OF_CUBLAS:
            return None
        a, b = inputs
        product = self.xp.empty_like(outputs[0])

        def call() -> None:
            self.xp.matmul(a, b, out=product)

        try:
            call()
            self.wait()
        except Exception as error:
            words = " ".join(error_text(error).split())
            self.notes.append(f"cuBLAS is not measured: {type(error).__name__}: {words}")
            return None
        return call
