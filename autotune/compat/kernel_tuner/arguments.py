"""The arguments of `tune_kernel` and `run_kernel`: each is checked before anything is measured."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from autotune.errors import UsageError
from autotune.external.call_form import BY_VALUE
from autotune.ir import dtypes
from records.formats.kernel_tuner import FIELDS
from records.storage.files import path_fault

#: The key of a cache entry under which its source is recorded.
SOURCE = "autotune"

#: The key of the error in failed results, as in Kernel Tuner since 1.1.
ERROR = "__error__"

#: Keys of results that are neither parameters nor metrics.
RESERVED = frozenset((*FIELDS, SOURCE, ERROR))


def refuse(given: Mapping[str, Any], is_cuda: bool = False) -> None:
    """Raise UsageError if an argument is given that has no meaning here.

    `is_cuda`: whether it would be for a kernel in CUDA C++.
    """
    for name, value in given.items():
        empty = isinstance(value, (bool, list, tuple, dict)) and not value
        if value is not None and not empty:
            raise UsageError(
                f"{name} is not supported: docs/compat.md lists the arguments that have a meaning "
                f"for kernels in {'CUDA C++' if is_cuda else 'C'}"
            )


def objective_of(objective: Any, higher: bool | None, objectives: Any) -> tuple[str, bool | None]:
    """Return the objective, and whether it is better when it is larger if that is given.

    Raises UsageError if there are several.
    """
    check_type("objectives", objectives, (Mapping, NoneType), "a dict")
    if isinstance(objective, (list, tuple)) and len(objective) == 1:
        objective = objective[0]
        higher = higher[0] if isinstance(higher, (list, tuple)) and len(higher) == 1 else higher
    if objectives:
        if len(objectives) > 1:
            raise UsageError(
                f"objectives: {', '.join(map(str, objectives))} are several: choose one as "
                "objective, and have the others as metrics"
            )
        ((objective, higher),) = objectives.items()
    check_type("objective", objective or "time", str, "the name of a metric")
    return objective or "time", higher


def check_type(name: str, value: Any, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise UsageError unless an argument is of a type."""
    if not isinstance(value, kinds):
        raise UsageError(f"{name} must be {expected}, got {shown(value)}")


def check_texts(name: str, value: Any) -> None:
    """Raise UsageError unless an argument is a list of texts."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{name} must be a list of texts, got {shown(value)}")


def number(name: str, value: Any, least: float = -math.inf, above: float = -math.inf) -> Any:
    """Return an argument; UsageError unless it is a finite number that is large enough."""
    if not _is_number(value, least) or value <= above:
        bound = f">= {least}" if above == -math.inf else f"> {above}"
        raise UsageError(f"{name} must be a number {bound}, got {shown(value)}")
    return value


def whole_number(name: str, value: Any, least: int) -> int:
    """Return an argument, which may be written as 2.0.

    Raises UsageError unless it is a whole number that is large enough.
    """
    if not _is_number(value, least) or value != int(value):
        raise UsageError(f"{name} must be a whole number >= {least}, got {shown(value)}")
    return int(value)


def _is_number(value: Any, least: float) -> bool:
    kinds = (int, float, np.integer, np.floating)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    return is_number and bool(least <= value < math.inf)


def path_of(name: str, given: Any, expected: str) -> Path:
    """Return an argument as a path; UsageError if there can be nothing of this name."""
    text = os.fspath(given) if isinstance(given, (str, os.PathLike)) else given
    check_type(name, text, str, expected)
    if not text:
        raise UsageError(f"{name} must be {expected}, and is empty")
    if fault := path_fault(text):
        raise UsageError(f"{name}: {shown(text)}: {fault}")
    return Path(text)


def check_folder(folder: Any) -> None:
    """Raise UsageError unless a folder can be made, or is there."""
    place = path_of("folder", folder, "the path of a folder").absolute()
    for path in (place, *place.parents):
        if path.exists():
            if not path.is_dir():
                raise UsageError(f"folder: {path} is a file")
            if not os.access(path, os.W_OK | os.X_OK):
                raise UsageError(f"folder: {path} cannot be written")
            return


def parameters_of(given: Any) -> dict[str, list[Any]]:
    """Return the values of each parameter as plain ones, each once.

    Raises UsageError if they cannot be told apart in the key of a configuration, or a result has
    another value of a parameter's name.
    """
    check_type("tune_params", given, Mapping, "a dict of lists")
    for name in given:
        check_type("tune_params: a name", name, str, "a text")
        if name in RESERVED:
            raise UsageError(f"tune_params: {name} is what results call something else")
    return {str(name): _choices(name, values) for name, values in given.items()}


def _choices(name: str, values: Any) -> list[Any]:
    check_type(f"tune_params: {name}", values, (list, tuple, range, np.ndarray), "a list")
    found = [v.item() if isinstance(v, np.generic) else v for v in values]
    if not found:
        raise UsageError(f"tune_params: {name} has no values")
    texts: dict[str, Any] = {}
    numbers: dict[Any, Any] = {}
    for value in found:
        if not isinstance(value, (bool, int, float, str)):
            raise UsageError(
                f"tune_params: {name} has {shown(value)}, which is no number and no text"
            )
        if "," in str(value):
            raise UsageError(f"tune_params: {name} has {value!r}: a value has no comma")
        for other in (texts.setdefault(str(value), value), numbers.setdefault(value, value)):
            if type(other) is not type(value):
                raise UsageError(f"tune_params: {name} has {other!r} and {value!r}, too alike")
    return list(dict.fromkeys(found))


def arguments_of(given: Any) -> list[tuple[str, Any]]:
    """Return dtype and shape of each array, and dtype and value of each number."""
    check_type("arguments", given, (list, tuple), "a list of arrays and numbers of NumPy")
    if not any(isinstance(value, np.ndarray) for value in given):
        raise UsageError("arguments: a kernel needs an array among its arguments")
    return [_argument(n, value) for n, value in enumerate(given)]


def _argument(position: int, given: Any) -> tuple[str, Any]:
    if isinstance(given, np.ndarray):
        _check_array(position, given)
        return given.dtype.name, list(given.shape)
    if isinstance(given, np.generic) and given.dtype.name in BY_VALUE:
        return given.dtype.name, given.item()
    raise UsageError(
        f"arguments: {position} must be an array or a number of NumPy, such as numpy.int32(3), got "
        f"{shown(given)}"
    )


def _check_array(position: int, given: np.ndarray[Any, Any]) -> None:
    """Raise UsageError if kernels cannot be given an array."""
    if given.dtype.name not in dtypes.ALL:
        raise UsageError(
            f"arguments: {position} is an array of {given.dtype.name}: known are "
            f"{', '.join(dtypes.ALL)}"
        )
    if not given.dtype.isnative:
        raise UsageError(f"arguments: {position} has the bytes of its numbers in another order")
    if not given.size:
        raise UsageError(f"arguments: {position} is an array without elements")


def shown(value: Any) -> str:
    """Return a value in one line that is not long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
