"""Results as Kernel Tuner returns them, made from records; their metrics and totals."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.arguments import ERROR, RESERVED, check_type
from autotune.compat.kernel_tuner.expressions import called
from autotune.compat.kernel_tuner.problem import key_of
from autotune.compat.kernel_tuner.util import (
    CompilationFailedConfig,
    ErrorConfig,
    InvalidConfig,
    RuntimeFailedConfig,
)
from autotune.errors import UsageError
from records import Record
from records.formats.kernel_tuner import document_of
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

#: What results have that can be an objective, or in a metric.
_NUMBERS = ("time", *(f"{part}_time" for part in _PARTS))


def results_of(records: Iterable[Record]) -> dict[str, Result]:
    """Return a result for each configuration measured, in order, by its key."""
    trials = {key_of(r.config["values"]): r for r in records if r.is_trial}
    document = document_of(trials.values()) if trials else {"cache": {}}
    return {key: read_entry(entry) for key, entry in document["cache"].items()}


def read_entry(entry: Mapping[str, Any]) -> Result:
    """Return an entry of a cache with what failed as objects, as programs look for these."""
    found = {
        name: _FAILED[value]() if isinstance(value, str) and value in _FAILED else value
        for name, value in entry.items()
    }
    if isinstance(found.get("time"), ErrorConfig):
        found[ERROR] = found["time"]
    return found


def check_metrics(metrics: Any, objective: str, parameters: Collection[str]) -> Metrics:
    """Return the metrics that an argument gives.

    Raises UsageError if one is neither a function nor an expression of what there is, has the name
    of something else, or the objective is not among them.
    """
    found = {} if metrics is None else metrics
    check_type("metrics", found, Mapping, "a dict of texts and functions")
    known = [*parameters, *_NUMBERS]
    for name, metric in found.items():
        check_type("metrics: a name", name, str, "a text")
        if name in RESERVED or name in parameters:
            raise UsageError(f"metric {name!r}: that is what results call something else")
        if not callable(metric):
            check_type(f"metric {name!r}", metric, str, "a text or a function")
            unknown = [n for n in names_of(_expression(name, metric)) if n not in known]
            if unknown:
                raise UsageError(f"metric {name!r}: there is no {unknown[0]!r} in the results")
        known.append(name)
    if objective not in (*_NUMBERS, *found):
        raise UsageError(f"objective {objective!r} is no metric and not among the results")
    return found


def add_metrics(result: Result, metrics: Metrics) -> None:
    """Compute the metrics of a configuration that has a time, in order; each may use others.

    Raises UsageError if one fails.
    """
    if isinstance(result["time"], ErrorConfig):
        return
    for name, metric in metrics.items():
        evaluate_it = metric if callable(metric) else partial(_evaluated, name, metric)
        result[name] = called(f"metric {name!r}", evaluate_it, result)


def _evaluated(name: str, metric: str, result: Result) -> Any:
    root = _expression(name, metric)
    found = evaluate(root, {n: np.asarray(result[n]) for n in names_of(root)})
    return found.value.item()


def _expression(name: str, metric: str) -> ast.expr:
    try:
        return parse_expression(metric)
    except SpaceError as error:
        raise UsageError(f"metric {name!r}: {error}") from error


def is_larger_better(objective: str, given: bool | None) -> bool:
    """Return whether an objective is better when it is larger; UsageError if that is not known."""
    if given is None and objective not in _LARGER:
        raise UsageError(f"objective {objective!r}: say with objective_higher_is_better which is")
    return _LARGER[objective] if given is None else given


def best_of(results: Sequence[Result], objective: str, larger: bool) -> Result | None:
    """Return the best result; None if none worked. UsageError if an objective is no number."""
    worked = [result for result in results if not isinstance(result["time"], ErrorConfig)]
    for found in (result.get(objective) for result in worked):
        if not isinstance(found, (int, float, np.number)):
            raise UsageError(f"objective {objective!r} is {found!r}, which is no number")
    choose = max if larger else min
    return choose(worked, key=lambda result: result[objective], default=None)


def totals_of(results: Sequence[Result], elapsed_s: float) -> dict[str, float]:
    """Return the milliseconds of all results, by what they were spent for."""
    sums = {part: sum(result.get(f"{part}_time", 0) for result in results) for part in _PARTS}
    totals = {f"total_{part}_time": found for part, found in sums.items()}
    return {**totals, "overhead_time": max(0.0, 1e3 * elapsed_s - sum(sums.values()))}


def summary(best: Result | None, results: Sequence[Result], names: Sequence[str]) -> str:
    """Return the line that ends a call."""
    if best is not None:
        shown = ", ".join(f"{name}={_short(best[name])}" for name in names)
        return f"best performing configuration: {shown}"
    failed = [result for result in results if isinstance(result["time"], ErrorConfig)]
    why = failed[0].get("error", {}).get("message", "") if failed else ""
    return f"no configuration worked{why and f'; first: {why}'}"


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
