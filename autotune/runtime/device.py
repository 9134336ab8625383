"""The interface of a kind of device: how code is compiled for it, loaded, run and timed.

A kind of device is a folder next to this file, with a `Backend` that is listed in `backends.py`. A
runner uses its `Device`; all kinds share one bench, one set of buffers, one check and one roofline
(`autotune.measure`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from autotune.ir.stmt import PrimFunc
    from autotune.lowering.lift_constants import PreparedFunction
    from autotune.runtime.signature import Signature
    from autotune.target import Target

Host = npt.NDArray[Any]  # An array in the memory of this process.
DeviceArray = Any  # An array of a device's library, such as CuPy's; on a CPU one of NumPy.

# Starts a kernel on arrays that were bound to it. It may return before the kernel ends.
Call = Callable[[], object]

# Makes this number of calls in a row, and returns their total time in seconds.
Loop = Callable[[Call, int], float]


class Binary(Protocol):
    """Machine code of a function as plain data: one process compiles it, another one loads it.

    It is pickled in between.
    """

    @property
    def signature(self) -> Signature:
        """Parameters of the function."""

    @property
    def resources(self) -> list[dict[str, Any]] | None:
        """Registers and memory of each kernel, as plain data; None if they are not recorded."""


class DeviceFunction(Protocol):
    """A function that was built for a user, called with its arrays in order."""

    @property
    def signature(self) -> Signature:
        """What calls take."""

    @property
    def source(self) -> str:
        """Text that was compiled."""

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays, inputs then outputs; outputs are written in place."""

    def bind(self, *arrays: Any) -> Call:
        """Return a call without arguments, for calls in a row."""


class Backend(Protocol):
    """A kind of device, for processes that do not use one: compiling needs no device.

    It may be a module with these functions.
    """

    def preload(self) -> None:
        """Import the modules that the other functions import late, before workers fork."""

    def facts(self, target: Target) -> dict[str, Any]:
        """Describe the device that a target names, without making it this process's own.

        "device": its description in records. "arch": the architecture that candidates are compiled
        for, None if the target contains it. "versions": of its driver and compilers.

        TargetError, one line, if the device cannot be used, or cannot run the target's code.
        """

    def compile_binary(
        self, function: PrimFunc, target: Target, arch: str | None = None, /
    ) -> Binary:
        """Compile a function in final form for another process to load.

        It may raise CodegenError, CompileError, LaunchError, TargetError.
        """

    def build_function(
        self, function: PreparedFunction, target: Target, constants: Sequence[Host], /
    ) -> DeviceFunction:
        """Return a function in final form as a function that users call.

        `constants`: its constant inputs, which nobody else changes.
        """

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], beside: Sequence[Any], /
    ) -> DeviceArray:
        """Return a new array for users, on the same device as the other arrays of the call."""

    def loop(self, arrays: Sequence[Any], /) -> Loop | None:
        """Return what times calls on some arrays of users, as `Device.loop`.

        Raises TargetError if the device cannot be used.
        """

    def contiguous(self, array: Any) -> Any:
        """Return a user's array if it is C-contiguous, else a contiguous copy."""

    def take_device(self, target: Target) -> Device:
        """Take the device that a target names for this process alone.

        Raises TargetError if it cannot be used.
        """


class Copy(Protocol):
    """A copy of an array that no candidate may change."""

    #: In the device's memory.
    array: DeviceArray

    @property
    def intact(self) -> bool:
        """Whether its contents are unchanged, as far as can be checked."""


class Device(Protocol):
    """A device that one process owns: its arrays, code, clock and peak performance."""

    target: Target
    #: For messages.
    name: str
    #: Size of its memory.
    memory_bytes: int
    #: Whether it is the processor that runs this process: its arrays are NumPy's, calls return when
    #: the kernel has ended, and other programs can take a core while a kernel is timed.
    is_host: bool
    #: NumPy, or a library with the same functions for arrays of the device.
    xp: Any
    #: Number of elements that are compared at once.
    chunk: int
    #: Things that are missing on this machine, a line each.
    notes: list[str]

    # -- arrays ----------------------------------------------------------------------------

    def stored_as(self, dtype: str) -> np.dtype[Any]:
        """Return the type of elements in `xp`: an integer type of the bits if `xp` lacks it."""

    def widened(self, array: DeviceArray, dtype: str) -> DeviceArray:
        """Return elements in the type of differences: half types as float32, others as is."""

    def upload(self, array: DeviceArray, values: Host) -> None:
        """Fill an array from the CPU with values as `stored_as` says, C-contiguous."""

    def download(self, array: DeviceArray) -> Host:
        """Return an array, as `stored_as` says, in the memory of this process."""

    def keep(self, array: DeviceArray) -> Copy:
        """Return a copy of an array, of this device or the CPU, that no candidate may change."""

    # -- code ------------------------------------------------------------------------------

    def load(self, binary: Any) -> Any:
        """Load code that was compiled for this kind of device, to be bound to arrays.

        Raises CodegenError if it cannot be linked. Raises LaunchError or TargetError if the driver
        refuses it, or it is for another device.
        """

    def bind(self, loaded: Any, arrays: Sequence[DeviceArray]) -> Call:
        """Return a call of loaded code on arrays, inputs then outputs, for calls in a row."""

    def wait(self) -> None:
        """Wait until all started work has ended; raise its error."""

    @property
    def usable(self) -> bool:
        """Whether the device still works for this process; after some errors it never does."""

    # -- time ------------------------------------------------------------------------------

    @property
    def loop(self) -> Loop | None:
        """Times calls by the device's own clock; None if the processor's clock is as good."""

    def new_kernel(self) -> None:
        """Tell `loop` that the next calls are of another kernel."""

    @property
    def flush(self) -> Call:
        """A call that evicts the contents of the caches."""

    def clocks(self) -> dict[str, int] | None:
        """Return the clocks in MHz at this moment, by name; None if they are not known."""

    # -- peak performance ------------------------------------------------------------------

    def multiply_adds(self, dtype: str) -> tuple[Call, float]:
        """Return a call that multiplies and adds in registers for 1 or 2 ms, and its number."""

    def copies(self, touched_bytes: float | None) -> list[tuple[Call, float]]:
        """Return ways to copy, each with the number of bytes that it reads and writes.

        `touched_bytes`: this number, approximately; None for more than any cache holds.
        """

    def library(
        self, reference: object, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> Call | None:
        """Return a call of the vendor's kernel for the work of a template's reference, or None."""
