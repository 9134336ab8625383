"""The right answers: calls of a template's reference, in float64 or in a narrower type."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from autotune.errors import UsageError, error_text
from autotune.ir import dtypes
from autotune.measure.candidate import describe
from autotune.measure.checks.check_inputs import Array
from autotune.runtime.device import Device, Host
from autotune.runtime.signature import ArrayParameter

# Takes the input arrays, which are read-only; returns the output array, or several.
Function = Callable[..., Any]

WIDE = "float64"  # Type that references compute in where they take it.


class Magnitudes(np.ndarray):
    """Magnitudes of numbers: differences are sums, and factors lose their signs.

    What a function of sums, differences and products returns for them is at least as large as every
    partial sum in any order. What NumPy does not tell this class of, such as matrix products, only
    adds and multiplies.
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a function of elements."""
        if ufunc is np.subtract:
            ufunc = np.add
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(map(_plain, out))
        found = getattr(ufunc, method)(*map(_magnitude, inputs), **options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        return found.view(Magnitudes) if isinstance(found, np.ndarray) else found


def _magnitude(value: Any) -> Any:
    """Return the magnitude of an operand as a plain array; this class is positive already."""
    if isinstance(value, Magnitudes):
        return _plain(value)
    array = np.asarray(value)
    return np.abs(value) if array.dtype.kind in "fi" else value


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Magnitudes) else value


class Reference:
    """A function that computes the right answers, in a wide type where it takes one.

    is_program: whether it is the template's own program, in machine code, whose narrow types are
        those that the template states.
    jumps: whether outputs may jump where rounding changes a float, as far as is known.
    intermediate: the least precise type that it rounds to on the way, as far as is known.

    parameters: inputs and outputs of the workload, of fixed shapes.
    name: the template's name, for messages.
    only_own_types: whether it takes arrays of the parameters' types alone.
    """

    is_program = False
    jumps = False
    intermediate: str | None = None

    def __init__(
        self,
        function: Function,
        parameters: Sequence[ArrayParameter],
        name: str,
        only_own_types: bool = False,
    ) -> None:
        self._function = function
        self._outputs = [parameter for parameter in parameters if parameter.is_output]
        self._name = name
        # Whether it takes float64 arrays in place of narrower floats, as far as is known.
        self.takes_wide = not only_own_types
        # Distance from 1 to the next number of the least precise type that the right answers had.
        self.own_precision = 0.0

    def __call__(self, inputs: Sequence[Array], dtype: str = WIDE) -> list[Array]:
        """Return the outputs, computed in a wide type: float64 arrays in place of all floats.

        inputs: of the parameters' types.
        dtype: type that floats are converted to before; a reference that does not take it computes
            in the parameters' own types.

        UsageError if it fails, or returns something of another number, shape or kind.
        """
        if self.takes_wide:
            converted = [as_type(array, dtype) if is_floating(array) else array for array in inputs]
            try:
                return self._answers(self._function, converted, dtype == WIDE)
            except UsageError:
                # Or it fails for its own types, too.
                found = self._answers(self._function, inputs, dtype == WIDE)
                self.takes_wide = False
                return found
        return self._answers(self._function, inputs, dtype == WIDE)

    def narrow(self, inputs: Sequence[Array], accumulator: str) -> tuple[list[Array], str]:
        """Return the outputs, computed in the accumulator's type, or in float32 if that is float64.

        Second is the type. Only a reference that computes in float64 otherwise is asked.
        """
        computed = "float32" if accumulator == WIDE else accumulator
        return self(inputs, computed), computed

    def in_own_types(self) -> Reference:
        """Return the reference that computes in the types of the inputs."""
        made = copy.copy(self)
        made.takes_wide = False
        return made

    @property
    def hides_terms(self) -> bool:
        """Whether its subtractions cannot be observed, as in a program in machine code."""
        return self.is_program or not self.takes_wide

    def is_precise(self, inputs: Sequence[Array], right: Sequence[Array]) -> bool:
        """Whether candidates can be expected to give about the same as the right answers."""
        return True

    def magnitudes(self, inputs: Sequence[Array], dtype: str = WIDE) -> list[Array]:
        """Return a bound of all sums and products on the way, if nothing else is computed.

        A reference that does not consist of NumPy's functions is called with the magnitudes.
        """
        positive = [np.abs(array) if is_floating(array) else array for array in inputs]
        if self.takes_wide and not self.is_program:
            found = [
                as_type(array, dtype).view(Magnitudes) if is_floating(array) else array
                for array in positive
            ]
            with contextlib.suppress(UsageError):
                return self._answers(self._function, found, dtype == WIDE)
        return self(positive, dtype)

    def _answers(
        self, function: Function, inputs: Sequence[Array], is_right: bool = True
    ) -> list[Array]:
        """Return what a function returns, floats as float64.

        is_right: whether these are the right answers, and not ones in a narrower type.
        """
        found = self._called(function, inputs)
        floats = [array.dtype.name for array in found if is_floating(array)]
        known = [dtypes.epsilon(name) for name in floats if dtypes.is_float(name)]
        if is_right:
            self.own_precision = max(known, default=0.0)
        return [
            as_type(array, WIDE if dtypes.is_float(output.dtype) else output.dtype)
            for array, output in zip(found, self._outputs, strict=True)
        ]

    def _called(self, function: Function, inputs: Sequence[Array]) -> list[Array]:
        process = os.getpid()
        try:
            with np.errstate(all="ignore"):
                returned = function(*map(read_only, inputs))
        except Exception as error:
            hint = "; it may not change its inputs, only return new arrays"
            raise UsageError(
                f"the reference of template {self._name!r} failed: "
                f"{type(error).__name__}: {error_text(error)}"
                + (hint if "read-only" in error_text(error) else "")
            ) from error
        if os.getpid() != process:  # the reference has forked: one process goes on, not two
            os._exit(os.EX_SOFTWARE)
        found = list(returned) if isinstance(returned, list | tuple) else [returned]
        return self._checked(found)

    def _checked(self, found: list[Any]) -> list[Array]:
        """Return the reference's results as arrays; UsageError if they cannot be right."""
        if len(found) != len(self._outputs):
            raise UsageError(
                f"the reference of template {self._name!r} returned {len(found)} arrays, "
                f"but the template has {len(self._outputs)} outputs"
            )
        arrays = []
        for number, (got, output) in enumerate(zip(found, self._outputs, strict=True)):
            if np.shape(got) != (output.fixed or ()):
                raise UsageError(
                    f"the reference of template {self._name!r} returned shape {np.shape(got)} "
                    f"for output {number}, which has shape {output.fixed or ()}"
                )
            array = np.asarray(got)
            if array.dtype.kind not in "iub" and not is_floating(array):
                raise UsageError(
                    f"the reference of template {self._name!r} returned {array.dtype.name} "
                    f"for output {number}, which is {output.dtype}: return real numbers"
                )
            arrays.append(array)
        return arrays

    def refuse_nan(self, expected: Sequence[Array]) -> None:
        """Raise UsageError if an output holds nothing but NaN: any answer could be right."""
        for number, array in enumerate(expected):
            if array.size and dtypes.is_float(array.dtype.name) and bool(np.isnan(array).all()):
                raise UsageError(
                    f"the reference of template {self._name!r} returned nothing but NaN for "
                    f"output {number}: check it, or say with inputs= what it is defined for"
                )


