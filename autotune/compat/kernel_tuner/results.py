"""Results as Kernel Tuner returns and caches them, made from records."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.problem import Problem, key_of
from autotune.compat.kernel_tuner.util import (
    CompilationFailedConfig,
    ErrorConfig,
    InvalidConfig,
    RuntimeFailedConfig,
)
from autotune.errors import UsageError
from records import Record
from records.formats.kernel_tuner import SCHEMA_VERSION, document_of, parse_document
from records.storage.files import replacing
from search_spaces import SpaceError
from search_spaces.expression import evaluate, names_of, parse_expression

Result = dict[str, Any]
Metrics = Mapping[str, str | Callable[[Result], Any]]

_FAILED: dict[str, type[ErrorConfig]] = {
    each.__name__: each for each in (InvalidConfig, CompilationFailedConfig, RuntimeFailedConfig)
}

#: Objectives that are better when they are larger; of a metric one has to say it.
_LARGER = {"time": False, "energy": False, "GFLOP/s": True, "TFLOP/s": True, "GB/s": True}
_LARGER |= {"TB/s": True, "GFLOPS/W": True, "GFLOP/J": True}

_PARTS = ("compile", "verification", "benchmark", "strategy", "framework")


def results_of(records: Iterable[Record]) -> dict[str, Result]:
    """Return a result for each configuration measured, in order, by its key."""
    trials = {key_of(r.config["values"]): r for r in records if r.is_trial}
    document = document_of(trials.values()) if trials else {"cache": {}}
    return {key: _read(entry) for key, entry in document["cache"].items()}


def _read(entry: Mapping[str, Any]) -> Result:
    """Return an entry of a cache with what failed as objects, as programs look for these."""
    return {
        name: _FAILED[value]() if isinstance(value, str) and value in _FAILED else value
        for name, value in entry.items()
    }


def add_metrics(result: Result, metrics: Metrics) -> None:
    """Compute the metrics of a configuration that has a time, in order; each may use others.

    Raises UsageError if one is neither a function nor an expression of what there is.
    """
    if isinstance(result["time"], ErrorConfig):
        return
    for name, metric in metrics.items():
        if callable(metric):
            result[name] = metric(result)
            continue
        try:
            root = parse_expression(metric)
            found = evaluate(root, {n: np.asarray(result[n]) for n in names_of(root)})
        except SpaceError as error:
            raise UsageError(f"metric {name!r}: {error}") from error
        except KeyError as error:
            raise UsageError(f"metric {name!r}: there is no {error} in the results") from None
        result[name] = found.value.item()


def is_larger_better(objective: str, given: bool | None) -> bool:
    """Return whether an objective is better when it is larger; UsageError if that is not known."""
    if given is None and objective not in _LARGER:
        raise UsageError(f"objective {objective!r}: say with objective_higher_is_better which is")
    return _LARGER[objective] if given is None else given


def best_of(results: Sequence[Result], objective: str, larger: bool) -> Result | None:
    """Return the best result; None if none worked. UsageError if they lack the objective."""
    worked = [result for result in results if not isinstance(result["time"], ErrorConfig)]
    if any(objective not in result for result in worked):
        raise UsageError(f"objective {objective!r} is no metric and not among the results")
    choose = max if larger else min
    return choose(worked, key=lambda result: result[objective], default=None)


def totals_of(results: Sequence[Result], elapsed_s: float) -> dict[str, float]:
    """Return the milliseconds of all results, by what they were spent for."""
    sums = {part: sum(result.get(f"{part}_time", 0) for result in results) for part in _PARTS}
    totals = {f"total_{part}_time": found for part, found in sums.items()}
    return {**totals, "overhead_time": max(0.0, 1e3 * elapsed_s - sum(sums.values()))}


class Cache:
    """A cache file, which is read at the beginning and replaced at the end.

    `path`: the file, whose ending .json may be left out.

    Raises UsageError if there is another file, or one of another kernel, problem or space.
    """

    def __init__(self, path: str | os.PathLike[str], problem: Problem, problem_size: Any) -> None:
        self.path = Path(path) if str(path).endswith(".json") else Path(f"{path}.json")
        self.parameters = list(problem.parameters)
        self._head = {
            "schema_version": SCHEMA_VERSION,
            "device_name": "",
            "kernel_name": problem.name,
            "problem_size": "callable" if callable(problem_size) else problem_size,
            "tune_params_keys": self.parameters,
            "tune_params": problem.parameters,
            "objective": "time",
        }
        self.results: dict[str, Result] = {}
        if not self.path.exists():
            return
        found = parse_document(self.path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get("cache"), dict):
            raise UsageError(f"cache: {self.path} is no cache of Kernel Tuner")
        own = json.loads(json.dumps(self._head, default=_as_json))
        for name in ("kernel_name", "problem_size", "tune_params_keys"):
            if found.get(name) != own[name]:
                raise UsageError(
                    f"cache: {self.path} has the {name} {found.get(name)!r}, not {own[name]!r}: "
                    "choose another file"
                )
        self._head["device_name"] = found.get("device_name", "")
        self.results = {key: _read(entry) for key, entry in found["cache"].items()}

    def write(self, results: Mapping[str, Result], device: str) -> None:
        """Write results by their keys."""
        # Kernel Tuner reads the end of a cache that nobody writes to as "}\\n}".
        head = json.dumps({**self._head, "device_name": device}, default=_as_json, indent="")
        entries = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(entry, default=_as_json)}"
            for key, entry in results.items()
        )
        with replacing(self.path) as partial:
            text = f'{head.removesuffix("}").rstrip()},\n"cache": {{\n{entries}}}\n}}'
            partial.write_text(text, encoding="utf-8")


def _as_json(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's; the text of anything else."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)
