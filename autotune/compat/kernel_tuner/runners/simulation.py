"""Runs only the search of a call: results come from a cache, without compiler, device or folder."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.compat.kernel_tuner.cache import RecordedCache
from autotune.compat.kernel_tuner.kernels import count_left
from autotune.compat.kernel_tuner.problem import Problem, key_of
from autotune.compat.kernel_tuner.restrictions import Restriction
from autotune.compat.kernel_tuner.results import Result, milliseconds_of
from autotune.errors import UsageError
from autotune.measure.recorded_measurer import Recording
from autotune.tuner.base import Tuner
from autotune.tuner.factory import make_tuner
from autotune.tuner.replay.replay_tuner import REPLAY_BATCH, observation_of, replay
from records.caller_warnings import warn
from records.formats.kernel_tuner import records_of

_LEARNING_NOTHING = ("grid", "random")  # They may be asked for everything at once.


def simulated(
    problem: Problem,
    rules: Sequence[Restriction],
    cache: RecordedCache,
    search: Mapping[str, Any],
) -> dict[str, Result]:
    """Return the results that a search comes across, in order, by their keys.

    It searches those legal configurations that the cache has; a warning says if others are missing.

    `search`: the arguments of `tune` that say how to search, as `search_of` returns them.

    Raises UsageError if the cache has no result of a legal configuration.
    """
    results = cache.results(rules)
    if not results:
        raise UsageError(f"simulation_mode: {cache.path} has no configuration of this call")
    missing = count_left(problem, rules, results)
    if missing:
        warn(f"simulation_mode: {missing} legal configurations are not in {cache.path}")
    document = {"tune_params_keys": list(problem.parameters), "cache": results}
    recording = Recording.of(list(records_of(document, str(cache.path))), str(cache.path))
    seed = secrets.randbelow(2**31) if search["seed"] is None else search["seed"]
    tuner = make_tuner(search["tuner"], recording.space, seed)
    indices = _begun(recording, tuner, problem.first)
    budget = search["trials"] - len(indices)
    if budget > 0:
        batch = budget if search["tuner"] in _LEARNING_NOTHING else REPLAY_BATCH
        indices += replay(recording, tuner, budget, batch).indices
    keys = [key_of(recording.space.config(index).values) for index in indices]
    return _in_time({key: results[key] for key in keys}, search["time"])


def _begun(recording: Recording, tuner: Tuner, first: Mapping[str, Any]) -> list[int]:
    """Let a tuner know of the configuration to begin with; return its index, if there is one."""
    if not first:
        return []
    known = {key_of(recording.space.config(i).values): i for i in recording.results}
    index = known.get(key_of(first))
    if index is None:
        raise UsageError("strategy_options: x0 is not in the cache, or a restriction refuses it")
    tuner.tell([observation_of(index, recording.results[index])])
    return [index]


def _in_time(results: Mapping[str, Result], limit_s: float | None) -> dict[str, Result]:
    """Return the results that are begun within some seconds, as they took them when measured."""
    found: dict[str, Result] = {}
    spent_ms = 0.0
    for key, result in results.items():
        if limit_s is not None and spent_ms >= 1e3 * limit_s:
            break
        found[key] = result
        spent_ms += milliseconds_of(result)
    return found
