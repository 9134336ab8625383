"""A machine with two GPUs as CuPy shows it, for what must be right before a GPU takes part.

The fixture `fake` is in conftest.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace


class FakeCuda:
    """What of CuPy is used, for two devices; keeps account of what it is asked."""

    CUDARuntimeError = type("CUDARuntimeError", (RuntimeError,), {})

    def __init__(self) -> None:
        self.launches: list[tuple] = []
        self.dynamic: list[int] = []
        self.memory = {0x1000: 0, 0x2000: 1, 0x3000: 0}
        self.devices = 2
        self.allocated: list[tuple] = []
        self.uploaded: list[object] = []
        self.failure: str | None = None
        self.on_launch: Callable[[int], object] = lambda table: None
        attributes = {
            "MaxThreadsPerBlock": 1024, "MaxBlockDimX": 1024, "MaxBlockDimY": 1024,
            "MaxBlockDimZ": 64, "MaxGridDimX": 2**31 - 1, "MaxGridDimY": 65535,
            "MaxGridDimZ": 65535, "MaxSharedMemoryPerBlock": 49152,
            "MaxSharedMemoryPerBlockOptin": 232448, "MaxRegistersPerBlock": 65536, "WarpSize": 32,
        }  # fmt: skip
        fake = self

        class Device:
            def __init__(self, number: int) -> None:
                self.compute_capability = "90"
                self.attributes = attributes

            def __enter__(self) -> Device:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def synchronize(self) -> None:
                pass

        class Module:
            def load(self, code: bytes) -> None:
                if code == b"broken":
                    raise RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image\nfor this")

            def get_function(self, symbol: str) -> SimpleNamespace:
                return SimpleNamespace(ptr=77)

        def launch_kernel(handle: int, *rest: int) -> None:
            if fake.failure:
                raise RuntimeError(fake.failure)
            *sizes, stream, table, _ = rest
            fake.launches.append((handle, sizes, stream, table))
            fake.on_launch(table)

        def empty(shape: tuple[int, ...], dtype: str) -> SimpleNamespace:
            fake.allocated.append((shape, dtype))
            return SimpleNamespace(data=SimpleNamespace(ptr=0x8000))

        def asarray(array: object) -> SimpleNamespace:
            fake.uploaded.append(array)
            return SimpleNamespace(data=SimpleNamespace(ptr=0x4000))

        def attributes_of(address: int) -> SimpleNamespace:
            if address not in fake.memory:
                raise RuntimeError("cudaErrorInvalidValue")
            return SimpleNamespace(type=2, device=fake.memory[address])

        driver = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            funcSetAttribute=lambda handle, what, value: fake.dynamic.append(value),
            launchKernel=launch_kernel,
        )
        runtime = SimpleNamespace(
            is_hip=False,
            runtimeGetVersion=lambda: 12090,
            getDeviceCount=lambda: fake.devices,
            pointerGetAttributes=attributes_of,
        )
        self.empty = empty
        self.asarray = asarray
        self.cuda = SimpleNamespace(
            Device=Device,
            driver=driver,
            runtime=runtime,
            function=SimpleNamespace(Module=Module),
            get_current_stream=lambda: SimpleNamespace(ptr=5),
        )


class OnGpu:
    """An array of some library in a GPU's memory."""

    def __init__(self, address: int, shape=(4,), typestr="<f4", strides=None) -> None:
        self.__cuda_array_interface__ = {
            "version": 3, "data": (address, False), "shape": shape, "typestr": typestr,
            "strides": strides,
        }  # fmt: skip


def passed(table: int, sizes: Sequence[int]) -> list[bytes]:
    """Bytes of the parameters, of these sizes, that are handed over in a launch."""
    addresses = (ctypes.c_void_p * len(sizes)).from_address(table)
    return [ctypes.string_at(address, size) for address, size in zip(addresses, sizes, strict=True)]
