"""The metrics and the objective of a call of `tune_kernel`.

In: the user's metrics, as expressions or functions. Out: their values for each result, and the best
result.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.arguments import RESERVED, check_type, objective_of
from autotune.compat.kernel_tuner.expressions import called
from autotune.compat.kernel_tuner.results import NUMBERS, Result, has_time
from autotune.errors import UsageError
from search_spaces import SpaceError
from search_spaces.expression import evaluate, names_of, parse_expression

Metrics = Mapping[str, str | Callable[[Result], Any]]

#: Whether a larger value of an objective is better; for other metrics the user has to say so.
_LARGER = {"time": False, "energy": False, "GFLOP/s": True, "TFLOP/s": True, "GB/s": True}
_LARGER |= {"TB/s": True, "GFLOPS/W": True, "GFLOP/J": True}

# Errors that do not come from the numbers of a result: others would end in the same.
_OF_NAMES_AND_TYPES = (NameError, TypeError, AttributeError)


class _MadeUp(dict[str, Any]):
    """A result with made-up values that records which missing keys were read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.missing: list[Any] = []

    def __missing__(self, name: Any) -> Any:
        self.missing.append(name)
        raise KeyError(name)


@dataclass(frozen=True)
class Scoring:
    """The metrics of a call, and its objective."""

    metrics: Metrics
    objective: str
    larger_is_better: bool

    @classmethod
    def of(
        cls,
        metrics: Any,
        objective: Any,
        higher_is_better: Any,
        objectives: Any,
        parameters: Collection[str],
    ) -> Scoring:
        """Return the scoring that these arguments define; UsageError if one is invalid."""
        chosen, higher = objective_of(objective, higher_is_better, objectives)
        found = check_metrics(metrics, chosen, parameters)
        if higher is None and chosen not in _LARGER:
            raise UsageError(f"objective {chosen!r}: say with objective_higher_is_better which is")
        return cls(found, chosen, _LARGER[chosen] if higher is None else higher)

    def try_on(self, params: Mapping[str, Any]) -> None:
        """Try the metrics on a result that is made up, before anything is measured.

        `params`: a configuration.

        Raises UsageError if one fails by a name or a type; what fails by a number may be right for
        the numbers that are measured.
        """
        made_up = _MadeUp({**params, **dict.fromkeys(NUMBERS, 1.0), "times": [1.0]})
        made_up["timestamp"] = "2000-01-01 00:00:00+00:00"
        try:
            self.add_to([made_up])
        except UsageError as error:
            cause = error.__cause__
            is_missing = isinstance(cause, KeyError) and cause.args[0] in made_up.missing
            if is_missing or isinstance(cause, _OF_NAMES_AND_TYPES):
                raise

    def check(self, result: Result) -> None:
        """Raise UsageError if a metric fails for a result, or its objective is no number."""
        scored = dict(result)
        self.add_to([scored])
        self.best([scored])

    def add_to(self, results: Iterable[Result]) -> None:
        """Compute the metrics of results that have a time, in order; each may use others.

        Raises UsageError if one fails.
        """
        for result in filter(has_time, results):
            for name, metric in self.metrics.items():
                evaluate_it = metric if callable(metric) else partial(_evaluated, name, metric)
                result[name] = called(f"metric {name!r}", evaluate_it, result)

    def best(self, results: Sequence[Result]) -> Result | None:
        """Return the best result; None if none worked. UsageError if an objective is no number.

        What is NaN is worse than any number.
        """
        objective, worked = self.objective, list(filter(has_time, results))
        for found in (result.get(objective) for result in worked):
            if not isinstance(found, (int, float, np.number)):
                raise UsageError(f"objective {objective!r} is {found!r}, which is no number")
        numbers = [result for result in worked if not math.isnan(result[objective])]
        choose = max if self.larger_is_better else min
        return choose(numbers or worked, key=lambda result: result[objective], default=None)


def check_metrics(metrics: Any, objective: str, parameters: Collection[str]) -> Metrics:
    """Return the metrics that an argument gives.

    Raises UsageError if one is neither a function nor an expression of what there is, has the name
    of something else, or the objective is not among them.
    """
    found = {} if metrics is None else metrics
    check_type("metrics", found, Mapping, "a dict of texts and functions")
    known = [*parameters, *NUMBERS]
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
    if objective not in (*NUMBERS, *found):
        raise UsageError(f"objective {objective!r} is no metric and not among the results")
    return found


def _evaluated(name: str, metric: str, result: Result) -> Any:
    root = _expression(name, metric)
    found = evaluate(root, {n: np.asarray(result[n]) for n in names_of(root)})
    if found.undefined.any():
        raise ZeroDivisionError("division by zero")
    return found.value.item()


def _expression(name: str, metric: str) -> ast.expr:
    try:
        return parse_expression(metric)
    except SpaceError as error:
        raise UsageError(f"metric {name!r}: {error}") from error
