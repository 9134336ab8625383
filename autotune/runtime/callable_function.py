"""A Python callable as a function of arrays, on any device; nothing is compiled here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from autotune.errors import ArgumentError, UsageError
from autotune.ir import dtypes
from autotune.runtime.argument_checks import ArgumentChecker, is_contiguous
from autotune.runtime.foreign_arrays import dtype_name
from autotune.runtime.signature import Signature


@dataclass(frozen=True)
class CallableBinary:
    """What stands for the machine code of a callable: the process that runs it makes it."""

    #: What it takes.
    signature: Signature
    #: Values of the template's knobs.
    values: Mapping[str, Any]

    resources = None


class CallableFunction:
    """A callable with its keywords, called with its arrays in order; see `DeviceFunction`.

    `on_cpu`: whether it works on the CPU, and gets NumPy arrays.
    `returns`: whether it takes only inputs, and returns the outputs.
    `source`: its source text, as far as that is known.
    """

    def __init__(
        self,
        signature: Signature,
        function: Callable[..., Any],
        keywords: Mapping[str, Any],
        on_cpu: bool,
        returns: bool,
        source: str,
    ) -> None:
        self.signature = signature
        self.source = source
        self._call = partial(function, **keywords)
        self._returns = returns
        self._checker = ArgumentChecker(signature) if on_cpu else None
        self._inputs = sum(not parameter.is_output for parameter in signature.parameters)

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays, inputs then outputs; outputs are written in place.

        Raises ArgumentError if one does not fit; what the callable raises.
        """
        self.bind(*arrays)()

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Check the arrays once and return a call without arguments, for calls in a row."""
        held = self._checked(arrays)
        if not self._returns:
            return partial(self._call, *held)
        inputs, outputs = held[: self._inputs], held[self._inputs :]

        def call() -> None:
            self._copy(self._call(*inputs), outputs)

        return call

    def first_call(self, *arrays: Any) -> None:
        """Run once, and check the return value of a callable that should write into its outputs.

        Raises UsageError if it returns something else than its outputs.
        """
        held = self._checked(arrays)
        if self._returns:
            self.bind(*arrays)()
            return
        found = self._call(*held)
        outputs = held[self._inputs :]
        every = found if isinstance(found, tuple) else (found,)
        if found is not None and not all(any(a is out for out in outputs) for a in every):
            raise UsageError(
                f"{self.signature.name}: the callable returns {_described(found)}; it must write "
                "into its outputs, which it gets after its inputs, or be given returns=True"
            )

    def _checked(self, arrays: Sequence[Any]) -> Sequence[Any]:
        if self._checker is not None:
            held = self._checker.arrays(arrays)
            self._checker.values(held)
            return held
        name, parameters = self.signature.name, self.signature.parameters
        if len(arrays) != len(parameters):
            raise ArgumentError(f"{name} takes {len(parameters)} arrays, got {len(arrays)}")
        for number, (array, parameter) in enumerate(zip(arrays, parameters, strict=True), 1):
            label = f"{name}: argument {number}, {parameter.name!r}"
            try:
                found = (dtype_name(array), tuple(array.shape))
            except ArgumentError as error:
                raise ArgumentError(f"{label}: {error}") from None
            if found != (parameter.dtype, parameter.shape):
                raise ArgumentError(
                    f"{label}, must be {parameter.dtype} of shape {parameter.shape}, got "
                    f"{found[0]} of shape {found[1]}"
                )
            if not is_contiguous(array):
                raise ArgumentError(f"{label}, must be C-contiguous, got other strides")
        return arrays

    def _copy(self, found: Any, outputs: Sequence[Any]) -> None:
        """Write what was returned to the outputs."""
        every = found if isinstance(found, tuple) else (found,)
        shapes = [tuple(np.shape(array)) for array in every]
        wanted = [tuple(output.shape) for output in outputs]
        if shapes != wanted:
            raise UsageError(
                f"{self.signature.name}: the callable returns {_described(found)}, in place of "
                f"outputs of shape {', '.join(map(str, wanted))}"
            )
        for array, output in zip(every, outputs, strict=True):
            given, needed = (_dtype_name(value) for value in (array, output))
            if not _keeps_kind(given, needed):
                raise UsageError(
                    f"{self.signature.name}: the callable returns {given} for an output of "
                    f"{needed}, which cannot hold it: return {needed}"
                )
            output[...] = array

    def __repr__(self) -> str:
        return f"<{self.signature.name}, a callable>"


def _dtype_name(value: Any) -> str:
    """Return the type of the elements of what a callable returns."""
    return dtype_name(value if hasattr(value, "dtype") else np.asarray(value))


def _keeps_kind(given: str, needed: str) -> bool:
    """Whether values lose no more than digits as another type, as of NumPy's "same_kind"."""
    if dtypes.is_float(given):
        return dtypes.is_float(needed)
    wanted = "float64" if dtypes.is_float(needed) else needed
    try:
        return np.can_cast(given, wanted, "same_kind")
    except TypeError:  # no type of NumPy
        return False


def _described(found: Any) -> str:
    """Return what a value is, in words."""
    if isinstance(found, tuple):
        return f"({', '.join(map(_described, found))})"
    shape = getattr(found, "shape", None)
    kind = type(found).__name__
    return kind if shape is None else f"{kind} of shape {tuple(shape)}"
