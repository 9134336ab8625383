"""The launcher of kernels as text that take vectors: it finds types, lanes and alignment.

Such a kernel's text is the same for all types. It relies on names that are declared here, by what
arrays it is launched on: `InputType0`, `OutputType0` and so on, `nvec` and `aligned`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.codegen.cuda.device_source import IndexType
from autotune.errors import ArgumentError, UsageError
from autotune.rtc.rtc_function import RTCFunction, get_function, launch
from autotune.rtc.vector_plan import VectorPlan, plan_vectors
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_arrays import GpuArray, device_of, named_array

THREADS = 512  # Threads of a block: `kRTCMaxThreadsPerBlock` of the device header.
MAX_BLOCKS = 1 << 14  # Blocks of a launch; their threads do the other elements in further steps.

_MAX_LANES = 64

# Elements from which on indices are 64-bit: a thread steps so far beyond the last one.
_MAX_INT32 = 2**31 - MAX_BLOCKS * THREADS * _MAX_LANES


@dataclass(frozen=True)
class VectorizedKernel:
    """A kernel of vectors for arrays of given types at given addresses; made without a GPU.

    Attributes
    ----------
    name : str
        Of the kernel in the text.
    parameters : str
        Declarations that its text relies on: those given, then what was found.
    code : str
        The text.
    plan : VectorPlan
        Lanes, alignment, and vectors of a row.
    lead_dim, other_dim : int
        Elements of a row, and rows.
    index : {"int32", "int64"}
        Type of ``index_t``.
    """

    name: str
    parameters: str
    code: str
    plan: VectorPlan
    lead_dim: int
    other_dim: int
    index: IndexType

    @classmethod
    def of(
        cls,
        parameters: str,
        name: str,
        code: str,
        nvec: int,
        lead_dim: int,
        other_dim: int,
        inputs: Sequence[tuple[int, str]],
        outputs: Sequence[tuple[int, str]],
    ) -> VectorizedKernel:
        """Return the kernel for arrays, each given as its address in bytes and its type.

        Raises
        ------
        UsageError
            If there is no output, or a number is not what it should be.
        """
        if not (_is_count(nvec) and nvec & (nvec - 1) == 0 and 1 <= nvec <= _MAX_LANES):
            raise UsageError(
                f"{name}: nvec must be a power of two from 1 to {_MAX_LANES}, got {nvec!r}"
            )
        for what, value in {"lead_dim": lead_dim, "other_dim": other_dim}.items():
            if not _is_count(value):
                raise UsageError(f"{name}: {what} must be a whole number >= 0, got {value!r}")
        if not outputs:
            raise UsageError(f"{name}: there must be one output at least")
        arrays = [*inputs, *outputs]
        addresses, types = [a for a, _ in arrays], [t for _, t in arrays]
        plan = plan_vectors(addresses, types, int(lead_dim), int(other_dim), int(nvec))
        lines = [
            *(f"using InputType{i} = {dtype};" for i, (_, dtype) in enumerate(inputs)),
            *(f"using OutputType{i} = {dtype};" for i, (_, dtype) in enumerate(outputs)),
            f"constexpr int nvec = {plan.lanes};",
            f"constexpr bool aligned = {str(plan.aligned).lower()};",
        ]
        found = "\n".join([parameters, *lines, ""])
        index: IndexType = "int32" if lead_dim * other_dim < _MAX_INT32 else "int64"
        return cls(name, found, code, plan, int(lead_dim), int(other_dim), index)

    def compiled(self, device: int | str) -> RTCFunction:
        """Return the compiled kernel.

        Raises
        ------
        CompileError, TargetError
            As `get_function`.
        """
        return get_function(self.parameters, self.name, self.code, device, index=self.index)

    @property
    def sizes(self) -> list[int]:
        """The last arguments: row, rows, all elements, and vectors of a row."""
        return [self.lead_dim, self.other_dim, self.lead_dim * self.other_dim, self.plan.vectors]

    @property
    def blocks(self) -> int:
        """Blocks that it is launched with: a thread for each vector, as far as they go."""
        return max(1, min(-(-self.plan.vectors * self.other_dim // THREADS), MAX_BLOCKS))


def VectorizedKernelRTCLauncher(
    parameters: str,
    kernel_name: str,
    code: str,
    nvec: int,
    lead_dim: int,
    other_dim: int,
    stream: Any,
    params: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    dev_id: int | None = None,
    *,
    blocks: int | None = None,
) -> None:
    """Launch a kernel as text that takes vectors; the call does not wait for it.

    The text relies on `InputType0`, ..., `OutputType0`, ..., `nvec` and `aligned`, which are found
    from the arrays: vectors have `nvec` lanes, or as many as all addresses allow; `aligned` says
    that no row begins or ends inside of one. The kernel takes `params`, then four `index_t`:
    lead_dim, other_dim, their product N, and the vectors of a row.

    Parameters
    ----------
    parameters : str
        Further declarations that the text relies on.
    kernel_name, code : str
        Name of the kernel, and its text.
    nvec : int
        Most lanes of a vector, a power of two: 2 for float64, 4 for float32 move 16 bytes.
    lead_dim, other_dim : int
        Elements of a row, which follow one another, and rows. Each array has as many elements as
        both together.
    stream : object
        As for `launch`.
    params : object
        The kernel's first argument: ctypes data or bytes. None: the addresses of the inputs, then
        of the outputs, as ``struct { const void* inputs[I]; void* outputs[O]; }`` has them.
    inputs, outputs : sequence of array
        In the memory of one GPU, C-contiguous, of any types (DLPack or
        ``__cuda_array_interface__``).
    dev_id : int, optional
        Number of that GPU; by default that of the first array.
    blocks : int, optional
        Blocks of 512 threads; by default so many that each thread has one vector, at most 16,384.

    Raises
    ------
    UsageError, ArgumentError
        If an argument is not what it should be.
    CompileError, LaunchError, TargetError
        As `get_function` and `launch`.
    """
    cupy_driver.device_count()  # report a missing GPU before mistakes in the arrays
    given = [*_listed(kernel_name, "inputs", inputs), *_listed(kernel_name, "outputs", outputs)]
    device = dev_id
    if device is None:
        device = device_of(given[0]) if given else 0
    handle = cupy_driver.stream_handle(stream, device)
    arrays = [
        named_array(f"{kernel_name}: {_place(number, len(inputs))}", array, device, handle)
        for number, array in enumerate(given)
    ]
    described = [(array.address, array.dtype) for array in arrays]
    kernel = VectorizedKernel.of(
        parameters, kernel_name, code, nvec, lead_dim, other_dim,
        described[: len(inputs)], described[len(inputs) :],
    )  # fmt: skip
    count = kernel.lead_dim * kernel.other_dim
    for number, array in enumerate(arrays):
        _check(f"{kernel_name}: {_place(number, len(inputs))}", array, count, number >= len(inputs))
    if count == 0:
        return
    first = _addresses(arrays) if params is None else params
    grid = kernel.blocks if blocks is None else blocks
    launch(kernel.compiled(device), grid, THREADS, 0, handle, [first, *kernel.sizes])


def _is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and int(value) >= 0


def _listed(kernel: str, what: str, arrays: Any) -> list[Any]:
    if not isinstance(arrays, (list, tuple)):
        raise UsageError(
            f"{kernel}: {what} must be a list of arrays, as in [x], got {type(arrays).__name__}"
        )
    return list(arrays)


def _place(number: int, inputs: int) -> str:
    return f"input {number}" if number < inputs else f"output {number - inputs}"


def _check(place: str, array: GpuArray, count: int, is_output: bool) -> None:
    if array.size != count:
        raise ArgumentError(
            f"{place} must have lead_dim * other_dim = {count} elements, got {array.size}"
        )
    if is_output and not array.writeable:
        raise ArgumentError(f"{place} is written, so it must be writeable")


def _addresses(arrays: Sequence[GpuArray]) -> bytes:
    return bytes((ctypes.c_uint64 * len(arrays))(*(array.address for array in arrays)))
