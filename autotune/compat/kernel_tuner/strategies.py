"""Kernel Tuner's strategies and their options, and the tuners that take their places."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from autotune.compat.kernel_tuner.arguments import check_type, number, shown, whole_number
from autotune.errors import UsageError
from autotune.tuner.factory import TUNERS
from records.caller_warnings import warn

#: The tuner that takes the place of each strategy: the same method,
_SAME = {
    "brute_force": "grid", "random_sample": "random", "genetic_algorithm": "genetic",
    "greedy_ils": "local", "greedy_mls": "local", "ordered_greedy_mls": "local", "mls": "local",
    "bayes_opt": "model", "skopt": "model",
}  # fmt: skip

#: or the nearest: of searches from one point that from neighbour to neighbour, of populations
#: that with crossings.
_NEAREST = {
    "simulated_annealing": "local", "dual_annealing": "local", "basinhopping": "local",
    "minimize": "local", "hybrid_vndx": "local", "pyatf_strategies": "local",
    "pso": "genetic", "diff_evo": "genetic", "firefly_algorithm": "genetic",
    "adaptive_tabu_greywolf": "genetic", "nsga2": "genetic", "nsga3": "genetic",
}  # fmt: skip

STRATEGIES = {**_SAME, **_NEAREST}

#: Measurements of a strategy, if its options do not say how many.
MEASUREMENTS = 100

_OPTIONS = ("max_fevals", "time_limit", "fraction", "seed", "x0")


def search_of(
    strategy: Any,
    options: Any,
    objective: str,
    parameters: Mapping[str, list[Any]],
    seed: Any = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of `tune` that say how to search, and the configuration to begin with.

    The latter is empty without `x0`. Warns of a strategy that is another one here, and of options
    that have no meaning.

    Raises UsageError if there is no such strategy, or the value of an option makes no sense.
    """
    given, name = {} if options is None else options, strategy or "brute_force"
    check_type("strategy", name, str, "a name")
    tuner = STRATEGIES.get(name, name if name in TUNERS else None)
    if tuner is None:
        known = ", ".join([*STRATEGIES, *TUNERS])
        raise UsageError(f"strategy {name!r} is not supported: choose one of {known}")
    check_type("strategy_options", given, Mapping, "a dict")
    _tell(name, tuner, given, objective)
    limit_s, chosen = given.get("time_limit"), given.get("seed") if seed is None else seed
    if limit_s is not None:
        limit_s = float(number("strategy_options: time_limit", limit_s, above=0))
    search = {
        "tuner": tuner,
        "trials": _trials(tuner, given, math.prod(map(len, parameters.values()))),
        "time": limit_s,
        "seed": None if chosen is None else whole_number("seed", chosen, 0),
    }
    return search, _first(given.get("x0"), parameters)


def _tell(name: str, tuner: str, given: Mapping[Any, Any], objective: str) -> None:
    """Warn of what is another thing here than in Kernel Tuner."""
    if name in _NEAREST:
        warn(f"strategy {name!r} is not here: the nearest of our tuners, {tuner!r}, is used")
    if objective != "time" and tuner not in ("grid", "random"):
        warn(
            f"strategy {name!r} searches for the least time here, and the best {objective!r} is "
            "that of the configurations measured"
        )
    others = [str(option) for option in given if option not in _OPTIONS]
    if others:
        warn(
            f"strategy_options: {', '.join(others)} have no meaning for our tuner {tuner!r}; known "
            f"are {', '.join(_OPTIONS)}"
        )


def _trials(tuner: str, given: Mapping[str, Any], size: int) -> int:
    most, fraction = given.get("max_fevals"), given.get("fraction")
    if fraction is not None:
        fraction = float(number("strategy_options: fraction", fraction, 0))
    if most is not None:
        return min(whole_number("strategy_options: max_fevals", most, 1), size)
    if fraction is not None:
        return min(max(1, math.ceil(fraction * size)), size)
    return size if tuner == "grid" else min(MEASUREMENTS, size)


def _first(x0: Any, parameters: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the configuration that a search begins with."""
    if x0 is None:
        return {}
    values = x0
    if isinstance(x0, Mapping):
        values = [x0[name] for name in parameters if name in x0]
    if not isinstance(values, (list, tuple)) or not len(values) == len(x0) == len(parameters):
        raise UsageError(
            f"strategy_options: x0 must have a value of each parameter, got {shown(x0)}"
        )
    for (name, choices), value in zip(parameters.items(), values, strict=True):
        if value not in choices:
            raise UsageError(f"strategy_options: x0: {shown(value)} is no value of {name}")
    return {
        name: choices[choices.index(value)]
        for (name, choices), value in zip(parameters.items(), values, strict=True)
    }
