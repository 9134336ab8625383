"""The arrays that candidates run on: guard zones around each, and copies of the inputs.

A kernel that writes outside of its arrays may still give the right answer on this machine.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from autotune.ir import dtypes
from autotune.runtime.device import Copy, Device, DeviceArray, Host
from autotune.runtime.signature import ArrayParameter
from autotune.system.words import counted

# Bytes of the guard zone before and after each array: many rows of a tile, and quick to compare.
ZONE = 1 << 16


class Buffers:
    """Inputs and outputs of a workload with guard zones, and the values that the inputs must keep.

    On a CPU the arrays have the same offset from a cache line as NumPy's own, because users' arrays
    have it.

    parameters: inputs and outputs, of known sizes.
    """

    def __init__(self, device: Device, parameters: Sequence[ArrayParameter]) -> None:
        self._device = device
        self._pattern = device.keep(zone_pattern())
        self._guarded = [_Guarded(device, p, self._pattern.array) for p in parameters]
        # In the order of the parameters, on the device, of types as `Device.stored_as` says.
        self.arrays = [guarded.array for guarded in self._guarded]
        # Those among them.
        self.inputs = [g.array for g in self._guarded if not g.is_output]
        self.outputs = [g.array for g in self._guarded if g.is_output]
        self._sources: list[Copy] = []
        self._parameters = parameters
        self._copies: dict[int, _Guarded] = {}  # of inputs, by their positions

    @property
    def nbytes(self) -> int:
        """Bytes of inputs and outputs."""
        return sum(int(array.nbytes) for array in self.arrays)

    def fill(self, inputs: Sequence[Host]) -> None:
        """Let the inputs hold these values, and keep them."""
        for array, values in zip(self.inputs, inputs, strict=True):
            self._device.upload(array, values.view(array.dtype))
        self.seal()

    def seal(self) -> None:
        """Keep the present values of the inputs where no kernel can change them unseen."""
        self._sources = [self._device.keep(array) for array in self.inputs]

    def copies(self, positions: Sequence[int]) -> list[DeviceArray]:
        """Return copies of inputs between guard zones, which the next candidate may overwrite."""
        for n in positions:
            if n not in self._copies:
                self._copies[n] = _Guarded(self._device, self._parameters[n], self._pattern.array)
            self._copies[n].array[...] = self.arrays[n]
        return [self._copies[n].array for n in positions]

    def restore(self) -> None:
        """Restore the inputs and all guard zones to their values at the time of `seal`."""
        for array, source in zip(self.inputs, self._sources, strict=True):
            array[...] = source.array
        for guarded in self._all:
            guarded.renew()

    @property
    def _all(self) -> list[_Guarded]:
        return [*self._guarded, *self._copies.values()]

    @property
    def intact(self) -> bool:
        """Whether the kept copies of the inputs are unchanged, as far as can be checked."""
        return all(copy.intact for copy in [self._pattern, *self._sources])

    def downloaded_inputs(self) -> list[Host]:
        """Return the inputs on the CPU, of the parameters' types."""
        return [
            self._device.download(g.array).view(g.dtype) for g in self._guarded if not g.is_output
        ]

    def find_damage(self) -> str | None:
        """Return a message on memory that was changed and must not be, or None.

        Guard zones and inputs must not change; outputs may hold anything.
        """
        for guarded in self._all:
            if (words := guarded.find_damage()) is not None:
                return words
        inputs = [guarded for guarded in self._guarded if not guarded.is_output]
        for guarded, source in zip(inputs, self._sources, strict=True):
            if (words := guarded.find_change(source.array)) is not None:
                return words
        return None


class _Guarded:
    """An uninitialised array on a device, between two guard zones that hold a pattern."""

    def __init__(self, device: Device, parameter: ArrayParameter, pattern: DeviceArray) -> None:
        self.name, self.is_output = parameter.name, parameter.is_output
        self.dtype = dtypes.numpy_dtype(parameter.dtype)
        self._device, self._pattern = device, pattern
        kind, shape = device.stored_as(parameter.dtype), parameter.fixed or ()
        count = kind.itemsize * math.prod(shape)
        memory = device.xp.empty((ZONE + count + ZONE,), device.xp.uint8)
        self._before, self._after = memory[:ZONE], memory[ZONE + count :]
        self.array: DeviceArray = memory[ZONE : ZONE + count].view(kind).reshape(shape)
        self.renew()

    def renew(self) -> None:
        self._before[...] = self._pattern
        self._after[...] = self._pattern

    def find_damage(self) -> str | None:
        """Return a message that says where a guard zone was changed, or None."""
        zones = (self._before, self._after)
        if not any(bool((zone != self._pattern).any()) for zone in zones):
            return None
        before, after = (self._device.download(zone) != zone_pattern() for zone in zones)
        if after.any():
            distance = counted(int(after.argmax()), "byte")
            return f"it wrote outside {self.name}: {distance} past its end"
        if before.any():
            place = int(before[::-1].argmax())
            return f"it wrote outside {self.name}: {counted(place + 1, 'byte')} before its start"
        return "it wrote into memory that it was not given"  # into the pattern itself

    def find_change(self, source: DeviceArray) -> str | None:
        """Return a message that says where the array differs from a copy first, or None.

        Bits are compared, so that NaN equals itself, and 0 does not equal -0.
        """
        bits = getattr(self._device.xp, f"uint{8 * source.itemsize}")
        now, before = (array.reshape(-1).view(bits) for array in (self.array, source))
        for begin in range(0, now.size, self._device.chunk):
            part = slice(begin, begin + self._device.chunk)
            if bool((now[part] != before[part]).any()):
                a, b = (self._device.download(array[part]) for array in (now, before))
                first = int((a != b).argmax())
                place = ", ".join(map(str, np.unravel_index(begin + first, source.shape)))
                found, was = (bits.view(self.dtype)[first] for bits in (a, b))
                return f"it changed its input {self.name}, first at [{place}]: {found}, was {was}"
        return None


@functools.cache
def zone_pattern() -> Host:
    """Return a pattern of bytes, different at each place, that no kernel writes by chance."""
    pattern = np.random.default_rng(20).integers(0, 256, ZONE, dtype=np.uint8)
    pattern.flags.writeable = False
    return pattern