def as_type(array: Array, dtype: str) -> Array:
    """Return an array as another type, C-contiguous; it need not be a copy."""
    with np.errstate(all="ignore"):
        return np.asarray(array, dtype=dtypes.numpy_dtype(dtype), order="C")


def read_only(array: Array) -> Array:
    """Return a view that cannot be written to, also of what NumPy has made a scalar."""
    view = np.asanyarray(array).view()
    view.flags.writeable = False
    return view


def is_floating(array: Array) -> bool:
    """Whether an array holds floats, bfloat16 and types wider than ours among them."""
    return array.dtype.kind == "f" or dtypes.is_float(array.dtype.name)


_log = logging.getLogger(__name__)


class ReferenceOnDevice:
    """A reference that is computed on a device where that is possible, else on the CPU.

    NumPy's functions hand their work to the library that an array is of. So a reference that is
    written with them may run on either; what it raises on the device decides.

    function: function of the input arrays: of the device's library, or of NumPy alone.
    """

    def __init__(self, device: Device, function: Callable[..., Any]) -> None:
        self._device = device
        self._function = function
        self._only_on_cpu = device.is_host

    def __call__(self, *inputs: Host) -> Any:
        """Return the right answers."""
        found = self.on_device(*inputs)
        return self._function(*inputs) if found is None else found

    def on_device(self, *inputs: Host) -> list[Host] | None:
        """Return the right answers computed on the device; None if it takes NumPy's arrays only."""
        device, xp = self._device, self._device.xp
        if self._only_on_cpu or any(device.stored_as(a.dtype.name) != a.dtype for a in inputs):
            return None
        try:
            returned = self._function(*map(xp.asarray, inputs))
            found = list(returned) if isinstance(returned, list | tuple) else [returned]
            if all(isinstance(array, xp.ndarray) for array in found):
                return [device.download(array) for array in found]
        except Exception as error:  # whatever NumPy has and the library has not; too large for it
            _log.info("the reference runs on the CPU: %s", describe(error))
        self._only_on_cpu = True
        return None

    def timed_call(self, inputs: list[Any], outputs: list[Any]) -> Callable[[], object]:
        """Return a call on arrays of the device that leaves whole outputs in memory.

        NumPy's own functions write into the outputs, as candidates do; what others return counts
        when it lies in memory like an output: a view of the inputs is copied.
        """
        function, contiguous = self._function, self._device.xp.ascontiguousarray
        if isinstance(function, np.ufunc):
            return partial(function, *inputs, out=tuple(outputs))

        def call() -> None:
            found = function(*inputs)
            for array in found if isinstance(found, list | tuple) else [found]:
                contiguous(array)

        return call
