"""The state of the fake GPU in one process: its clock, what went wrong, and who has used it."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

_ERRORS = {
    "illegal address": "cudaErrorIllegalAddress: an illegal memory access was encountered",
    "misaligned address": "cudaErrorMisalignedAddress: misaligned address",
    "device time-out": "cudaErrorLaunchTimeout: the launch timed out and was terminated",
}


class CUDARuntimeError(RuntimeError):
    """An error of the runtime."""


class CUDADriverError(RuntimeError):
    """An error of the driver."""


class OutOfMemoryError(MemoryError):
    """There is not so much memory."""


def log(what: str) -> None:
    """Write down who has done something: its process id and name."""
    path = os.environ.get("FAKE_GPU_LOG")
    if path:
        name = Path("/proc/self/comm").read_text().strip()
        with open(path, "a") as file:
            file.write(f"{what} {os.getpid()} {name}\n")


class Machine:
    """The GPU as one process sees it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.error: str | None = None
        self.hangs = False
        self.writes = 0
        self._slow = False
        self._user: int | None = None
        self._context = False

    def use(self) -> None:
        """Begin to use the driver; as with the real one, nobody can who is forked afterwards."""
        if self._user is None:
            self._user = os.getpid()
        elif self._user != os.getpid():
            raise CUDARuntimeError("cudaErrorInitializationError: initialization error")

    def check(self) -> None:
        """Use the context, which is made at the first time; after some errors it never works."""
        self.use()
        if not self._context:
            self._context = True
            log("context")
        if self.hangs:
            time.sleep(3600)
        if self.error:
            raise CUDARuntimeError(self.error)

    def spend(self, seconds: float) -> None:
        self.now_s += seconds

    def wrote(self) -> None:
        """Note that memory has changed, so that kernels may compute something else."""
        self.writes += 1

    def meet(self, source: str) -> None:
        """Let go wrong what a kernel's source says."""
        _, _, fault = source.partition("// fault: ")
        fault = fault.split("\n")[0].strip()
        if fault == "hang":
            self.hangs = True
        elif fault == "too many resources":
            raise CUDADriverError(
                "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch"
            )
        elif fault == "slow":
            if not self._slow:
                time.sleep(0.6)
            self._slow = True
        elif fault:
            self.error = _ERRORS[fault]


machine = Machine()


def allocated(count: int) -> None:
    """Count memory that is asked for."""
    machine.check()
    if count > int(os.environ.get("FAKE_GPU_MEMORY", str(1 << 30))):
        raise OutOfMemoryError(f"Out of memory allocating {count:,} bytes")


def set_bytes(address: int, value: int, count: int) -> None:
    """Write the same byte so many times."""
    machine.check()
    ctypes.memset(address, value, count)
    machine.wrote()
    machine.spend(4e-5 + count / 2e12)


def copy_bytes(to: int, source: int, count: int) -> None:
    """Copy within the GPU's memory."""
    machine.check()
    ctypes.memmove(to, source, count)
    machine.wrote()
    machine.spend(1e-6 + 2 * count / 2e12)
