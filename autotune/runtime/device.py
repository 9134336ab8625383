"""What a kind of device is to the rest: how code is made for it, run, checked and timed there.

A kind of device is a folder beside this file, with a `Backend` that is listed in `backends.py`. Its
`Device` is what a runner needs; one bench, one set of buffers, one check and one roofline use it
(`autotune.measure`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from autotune.ir.stmt import PrimFunc
    from autotune.lowering.split_constants import PreparedFunction
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
        """What the function takes."""

    @property
    def resources(self) -> list[dict[str, Any]] | None:
        """What each kernel takes of the device, as plain data; None if nobody asks for it."""


class DeviceFunction(Protocol):
    """A function that was built for a user, called with its arrays in order."""

    @property
    def source(self) -> str:
        """Text that was compiled."""

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays, inputs then outputs; outputs are written in place."""

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Return a call without arguments, for calls in a row."""


class Backend(Protocol):
    """A kind of device, for processes that do not use one: to compile needs no device.

    It may be a module with these functions.
    """

    def preload(self) -> None:
        """Import what the other functions import when they are called, before workers fork."""

    def facts(self, target: Target) -> dict[str, Any]:
        """Describe the device that a target names, without making it this process's own.

        "device": what records say of it. "arch": the architecture that candidates are compiled for,
        None where the target says it all. "versions": of its driver and compilers.

        TargetError if the device cannot be used, or does not run what the target asks for: one
        line.
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
        """Return a function in final form as what users call.

        `constants`: sequence of ndarray: its constant inputs, which nobody else changes.
        """

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], beside: Sequence[Any], /
    ) -> DeviceArray:
        """Return a new array for users, on the same device as the other arrays of the call."""

    def contiguous(self, array: Any) -> Any:
        """Return a user's array C-contiguous: a copy, if it is not yet."""

    def take_device(self, target: Target) -> Device:
        """Make the device that a target names this process's own.

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
    """A device that one process owns: its arrays, clock and code, and what it can do at best."""

    target: Target
    #: For messages.
    name: str
    #: Memory that it has.
    memory_bytes: int
    #: Whether it is the processor that runs this process: its arrays are NumPy's, calls return when
    #: the kernel has ended, and neighbours can take a core away while a kernel is timed.
    is_host: bool
    #: NumPy, or a library with its functions for arrays of the device.
    xp: Any
    #: Elements that are compared together.
    chunk: int
    #: What could not be had, a line each.
    notes: list[str]

    # -- arrays ----------------------------------------------------------------------------

    def stored_as(self, dtype: str) -> np.dtype[Any]:
        """Return the type that `xp` holds elements in: bits, for a type that it does not know."""

    def widened(self, array: DeviceArray, dtype: str) -> DeviceArray:
        """Return elements as differences are computed: half types as float32, others as is."""

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
        """Wait until all that was started has ended; raises what became of it."""

    @property
    def usable(self) -> bool:
        """Whether the device still works for this process; after some errors it never does."""

    # -- time ------------------------------------------------------------------------------

    @property
    def loop(self) -> Loop | None:
        """Times calls by the device's own clock; None if the processor's clock is as good."""

    def new_kernel(self) -> None:
        """Let `loop` know that the calls to come are of another kernel."""

    @property
    def flush(self) -> Call:
        """A call that evicts what the caches hold."""

    def clocks(self) -> dict[str, int] | None:
        """Return the clocks in MHz at this moment, by name; None if they are not known."""

    # -- what it can do at best ------------------------------------------------------------

    def multiply_adds(self, dtype: str) -> tuple[Call, float]:
        """Return a call that multiplies and adds in registers for 1 or 2 ms, and how often."""

    def copies(self, touched_bytes: float | None) -> list[tuple[Call, float]]:
        """Return ways to copy, each with the bytes that it reads and writes.

        `touched_bytes`: about how many bytes, those read and those written; None: more than any
        cache holds.
        """

    def library(
        self, reference: object, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> Call | None:
        """Return a call of the vendor's kernel for the work of a template's reference, or None."""
