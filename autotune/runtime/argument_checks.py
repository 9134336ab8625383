"""Checks the arrays of a call against a signature and finds the sizes that they determine."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.errors import ArgumentError, CodegenError
from autotune.ir import dtypes
from autotune.runtime.foreign_arrays import as_numpy
from autotune.runtime.signature import ArrayParameter, Signature, extent_text, extent_value

Array = npt.NDArray[Any]

_Byte = ctypes.c_char


class _Rule(NamedTuple):
    """Requirements of one argument; its shape is None if it depends on sizes."""

    dtype: np.dtype[Any]
    itemsize: int
    shape: tuple[int, ...] | None
    is_output: bool
    strided: bool

    @classmethod
    def of(cls, param: ArrayParameter) -> _Rule:
        dtype = np.dtype(dtypes.numpy_dtype(param.dtype))
        strided = param.strides is not None
        return cls(dtype, dtype.itemsize, param.fixed, param.is_output, strided)


def address_of(array: Array) -> int:
    """Return where an array's memory begins.

    A buffer tells it in a third of the time that the array interface needs, but read-only and
    empty arrays, and some dtypes, give none.
    """
    try:
        return ctypes.addressof(_Byte.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        address: int = array.__array_interface__["data"][0]
        return address


def wrong_number(function: str, arrays: Sequence[str], got: int) -> ArgumentError:
    """Return the error for a call of a function of these arrays with more or fewer."""
    return ArgumentError(f"{function} takes {len(arrays)} arrays ({', '.join(arrays)}), got {got}")


class ArgumentChecker:
    """Turns the arrays of one call into addresses and sizes, or reports mistakes in them.

    `signature`: whose parameters the arrays are: inputs, then outputs, C-contiguous unless it says
    otherwise, none of them overlapping an output. An output may not be one of the inputs either:
    the compiled code relies on it.

    Raises CodegenError if a size cannot be read off any array's shape.
    """

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self._rules = [_Rule.of(param) for param in signature.parameters]
        self._outputs = [i for i, rule in enumerate(self._rules) if rule.is_output]
        self._found_at = self._places()
        self._has_sizes = any(rule.shape is None for rule in self._rules)
        self._plain = self._plain_shapes()

    def _places(self) -> dict[str, tuple[int, int]]:
        """For each size, the (parameter, dimension) whose extent it is."""
        places: dict[str, tuple[int, int]] = {}
        for number, param in enumerate(self.signature.parameters):
            for dim, extent in enumerate(param.shape):
                if isinstance(extent, str):
                    places.setdefault(extent, (number, dim))
        strides = {name for p in self.signature.parameters for name in p.strides or ()}
        for size in self.signature.sizes:
            if size not in places and size not in strides:
                raise CodegenError(
                    f"size {size} of {self.signature.name} is not the extent of any array: "
                    "no call could determine it; give one of them a dimension of that size"
                )
        return {size: places[size] for size in self.signature.sizes if size in places}

    def _plain_shapes(self) -> list[tuple[int, tuple[Any, ...]]]:
        """Return the shapes that have sizes, with their positions, if their check is simple.

        It is where each extent is a size or a number, strides are those of contiguous arrays, and
        no size has a least value. Otherwise the result is empty.
        """
        parameters = self.signature.parameters
        if self.signature.at_least or any(p.strides is not None for p in parameters):
            return []
        found = []
        for number, param in enumerate(parameters):
            extents = tuple(e for e in param.shape if isinstance(e, str | int))
            if len(extents) < len(param.shape):
                return []
            if param.fixed is None:
                found.append((number, extents))
        return found

    def arrays(self, given: Sequence[object]) -> Sequence[Array]:
        """Return the arguments as NumPy arrays on the same memory.

        Raises ArgumentError if their number is wrong, or one is neither a NumPy array nor offers
        its memory through ``__array_interface__`` or DLPack.
        """
        parameters = self.signature.parameters
        if len(given) != len(parameters):
            raise wrong_number(self.signature.name, [p.name for p in parameters], len(given))
        for array in given:
            if not isinstance(array, np.ndarray):
                return [self._converted(number, array) for number, array in enumerate(given)]
        return given  # type: ignore[return-value]

    def _converted(self, number: int, array: object) -> Array:
        try:
            return as_numpy(array, self._rules[number].dtype)
        except ArgumentError as error:
            raise ArgumentError(f"{self._label(number)}, {error}") from None

    def values(self, arrays: Sequence[Array]) -> list[int]:
        """Return the addresses of the arrays, then the sizes.

        Raises ArgumentError if an array is not what the function takes: one line that says which,
        what was expected, what came, and what to do.
        """
        values: list[int] = []
        spans: list[tuple[int, int]] = []
        for array, rule in zip(arrays, self._rules, strict=True):
            dtype, itemsize, fixed, is_output, strided = rule
            flags = array.flags
            address = address_of(array)
            if (
                array.dtype != dtype
                or (fixed is not None and array.shape != fixed)
                or (not flags.c_contiguous and not (strided and _lies_well(array, rule)))
                or address % itemsize
                or (is_output and not flags.writeable)
            ):
                raise self._mistake(len(values), array)
            values.append(address)
            end = address + (_reach(array, itemsize) if strided else array.nbytes)
            spans.append((address, end))
        self._check_overlap(spans)
        if self._has_sizes:
            values += self._plain_sizes(arrays) or self._solve(arrays)
        return values

    def _plain_sizes(self, arrays: Sequence[Array]) -> list[int]:
        """Return the sizes, if shapes are plain and fit; else nothing: `_solve` says why.

        Small kernels take as long as this check, so it does the least that it can.
        """
        if not self._plain:
            return []
        try:
            known = {name: arrays[at].shape[dim] for name, (at, dim) in self._found_at.items()}
        except IndexError:
            return []
        get = known.get
        for number, extents in self._plain:
            if arrays[number].shape != tuple([get(extent, extent) for extent in extents]):
                return []
        return list(known.values())

    def _mistake(self, number: int, array: Array) -> ArgumentError:
        """Return the mistakes of an array, the most helpful first."""
        dtype, itemsize, fixed, is_output, strided = self._rules[number]
        if array.dtype != dtype:
            expected, got = f"must have dtype {dtype}", _dtype_text(array.dtype)
            convert = f"convert it with .astype({dtype.name!r})"
            remedy = f"allocate it with dtype={dtype.name!r}" if is_output else convert
        elif fixed is not None and array.shape != fixed:
            return self._shape_error(number, fixed, array.shape)
        elif strided and not _lies_well(array, self._rules[number]):
            expected = f"must have strides of 0, {itemsize}, {2 * itemsize}, ... bytes"
            if is_output:
                expected += " that no two elements share"
            got = f"strides {array.strides}"
            remedy = "numpy.ascontiguousarray makes a copy that has such"
        elif not strided and not array.flags.c_contiguous:
            strides = _contiguous_strides(array.shape, itemsize)
            expected, got = f"must be C-contiguous, with strides {strides}", str(array.strides)
            copy = "numpy.ascontiguousarray makes a copy that is"
            remedy = "pass a contiguous array and copy the result from it" if is_output else copy
        elif (address := array.__array_interface__["data"][0]) % itemsize:
            expected = f"must be aligned to its {dtype} elements of {itemsize} bytes"
            got, remedy = f"address {address:#x}", "a newly allocated array is"
        else:
            expected, got = "is written, so it must be writeable", "a read-only one"
            remedy = "pass an array made by numpy.empty"
        return self._error(number, expected, got, remedy)

    def _check_overlap(self, spans: Sequence[tuple[int, int]]) -> None:
        for number in self._outputs:
            start, stop = spans[number]
            for other, (first, last) in enumerate(spans):
                overlaps = start < last and first < stop and other != number
                if overlaps and start < stop and first < last:  # empty arrays overlap nothing
                    raise self._error(
                        number,
                        "is written, so it must share no memory with other arguments",
                        f"one that overlaps {self.signature.parameters[other].name!r}",
                        "pass separate arrays (nothing is computed in place)",
                    )

    def _solve(self, arrays: Sequence[Array]) -> list[int]:
        """Sizes from the arrays' shapes; every other extent must agree with them."""
        parameters = self.signature.parameters
        for number, param in enumerate(parameters):
            if arrays[number].ndim != len(param.shape):
                raise self._error(
                    number,
                    f"must have {len(param.shape)} dimensions, {_shape_text(param)}",
                    f"shape {arrays[number].shape}",
                    "numpy.reshape gives an array others without copying it",
                )
        known = {size: arrays[number].shape[dim] for size, (number, dim) in self._found_at.items()}
        for number, param in enumerate(parameters):
            if self._rules[number].shape is None:
                expected = tuple(extent_value(extent, known) for extent in param.shape)
                if arrays[number].shape != expected:
                    raise self._shape_error(number, expected, arrays[number].shape, known)
        for extent, least in self.signature.at_least:
            if (steps := extent_value(extent, known)) < least:
                raise ArgumentError(
                    f"{self.signature.name}: a scan of {extent_text(extent)} steps begins with "
                    f"{least}, got {extent_text(extent)} = {steps}: pass arrays with as many"
                )
        for array, param, rule in zip(arrays, parameters, self._rules, strict=True):
            if param.strides is not None:
                for name, extent, stride in zip(
                    param.strides, array.shape, array.strides, strict=True
                ):
                    known[name] = stride // rule.itemsize if extent > 1 else 0
        return [known[size] for size in self.signature.sizes]

    def _shape_error(
        self,
        number: int,
        expected: tuple[int, ...],
        got: tuple[int, ...],
        known: Mapping[str, int] | None = None,
    ) -> ArgumentError:
        if not known:
            remedy = "build the function for other shapes, or with sizes from te.var"
            return self._error(number, f"must have shape {expected}", str(got), remedy)
        parameters = self.signature.parameters
        stated = ", ".join(
            f"{size} = {known[size]} from {parameters[at].name!r}"
            for size, (at, _) in self._found_at.items()
        )
        shape = _shape_text(parameters[number])
        remedy = "make the shapes agree"
        return self._error(
            number, f"must have shape {expected}, which is {shape} with {stated}", str(got), remedy
        )

    def _label(self, number: int) -> str:
        name = self.signature.parameters[number].name
        return f"{self.signature.name}: argument {number + 1}, {name!r}"

    def _error(self, number: int, expected: str, got: str, remedy: str) -> ArgumentError:
        return ArgumentError(f"{self._label(number)}, {expected}, got {got}: {remedy}")


