"""Results as Kernel Tuner returns them, made from records; and their totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autotune.compat.kernel_tuner.arguments import ERROR
from autotune.compat.kernel_tuner.problem import key_of
from autotune.compat.kernel_tuner.util import (
    CompilationFailedConfig,
    ErrorConfig,
    InvalidConfig,
    RuntimeFailedConfig,
)
from records import Record
from records.formats.kernel_tuner import document_of

Result = dict[str, Any]

_FAILED: dict[str, type[ErrorConfig]] = {
    each.__name__: each for each in (InvalidConfig, CompilationFailedConfig, RuntimeFailedConfig)
}

_PARTS = ("compile", "verification", "benchmark", "strategy", "framework")

#: What results have that can be an objective, or in a metric.
NUMBERS = ("time", *(f"{part}_time" for part in _PARTS))


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
    if not has_time(found):
        found[ERROR] = found["time"]
    return found


def has_time(result: Mapping[str, Any]) -> bool:
    """Whether a configuration worked."""
    return not isinstance(result.get("time"), ErrorConfig)


def milliseconds_of(result: Mapping[str, Any]) -> float:
    """Return what was spent on measuring a configuration."""
    parts = ("compile_time", "verification_time", "benchmark_time")
    return float(sum(result.get(part) or 0 for part in parts))


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
    if not results:
        return "no configuration was measured"
    why = (results[0].get("error") or {}).get("message", "")
    return f"no configuration worked{why and f'; first: {why}'}"


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
