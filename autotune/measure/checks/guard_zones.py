"""The arrays that candidates run on: guard zones around each, and read-only copies of the inputs.

A kernel that writes outside of its arrays may still give the right answer on this machine.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import Array
from autotune.runtime.signature import ArrayParameter
from autotune.system.words import counted

ZONE = 1 << 16
"""Bytes of the guard zone before and after each array: many rows of a tile, and quick to
compare."""

_CHUNK = 1 << 20


class Buffers:
    """Inputs and outputs of a workload with guard zones, and the values that the inputs must keep.

    The arrays have the same offset from a cache line as NumPy's own, because users' arrays have it.

    Parameters
    ----------
    parameters : sequence of ArrayParameter
        Inputs and outputs, of known sizes.

    Attributes
    ----------
    arrays : list of ndarray
        In the order of the parameters.
    inputs, outputs : list of ndarray
        Those among them.
    """

    def __init__(self, parameters: Sequence[ArrayParameter]) -> None:
        self._guarded = [_Guarded(parameter) for parameter in parameters]
        self.arrays = [guarded.array for guarded in self._guarded]
        self.inputs = [g.array for g in self._guarded if not g.is_output]
        self.outputs = [g.array for g in self._guarded if g.is_output]
        self._sources: list[Array] = []

    def seal(self) -> None:
        """Save the present values of the inputs where no kernel can change them."""
        self._sources = [sealed(array) for array in self.inputs]

    def restore(self) -> None:
        """Restore the inputs and all guard zones to their values at the time of `seal`."""
        for array, source in zip(self.inputs, self._sources, strict=True):
            np.copyto(array, source)
        for guarded in self._guarded:
            guarded.renew()

    def find_damage(self) -> str | None:
        """Return a message on memory that was changed and must not be, or None.

        Guard zones and inputs must not change; outputs may hold anything.
        """
        for guarded in self._guarded:
            if (words := guarded.find_damage()) is not None:
                return words
        inputs = [guarded for guarded in self._guarded if not guarded.is_output]
        for guarded, source in zip(inputs, self._sources, strict=True):
            place = first_difference(_bytes_of(guarded.array), _bytes_of(source))
            if place is not None:
                where = np.unravel_index(place // source.itemsize, source.shape)
                return change_message(guarded.name, where, guarded.array[where], source[where])
        return None


class _Guarded:
    """An uninitialised array between two guard zones that hold a pattern."""

    def __init__(self, parameter: ArrayParameter) -> None:
        self.name = parameter.name
        self.is_output = parameter.is_output
        dtype = np.dtype(dtypes.numpy_dtype(parameter.dtype))
        shape = parameter.fixed or ()
        count = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        memory = np.empty(ZONE + count + ZONE, np.uint8)
        self.before, self.after = memory[:ZONE], memory[ZONE + count :]
        self.array: Array = memory[ZONE : ZONE + count].view(dtype).reshape(shape)
        self.renew()

    def renew(self) -> None:
        self.before[:] = zone_pattern()
        self.after[:] = zone_pattern()

    def find_damage(self) -> str | None:
        """Return a message that says where a guard zone was changed, or None."""
        return zone_message(self.name, self.before, self.after)


def zone_message(name: str, before: Array, after: Array) -> str | None:
    """Return a message that says where a guard zone of an array was changed, or None.

    Parameters
    ----------
    name : str
        Of the array.
    before, after : ndarray
        Its zones, of bytes.
    """
    place = first_difference(after, zone_pattern())
    if place is not None:
        return f"it wrote outside {name}: {counted(place, 'byte')} past its end"
    place = first_difference(before[::-1], zone_pattern()[::-1])
    if place is not None:
        return f"it wrote outside {name}: {counted(place + 1, 'byte')} before its start"
    return None


@functools.cache
def zone_pattern() -> Array:
    """Return a pattern of bytes, different at each place, that no kernel writes by chance."""
    pattern = np.random.default_rng(20).integers(0, 256, ZONE, dtype=np.uint8)
    pattern.flags.writeable = False
    return pattern


def sealed(array: Array) -> Array:
    """Return a copy on memory pages of its own, which are read-only.

    A kernel that writes to them is killed by the system, so that the error is seen.
    """
    pages = mmap.mmap(-1, max(array.nbytes, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory = np.frombuffer(pages, np.uint8)
    copy: Array = memory[: array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    address, size = memory.__array_interface__["data"][0], memory.size
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    copy.flags.writeable = False
    return copy


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def first_difference(left: Array, right: Array) -> int | None:
    """Return the first place where two arrays of bytes differ, or None."""
    for begin in range(0, left.size, _CHUNK):
        a, b = left[begin : begin + _CHUNK], right[begin : begin + _CHUNK]
        if not np.array_equal(a, b):
            return begin + int(np.flatnonzero(a != b)[0])
    return None


def change_message(name: str, place: Sequence[Any], now: object, before: object) -> str:
    """Return a message that says where an input was changed first."""
    where = ", ".join(str(int(i)) for i in place)
    return f"it changed its input {name}, first at [{where}]: {now}, was {before}"
