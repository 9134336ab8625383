"""The arguments of `tune_kernel` and `run_kernel`: each is checked before anything is measured."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.problem import Array, Problem
from autotune.errors import UsageError
from autotune.external.c_kernel import BY_VALUE
from autotune.tuner.factory import TUNERS
from records.formats.kernel_tuner import FIELDS

#: Strategies of Kernel Tuner, and the tuner that takes the place of each.
STRATEGIES = {
    "brute_force": "grid", "random_sample": "random", "genetic_algorithm": "genetic",
    "greedy_ils": "local", "greedy_mls": "local", "ordered_greedy_mls": "local", "mls": "local",
    "bayes_opt": "model",
}  # fmt: skip

#: Measurements of a strategy, if `max_fevals` does not say how many.
MEASUREMENTS = 100

#: What an entry of a cache says of its source.
SOURCE = "autotune"

#: What results have beside parameters and metrics.
RESERVED = frozenset((*FIELDS, SOURCE))


def refuse(given: Mapping[str, Any]) -> None:
    """Raise UsageError if an argument is given that has no meaning here."""
    for name, value in given.items():
        empty = isinstance(value, (bool, list, tuple, dict)) and not value
        if value is not None and not empty:
            raise UsageError(
                f"{name} is not supported: docs/compat.md lists the arguments that have a meaning "
                "for kernels in C"
            )


def check_type(name: str, value: Any, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise UsageError unless an argument is of a type."""
    if not isinstance(value, kinds):
        raise UsageError(f"{name} must be {expected}, got {_shown(value)}")


def check_texts(name: str, value: Any) -> None:
    """Raise UsageError unless an argument is a list of texts."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{name} must be a list of texts, got {_shown(value)}")


def check_number(name: str, value: Any, least: float, whole: bool = False) -> None:
    """Raise UsageError unless an argument is a finite number that is large enough."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not least <= value < math.inf:
        what = "whole number" if whole else "number"
        raise UsageError(f"{name} must be a {what} >= {least}, got {_shown(value)}")


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
        f"{_shown(given)}"
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


def search_of(
    strategy: str | None, options: Mapping[str, Any] | None, objective: str, problem: Problem
) -> dict[str, Any]:
    """Return the arguments of `tune` that say how to search."""
    given, name = {} if options is None else options, strategy or "brute_force"
    check_type("strategy", name, str, "a name")
    tuner = STRATEGIES.get(name, name if name in TUNERS else None)
    if tuner is None:
        known = ", ".join([*STRATEGIES, *TUNERS])
        raise UsageError(f"strategy {name!r} is not supported: choose one of {known}")
    if objective != "time" and tuner != "grid":
        raise UsageError(
            f"strategy {name!r} searches for the least time, not for {objective!r}: brute_force "
            "finds the best of any objective"
        )
    check_type("strategy_options", given, Mapping, "a dict")
    for option in given:
        if option not in ("max_fevals", "time_limit"):
            raise UsageError(
                f"strategy_options: {option!r} is not supported: max_fevals and time_limit are"
            )
    size = math.prod(map(len, problem.parameters.values()))
    most = given.get("max_fevals", size if tuner == "grid" else MEASUREMENTS)
    check_number("strategy_options: max_fevals", most, 1, whole=True)
    limit = given.get("time_limit")
    if limit is not None:
        check_number("strategy_options: time_limit", limit, 0)
    return {"tuner": tuner, "trials": min(int(most), size), "time": limit}


def _shown(value: Any) -> str:
    """Return a value in one line that is not long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
