"""Checks NumPy arrays against a function's parameters and finds the sizes that they determine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.errors import ArgumentError, CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import Const, Expr, SizeVar
from autotune.ir.stmt import Function
from autotune.ir.visitor import free_vars, substitute


class ArgumentChecker:
    """Turns the arrays of one call into addresses and sizes, or says what is wrong with them.

    Parameters
    ----------
    function : Function
        Whose parameters the arrays are: inputs, then outputs, C-contiguous.

    Raises
    ------
    CodegenError
        If a size cannot be read off any array's shape.
    """

    def __init__(self, function: Function) -> None:
        self.name = function.name
        self.params = function.params
        self.sizes = function.sizes
        self._dtypes = [np.dtype(dtypes.numpy_dtype(p.dtype)) for p in self.params]
        self._outputs = [p in function.outputs for p in self.params]
        self._fixed = [_constant_shape(p.shape) for p in self.params]
        self._output_numbers = [i for i, is_output in enumerate(self._outputs) if is_output]
        self._found_at = self._places()

    def _places(self) -> list[tuple[int, int]]:
        """For each size, the (parameter, dimension) whose extent it is."""
        places: dict[SizeVar, tuple[int, int]] = {}
        for number, param in enumerate(self.params):
            for dim, extent in enumerate(param.shape):
                if isinstance(extent, SizeVar):
                    places.setdefault(extent, (number, dim))
        for size in self.sizes:
            if size not in places:
                raise CodegenError(
                    f"size {size.name} of {self.name} is not the extent of any array: "
                    "no call could determine it"
                )
        return [places[size] for size in self.sizes]

    def check(self, arrays: Sequence[object]) -> list[int]:
        """Return the addresses of the arrays, then the sizes.

        Raises
        ------
        ArgumentError
            If an array is not what the function takes, one line that says which and why.
        """
        if len(arrays) != len(self.params):
            names = ", ".join(p.name for p in self.params)
            raise ArgumentError(
                f"{self.name} takes {len(self.params)} arrays ({names}), got {len(arrays)}"
            )
        values: list[int] = []
        spans: list[tuple[int, int]] = []
        for number, array in enumerate(arrays):
            if not isinstance(array, np.ndarray):
                raise self._error(number, "must be a NumPy array", type(array).__name__)
            if array.dtype != self._dtypes[number]:
                raise self._error(
                    number, f"must have dtype {self._dtypes[number]}", _dtype_text(array.dtype)
                )
            fixed = self._fixed[number]
            if fixed is not None:
                if array.shape != fixed:
                    raise self._error(number, f"must have shape {fixed}", str(array.shape))
            elif array.ndim != len(self.params[number].shape):
                dims = len(self.params[number].shape)
                raise self._error(number, f"must have {dims} dimensions", str(array.ndim))
            flags = array.flags
            if not flags.c_contiguous:
                raise self._error(
                    number, "must be C-contiguous (numpy.ascontiguousarray)",
                    f"strides {array.strides}",
                )  # fmt: skip
            address: int = array.__array_interface__["data"][0]
            if address % self._dtypes[number].itemsize:
                raise self._error(
                    number, f"must be aligned to its {array.dtype} elements", hex(address)
                )
            if self._outputs[number] and not flags.writeable:
                raise self._error(number, "is written, so it must be writeable", "a read-only one")
            values.append(address)
            spans.append((address, address + array.nbytes))
        self._check_overlap(spans)
        if self.sizes or None in self._fixed:
            values += self._solve(arrays)
        return values

    def _check_overlap(self, spans: list[tuple[int, int]]) -> None:
        for number in self._output_numbers:
            start, stop = spans[number]
            for other, (first, last) in enumerate(spans):
                if start < last and first < stop and other != number and first < last:
                    raise ArgumentError(
                        f"{self.name}: output {self.params[number].name!r} shares memory with "
                        f"{self.params[other].name!r}: pass separate arrays"
                    )

    def _solve(self, arrays: Sequence[object]) -> list[int]:
        """Sizes from the arrays' shapes; every other extent must agree with them."""
        shapes = [array.shape for array in arrays if isinstance(array, np.ndarray)]
        sizes = [shapes[number][dim] for number, dim in self._found_at]
        known = {v: Const(n, v.dtype) for v, n in zip(self.sizes, sizes, strict=True)}
        for number, param in enumerate(self.params):
            if self._fixed[number] is not None:
                continue
            expected = tuple(_extent(extent, known) for extent in param.shape)
            if shapes[number] != expected:
                stated = ", ".join(f"{v.name} = {int(c.value)}" for v, c in known.items())
                raise self._error(
                    number, f"must have shape {expected} ({stated})", str(shapes[number])
                )
        return sizes

    def _error(self, number: int, expected: str, got: str) -> ArgumentError:
        return ArgumentError(
            f"{self.name}: argument {number + 1}, {self.params[number].name!r}, {expected}, "
            f"got {got}"
        )


def _constant_shape(shape: tuple[Expr, ...]) -> tuple[int, ...] | None:
    if all(isinstance(extent, Const) for extent in shape):
        return tuple(int(extent.value) for extent in shape if isinstance(extent, Const))
    return None


def _extent(extent: Expr, known: dict[SizeVar, Const]) -> int:
    value = substitute(extent, known)
    if not isinstance(value, Const):
        unknown = ", ".join(v.name for v in free_vars(value))
        raise CodegenError(f"extent {extent} has no value: {unknown} is not a size of the function")
    return int(value.value)


def _dtype_text(dtype: np.dtype[np.generic]) -> str:
    order = "" if dtype.isnative else " in foreign byte order"
    return f"{dtype.name}{order}"
