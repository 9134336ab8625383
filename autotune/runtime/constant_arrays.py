"""The arrays of constant inputs that a user gives to a build: found by name, checked, copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import ArgumentError
from autotune.ir import dtypes
from autotune.runtime.argument_checks import Array
from autotune.runtime.cpu.aligned_arrays import aligned_copy
from autotune.runtime.foreign_arrays import as_numpy
from autotune.runtime.signature import ArrayParameter

# Arrays of constant inputs, by the name of the input or its position.
Constants = Mapping[str | int, Any]


def constant_copies(
    who: str, parameters: Sequence[ArrayParameter], constants: Constants | None
) -> dict[int, Array]:
    """Return copies of the arrays that constant inputs are, for the built function alone.

    They are by the position among the inputs, in ascending order.

    who: whose inputs they are, for messages.
    parameters: all arrays of the function.

    ArgumentError if there is no such input, several have the name, or one is given twice, or an
    array does not have the dtype and the shape of its input.
    """
    inputs = [parameter for parameter in parameters if not parameter.is_output]
    names = [parameter.name for parameter in inputs]
    given = {} if constants is None else _by_position(who, names, constants)
    return {number: _copied(who, inputs[number], array) for number, array in given.items()}


def _by_position(who: str, inputs: Sequence[str], constants: Constants) -> dict[int, Any]:
    """Return the arrays of constant inputs by position, in ascending order."""
    if not isinstance(constants, Mapping):
        raise ArgumentError(
            f"{who}: constants must be a mapping such as {{'B': array}}, got "
            f"{type(constants).__name__}"
        )
    found: dict[int, Any] = {}
    known = ", ".join(f"{name!r} ({number})" for number, name in enumerate(inputs)) or "none"
    for key, array in constants.items():
        places = [n for n, name in enumerate(inputs) if key == (name if type(key) is str else n)]
        if not places:
            raise ArgumentError(
                f"{who}: constants: there is no input {key!r}; the inputs, with their positions, "
                f"are {known}"
            )
        if len(places) > 1:
            raise ArgumentError(
                f"{who}: constants: inputs {places} are all called {key!r}: give the position"
            )
        if places[0] in found:
            raise ArgumentError(f"{who}: constants: input {inputs[places[0]]!r} is given twice")
        found[places[0]] = array
    return dict(sorted(found.items()))


def _copied(who: str, parameter: ArrayParameter, array: Any) -> Array:
    label = f"{who}: constant {parameter.name!r}"
    dtype: npt.DTypeLike = dtypes.numpy_dtype(parameter.dtype)
    if parameter.fixed is None:
        raise ArgumentError(
            f"{label} has a size from te.var: only an input of fixed sizes can be constant"
        )
    try:
        given = as_numpy(array, np.dtype(dtype))
    except ArgumentError as error:
        raise ArgumentError(f"{label} {error}") from None
    if given.dtype != dtype:
        raise ArgumentError(
            f"{label} must have dtype {parameter.dtype}, got {given.dtype}: convert it with "
            f".astype({parameter.dtype!r})"
        )
    if given.shape != parameter.fixed:
        raise ArgumentError(f"{label} must have shape {parameter.fixed}, got {given.shape}")
    return aligned_copy(given)
