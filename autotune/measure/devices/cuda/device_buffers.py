"""The arrays that candidates run on, in a GPU's memory, between guard zones.

What inputs should hold is kept there, too. No page of a GPU can be sealed, so sums tell whether
a wild write has hit what is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import dtypes
from autotune.measure.checks.guard_zones import (
    ZONE,
    change_message,
    first_difference,
    zone_message,
    zone_pattern,
)
from autotune.runtime.signature import ArrayParameter

GpuArray = Any
"""An array of CuPy, or whatever has its functions."""

Host = npt.NDArray[Any]

_CHUNK = 1 << 22
"""Elements that are copied to the CPU together, where a difference is looked for."""

_BFLOAT16 = "bfloat16"


def stored_as(dtype: str) -> np.dtype[Any]:
    """Return the type that CuPy holds elements in: bits for bfloat16, which it does not know."""
    return np.dtype(np.uint16 if dtype == _BFLOAT16 else dtypes.numpy_dtype(dtype))


def widened(xp: Any, array: GpuArray, dtype: str) -> GpuArray:
    """Return elements as CuPy computes with them: half types as float32, others as they are."""
    if dtype == _BFLOAT16:
        return (array.astype(xp.uint32) << 16).view(xp.float32)
    return array.astype(xp.float32) if dtypes.is_half(dtype) else array


class DeviceArray:
    """An array of a workload in a GPU's memory, between two guard zones that hold a pattern.

    Parameters
    ----------
    xp : module
        CuPy, with the device and the stream that are to be used current.
    parameter : ArrayParameter
        Of fixed shape.
    pattern : array
        What zones hold, on the GPU.

    Attributes
    ----------
    name, dtype, is_output
        Of the parameter.
    array : array
        Its elements, as `stored_as` says.
    address : int
        Where they begin: at a multiple of 256 bytes.
    """

    def __init__(self, xp: Any, parameter: ArrayParameter, pattern: GpuArray) -> None:
        self.name, self.dtype, self.is_output = parameter.name, parameter.dtype, parameter.is_output
        kind, shape = stored_as(parameter.dtype), parameter.fixed or ()
        count = kind.itemsize * math.prod(shape)
        self._xp, self._pattern = xp, pattern
        memory = xp.empty((ZONE + count + ZONE,), xp.uint8)
        self._before, self._after = memory[:ZONE], memory[ZONE + count :]
        self.array: GpuArray = memory[ZONE : ZONE + count].view(kind).reshape(shape)
        self.address = int(memory.data.ptr) + ZONE
        self.renew()

    def renew(self) -> None:
        """Write the pattern into the zones."""
        self._before[...] = self._pattern
        self._after[...] = self._pattern

    def find_damage(self) -> str | None:
        """Return a message that says where a guard zone was changed, or None."""
        zones = (self._before, self._after)
        if not any(bool((zone != self._pattern).any()) for zone in zones):
            return None
        return zone_message(self.name, *(zone.get() for zone in zones))

    def upload(self, values: Host) -> None:
        """Take elements from the CPU, of the parameter's type and shape, C-contiguous."""
        self._xp.cuda.get_current_stream().synchronize()
        self.array.set(values.view(stored_as(self.dtype)))

    def download(self) -> Host:
        """Return the elements on the CPU, of the parameter's type."""
        return on_host(self.array, self.dtype)


def on_host(array: GpuArray, dtype: str) -> Host:
    """Return an array of the GPU on the CPU, with the type that it stands for."""
    found: Host = array.get()
    return found.view(dtypes.numpy_dtype(dtype))


class ChecksummedCopy:
    """A copy of an array on the GPU, which nobody changes, and a sum that tells if somebody did."""

    def __init__(self, xp: Any, array: GpuArray) -> None:
        self._xp = xp
        words = xp.zeros((-(-array.nbytes // 8),), xp.uint64)
        self.array: GpuArray = words.view(xp.uint8)[: array.nbytes].view(array.dtype)
        self.array = self.array.reshape(array.shape)
        self.array[...] = array
        self._words = words
        self._sum = self._summed()

    @property
    def intact(self) -> bool:
        """Whether it holds what it did, as far as its sum tells."""
        return self._summed() == self._sum

    def _summed(self) -> int:
        return int(self._words.sum(dtype=self._xp.uint64))


class DeviceBuffers:
    """Inputs and outputs of a workload in a GPU's memory, and what the inputs should hold.

    Parameters
    ----------
    xp : module
        CuPy, with the device and the stream that are to be used current.
    parameters : sequence of ArrayParameter
        Inputs and outputs, of fixed sizes.

    Attributes
    ----------
    all, inputs, outputs : list of DeviceArray
        In the order of the parameters.
    """

    def __init__(self, xp: Any, parameters: Sequence[ArrayParameter]) -> None:
        pattern = ChecksummedCopy(xp, xp.asarray(zone_pattern()))
        self.all = [DeviceArray(xp, parameter, pattern.array) for parameter in parameters]
        self.inputs = [held for held in self.all if not held.is_output]
        self.outputs = [held for held in self.all if held.is_output]
        self._xp = xp
        self._sealed = [pattern]
        self._sources: list[ChecksummedCopy] = []

    @property
    def nbytes(self) -> int:
        """Bytes of inputs and outputs."""
        return sum(int(held.array.nbytes) for held in self.all)

    @property
    def addresses(self) -> list[int]:
        """Addresses of inputs and outputs."""
        return [held.address for held in self.all]

    def fill(self, draw: Callable[[int, DeviceArray], Host]) -> None:
        """Let each input hold what a function of its number returns, and keep that."""
        self._sources = []
        for number, held in enumerate(self.inputs):
            held.upload(draw(number, held))
            self._sources.append(ChecksummedCopy(self._xp, held.array))

    def restore(self) -> None:
        """Make the inputs and all zones what they were."""
        for held, source in zip(self.inputs, self._sources, strict=True):
            held.array[...] = source.array
        for held in self.all:
            held.renew()

    @property
    def intact(self) -> bool:
        """Whether what is kept to compare with is as it was."""
        return all(sealed.intact for sealed in [*self._sealed, *self._sources])

    def find_damage(self) -> str | None:
        """Return a message on memory that was changed and must not be, or None.

        Guard zones and inputs must not change; outputs may hold anything.
        """
        for held in self.all:
            if (words := held.find_damage()) is not None:
                return words
        for held, source in zip(self.inputs, self._sources, strict=True):
            now, before = _bits(self._xp, held.array), _bits(self._xp, source.array)
            if bool((now != before).any()):
                return _first_change(held, now, before)
        return None


def _bits(xp: Any, array: GpuArray) -> GpuArray:
    """Return elements as whole numbers, so that NaN equals itself."""
    return array.reshape(-1).view(getattr(xp, f"uint{8 * array.itemsize}"))


def _first_change(held: DeviceArray, now: GpuArray, before: GpuArray) -> str:
    kind = dtypes.numpy_dtype(held.dtype)
    for begin in range(0, now.size, _CHUNK):
        a, b = (bits[begin : begin + _CHUNK].get() for bits in (now, before))
        byte = first_difference(a.view(np.uint8), b.view(np.uint8))
        if byte is not None:
            element = byte // a.itemsize
            place = np.unravel_index(begin + element, held.array.shape)
            return change_message(held.name, place, a.view(kind)[element], b.view(kind)[element])
    return f"it changed its input {held.name}"
