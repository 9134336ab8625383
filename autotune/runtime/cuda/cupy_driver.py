"""NVIDIA GPUs through CuPy: devices, loaded kernels, launches. Only this file imports CuPy.

If the driver, CuPy or the device is missing, or they do not fit each other, the error is one line.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from autotune.errors import LaunchError, TargetError
from autotune.runtime.cuda.launch_limits import LaunchSizes
from autotune.runtime.cuda.nvrtc import Cubin, Usage
from autotune.target import GpuLimits

_ARCH = re.compile(r"sm_(\d+)[af]?")

EXTRAS = "pip install 'kernel-autotune[cuda13]', or [cuda12] for a driver of CUDA 12"


# -- what is installed -------------------------------------------------------------------------


def driver_version() -> tuple[int, int] | None:
    """Return the newest CUDA version that the driver supports; None without a driver."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value // 1000, version.value % 1000 // 10


@functools.cache
def cupy() -> Any:
    """Return CuPy, once it is known to fit the driver.

    Raises TargetError if there is no driver, no CuPy, or one that was built for something else.
    """
    driver = driver_version()
    if driver is None:
        raise TargetError(
            "there is no driver for CUDA on this machine (libcuda.so.1): kernels run where "
            "nvidia-smi lists a GPU"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy warns of a second CuPy; what matters is checked here
        found = _imported()
    if getattr(found.cuda.runtime, "is_hip", False):
        raise TargetError(f"this CuPy was built for AMD's ROCm, not for CUDA: {EXTRAS}")
    built = found.cuda.runtime.runtimeGetVersion()
    if built // 1000 > driver[0]:
        raise TargetError(
            f"this CuPy was built for CUDA {_text(built)}, and the driver supports "
            f"{driver[0]}.{driver[1]}: pip install cupy-cuda{driver[0]}x in its place, or a newer "
            "driver"
        )
    return found


def _imported() -> Any:
    try:
        return importlib.import_module("cupy")
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise TargetError(f"CuPy cannot be imported ({error}): {EXTRAS}") from error
        raise TargetError(f"CuPy, which runs kernels, is not installed: {EXTRAS}") from error
    except Exception as error:
        raise TargetError(f"CuPy cannot be imported ({_one_line(error)}): {EXTRAS}") from error


# -- devices -----------------------------------------------------------------------------------


def device_count() -> int:
    """Return how many GPUs this process may use.

    Raises TargetError if there are none, or CuPy cannot be used.
    """
    try:
        count = int(cupy().cuda.runtime.getDeviceCount())
    except RuntimeError as error:  # CuPy's errors of the runtime are of this type
        raise TargetError(f"no GPU can be used: {_one_line(error)}") from error
    if not count:
        raise TargetError("there is no GPU that this process may use: see CUDA_VISIBLE_DEVICES")
    return count


def checked_device(number: int) -> int:
    """Return the number of a GPU that is there.

    Raises TargetError if it is not, or CuPy cannot be used.
    """
    count = device_count()
    if not 0 <= number < count:
        raise TargetError(f"there is no device cuda:{number}: there are {count}, from cuda:0 on")
    return number


@functools.cache
def arch_of(number: int) -> str:
    """Return the architecture of a GPU, such as "sm_90".

    Raises TargetError as `checked_device`.
    """
    return f"sm_{cupy().cuda.Device(checked_device(number)).compute_capability}"


def runs_on(compiled_for: str, there: str) -> bool:
    """Whether a GPU of architecture `there` takes the code of `compiled_for`.

    Of one major version, newer ones run older ones' code; code for the features of one
    architecture alone (sm_90a) runs there only.
    """
    number, only = _ARCH.fullmatch(compiled_for), compiled_for[-1:] == "a"
    own = _ARCH.fullmatch(there)
    if number is None or own is None:
        return False
    wanted, has = int(number[1]), int(own[1])
    return wanted == has if only else wanted // 10 == has // 10 and wanted <= has


@functools.cache
def limits_of(number: int) -> GpuLimits:
    """Return the limits of a launch on a GPU.

    Raises TargetError as `checked_device`.
    """
    known = cupy().cuda.Device(checked_device(number)).attributes
    basic = known["MaxSharedMemoryPerBlock"]
    return GpuLimits(
        threads=known["MaxThreadsPerBlock"],
        block=(known["MaxBlockDimX"], known["MaxBlockDimY"], known["MaxBlockDimZ"]),
        grid=(known["MaxGridDimX"], known["MaxGridDimY"], known["MaxGridDimZ"]),
        shared_bytes=known.get("MaxSharedMemoryPerBlockOptin") or basic,
        block_registers=known["MaxRegistersPerBlock"],
        warp=known["WarpSize"],
    )


def facts_of(number: int) -> dict[str, Any]:
    """Describe a GPU: "name", "arch", "multiprocessors", "l2_bytes" and "memory_bytes".

    There is also "max_mhz", its highest clock, if the driver reports it.

    Raises TargetError as `checked_device`.
    """
    device = cupy().cuda.Device(checked_device(number))
    known = cupy().cuda.runtime.getDeviceProperties(number)
    name = known["name"]
    clock_khz = device.attributes.get("ClockRate")
    return {
        "name": name.decode(errors="replace") if isinstance(name, bytes) else str(name),
        "arch": arch_of(number),
        "multiprocessors": int(device.attributes["MultiProcessorCount"]),
        "l2_bytes": int(device.attributes["L2CacheSize"]),
        "memory_bytes": int(known["totalGlobalMem"]),
        **({"max_mhz": int(clock_khz) // 1000} if clock_khz else {}),
    }


def stream_handle(stream: Any, device: int) -> int:
    """Return the handle of a stream: of CuPy, PyTorch or another library, or a handle itself.

    None is the current stream of CuPy on the device.

    Raises LaunchError if it is no stream.
    """
    if stream is None:
        with cupy().cuda.Device(device):
            return int(cupy().cuda.get_current_stream().ptr)
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("ptr", "cuda_stream", "handle"):
        if isinstance(getattr(stream, name, None), int):
            return int(getattr(stream, name))
    raise LaunchError(
        f"a stream must be CuPy's, PyTorch's, one with __cuda_stream__, or a handle, got {stream!r}"
    )


def stream_of(stream: Any, device: int) -> Any:
    """Return a stream as one of CuPy; None is the current one on the device."""
    if stream is None:
        with cupy().cuda.Device(device):
            return cupy().cuda.get_current_stream()
    return cupy().cuda.ExternalStream(stream_handle(stream, device), device)


def device_of_address(address: int) -> int | None:
    """Return the number of the GPU whose memory contains an address; None if it is no GPU's."""
    try:
        found = cupy().cuda.runtime.pointerGetAttributes(address)
    except RuntimeError:
        return None
    # Types of memory: 0 is not known to CUDA, 1 the CPU's, 2 a device's, 3 managed.
    return int(found.device) if found.type in (2, 3) else None


def empty(shape: tuple[int, ...], dtype: Any, device: int) -> Any:
    """Return a new array of CuPy on a GPU."""
    with cupy().cuda.Device(device):
        return cupy().empty(shape, dtype)


def copied(arrays: Sequence[Any], device: int) -> list[Any]:
    """Return copies of NumPy arrays in a GPU's memory; bits, of types that CuPy does not know."""
    with cupy().cuda.Device(device):
        return [cupy().asarray(array.view(f"uint{8 * array.itemsize}")) for array in arrays]


def contiguous(array: Any) -> Any:
    """Return an array of CuPy whose elements lie in a row: a copy, if they do not yet."""
    return cupy().ascontiguousarray(array)


# -- kernels -----------------------------------------------------------------------------------


class LoadedKernel:
    """A kernel in the memory of one GPU.

    `symbol`: which of its kernels.
    `device`: number of the GPU.

    Raises LaunchError if the driver refuses the code.
    """

    def __init__(self, cubin: Cubin, symbol: str, device: int) -> None:
        #: As given.
        self.device = checked_device(device)
        self.symbol = symbol
        #: Its resources, from the compiler's report.
        self.usage: Usage = cubin.kernels[symbol]
        self._dynamic_bytes = 0
        with cupy().cuda.Device(device) as used:
            used.synchronize()  # there is a context from here on
            try:
                self._module = cupy().cuda.function.Module()
                self._module.load(cubin.code)
                self._handle = int(self._module.get_function(symbol).ptr)
            except RuntimeError as error:
                raise LaunchError(
                    f"{symbol}: the driver of cuda:{device} ({arch_of(device)}, CUDA "
                    f"{'.'.join(map(str, driver_version() or ()))}) refuses the code for "
                    f"{cubin.arch}: {_one_line(error)}"
                ) from error

    def bound(
        self,
        sizes: LaunchSizes,
        stream: int,
        values: Sequence[ctypes._SimpleCData[Any] | ctypes.Array[Any]],
    ) -> Callable[[], None]:
        """Return a launch without arguments, for launches in a row; it waits for nothing.

        Its device must be the current one, now and then.

        `sizes`: as they were checked.
        `stream`: handle of the stream.
        `values`: the kernel's arguments by value.

        Raises LaunchError if the driver refuses the launch, or an earlier kernel failed.
        """
        addresses = [ctypes.addressof(value) for value in values]
        table = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        grid, block, dynamic_bytes = sizes.grid, sizes.block, sizes.shared_bytes
        driver, handle = cupy().cuda.driver, self._handle
        numbers = (*grid, *block, dynamic_bytes, stream, ctypes.addressof(table), 0)

        def failed(error: RuntimeError) -> LaunchError:
            return LaunchError(
                f"{self.symbol}: the launch of {_sizes(grid)} blocks of {_sizes(block)} "
                f"threads on cuda:{self.device} failed: {_one_line(error)}"
            )

        def launch(_held: object = (self, table, values)) -> None:
            try:
                driver.launchKernel(handle, *numbers)
            except RuntimeError as error:
                raise failed(error) from error

        try:
            if dynamic_bytes > self._dynamic_bytes:
                what = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                driver.funcSetAttribute(handle, what, dynamic_bytes)
                self._dynamic_bytes = dynamic_bytes
        except RuntimeError as error:
            raise failed(error) from error
        return launch


def _sizes(extents: tuple[int, int, int]) -> str:
    return " x ".join(map(str, extents))


def _text(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _one_line(error: Exception) -> str:
    return " ".join(f"{error}".split()) or type(error).__name__
