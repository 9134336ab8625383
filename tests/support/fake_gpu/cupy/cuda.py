"""cupy.cuda: devices, streams, events, modules and the driver of the fake GPU."""

from __future__ import annotations

import os
import zlib
from types import SimpleNamespace

from ._device import CUDADriverError, CUDARuntimeError, copy_bytes, machine, set_bytes
from ._kernels import HostKernel

_ATTRIBUTES = {
    "MaxThreadsPerBlock": 1024, "MaxBlockDimX": 1024, "MaxBlockDimY": 1024, "MaxBlockDimZ": 64,
    "MaxGridDimX": 2**31 - 1, "MaxGridDimY": 65535, "MaxGridDimZ": 65535,
    "MaxSharedMemoryPerBlock": 49152, "MaxSharedMemoryPerBlockOptin": 232448,
    "MaxRegistersPerBlock": 65536, "WarpSize": 32, "MultiProcessorCount": 4, "L2CacheSize": 1 << 16,
}  # fmt: skip


def _count() -> int:
    machine.use()
    return int(os.environ.get("FAKE_GPU_COUNT", "1"))


class Device:
    """One of the GPUs."""

    def __init__(self, number: int = 0) -> None:
        machine.use()
        if not 0 <= number < _count():
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self.id = number
        self.compute_capability = "90"
        self.attributes = _ATTRIBUTES
        self.pci_bus_id = f"0000:{number:02X}:00.0"

    def use(self) -> None:
        machine.use()

    def synchronize(self) -> None:
        machine.check()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Stream:
    """A stream; there is only one in fact."""

    def __init__(self, non_blocking: bool = False) -> None:
        machine.check()
        self.ptr = 7

    def use(self) -> Stream:
        return self

    def synchronize(self) -> None:
        machine.check()


def get_current_stream() -> Stream:
    return Stream()


class Event:
    """A moment on the clock."""

    def record(self, stream: Stream) -> None:
        machine.check()
        self.at_s = machine.now_s

    def synchronize(self) -> None:
        machine.check()


def get_elapsed_time(begin: Event, end: Event) -> float:
    """Return milliseconds."""
    return (end.at_s - begin.at_s) * 1e3


def set_allocator(allocator: object) -> None:
    """Know no allocator but one."""


class MemoryPointer:
    """An address."""

    def __init__(self, address: int) -> None:
        self.ptr = address

    def memset_async(self, value: int, count: int, stream: Stream) -> None:
        set_bytes(self.ptr, value, count)

    def copy_from_device_async(self, source: MemoryPointer, count: int, stream: Stream) -> None:
        copy_bytes(self.ptr, source.ptr, count)


class Module:
    """Machine code with its source behind."""

    def load(self, code: bytes) -> None:
        machine.check()
        length = int.from_bytes(code[-8:], "little")
        self._code, self._source = code[: -8 - length], code[-8 - length : -8].decode()

    def get_function(self, symbol: str) -> SimpleNamespace:
        handle = len(_FUNCTIONS) + 1
        _FUNCTIONS[handle] = _Function(self._source, symbol, self._code)
        return SimpleNamespace(ptr=handle)


class _Function:
    def __init__(self, source: str, symbol: str, code: bytes) -> None:
        self.source = source
        self.seconds = 1e-5 * (1 + zlib.crc32(source.encode()) % 64 / 64)
        # What only keeps the device busy is not carried out.
        idle = symbol == "multiply_adds"
        self.kernel = None if idle else HostKernel(source, symbol, code)
        self.latest: object = None
        self.runs = 0


_RUNS = 2
"""How often a launch is carried out on memory in which nobody but kernels has written."""

_FUNCTIONS: dict[int, _Function] = {}


def _launch(handle, gx, gy, gz, bx, by, bz, shared, stream, table, extra) -> None:
    machine.check()
    function = _FUNCTIONS[handle]
    machine.meet(function.source)
    machine.spend(function.seconds)
    if function.kernel is None:
        return
    what = (machine.writes, gx, gy, gz, bx, by, bz, function.kernel.arguments(table))
    if what != function.latest:
        function.latest, function.runs = what, 0
    if function.runs < _RUNS:
        function.kernel.run((gx, gy, gz), (bx, by, bz), shared, table)
        function.runs += 1


def _properties(number: int) -> dict:
    machine.use()
    return {"name": b"Fake GPU", "totalGlobalMem": 1 << 34}


driver = SimpleNamespace(
    CUDADriverError=CUDADriverError,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
    funcSetAttribute=lambda handle, what, value: machine.check(),
    launchKernel=_launch,
)
runtime = SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    is_hip=False,
    runtimeGetVersion=lambda: int(os.environ.get("FAKE_GPU_RUNTIME", "12090")),
    getDeviceCount=_count,
    getDeviceProperties=_properties,
    memGetInfo=lambda: (1 << 33, 1 << 34),
    deviceSynchronize=machine.check,
    pointerGetAttributes=lambda address: SimpleNamespace(type=2, device=0),
)
function = SimpleNamespace(Module=Module)