def is_contiguous(array: object) -> bool:
    """Whether an array is C-contiguous, as far as it tells."""
    if isinstance(array, np.ndarray):
        return bool(array.flags.c_contiguous)
    for protocol in ("__cuda_array_interface__", "__array_interface__"):
        interface = getattr(array, protocol, None)
        if interface is not None:
            strides, itemsize = interface.get("strides"), int(interface["typestr"][2:])
            contiguous = _contiguous_strides(interface["shape"], itemsize)
            return strides is None or tuple(strides) == contiguous
    tells = getattr(array, "is_contiguous", None)  # as PyTorch's tensors do
    return bool(tells()) if callable(tells) else True


def _lies_well(array: Array, rule: _Rule) -> bool:
    """Whether strides count elements forwards; strides of an output never repeat a place."""
    lengths = sorted((s, n) for n, s in zip(array.shape, array.strides, strict=True) if n > 1)
    if any(stride < 0 or stride % rule.itemsize for stride, _ in lengths):
        return False
    reach = 0
    for stride, extent in lengths if rule.is_output else ():
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


def _reach(array: Array, itemsize: int) -> int:
    """Return how many bytes there are from the first element to the end of the last."""
    if 0 in array.shape:
        return 0
    steps = zip(array.shape, array.strides, strict=True)
    reach: int = sum(stride * (extent - 1) for extent, stride in steps if extent > 1)
    return itemsize + reach


def _shape_text(param: ArrayParameter) -> str:
    """Shape as the signature states it, such as ``(n, m + 1)``."""
    extents = [extent_text(extent) for extent in param.shape]
    return f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"


def _contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize]
    for extent in shape[:0:-1]:
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))


def _dtype_text(dtype: np.dtype[Any]) -> str:
    order = "" if dtype.isnative else " in foreign byte order"
    return f"{dtype.name}{order}"
