"""Machine code of a function that prepares its constant inputs once, and is called without them.

See `autotune.lowering.lift_constants`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autotune.runtime.cpu.aligned_arrays import aligned_copy, aligned_zeros
from autotune.runtime.device import Binary, Call, Device, DeviceArray
from autotune.runtime.signature import ArrayParameter, Signature

if TYPE_CHECKING:
    from autotune.ir.stmt import PrimFunc
    from autotune.lowering.lift_constants import PreparedFunction


@dataclass(frozen=True)
class PreparedBinary:
    """Machine code of a `PreparedFunction` as plain data."""

    #: What is called and timed.
    main: Binary
    #: What runs once before, if anything does.
    prepare: Binary | None
    #: As of `PreparedFunction`.
    constants: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def compiled(
        cls, function: PreparedFunction, compile_one: Callable[[PrimFunc], Binary]
    ) -> PreparedBinary:
        """Compile both functions."""
        main, *rest = map(compile_one, function.functions)
        return cls(main, rest[0] if rest else None, function.constants, function.kept)

    @property
    def signature(self) -> Signature:
        """The signature of the called function."""
        return self.main.signature

    @property
    def resources(self) -> list[dict[str, Any]] | None:
        """Registers and memory of the kernels of `main`."""
        return self.main.resources


class PreparedCandidate:
    """A `PreparedBinary` in the memory of a device."""

    def __init__(self, binary: PreparedBinary, device: Device) -> None:
        self._binary = binary
        self._device = device
        self._main = device.load(binary.main)
        self._prepare = None if binary.prepare is None else device.load(binary.prepare)

    def on(self, arrays: Sequence[DeviceArray]) -> tuple[Any, list[DeviceArray]]:
        """Return the loaded function and its arrays, after preparing the constants.

        `arrays`: sequence of array: all inputs and outputs of the workload, on the device.
        """
        binary, device = self._binary, self._device
        kept = [arrays[position] for position in binary.kept]
        made: list[DeviceArray] = []
        if binary.prepare is not None:
            made = [self._new(p) for p in binary.prepare.signature.parameters if p.is_output]
            constants = [arrays[position] for position in binary.constants]
            device.bind(self._prepare, [*constants, *made])()
            device.wait()
        own = [a for number, a in enumerate(arrays) if number not in binary.constants]
        if not device.is_host:
            return self._main, [*own, *kept, *made]
        # A built function has its own copy of a constant.
        return self._main.given([*map(aligned_copy, kept), *made]), own

    def bind(self, arrays: Sequence[DeviceArray]) -> Call:
        """Return a call on some arrays, once the constants among them are prepared."""
        main, own = self.on(arrays)
        call = self._device.bind(main, own)
        if self._device.is_host:
            return call  # which keeps the arrays

        def with_arrays(_held: object = own) -> None:
            call()

        return with_arrays

    def _new(self, parameter: ArrayParameter) -> DeviceArray:
        device, shape = self._device, parameter.fixed or ()
        kind = device.stored_as(parameter.dtype)
        return aligned_zeros(shape, kind) if device.is_host else device.xp.zeros(shape, kind)
