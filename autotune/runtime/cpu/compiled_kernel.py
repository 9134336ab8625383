"""Machine code called with arrays: compiled here, or loaded from a file."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from autotune.runtime.argument_checks import ArgumentChecker, Array, address_of
from autotune.runtime.cpu.openmp import launches
from autotune.runtime.signature import Signature
from autotune.target import Target


@dataclass(frozen=True)
class CpuBinary:
    """An object file with all facts needed to load and call it: plain data, made without arrays."""

    #: What it takes.
    signature: Signature
    #: What it was compiled for.
    target: Target
    #: Symbol of its entry point.
    entry: str
    #: Functions of the system that it may call.
    external: tuple[str, ...]
    #: Whether it has parallel loops, and so calls OpenMP.
    uses_threads: bool
    #: The object file.
    object_code: bytes

    resources = None


class Kernel:
    """A function of arrays, called with them in order; outputs are written in place.

    Parameters
    ----------
    signature : Signature
        What it takes.
    address : int
        Where its code is: `int32 entry(void *arrays..., int64 sizes..., int32 threads)`, which
        returns 0, or 1 when scratch memory could not be allocated.
    threads : int
        Threads that its parallel loops ask for.
    bound_address : int
        Where a function is that takes a pointer to the same arguments, 8 bytes each; 0 if there is
        none. Each argument that Python passes takes it about 40 ns.

    Attributes
    ----------
    signature, address, threads
        As given.
    constants : tuple of ndarray
        Arrays that it is always called with, after those of its calls.
    """

    def __init__(
        self, signature: Signature, address: int, threads: int, bound_address: int = 0
    ) -> None:
        self.signature = signature
        self.address = address
        self.threads = threads
        self.constants: tuple[Array, ...] = ()
        self._checker = ArgumentChecker(signature)
        self._addresses: list[int] = []
        pointers = [ctypes.c_void_p] * len(signature.parameters)
        sizes = [ctypes.c_int64] * len(signature.sizes)
        self._types = [*pointers, *sizes]
        self._call = ctypes.CFUNCTYPE(ctypes.c_int, *self._types, ctypes.c_int)(address)
        self._bound_call: Any = None
        if bound_address:
            self._bound_call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(bound_address)

    def given(self, constants: Sequence[Array]) -> Self:
        """Return the function with its last arrays fixed: calls take the others alone."""
        made = copy.copy(self)
        made.constants = tuple(constants)
        made._addresses = [address_of(array) for array in constants]
        own = self.signature.parameters[: -len(constants) or None]
        made.signature = replace(self.signature, parameters=own)
        made._checker = ArgumentChecker(made.signature)
        return made

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of the CPU, inputs then outputs; outputs are written in place.

        Arrays are NumPy's or offer their memory through ``__array_interface__`` or DLPack, and
        are never copied.

        Raises
        ------
        ArgumentError
            If an array does not have the dtype, shape, layout or access that is needed, or an
            output overlaps another argument.
        MemoryError
            If scratch memory could not be allocated.
        """
        values = self._values(self._checker.arrays(arrays))
        if self.threads == 1:
            status = self._call(*values, 1)
        else:
            with launches.lock:
                status = self._call(*values, launches.threads(self.threads))
        if status:
            raise self._no_memory()

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Check the arrays once and return a call without arguments, for calls in a row.

        The arrays must not be resized while the result is in use.
        """
        held = self._checker.arrays(arrays)
        values, threads = self._values(held), self.threads
        alone, together = (self._bound(values, number) for number in (1, threads))

        def call(_held: object = (arrays, held)) -> None:
            if threads == 1:
                status = alone()
            else:
                with launches.lock:
                    is_alone = launches.forked and launches.threads(threads) == 1
                    status = alone() if is_alone else together()
            if status:
                raise self._no_memory()

        return call

    def _bound(self, values: Sequence[int], threads: int) -> Callable[[], int]:
        """Return a call with some values, which are converted once.

        Of a call of a microsecond that would be a third.
        """
        if self._bound_call is None:
            own = [to(value) for to, value in zip(self._types, values, strict=True)]
            return partial(self._call, *own, ctypes.c_int(threads))
        every = (ctypes.c_int64 * (len(values) + 1))(*values, threads)
        return partial(self._bound_call, ctypes.cast(every, ctypes.c_void_p))

    def _values(self, arrays: Sequence[Array]) -> list[int]:
        """Return the addresses of all arrays, and the sizes, for some arrays of a call."""
        values = self._checker.values(arrays)
        if self._addresses:
            values[len(arrays) : len(arrays)] = self._addresses
        return values

    def _no_memory(self) -> MemoryError:
        return MemoryError(f"{self.signature.name}: scratch memory could not be allocated")
