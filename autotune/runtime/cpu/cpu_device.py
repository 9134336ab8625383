"""The processor as a device: NumPy's arrays, code that LLVM has compiled, the processor's clock."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.runtime.cpu import benchmark_kernels
from autotune.runtime.cpu.c_compiler import LoadedObject, SharedObject
from autotune.runtime.cpu.compiled_kernel import CpuBinary
from autotune.runtime.cpu.llvm_compiler import LoadedBinary
from autotune.runtime.device import Call, DeviceFunction, Host
from autotune.system import host
from autotune.target import Target


class SealedCopy:
    """A copy on memory pages of its own, which are read-only.

    A kernel that writes to them is killed by the system, so that the error is seen.
    """

    intact = True

    def __init__(self, array: Host) -> None:
        pages = mmap.mmap(-1, max(array.nbytes, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory = np.frombuffer(pages, np.uint8)
        self.array: Host = memory[: array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        address, size = memory.__array_interface__["data"][0], memory.size
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self.array.flags.writeable = False


class CpuDevice:
    """The processor of this machine; see `autotune.runtime.device.Device`.

    `target`: whose threads and vector width the machine's own kernels use; one for GPUs that runs
    on the processor has those of plain llvm.
    """

    is_host = True
    xp: Any = np
    loop = None
    usable = True

    def __init__(self, target: Target) -> None:
        self.target = target.host
        self.name = host.processor_name()
        self.memory_bytes = host.memory_bytes()
        self.chunk = 1 << 16  # both arrays and their difference stay in a core's cache
        self.notes: list[str] = []

    def stored_as(self, dtype: str) -> np.dtype[Any]:
        """Return the type that NumPy holds elements in."""
        return np.dtype(dtypes.numpy_dtype(dtype))

    def widened(self, array: Host, dtype: str) -> Host:
        """Return half types as float32, which is exact enough and faster; others unchanged."""
        return array.astype(np.float32) if dtypes.is_half(dtype) else array

    def upload(self, array: Host, values: Host) -> None:
        """Fill an array."""
        array[...] = values

    def download(self, array: Host) -> Host:
        """Return the array itself."""
        return array

    def keep(self, array: Host) -> SealedCopy:
        """Return a copy that cannot be written to."""
        return SealedCopy(array)

    def load(self, binary: CpuBinary | SharedObject) -> LoadedBinary | LoadedObject:
        """Link code; CodegenError if it calls a function that there is not."""
        return LoadedObject(binary) if isinstance(binary, SharedObject) else LoadedBinary(binary)

    def bind(self, loaded: DeviceFunction, arrays: Sequence[Host]) -> Call:
        """Check the arrays once, and return a call on them."""
        return loaded.bind(*arrays)

    def wait(self) -> None:
        """Do nothing: a call returns when the kernel has ended."""

    def new_kernel(self) -> None:
        """Do nothing: no launches are queued up."""

    @cached_property
    def flush(self) -> Call:
        """A call that evicts the contents of all caches."""
        return benchmark_kernels.cache_flusher(self.target)

    def clocks(self) -> None:
        """Return None: a processor's clocks change from one moment to the next."""

    def multiply_adds(self, dtype: str) -> tuple[Call, float]:
        """Return a call that multiplies and adds with all threads, about 2 ms, and how often."""
        return benchmark_kernels.multiply_adds(self.target, dtype, benchmark_kernels.STEPS)

    def copies(self, touched_bytes: float | None) -> list[tuple[Call, float]]:
        """Return ways to copy: with one thread, with all of them, and that past the caches."""
        return benchmark_kernels.copies(self.target, touched_bytes)

    def library(self, *_: object) -> None:
        """Return None: the reference is NumPy's, and is timed as the baseline."""
