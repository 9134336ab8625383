"""The arguments of `tune_kernel` and `run_kernel`: each is checked before anything is measured."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.problem import Array, Problem
from autotune.errors import UsageError
from autotune.external.call_form import BY_VALUE
from records.formats.kernel_tuner import FIELDS

#: What an entry of a cache says of its source.
SOURCE = "autotune"

#: What results of failures have beside "time", as there since 1.1.
ERROR = "__error__"

#: What results have beside parameters and metrics.
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


def objective_of(
    objective: Any, higher: bool | None, objectives: Any
) -> tuple[str, bool | None]:
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


def check_number(name: str, value: Any, least: float, whole: bool = False) -> None:
    """Raise UsageError unless an argument is a finite number that is large enough."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not least <= value < math.inf:
        what = "whole number" if whole else "number"
        raise UsageError(f"{name} must be a {what} >= {least}, got {shown(value)}")


def check_folder(folder: Any) -> None:
    """Raise UsageError unless a folder can be made, or is there."""
    check_type("folder", folder, (str, os.PathLike), "the path of a folder")
    place = Path(folder).absolute()
    for path in (place, *place.parents):
        if path.exists() and not path.is_dir():
            raise UsageError(f"folder: {path} is a file")


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
            raise UsageError(f"tune_params: {name} has {value!r}, which is no number and no text")
        if "," in str(value):
            raise UsageError(f"tune_params: {name} has {value!r}: a value has no comma")
        for other in (texts.setdefault(str(value), value), numbers.setdefault(value, value)):
            if type(other) is not type(value):
                raise UsageError(f"tune_params: {name} has {other!r} and {value!r}, too alike")
    return list(dict.fromkeys(found))


def arguments_of(given: Any) -> list[tuple[str, Any]]:
    """Return dtype and shape of each array, and dtype and value of each number."""
    check_type("arguments", given, (list, tuple), "a list of arrays and numbers of NumPy")
    return [_argument(n, value) for n, value in enumerate(given)]


def _argument(number: int, given: Any) -> tuple[str, Any]:
    if isinstance(given, np.ndarray):
        return given.dtype.name, list(given.shape)
    if isinstance(given, np.generic) and given.dtype.name in BY_VALUE:
        return given.dtype.name, given.item()
    raise UsageError(
        f"arguments: {number} must be an array or a number of NumPy, such as numpy.int32(3), got "
        f"{shown(given)}"
    )


def answers_of(answer: Sequence[Any] | None, problem: Problem) -> dict[int, Array]:
    """Return the right values of arrays, by position; what is left out at the end has none."""
    found: dict[int, Array] = {}
    given = [] if answer is None else answer
    check_type("answer", given, (list, tuple), "a list with an array or None for each argument")
    for n, (right, own) in enumerate(itertools.zip_longest(given, problem.arguments)):
        if own is None:
            raise UsageError(f"answer has {len(given)} items, and arguments fewer")
        if right is None or n not in problem.arrays:
            continue
        if np.size(right) != math.prod(own[1]):
            raise UsageError(
                f"answer: item {n} has {np.size(right)} elements, the argument {math.prod(own[1])}"
            )
        found[n] = np.asarray(right)
    return found


def shown(value: Any) -> str:
    """Return a value in one line that is not long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
