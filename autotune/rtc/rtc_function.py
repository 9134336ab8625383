"""Kernels made of text: compiled once for everything they depend on, and launched with checks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.codegen.cuda.device_source import IndexType, device_header
from autotune.errors import TargetError, UsageError
from autotune.external.external_kernel import check_source
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.launch_limits import LaunchSizes, check_launch, limits_of_arch
from autotune.runtime.cuda.loaded_program import bind_kernel
from autotune.runtime.cuda.nvrtc import Cubin, Usage, compile_cubin
from autotune.runtime.object_cache import default_cache
from autotune.target import GpuLimits

_KEPT = 1024  # Functions that the process keeps at most; beyond, the least recently used go.


@dataclass(frozen=True, eq=False, repr=False)
class RTCFunction:
    """A kernel, compiled, and on a GPU loaded when it is first launched.

    Attributes
    ----------
    name : str
        As it was asked for.
    source : str
        All that was compiled: header, parameters, code.
    cubin : Cubin
        Its machine code, with the compiler's log.
    device : int or None
        Number of the GPU; None if it was compiled for an architecture alone.
    """

    name: str
    source: str
    cubin: Cubin
    device: int | None

    def __repr__(self) -> str:
        place = "" if self.device is None else f" on cuda:{self.device}"
        return f"<kernel {self.name} for {self.cubin.arch}{place}>"

    @property
    def usage(self) -> Usage:
        """Registers, spills, stack and declared shared memory."""
        return self.cubin.usage(self.name)

    @functools.cached_property
    def limits(self) -> GpuLimits:
        """Limits of a launch: of the device, or else of the architecture."""
        return (
            limits_of_arch(self.cubin.arch)
            if self.device is None
            else cupy_driver.limits_of(self.device)
        )

    @functools.cached_property
    def loaded(self) -> cupy_driver.LoadedKernel:
        """The kernel in the GPU's memory.

        Raises
        ------
        TargetError
            If it was compiled without a device.
        """
        if self.device is None:
            raise TargetError(
                f"{self.name} was compiled for {self.cubin.arch} without a device, so it cannot be "
                "launched: name a device, such as device=0, where there is one"
            )
        return cupy_driver.LoadedKernel(self.cubin, self.cubin.symbols[self.name], self.device)

    def check(self, grid: Any, block: Any, shared_memory: int = 0) -> LaunchSizes:
        """Return the sizes of a launch if it may be; needs no device.

        Raises
        ------
        LaunchError
            If the architecture or the device does not allow them: the message has limit and value.
        """
        sizes = LaunchSizes.of(self.name, grid, block, shared_memory)
        arch = self.cubin.arch
        where = arch if self.device is None else f"cuda:{self.device} ({arch})"
        check_launch(self.name, sizes, self.usage, self.limits, where)
        return sizes


def get_function(
    parameters: str,
    name: str,
    code: str,
    device: int | str = 0,
    *,
    flags: Sequence[str] = (),
    index: IndexType = "int64",
) -> RTCFunction:
    """Return a kernel, compiled now unless it was before: by this process or, on disk, by any.

    The text that is compiled is the device header, then the parameters, then the code; errors
    count the lines of each from 1, as in "code(3)". What is kept is found by name, parameters,
    code, flags, architecture and version of the compiler.

    Parameters
    ----------
    parameters : str
        Declarations that the code relies on, such as ``using InputType = float16;``.
    name : str
        The kernel's name, as C++ writes it: ``scale``, ``scale<float32>``.
    code : str
        The kernel.
    device : int or str
        Number of a GPU; or an architecture such as "sm_90", without a GPU: such a kernel is
        compiled, and its launches can be checked but not made.
    flags : sequence of str
        Further options of NVRTC.
    index : {"int32", "int64"}
        Type of indices, `index_t` in the code.

    Raises
    ------
    UsageError
        If an argument is not what it should be.
    CompileError
        If the compiler refuses the text; the message names the file that it is saved in.
    TargetError
        If there is no compiler, no such device, or the architecture is unknown.
    """
    for what, text in {"parameters": parameters, "name": name, "code": code}.items():
        check_source(text, what)
    if isinstance(flags, str):
        raise UsageError(f"flags must be a list of options, got the text {flags!r}")
    number = None if isinstance(device, str) else _device_number(device)
    arch = device if isinstance(device, str) else _arch_of(device)
    source = "\n".join([device_header(index), _part("parameters", parameters), _part("code", code)])
    return _function(name, source, tuple(flags), arch, number)


@functools.lru_cache(maxsize=_KEPT)
def _function(
    name: str, source: str, flags: tuple[str, ...], arch: str, device: int | None
) -> RTCFunction:
    cubin = compile_cubin(source, arch, flags, [name], default_cache())
    return RTCFunction(name, source, cubin, device)


def _part(name: str, text: str) -> str:
    """Return a part of a source whose lines the compiler counts from 1, under the part's name."""
    return f'#line 1 "{name}"\n{text}'


def _arch_of(device: int) -> str:
    try:
        return cupy_driver.arch_of(device)
    except TargetError as error:
        raise TargetError(
            f"{error}; device='sm_90' compiles for an architecture without a GPU"
        ) from None


def _device_number(device: Any) -> int:
    if not isinstance(device, int) or isinstance(device, bool):
        raise UsageError(
            f"device must be the number of a GPU, or an architecture such as 'sm_90', "
            f"got {device!r}"
        )
    return device


def launch(
    kernel: RTCFunction,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    shared_memory: int,
    stream: Any,
    args: Sequence[Any],
) -> None:
    """Launch a kernel, after its sizes and arguments were checked.

    Parameters
    ----------
    kernel : RTCFunction
        From `get_function`, for a device.
    grid, block : int or sequence of int
        Blocks, and threads of a block, along x, y and z.
    shared_memory : int
        Bytes of dynamic shared memory of a block.
    stream : object
        A stream of CuPy, PyTorch or another library with ``__cuda_stream__``, or a handle; None is
        CuPy's current stream. The call does not wait for the kernel.
    args : sequence
        One for each parameter of the kernel: arrays of that GPU (DLPack or
        ``__cuda_array_interface__``), which are handed over as pointers; NumPy numbers, ctypes
        structures or bytes, as they are; Python's whole numbers, in the parameter's size.

    Raises
    ------
    LaunchError
        If sizes are beyond what the device, or this kernel, allows, or the launch fails.
    ArgumentError
        If there are more or fewer arguments than parameters, or one has another size than its
        parameter or is in other memory.
    TargetError
        If the kernel was compiled without a device.
    """
    loaded = kernel.loaded
    sizes = LaunchSizes.of(kernel.name, grid, block, shared_memory)
    handle = cupy_driver.stream_handle(stream, loaded.device)
    with cupy_driver.cupy().cuda.Device(loaded.device):
        bind_kernel(loaded, kernel.name, sizes, args, handle)()
